"""Certificate authorities of a tenant.

Only the tenant's own authorities have keys in Admit and a rollover. For external authorities, Admit has only the
certificates.
"""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from fastapi import Depends, Path, Query, Response
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change, ObservedModel
from api.routes import NounRouter
from api.v1.certificates import PEM, RevocationResult
from api.v1.inputs import Input, body_example
from api.v1.paging import OrderedPaging, Page, require_paging
from api.v1.timestamps import Moment
from nac.certificates import bulk_revocation, external_authorities, offline_root, profiles, rollover, status_refresh
from nac.certificates import service as certificates
from nac.certificates.bulk_revocation import AuthorityRevocationReason
from nac.certificates.public_lookups import build_locations
from nac.certificates.repository import AUTHORITY_ORDERS
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.kit.permissions import Effect, Permission
from nac.models import CertificateAuthority, StatusSource
from pki.bundles import certificates_pem

router = NounRouter(
    prefix="/tenants/{tenant}/authorities", tag="authorities", description="Certificate authorities of a tenant."
)

AuthorityKey = Annotated[
    str,
    Path(
        description="Id of the authority, or `root` or `issuing` for the newest active authority of that kind.",
        max_length=40,
        examples=["root"],
    ),
]
_Kind = Literal["root", "issuing", "external"]
_Status = Literal["active", "retired", "revoked"]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.CERTIFICATE_READ))]
Manages = Annotated[Access, Depends(ChangesTenant(Permission.AUTHORITY_MANAGE, Effect.TRUST, Effect.REJECTION))]
ExportsKey = Annotated[Access, Depends(ChangesTenant(Permission.AUTHORITY_MANAGE, Effect.SECRETS))]
# The key signs all future authorities, so a stolen copy stays dangerous.
_PASSPHRASE = Field(min_length=16, max_length=200, description="Passphrase that encrypts the exported key.")
_KEY_CHARACTERS = 16 * 1024


class StatusSources(BaseModel):
    """Status URLs of an external authority, and the result of the last status check."""

    crl_url: str = Field(description="URL of the certificate revocation list (CRL) of the external authority.")
    ocsp_url: str = Field(description="URL of the OCSP responder of the external authority.")
    crl_number: str | None = Field(examples=["42"], description="CRL number of the last downloaded CRL, in decimal.")
    crl_this_update: datetime | None = Field(description="Issue time of the last downloaded CRL (thisUpdate).")
    crl_next_update: datetime | None = Field(
        description="Time at which the authority will issue the next CRL at the latest (nextUpdate)."
    )
    crl_checked_at: datetime | None = Field(description="Time when Admit last downloaded the CRL; null if never.")
    crl_failure: str = Field(description='Error of the last CRL download; "" if the download succeeded.')


class OcspState(BaseModel):
    certificates: int = Field(description="Number of certificates whose OCSP status Admit knows.")
    checked_at: datetime | None = Field(description="Time when Admit last sent an OCSP request; null if never.")
    failures: int = Field(description="Number of certificates whose status Admit could not determine.")
    failure: str = Field(description='Error of the last OCSP request; "" if the request succeeded.')


class Authority(BaseModel):
    id: UUID = Field(description="Permanent id of the authority.")
    kind: _Kind = Field(description="Kind of the authority.")
    name: str = Field(description="Name of the authority.")
    subject: str = Field(description="Subject of the authority's certificate (RFC 4514).")
    status: _Status = Field(description="Status of the authority.")
    not_before: datetime = Field(description="Start of the validity of the authority's certificate.")
    not_after: datetime = Field(description="End of the validity of the authority's certificate.")
    issuer: UUID | None = Field(
        description=(
            "Id of the authority that issued the certificate; null for a root, or if Admit does not have that "
            "authority."
        )
    )
    signs_here: bool = Field(description="Whether Admit holds the authority's key.")
    key_store: Literal["sealed", "pkcs11"] | None = Field(
        description="Key store that holds the authority's key; null if Admit does not hold the key."
    )
    key_id: str = Field(
        examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"],
        description="Subject key identifier of the authority's certificate, in hex.",
    )
    sha256: str = Field(description="SHA-256 of the authority's certificate, in hex.")
    revoked_at: datetime | None = Field(description="Time when the authority was revoked; null if not revoked.")
    revocation_reason: str = Field(
        description='Reason of the authority\'s revocation (RFC 5280 5.3.1); "" if not revoked.'
    )
    certificate_url: str | None = Field(
        examples=["http://pki.example.com/ca/5f3a9c.cer"],
        description="Public URL of the authority's certificate; null for an external authority.",
    )
    ocsp_url: str | None = Field(description="URL of the OCSP responder in certificates that the authority issues.")
    crl_url: str | None = Field(description="URL of the authority's certificate revocation list (CRL).")
    sources: StatusSources | None = Field(
        description="Status URLs and last status check of the external authority; null for an authority of Admit."
    )


class AuthorityDetail(Authority, ObservedModel):
    ocsp: OcspState | None = Field(
        description="OCSP status of certificates that devices presented; null for an authority of Admit."
    )

    def observed_fields(self) -> dict[str, Any]:
        """Return the fields that the worker updates: the results of the last status check."""
        return {"ocsp": True, "sources": set(StatusSources.model_fields) - {"crl_url", "ocsp_url"}}


class Rollover(Input):
    model_config = body_example({"root": True, "present_from": "2027-01-31T18:00:00Z"})

    root: bool = Field(False, description="Whether the rollover also creates a new root.")
    present_from: Moment | None = Field(
        None, description="Time from which devices see a server certificate of the new root; null for immediately."
    )


class RolloverResult(BaseModel):
    issuing: Authority = Field(description="New issuing authority of the tenant.")
    root: UUID = Field(description="Id of the root authority that signed the new issuing authority.")
    retired: list[UUID] = Field(description="Ids of the retired authorities.")
    server_certificate: str = Field(
        examples=["5f3a9c0e1b7d2468"],
        description='Serial number of the new server certificate; "" if the rollover issued none.',
    )


class KeyStoreUpdate(Input):
    store: Literal["", "sealed", "pkcs11"] = Field(
        description='Key store for new keys; "" for the platform\'s default.'
    )


class KeyPassphrase(Input):
    passphrase: str = _PASSPHRASE


class RootKey(KeyPassphrase):
    key: str = Field(max_length=_KEY_CHARACTERS, description="Root key, encrypted with the passphrase (PKCS#8 in PEM).")


class ExportedRootKey(BaseModel):
    root: UUID = Field(description="Id of the root authority whose key was exported.")
    key: str = Field(description="Root key, encrypted with the passphrase (PKCS#8 in PEM).")


class AuthorityRevocation(Input):
    reason: AuthorityRevocationReason = Field("unspecified", description="Reason code of the revocation.")


@router.get("", operation_id="listAuthorities")
def list_authorities(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(AUTHORITY_ORDERS))],
    text: Annotated[
        str, Query(max_length=200, description="Part of the name or subject of the authorities to list.")
    ] = "",
    kind: Annotated[_Kind | None, Query(description="Kind of the authorities to list.")] = None,
    status: Annotated[_Status | None, Query(description="Status of the authorities to list.")] = None,
) -> Page[Authority]:
    """List authorities, newest first by default."""
    with access.read() as session:
        sources = external_authorities.status_sources_by_authority(session, tenant_id=access.tenant_id)
        rows = certificates.list_authority_page(
            session, tenant_id=access.tenant_id, span=paging.span, text=text, kind=kind or "", status=status or ""
        )
        return paging.ordered(rows, lambda row: build_authority(access, row, sources.get(row.id)))


@router.post("/rollover", operation_id="rollOverAuthorities")
def roll_over(access: Manages, body: Rollover) -> RolloverResult:
    """Create a new issuing authority and retire the old authority.

    Admit still admits devices with certificates of the old authority.

    With a new root, the cell presents a chain to the old and the new root. Install the new root on devices before the
    old root expires.
    """
    if body.present_from and not body.root:
        raise InvalidInput("`present_from` requires a new root.", place="present_from")
    with access.change() as change:
        plan = rollover.plan_rollover(
            change.session,
            tenant_id=access.tenant_id,
            signing=access.signing,
            of_root=body.root,
            server_from=body.present_from,
        )
        done = rollover.execute_rollover(
            change.session, plan, actor=access.actor, signing=access.signing, now=utc_now()
        )
        return change.answer(
            RolloverResult(
                issuing=build_authority(access, done.issuing, None),
                root=done.root.id,
                retired=[row.id for row in done.retired],
                server_certificate=done.server.serial.hex() if done.server else "",
            )
        )


@router.get("/key-store", operation_id="getKeyStore")
def get_key_store(access: Reads) -> KeyStoreUpdate:
    """Get the key store for new authorities."""
    with access.read() as session:
        return access.shown(
            KeyStoreUpdate(store=profiles.get_certificate_settings(session, access.tenant_id).key_store)
        )


@router.put("/key-store", operation_id="updateKeyStore")
def update_key_store(access: Manages, body: KeyStoreUpdate) -> KeyStoreUpdate:
    """Set the key store for new authorities.

    Existing keys stay in the current key store. A rollover creates new keys in the new key store.
    """
    with access.change() as change:
        now = profiles.get_certificate_settings(change.session, access.tenant_id, lock=True)
        change.require_match(KeyStoreUpdate(store=now.key_store))
        profiles.update_key_store(change.session, actor=access.actor, tenant_id=access.tenant_id, store=body.store)
        return change.answer(body)


@router.post("/root/export-key", operation_id="exportRootKey")
def export_root_key(access: ExportsKey, body: KeyPassphrase) -> ExportedRootKey:
    """Export the root's key, encrypted with a passphrase.

    Admit keeps the key until you delete the key. Store the export safely before you delete the key.
    """
    with access.change() as change:
        root, pem = offline_root.export_root_key(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            passphrase=body.passphrase,
            signing=access.signing,
        )
        return change.answer(ExportedRootKey(root=root.id, key=pem.decode()))


@router.post("/root/forget-key", operation_id="deleteRootKey")
def forget_root_key(access: Manages) -> Authority:
    """Delete the root's key from Admit.

    The root is then offline: Admit cannot sign new issuing authorities until you import the key. All other operations
    continue to work.
    """
    with access.change() as change:
        _require_match(change, access, "root")
        root = offline_root.forget_root_key(change.session, actor=access.actor, tenant_id=access.tenant_id)
        return change.answer(
            build_authority(access, root, None), state=build_authority_detail(change.session, access, root)
        )


@router.post("/root/import-key", operation_id="importRootKey")
def import_root_key(access: Manages, body: RootKey) -> Authority:
    """Import the root's key, so that Admit can sign issuing authorities again."""
    with access.change() as change:
        _require_match(change, access, "root")
        root = offline_root.import_root_key(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            pem=body.key.encode(),
            passphrase=body.passphrase,
            signing=access.signing,
        )
        return change.answer(
            build_authority(access, root, None), state=build_authority_detail(change.session, access, root)
        )


@router.get("/{authority}", operation_id="getAuthority")
def get_authority(access: Reads, authority: AuthorityKey) -> AuthorityDetail:
    """Get an authority, with the known status of certificates that the authority issued."""
    with access.read() as session:
        row = certificates.require_authority(session, tenant_id=access.tenant_id, which=authority)
        return access.shown(build_authority_detail(session, access, row))


@router.get("/{authority}/download", operation_id="downloadAuthority", response_class=Response)
def download(
    access: Reads,
    authority: AuthorityKey,
    form: Annotated[Literal["pem", "chain"], Query(description="Format of the downloaded certificate file.")] = "pem",
) -> Response:
    """Download the certificate of an authority.

    `pem` is the certificate of this authority. `chain` includes the authorities above, up to the root. Devices must
    trust the root.
    """
    with access.read() as session:
        rows = {row.id: row for row in certificates.list_authorities(session, tenant_id=access.tenant_id)}
        start = certificates.require_authority(session, tenant_id=access.tenant_id, which=authority)
    ders, above = [start.certificate_der], start.issuer_id
    while form == "chain" and above is not None:
        ders.append(rows[above].certificate_der)
        above = rows[above].issuer_id
    return Response(certificates_pem(map(x509.load_der_x509_certificate, ders)), media_type=PEM)


@router.post("/{authority}/revoke", operation_id="revokeAuthority")
def revoke_authority(access: Manages, authority: AuthorityKey, body: AuthorityRevocation) -> RevocationResult:
    """Revoke an authority permanently, with all authorities and certificates that the authority issued.

    Admit revokes the authorities below this authority, and all certificates of the revoked authorities.

    If a revoked authority issued the certificate of the RADIUS server, logins with certificates or tunnels fail until a
    rollover.
    """
    with access.change() as change:
        seen = _require_match(change, access, authority)
        done = bulk_revocation.revoke_authority(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            which=authority,
            now=utc_now(),
            reason=body.reason,
        )
        row = certificates.require_authority(change.session, tenant_id=access.tenant_id, which=str(seen.id))
        return change.answer(
            RevocationResult(**asdict(done)), state=build_authority_detail(change.session, access, row)
        )


def _require_match(change: Change, access: Access, which: str) -> CertificateAuthority:
    row = certificates.require_authority(change.session, tenant_id=access.tenant_id, which=which, lock=True)
    change.require_match(build_authority_detail(change.session, access, row))
    return row


def build_authority_detail(session: Session, access: Access, row: CertificateAuthority) -> AuthorityDetail:
    source = external_authorities.get_status_source(session, tenant_id=access.tenant_id, authority_id=row.id)
    state = None
    if source is not None:
        known = status_refresh.get_ocsp_state(session, tenant_id=access.tenant_id, authority_id=row.id)
        state = OcspState(**asdict(known))
    return AuthorityDetail(**build_authority(access, row, source).model_dump(), ocsp=state)


def build_authority(access: Access, row: CertificateAuthority, source: StatusSource | None) -> Authority:
    own = None if row.kind == "external" else build_locations(access.signing.public_url, row.id)
    certificate = x509.load_der_x509_certificate(row.certificate_der)
    return Authority(
        id=row.id,
        kind=cast(Any, row.kind),
        name=row.name,
        subject=row.subject,
        status=cast(Any, row.status),
        not_before=row.not_before,
        not_after=row.not_after,
        issuer=row.issuer_id,
        signs_here=row.key_sealed is not None,
        key_store=cast(Any, row.key_store) if row.key_sealed is not None else None,
        key_id=row.key_id.hex(),
        sha256=certificate.fingerprint(hashes.SHA256()).hex(":"),
        revoked_at=row.revoked_at,
        revocation_reason=row.revocation_reason,
        certificate_url=own.certificate if own else None,
        ocsp_url=own.ocsp if own else None,
        crl_url=own.crl if own else None,
        sources=None if source is None else _build_sources(source),
    )


def _build_sources(source: StatusSource) -> StatusSources:
    return StatusSources(
        crl_url=source.crl_url,
        ocsp_url=source.ocsp_url,
        crl_number=None if source.crl_number is None else str(source.crl_number),
        crl_this_update=source.crl_this_update,
        crl_next_update=source.crl_next_update,
        crl_checked_at=source.crl_checked_at,
        crl_failure=source.crl_failure,
    )
