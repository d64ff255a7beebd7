"""Settings for certificates: profiles, expiry, and the RADIUS server's certificate."""

from datetime import UTC, datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant
from api.routes import NounRouter
from api.v1.certificate_models import CertificateDetail, build_certificate_detail
from api.v1.certificates import Reads, Serial
from api.v1.inputs import Input, body_example
from api.v1.paging import Page, SortedPaging, require_time_paging
from api.v1.timestamps import Moment
from nac.certificates import expiry, profiles, server_renewal
from nac.certificates import service as certificates
from nac.certificates.server_renewal import RemovedServerNames
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.kit.permissions import Effect, Permission
from pki.keys import KeyKind
from pki.profiles import CertificateProfile as ProfileRules

router = NounRouter(
    prefix="/tenants/{tenant}",
    tag="certificate settings",
    description="Certificate profiles, expiring certificates and the server certificate of a tenant.",
)

# These changes affect every device of the tenant.
Manages = Annotated[Access, Depends(ChangesTenant(Permission.AUTHORITY_MANAGE, Effect.TRUST))]
_ProfileName = Annotated[
    str, Path(max_length=100, examples=["eap-client-device"], description="Name of the certificate profile.")
]
_DnsName = Annotated[str, Field(max_length=253)]


class CertificateProfile(BaseModel):
    name: str = Field(description="Name of the certificate profile.")
    validity_days: int = Field(description="Validity of new certificates in days.")
    most_days: int = Field(description="Maximum validity that you can set, in days.")
    key: str = Field(description="Type of keys that Admit generates for certificates of the profile.")
    usages: list[str] = Field(
        examples=[["clientAuth"]], description="Extended key usages of certificates of the profile."
    )


class CertificateProfiles(BaseModel):
    items: list[CertificateProfile] = Field(description="Certificate profiles of the tenant.")


class CertificateProfileUpdate(Input):
    model_config = body_example({"validity_days": 365, "key": "ecdsa-p256"})

    validity_days: int | None = Field(
        None, ge=1, le=36_525, description="Validity of new certificates in days; null for the built-in value."
    )
    key: KeyKind | None = Field(
        None,
        description="Type of keys that Admit generates for certificates of the profile; null for the built-in type.",
    )


class ExpiringCertificate(BaseModel):
    kind: Literal["authority", "server", "client"] = Field(
        description="Kind: authority, server certificate (server), or client certificate (client)."
    )
    id: UUID = Field(description="Permanent id of the authority or certificate.")
    serial: str = Field(description='Serial number of the certificate in hex; "" for an authority.')
    profile: str = Field(description="Profile of a certificate, or kind of an authority.")
    name: str = Field(description="Common name of the authority or certificate.")
    not_after: datetime = Field(description="End of the validity of the authority or certificate.")


class ServerCertificateInput(Input):
    names: list[_DnsName] = Field(
        min_length=1,
        max_length=20,
        examples=[["radius.acme.example"]],
        description="DNS names in the server certificate, which devices check.",
    )
    present_from: Moment | None = Field(
        None, description="Time from which devices see the new server certificate; null for immediately."
    )


class PresentedCertificate(BaseModel):
    certificate: CertificateDetail = Field(description="Server certificate that devices see.")
    names_gone: list[str] = Field(
        description="Names that only the previous certificate has. Devices that check one of these names reject the "
        "new certificate."
    )
    before: str | None = Field(description="Serial number of the previous server certificate.")


@router.get("/certificate-profiles", operation_id="listCertificateProfiles")
def list_profiles(access: Reads) -> CertificateProfiles:
    """List certificate profiles."""
    with access.read() as session:
        rows = profiles.list_profiles(session, tenant_id=access.tenant_id)
        return CertificateProfiles(items=[_build_profile(row) for row in rows])


@router.get("/certificate-profiles/{name}", operation_id="getCertificateProfile")
def get_profile(access: Reads, name: _ProfileName) -> CertificateProfile:
    """Get a certificate profile."""
    with access.read() as session:
        return access.shown(_build_profile(profiles.require_profile(session, access.tenant_id, name)))


@router.put("/certificate-profiles/{name}", operation_id="updateCertificateProfile")
def update_profile(access: Manages, name: _ProfileName, body: CertificateProfileUpdate) -> CertificateProfile:
    """Update a certificate profile.

    Omitted fields return to the built-in values. Issued certificates do not change.
    """
    with access.change() as change:
        change.require_match(
            _build_profile(profiles.require_profile(change.session, access.tenant_id, name, lock=True))
        )
        chosen = profiles.update_profile(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            name=name,
            choice=body.model_dump(exclude_none=True),
        )
        return change.answer(_build_profile(chosen))


@router.get("/expiring-certificates", operation_id="listExpiringCertificates")
def list_expiring(
    access: Reads,
    paging: Annotated[SortedPaging, Depends(require_time_paging("not_after", newest_first=False))],
    days: Annotated[
        int,
        Query(
            ge=1, le=36_525, description="Number of days within which the listed authorities and certificates expire."
        ),
    ] = 60,
    kind: Annotated[
        list[expiry.ExpiringKind] | None, Query(description="Kind of the authorities and certificates to list.")
    ] = None,
) -> Page[ExpiringCertificate]:
    """List authorities and certificates that expire soon and have no successor."""
    after = _parse_place(paging.after())
    with access.read() as session:
        rows = expiry.list_expiring(
            session,
            tenant_id=access.tenant_id,
            now=utc_now(),
            within_days=days,
            kinds=kind or expiry.EXPIRING_KINDS,
            after=after,
            limit=paging.limit + 1,
            last_first=paging.goes_down,
        )
        return paging.page(rows, lambda row: f"{row.not_after.isoformat()} {row.id}", _build_expiring)


@router.post("/server-certificates", status_code=201, operation_id="issueServerCertificate")
def issue_server(access: Manages, body: ServerCertificateInput) -> PresentedCertificate:
    """Issue a certificate for the RADIUS server.

    Devices see this certificate. Admit keeps the key of the certificate for the cell.
    """
    with access.change() as change:
        before = server_renewal.get_presented_server(change.session, tenant_id=access.tenant_id)
        row = certificates.issue_server(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            dns_names=body.names,
            signing=access.signing,
            now=utc_now(),
            present_from=body.present_from,
        )
        change.located(row.serial.hex(), at="certificates")
        return change.answer(
            _build_presented_certificate(
                build_certificate_detail(change.session, row), server_renewal.find_removed_names(before, row)
            )
        )


@router.post("/server-certificates/{serial}/present", operation_id="presentServerCertificate")
def present(access: Manages, serial: Serial) -> PresentedCertificate:
    """Present this server certificate to devices from now on, instead of the previous certificate."""
    with access.change() as change:
        number = certificates.parse_serial(serial)
        row = server_renewal.lock_server_certificate(change.session, tenant_id=access.tenant_id, serial=number)
        change.require_match(build_certificate_detail(change.session, row))
        before = server_renewal.get_presented_server(change.session, tenant_id=access.tenant_id)
        row = server_renewal.present_server_certificate(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            serial=number,
            now=utc_now(),
        )
        detail = build_certificate_detail(change.session, row)
        return change.answer(
            _build_presented_certificate(detail, server_renewal.find_removed_names(before, row)), state=detail
        )


def _build_presented_certificate(
    certificate: CertificateDetail, gone: RemovedServerNames | None
) -> PresentedCertificate:
    return PresentedCertificate(
        certificate=certificate, names_gone=list(gone.names) if gone else [], before=gone.before if gone else None
    )


def _build_profile(rules: ProfileRules) -> CertificateProfile:
    return CertificateProfile(
        name=rules.name,
        validity_days=rules.validity.days,
        most_days=rules.validity_most.days,
        key=rules.key,
        usages=list(rules.extended_key_usage),
    )


def _build_expiring(row: expiry.ExpiringItem) -> ExpiringCertificate:
    return ExpiringCertificate(
        kind=row.kind, id=row.id, serial=row.serial, profile=row.profile, name=row.name, not_after=row.not_after
    )


def _parse_place(key: str) -> expiry.ExpiringItem | None:
    """Parse a cursor of the list of expiring certificates. Raises InvalidInput if the cursor is invalid."""
    if not key:
        return None
    moment, _, row_id = key.partition(" ")
    try:
        return expiry.ExpiringItem("client", UUID(row_id), "", "", "", datetime.fromisoformat(moment).astimezone(UTC))
    except (ValueError, OverflowError) as exc:
        raise InvalidInput(
            "Invalid cursor in `after`.",
            place="after",
            remedy="Repeat the request without `after`.",
        ) from exc
