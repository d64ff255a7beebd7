"""A tenant's own authorities: a root, an issuing authority below it, and the first EAP server certificate."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography import x509
from sqlalchemy.orm import Session

from nac.certificates import repository
from nac.certificates.certificate_names import SERVER_PROFILE, default_server_name, subject_organisation
from nac.certificates.errors import AuthorityNotFound
from nac.certificates.hierarchy import (
    OWN_AUTHORITY_KINDS,
    generate_unique_number,
    reserve_authority,
    sign_issuing_authority,
    sign_root,
)
from nac.certificates.issuance import issue_server, require_server_names
from nac.certificates.signing import SigningContext
from nac.kit.advice import Advice
from nac.kit.db import commit_intent
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import AlreadyExists
from nac.kit.ids import TenantId
from nac.models import Certificate, CertificateAuthority, Tenant


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
    signing: SigningContext,
    now: datetime,
    name: str = "",
    server_names: Sequence[str] = (),
) -> TenantAuthorities:
    """Create the root, issuing authority and EAP server certificate of a tenant.

    Requires a session in a database scope that includes the tenant. Commits the session before each signature.
    If the process dies before the last signature, the worker creates the authorities again
    (`finish_tenant_authorities`) or issues the missing server certificate (`nac.certificates.server_renewal`).

    `name` is the organisation in the certificates' subjects (default: the tenant's name). `server_names` are the DNS
    names of the server certificate, which devices check (default: `radius.<slug>.admit.example`). Raises
    AlreadyExists if the tenant has authorities.
    """
    tenant = repository.lock_tenant(session, tenant_id)
    if repository.get_active_issuing(session, tenant_id) is not None:
        raise AlreadyExists("The tenant already has authorities.", place="tenant")
    organisation = subject_organisation(tenant, name)
    unique = generate_unique_number(tenant.slug)
    names = tuple(server_names) or tuple(first_server_names(session, tenant))
    # Check the names before the commit, because the commit cannot be undone.
    require_server_names(session, tenant_id=tenant_id, dns_names=names)
    reserved_root, reserved_issuing = (
        reserve_authority(
            session,
            tenant_id=tenant_id,
            kind=kind,
            organisation=organisation,
            unique=unique,
            signing=signing,
            # `finish_tenant_authorities` reads the names after a crash.
            server_names=names if kind == "issuing" else (),
        )
        for kind in OWN_AUTHORITY_KINDS
    )
    commit_intent(session)
    repository.lock_tenant(session, tenant_id)
    if repository.get_active_issuing(session, tenant_id) is not None:
        raise AlreadyExists("The tenant already has authorities.", place="tenant")
    root = sign_root(session, reserved_root, actor=actor, now=now)
    issuing = sign_issuing_authority(session, reserved_issuing, actor=actor, root=root, signing=signing, now=now)
    server = issue_server(session, actor=actor, tenant_id=tenant_id, dns_names=names, signing=signing, now=now)
    return TenantAuthorities(root, issuing, server)


def finish_tenant_authorities(
    session: Session, *, actor: str, tenant_id: TenantId, signing: SigningContext, now: datetime
) -> TenantAuthorities | None:
    """Create a tenant's authorities if Admit abandoned the first attempt after an interruption (see `intents`).

    Returns None if no attempt was abandoned, or if the tenant is being deleted. Commits the session before each
    signature.
    """
    tenant = repository.lock_tenant(session, tenant_id)
    if tenant.status == "deleting" or not repository.has_abandoned_setup(session, tenant_id):
        return None
    return create_tenant_authorities(session, actor=actor, tenant_id=tenant_id, signing=signing, now=now)


def complete_tenant_authorities(
    session: Session, *, actor: str, tenant_id: TenantId, signing: SigningContext, now: datetime
) -> None:
    """Create missing authorities or a missing server certificate, without waiting until Admit abandons an attempt.

    Call this function only if the process of the earlier attempt has ended. Raises AlreadyExists if another process
    created the authorities first. Commits the session before each signature.
    """
    tenant = repository.lock_tenant(session, tenant_id)
    arguments: dict[str, Any] = {"actor": actor, "tenant_id": tenant_id, "signing": signing, "now": now}
    if not repository.has_own_authorities(session, tenant_id):
        create_tenant_authorities(session, **arguments)
    elif repository.get_newest_server(session, tenant_id, SERVER_PROFILE, even_revoked=True) is None:
        issue_server(session, dns_names=first_server_names(session, tenant), **arguments)


def first_server_names(session: Session, tenant: Tenant) -> Sequence[str]:
    """Return the DNS names for a tenant's first server certificate: the requested names, or the default name."""
    return repository.list_requested_server_names(session, TenantId(tenant.id)) or (default_server_name(tenant),)


def list_authorities(session: Session, *, tenant_id: TenantId) -> Sequence[CertificateAuthority]:
    """List all authorities of the tenant: roots first, then by kind. Within a kind, the newest authority is first."""
    return repository.list_authorities(session, tenant_id)


def list_authority_page(
    session: Session, *, tenant_id: TenantId, span: PageSpan, text: str = "", kind: str = "", status: str = ""
) -> Sequence[CertificateAuthority]:
    """List one page of authorities. `text` filters by a part of the name or subject."""
    return repository.list_authority_page(session, tenant_id, span=span, text=text, kind=kind, status=status)


def list_own_authority_certificates(session: Session, *, tenant_id: TenantId) -> list[x509.Certificate]:
    """Return the active and retired authorities that Admit created for the tenant, roots first."""
    authorities = repository.list_authorities(session, tenant_id)
    return [
        x509.load_der_x509_certificate(authority.certificate_der)
        for authority in authorities
        if authority.kind != "external" and authority.status != "revoked"
    ]


def require_authority(session: Session, *, tenant_id: TenantId, which: str, lock: bool = False) -> CertificateAuthority:
    """Return the authority with the id `which`. If `which` is "root" or "issuing", return the newest active authority
    of this kind.

    `lock` locks all authorities of the tenant. Raises AuthorityNotFound.
    """
    if lock:
        repository.lock_tenant(session, tenant_id)
    for authority in repository.list_authorities(session, tenant_id):
        if which == str(authority.id) or (which == authority.kind and authority.status == "active"):
            return authority
    raise AuthorityNotFound(
        f"Unknown certificate authority {which!r}.",
        place="authority",
        remedy=Advice("List authorities", "listAuthorities"),
    )
