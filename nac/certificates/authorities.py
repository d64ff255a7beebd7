"""A tenant's own authorities: a root, an issuing authority below it, and the first EAP server certificate."""

import re
import secrets
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.certificates import repository
from nac.certificates.errors import AuthorityNotFound, refusals
from nac.certificates.issuing import issue_server
from nac.certificates.public import locations
from nac.certificates.signing import Signing
from nac.errors import AlreadyExists, NotFound
from nac.ids import TenantId
from nac.models import Certificate, CertificateAuthority
from pki.issuing import Issuer, issue, issue_root, key_identifier
from pki.keys import PrivateKey, generate_key, key_pem
from pki.names import subject_name
from pki.openssl_names import subject_line
from pki.profiles import PROFILES
from pki.serials import random_serial

# radiusd's attribute parser unescapes what OpenSSL shows of a name (a backslash before n, r, t, " or three digits) and
# its Python module escapes it again: names of our own authorities hold nothing that either touches.
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 .,&()'-]+")
# So that "<name> Issuing CA" stays within the 64 characters of a common name.
_PLAIN_CHARACTERS = 48
_SLUG_CHARACTERS = 55


@dataclass(frozen=True, slots=True)
class TenantAuthorities:
    root: CertificateAuthority
    issuing: CertificateAuthority
    server: Certificate


def create_tenant_authorities(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    signing: Signing,
    now: datetime,
    name: str = "",
    server_names: Sequence[str] = (),
) -> TenantAuthorities:
    """Root, issuing authority and EAP server certificate of a tenant that has none. In a scope that sees the tenant.

    `name` is the organisation in the subjects (the tenant's name if empty). `server_names` are the DNS names of the
    server certificate, which devices are told to expect: `radius.<slug>.admit.example` if empty.
    """
    tenant = repository.lock_tenant(session, tenant_id)
    if tenant is None:
        raise NotFound("There is no such tenant.", place="tenant")
    if repository.active_issuing(session, tenant_id) is not None:
        raise AlreadyExists("The tenant has its authorities already.", place="tenant")
    organisation = _plain(name or tenant.name) or tenant.slug[:_PLAIN_CHARACTERS]
    # A cell tells "another tenant's authority" by name alone, so no two authorities may share one, ever.
    unique = f"{tenant.slug[:_SLUG_CHARACTERS]}-{secrets.token_hex(4)}"
    with refusals():
        root, issuing = _make_authorities(session, tenant_id, organisation, unique, signing, now)
    for authority in (root, issuing):
        audit.append(
            session,
            actor=actor,
            action="authority.create",
            target=authority.name,
            tenant_id=tenant_id,
            after={"kind": authority.kind, "subject": authority.subject, "not_after": authority.not_after.isoformat()},
        )
    names = tuple(server_names) or (f"radius.{tenant.slug}.admit.example",)
    server = issue_server(session, actor=actor, tenant_id=tenant_id, dns_names=names, signing=signing, now=now)
    return TenantAuthorities(root, issuing, server)


def _make_authorities(
    session: Session, tenant_id: TenantId, organisation: str, unique: str, signing: Signing, now: datetime
) -> tuple[CertificateAuthority, CertificateAuthority]:
    # Before the signatures: certificates name their issuer's.
    root_id, issuing_id = uuid4(), uuid4()
    root_key, issuing_key = generate_key(PROFILES["root"].key), generate_key(PROFILES["issuing"].key)
    root = issue_root(
        PROFILES["root"],
        key=root_key,
        subject=subject_name(f"{organisation} Root CA", organisation=organisation, serial_number=unique),
        now=now,
        serial=random_serial(),
    )
    issuing = issue(
        PROFILES["issuing"],
        public_key=issuing_key.public_key(),
        subject=subject_name(f"{organisation} Issuing CA", organisation=organisation, serial_number=unique),
        issuer=Issuer(root, root_key),
        now=now,
        serial=random_serial(),
        locations=locations(signing.public_url, root_id),
    )
    root_name = f"{organisation} Root CA"
    root_row = _add(session, root_id, tenant_id, "root", root_name, root, root_key, signing, issuer_id=None)
    issuing_row = _add(
        session,
        issuing_id,
        tenant_id,
        "issuing",
        f"{organisation} Issuing CA",
        issuing,
        issuing_key,
        signing,
        issuer_id=root_row.id,
    )
    return root_row, issuing_row


def _add(
    session: Session,
    authority_id: UUID,
    tenant_id: TenantId,
    kind: str,
    name: str,
    certificate: x509.Certificate,
    key: PrivateKey,
    signing: Signing,
    *,
    issuer_id: UUID | None,
) -> CertificateAuthority:
    authority = CertificateAuthority(
        id=authority_id,
        tenant_id=tenant_id,
        kind=kind,
        name=name,
        subject=subject_line(certificate),
        certificate_der=certificate.public_bytes(Encoding.DER),
        key_sealed=signing.sealer.seal(key_pem(key), f"authority:{authority_id}"),
        key_id=key_identifier(certificate),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        issuer_id=issuer_id,
    )
    session.add(authority)
    session.flush()
    return authority


def _plain(name: str) -> str:
    ascii_alone = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return " ".join(_NOT_PLAIN.sub(" ", ascii_alone).split())[:_PLAIN_CHARACTERS].strip()


def list_authorities(session: Session, *, tenant_id: TenantId) -> Sequence[CertificateAuthority]:
    """Roots first; of each kind the newest first."""
    return repository.list_authorities(session, tenant_id)


def require_authority(session: Session, *, tenant_id: TenantId, which: str) -> CertificateAuthority:
    """By id, or the newest active one of a kind: "root", "issuing"."""
    for authority in repository.list_authorities(session, tenant_id):
        if which == str(authority.id) or (which == authority.kind and authority.status == "active"):
            return authority
    raise AuthorityNotFound(
        f"There is no certificate authority {which!r}.", place="authority", remedy="They are listed by: ./admit ca list"
    )
