"""Certificate authorities of a tenant: its own, their keys and successors, and the external ones that it trusts."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change, Observed
from api.v1.certificates import PEM, RevocationResult
from api.v1.inputs import Input
from api.v1.moments import Moment
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.certificates import external, offline, profiles, refreshing, revoking, rollover
from nac.certificates import service as certificates
from nac.certificates.public import locations
from nac.certificates.repository import AUTHORITIES
from nac.certificates.revoking import AuthorityReason
from nac.clock import utc_now
from nac.errors import InvalidInput
from nac.models import CertificateAuthority, StatusSource
from pki.bundles import certificates_pem

router = APIRouter(prefix="/tenants/{tenant}/authorities", tags=["authorities"])

Which = Annotated[
    str, Path(description="An id, or root or issuing: the newest active of its kind.", max_length=40, examples=["root"])
]
_Kind = Literal["root", "issuing", "external"]
_Status = Literal["active", "retired", "revoked"]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.CERTIFICATE_READ))]
Manages = Annotated[Access, Depends(ChangesTenant(Permission.AUTHORITY_MANAGE, Effect.TRUST, Effect.REJECTION))]
ExportsKey = Annotated[Access, Depends(ChangesTenant(Permission.AUTHORITY_MANAGE, Effect.SECRETS))]
# Its key signs every authority to come: who takes it away has it for good.
_PASSPHRASE = Field(min_length=16, max_length=200, description="Guards the key outside.")
_KEY_CHARACTERS = 16 * 1024


class StatusSources(BaseModel):
    """Where the status of what an external authority issued is fetched, and what came of it."""

    crl_url: str = Field(description="Where the list of revoked certificates is.")
    ocsp_url: str = Field(description="Where status is asked for by OCSP.")
    crl_number: str | None = Field(description="Number of the list, in decimal.")
    crl_this_update: datetime | None = Field(description="Of when the list is.")
    crl_next_update: datetime | None = Field(description="When the list says that the next one comes.")
    crl_checked_at: datetime | None = Field(description="When its list of revoked certificates was fetched last.")
    crl_failure: str = Field(description='Why the last attempt failed; "" where it did not.')


class OcspState(BaseModel):
    certificates: int = Field(description="Certificates whose status is known.")
    checked_at: datetime | None = Field(description="When it was asked last.")
    failures: int = Field(description="Certificates whose status could not be found out.")
    failure: str = Field(description='Why the last attempt failed; "" where it did not.')


class Authority(BaseModel):
    id: UUID = Field(description="Id; it stays.")
    kind: _Kind = Field(description="Of which kind it is.")
    name: str = Field(description="Name, for people.")
    subject: str = Field(description="Subject (RFC 4514).")
    status: _Status = Field(description="What state it is in.")
    not_before: datetime = Field(description="From when it is valid.")
    not_after: datetime = Field(description="Until when it is valid.")
    issuer: UUID | None = Field(
        description="Id of the authority above it; null of a root or where that one is not here."
    )
    signs_here: bool = Field(description="Whether its key is here.")
    key_store: Literal["sealed", "pkcs11"] | None = Field(description="Where its key is; null where it is not here.")
    key_id: str = Field(description="Subject key identifier, in hex.")
    sha256: str = Field(description="SHA-256, in hex.")
    revoked_at: datetime | None = Field(description="When it was revoked.")
    revocation_reason: str = Field(description='Why it was revoked (RFC 5280 5.3.1); "" where it was not.')
    certificate_url: str | None = Field(description="Where anybody finds its certificate; null of an external one.")
    ocsp_url: str | None = Field(description="Where status is asked for by OCSP.")
    crl_url: str | None = Field(description="Where the list of revoked certificates is.")
    sources: StatusSources | None = Field(
        description="Of an external one: where its status is found, and how that went."
    )


class AuthorityDetail(Authority, Observed):
    ocsp: OcspState | None = Field(
        description="Of an external one: what is known by OCSP of the certificates that devices have shown."
    )

    def observed(self) -> dict[str, Any]:
        """What came of the worker's fetching, where people have said from."""
        return {"ocsp": True, "sources": set(StatusSources.model_fields) - {"crl_url", "ocsp_url"}}


class Rollover(Input):
    root: bool = Field(False, description="A new root as well.")
    present_from: Moment | None = Field(
        None, description="With a new root: when devices are first shown a server certificate below it; null: at once."
    )


class RolloverResult(BaseModel):
    issuing: Authority = Field(description="The authority that issues from now on.")
    root: UUID = Field(description="Id of the root authority.")
    retired: list[UUID] = Field(description="Ids of authorities that issue no more.")
    server_certificate: str = Field(description='Serial number of the server certificate that was issued; "" for none.')


class KeyStoreUpdate(Input):
    store: Literal["", "sealed", "pkcs11"] = Field(description='Where the key is kept; "": where the platform says.')


class KeyPassphrase(Input):
    passphrase: str = _PASSPHRASE


class RootKey(KeyPassphrase):
    key: str = Field(max_length=_KEY_CHARACTERS, description="As it was exported: PKCS#8 in PEM.")


class ExportedRootKey(BaseModel):
    root: UUID = Field(description="Id of the root authority.")
    key: str = Field(description="The root's key: PKCS#8 in PEM, under the passphrase.")


class AuthorityRevocation(Input):
    reason: AuthorityReason = Field("unspecified", description="Why: a code.")


@router.get("", operation_id="listAuthorities")
def list_authorities(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(sorted_by(AUTHORITIES))],
    text: Annotated[str, Query(max_length=200, description="A part of name or subject.")] = "",
    kind: _Kind | None = None,
    status: _Status | None = None,
) -> Page[Authority]:
    """The newest first, unless `sort` says otherwise."""
    with access.read() as session:
        sources = external.sources_of(session, tenant_id=access.tenant_id)
        rows = certificates.list_authority_page(
            session, tenant_id=access.tenant_id, span=paging.span, text=text, kind=kind or "", status=status or ""
        )
        return paging.ordered(rows, lambda row: shown(access, row, sources.get(row.id)))


@router.post("/rollover", operation_id="rollOverAuthorities")
def roll_over(access: Manages, body: Rollover) -> RolloverResult:
    """A new issuing authority signs from now on; the old one retires, and its devices are admitted as before.

    With a new root the cell shows a chain that ends at the old root and at the new one: give devices the new root
    before the old one ends.
    """
    if body.present_from and not body.root:
        raise InvalidInput("The server certificate stays as it is where the root does.", place="present_from")
    with access.change() as change:
        plan = rollover.plan_rollover(
            change.session,
            tenant_id=access.tenant_id,
            signing=access.signing,
            of_root=body.root,
            server_from=body.present_from,
        )
        done = rollover.carry_out(change.session, plan, actor=access.actor, signing=access.signing, now=utc_now())
        return change.answer(
            RolloverResult(
                issuing=shown(access, done.issuing, None),
                root=done.root.id,
                retired=[row.id for row in done.retired],
                server_certificate=done.server.serial.hex() if done.server else "",
            )
        )


@router.get("/key-store", operation_id="getKeyStore")
def get_key_store(access: Reads) -> KeyStoreUpdate:
    """Where the keys of new authorities are made."""
    with access.read() as session:
        return access.shown(KeyStoreUpdate(store=profiles.tenant_settings(session, access.tenant_id).key_store))


@router.put("/key-store", operation_id="updateKeyStore")
def update_key_store(access: Manages, body: KeyStoreUpdate) -> KeyStoreUpdate:
    """Keys that exist stay where they are: a rollover makes new ones."""
    with access.change() as change:
        now = profiles.tenant_settings(change.session, access.tenant_id, lock=True)
        change.require_match(KeyStoreUpdate(store=now.key_store))
        profiles.set_key_store(change.session, actor=access.actor, tenant_id=access.tenant_id, store=body.store)
        return change.answer(body)


@router.post("/root/export-key", operation_id="exportRootKey")
def export_root_key(access: ExportsKey, body: KeyPassphrase) -> ExportedRootKey:
    """The root's key, under a passphrase. It stays here until it is forgotten: keep it safe first."""
    with access.change() as change:
        root, pem = offline.export_root_key(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            passphrase=body.passphrase,
            signing=access.signing,
        )
        return change.answer(ExportedRootKey(root=root.id, key=pem.decode()))


@router.post("/root/forget-key", operation_id="deleteRootKey")
def forget_root_key(access: Manages) -> Authority:
    """Keep no copy here: the root is offline from now on. No issuing authority can be signed, all else goes on."""
    with access.change() as change:
        _require_match(change, access, "root")
        root = offline.forget_root_key(change.session, actor=access.actor, tenant_id=access.tenant_id)
        return change.answer(shown(access, root, None), state=in_full(change.session, access, root))


@router.post("/root/import-key", operation_id="importRootKey")
def import_root_key(access: Manages, body: RootKey) -> Authority:
    """Bring the root's key back, to sign an issuing authority with it."""
    with access.change() as change:
        _require_match(change, access, "root")
        root = offline.import_root_key(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            pem=body.key.encode(),
            passphrase=body.passphrase,
            signing=access.signing,
        )
        return change.answer(shown(access, root, None), state=in_full(change.session, access, root))


@router.get("/{authority}", operation_id="getAuthority")
def get_authority(access: Reads, authority: Which) -> AuthorityDetail:
    with access.read() as session:
        row = certificates.require_authority(session, tenant_id=access.tenant_id, which=authority)
        return access.shown(in_full(session, access, row))


@router.get("/{authority}/download", operation_id="downloadAuthority", response_class=Response)
def download(access: Reads, authority: Which, form: Literal["pem", "chain"] = "pem") -> Response:
    """pem: its certificate; chain: also those above it, up to the root. The root is what devices must trust."""
    with access.read() as session:
        rows = {row.id: row for row in certificates.list_authorities(session, tenant_id=access.tenant_id)}
        found = certificates.require_authority(session, tenant_id=access.tenant_id, which=authority)
    ders, above = [found.certificate_der], found.issuer_id
    while form == "chain" and above is not None:
        ders.append(rows[above].certificate_der)
        above = rows[above].issuer_id
    return Response(certificates_pem(map(x509.load_der_x509_certificate, ders)), media_type=PEM)


@router.post("/{authority}/revoke", operation_id="revokeAuthority")
def revoke_authority(access: Manages, authority: Which, body: AuthorityRevocation) -> RevocationResult:
    """For good, with those below it and every certificate that they issued.

    Of the tenant's own authority that includes the certificate that its RADIUS server shows: nobody is admitted by a
    certificate or through a tunnel until there is another (a rollover).
    """
    with access.change() as change:
        seen = _require_match(change, access, authority)
        done = revoking.revoke_authority(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            which=authority,
            now=utc_now(),
            reason=body.reason,
        )
        row = certificates.require_authority(change.session, tenant_id=access.tenant_id, which=str(seen.id))
        return change.answer(RevocationResult(**asdict(done)), state=in_full(change.session, access, row))


def _require_match(change: Change, access: Access, which: str) -> CertificateAuthority:
    row = certificates.require_authority(change.session, tenant_id=access.tenant_id, which=which, lock=True)
    change.require_match(in_full(change.session, access, row))
    return row


def in_full(session: Session, access: Access, row: CertificateAuthority) -> AuthorityDetail:
    source = external.get_source(session, tenant_id=access.tenant_id, authority_id=row.id)
    state = None
    if source is not None:
        known = refreshing.ocsp_state(session, tenant_id=access.tenant_id, authority_id=row.id)
        state = OcspState(**asdict(known))
    return AuthorityDetail(**shown(access, row, source).model_dump(), ocsp=state)


def shown(access: Access, row: CertificateAuthority, source: StatusSource | None) -> Authority:
    own = None if row.kind == "external" else locations(access.signing.public_url, row.id)
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
        sources=None if source is None else _sources(source),
    )


def _sources(source: StatusSource) -> StatusSources:
    return StatusSources(
        crl_url=source.crl_url,
        ocsp_url=source.ocsp_url,
        crl_number=None if source.crl_number is None else str(source.crl_number),
        crl_this_update=source.crl_this_update,
        crl_next_update=source.crl_next_update,
        crl_checked_at=source.crl_checked_at,
        crl_failure=source.crl_failure,
    )
