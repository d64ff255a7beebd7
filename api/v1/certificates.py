"""Routes that issue, list, renew and revoke certificates of devices, users and NASes."""

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import Depends, Path, Query, Response
from pydantic import BaseModel, Field
from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change
from api.routes import NounRouter
from api.v1.certificate_models import (
    Certificate,
    CertificateDetail,
    CertificateInput,
    CertificateRenewal,
    IssuedCertificate,
    Status,
    build_certificate,
    build_certificate_detail,
    build_issued_certificate,
    parse_alternative_names,
    parse_signing_request,
)
from api.v1.inputs import Input, body_examples, body_references
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.certificates import bulk_revocation
from nac.certificates import service as certificates
from nac.certificates.certificate_names import add_dns_name
from nac.certificates.enrolment.certificate_enrolment import renew, require_renewable_by_admin
from nac.certificates.holders import find_holder
from nac.certificates.repository import ORDERS
from nac.certificates.service import IssuedCertificate as JustIssued
from nac.certificates.service import RevocationReason
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.kit.permissions import Effect, Permission
from pki.signing_requests import SigningRequest

router = NounRouter(
    prefix="/tenants/{tenant}/certificates",
    tag="certificates",
    description="Issue, renewal and revocation of certificates of devices, users, NASes and servers.",
)

Serial = Annotated[
    str, Path(description="Serial number in hex; colons are allowed.", max_length=100, examples=["3f:09:ab"])
]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.CERTIFICATE_READ))]
Issues = Annotated[
    Access,
    Depends(
        ChangesTenant(
            Permission.CERTIFICATE_ISSUE, Effect.CREDENTIALS, Effect.TRUST, also={Permission.AUTHORITY_MANAGE}
        )
    ),
]
Renews = Annotated[Access, Depends(ChangesTenant(Permission.CERTIFICATE_ISSUE, Effect.CREDENTIALS))]
Revokes = Annotated[Access, Depends(ChangesTenant(Permission.CERTIFICATE_REVOKE, Effect.REJECTION, Effect.CREDENTIALS))]
PEM = "application/x-pem-file"
_DER = "application/pkix-cert"


class Revocation(Input):
    reason: RevocationReason = Field("unspecified", description="Reason code of the revocation (RFC 5280 5.3.1).")


class CertificateHolder(Input):
    """Holder of certificates: either a device or a user."""

    model_config = body_examples(
        ("device", "All certificates of a device", {"endpoint": "00:00:5e:00:53:01"}),
        ("user", "All certificates of a user", {"user": "ann"}),
    )

    endpoint: str | None = Field(
        None,
        max_length=40,
        examples=["00:00:5e:00:53:01"],
        description="MAC address of the device that holds the certificates.",
    )
    user: str | None = Field(None, max_length=256, description="Name of the user who holds the certificates.")

    def certificates(self, session: Session, access: Access) -> ColumnElement[bool]:
        if (self.endpoint is None) == (self.user is None):
            raise InvalidInput(
                "Exactly one of `endpoint` and `user` is required.",
                place="endpoint",
                remedy="Set either `endpoint` or `user`.",
            )
        return bulk_revocation.issued_to_clause(
            session, tenant_id=access.tenant_id, mac=self.endpoint, user_name=self.user
        )


class HolderRevocation(CertificateHolder, Revocation):
    model_config = body_examples(
        ("device", "All certificates of a device", {"endpoint": "00:00:5e:00:53:01", "reason": "superseded"}),
        ("user", "All certificates of a user", {"user": "ann", "reason": "superseded"}),
    )


class RevocationResult(BaseModel):
    authorities: int = Field(description="Number of authorities whose status changed.")
    certificates: int = Field(description="Number of certificates whose status changed.")
    disconnects: int = Field(description="Number of live sessions for which Admit sends disconnect requests to NASes.")


@router.get("", operation_id="listCertificates")
def list_certificates(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    status: Annotated[Status | None, Query(description="Status of the certificates to list.")] = None,
    profile: Annotated[
        str,
        Query(
            max_length=100, description="Certificate profile of the certificates to list, such as eap-client-device."
        ),
    ] = "",
    name: Annotated[str, Query(max_length=200, description="Beginning of the common name of the certificates.")] = "",
    endpoint: Annotated[
        str | None, Query(max_length=40, description="MAC address of the device that holds the certificate.")
    ] = None,
    user: Annotated[
        str | None, Query(max_length=256, description="Name of the user who holds the certificate.")
    ] = None,
) -> Page[Certificate]:
    """List certificates, except certificates of self-tests.

    A page can have fewer items than `limit` and still have a `next`.
    """
    with access.read() as session:
        which = None
        if endpoint is not None or user is not None:
            which = CertificateHolder(endpoint=endpoint, user=user).certificates(session, access)
        page = certificates.search_certificates(
            session,
            tenant_id=access.tenant_id,
            status=status or "",
            profile=profile,
            name=name,
            which=which,
            span=paging.span,
        )
        return paging.ordered(page.rows, build_certificate, searched=page.searched)


@router.post("", status_code=201, operation_id="issueCertificate")
def issue_certificate(access: Issues, body: CertificateInput) -> IssuedCertificate:
    """Issue a certificate for a signing request or a generated key.

    Admit returns a generated key only in this response and does not store the key.

    The profile `radsec-server` requires `authority.manage` too, like other server certificates. In every profile, Admit
    rejects the names of the tenant's RADIUS servers.
    """
    request = _parse_request(body)
    names = parse_alternative_names(body.names)
    if body.profile == "radsec-server":
        access.require(Permission.AUTHORITY_MANAGE)
        names = add_dns_name(body.name, names)
        if body.endpoint or body.user:
            raise InvalidInput("A `radsec-server` certificate cannot have an endpoint or user.", place="endpoint")
    with access.change() as change, body_references(mac="endpoint", name="user"):
        holder = find_holder(change.session, tenant_id=access.tenant_id, mac=body.endpoint, user_name=body.user)
        issued = certificates.issue_client(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            profile=body.profile,
            common_name=body.name,
            sans=names,
            public_key=request.public_key if request else None,
            signing=access.signing,
            now=utc_now(),
            endpoint_id=holder.endpoint_id,
            user_id=holder.user_id,
        )
        return _respond_with_certificate(change, access, issued, body)


@router.post("/revoke-all", operation_id="revokeCertificatesOfHolder")
def revoke_all(access: Revokes, body: HolderRevocation) -> RevocationResult:
    """Revoke all certificates of a device or user permanently."""
    with access.change() as change, body_references(mac="endpoint", name="user"):
        done = bulk_revocation.revoke_all(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            which=body.certificates(change.session, access),
            now=utc_now(),
            reason=body.reason,
        )
        return change.answer(RevocationResult(**asdict(done)))


@router.post("/suspend-all", operation_id="suspendCertificatesOfHolder")
def suspend_all(access: Revokes, body: CertificateHolder) -> RevocationResult:
    """Suspend all certificates of a device or user until you reinstate the certificates."""
    with access.change() as change, body_references(mac="endpoint", name="user"):
        which = body.certificates(change.session, access)
        done = bulk_revocation.suspend_all(
            change.session, actor=access.actor, tenant_id=access.tenant_id, which=which, now=utc_now()
        )
        return change.answer(RevocationResult(**asdict(done)))


@router.post("/reinstate-all", operation_id="reinstateCertificatesOfHolder")
def reinstate_all(access: Revokes, body: CertificateHolder) -> RevocationResult:
    """Reinstate all suspended certificates of a device or user.

    Revoked certificates stay revoked.
    """
    with access.change() as change, body_references(mac="endpoint", name="user"):
        which = body.certificates(change.session, access)
        done = bulk_revocation.reinstate_all(
            change.session, actor=access.actor, tenant_id=access.tenant_id, which=which
        )
        return change.answer(RevocationResult(**asdict(done)))


@router.get("/{serial}", operation_id="getCertificate")
def get_certificate(access: Reads, serial: Serial) -> CertificateDetail:
    """Get a certificate, with names and holder."""
    with access.read() as session:
        row = certificates.require_by_serial(session, tenant_id=access.tenant_id, serial=serial)
        return access.shown(build_certificate_detail(session, row))


@router.get("/{serial}/download", operation_id="downloadCertificate", response_class=Response)
def download(
    access: Reads,
    serial: Serial,
    form: Annotated[
        Literal["pem", "chain", "ca", "der"], Query(description="Format of the downloaded certificate file.")
    ] = "pem",
) -> Response:
    """Download a certificate.

    `pem` is the certificate with its chain, without the root. `chain` is only the chain. `ca` is the root. `der` is
    only the certificate, in DER.
    """
    with access.read() as session:
        row = certificates.require_by_serial(session, tenant_id=access.tenant_id, serial=serial)
        issued = certificates.load_with_chain(session, row, None)
    if form == "der":
        return Response(row.certificate_der, media_type=_DER)
    return Response(certificates.build_pem_files(issued)["cert" if form == "pem" else form], media_type=PEM)


@router.post("/{serial}/renew", status_code=201, operation_id="renewCertificate")
def renew_certificate(access: Renews, serial: Serial, body: CertificateRenewal) -> IssuedCertificate:
    """Renew a certificate with a new key.

    The new certificate has the same profile, names and holder. The old certificate stays valid.
    """
    request = _parse_request(body)
    with access.change() as change:
        old = require_renewable_by_admin(
            change.session, tenant_id=access.tenant_id, serial=certificates.parse_serial(serial)
        )
        issued = renew(
            change.session, actor=access.actor, old=old, request=request, signing=access.signing, now=utc_now()
        )
        return _respond_with_certificate(change, access, issued, body)


@router.post("/{serial}/revoke", operation_id="revokeCertificate")
def revoke(access: Revokes, serial: Serial, body: Revocation) -> CertificateDetail:
    """Revoke a certificate permanently.

    The cell rejects the certificate, also in resumed TLS sessions. OCSP and CRL report the revocation. Admit sends
    requests to NASes to end sessions with the certificate.

    Renewals of the certificate are revoked too, unless the reason is `superseded`.
    """
    with access.change() as change:
        _require_match(change, access, serial)
        row = certificates.revoke_certificate(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            serial=serial,
            now=utc_now(),
            reason=body.reason,
        )
        return change.answer(build_certificate_detail(change.session, row))


@router.post("/{serial}/suspend", operation_id="suspendCertificate")
def suspend(access: Revokes, serial: Serial) -> CertificateDetail:
    """Suspend a certificate until you reinstate the certificate.

    The cell rejects a suspended certificate. Renewals of the certificate stay valid.
    """
    with access.change() as change:
        _require_match(change, access, serial)
        row = certificates.suspend_certificate(
            change.session, actor=access.actor, tenant_id=access.tenant_id, serial=serial, now=utc_now()
        )
        return change.answer(build_certificate_detail(change.session, row))


@router.post("/{serial}/reinstate", operation_id="reinstateCertificate")
def reinstate(access: Revokes, serial: Serial) -> CertificateDetail:
    """End the suspension of a certificate.

    You cannot reinstate a revoked certificate.
    """
    with access.change() as change:
        _require_match(change, access, serial)
        row = certificates.reinstate_certificate(
            change.session, actor=access.actor, tenant_id=access.tenant_id, serial=serial
        )
        return change.answer(build_certificate_detail(change.session, row))


def _require_match(change: Change, access: Access, serial: str) -> None:
    row = certificates.require_by_serial(change.session, tenant_id=access.tenant_id, serial=serial, lock=True)
    change.require_match(build_certificate_detail(change.session, row))


def _parse_request(body: CertificateRenewal) -> SigningRequest | None:
    if body.csr is not None and body.pkcs12 is not None:
        raise InvalidInput("`pkcs12` requires a generated key: omit `pkcs12` or `csr`.", place="pkcs12")
    return parse_signing_request(body.csr)


def _respond_with_certificate(
    change: Change, access: Access, issued: JustIssued, body: CertificateRenewal
) -> IssuedCertificate:
    row = certificates.require_by_serial(change.session, tenant_id=access.tenant_id, serial=issued.serial.hex())
    change.located(row.serial.hex(), at="certificates")
    return change.answer(build_issued_certificate(change.session, row, issued, body.pkcs12))
