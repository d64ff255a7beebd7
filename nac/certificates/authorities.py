"""A tenant's own authorities: a root, an issuing authority below it, and the first EAP server certificate."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography import x509
from sqlalchemy.orm import Session

from nac.certificates import repository
from nac.certificates.errors import AuthorityNotFound
from nac.certificates.hierarchy import OWN_KINDS, reserve_authority, sign_issuing, sign_root, unique_number
from nac.certificates.issuing import issue_server, require_server_names
from nac.certificates.naming import default_server_name, organisation_for
from nac.certificates.server_names import SERVER_PROFILE
from nac.certificates.signing import Signing
from nac.db import commit_intent
from nac.db.orders import Span
from nac.errors import AlreadyExists
from nac.ids import TenantId
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
    signing: Signing,
    now: datetime,
    name: str = "",
    server_names: Sequence[str] = (),
) -> TenantAuthorities:
    """Root, issuing authority and EAP server certificate of a tenant that has none. In a scope that sees the tenant.

    Commits before each signature, whatever the session did so far with it; what is missing where a process dies in
    between is made by the worker (`finish_tenant_authorities` and, the server certificate, `nac.certificates.renewal`).

    `name` is the organisation in the subjects (the tenant's name if empty). `server_names` are the DNS names of the
    server certificate, which devices are told to expect: `radius.<slug>.admit.example` if empty.
    """
    tenant = repository.lock_tenant(session, tenant_id)
    if repository.active_issuing(session, tenant_id) is not None:
        raise AlreadyExists("The tenant has its authorities already.", place="tenant")
    organisation = organisation_for(tenant, name)
    unique = unique_number(tenant.slug)
    names = tuple(server_names) or tuple(first_server_names(session, tenant))
    # Behind the commit it would be too late to refuse them.
    require_server_names(session, tenant_id=tenant_id, dns_names=names)
    reserved_root, reserved_issuing = (
        reserve_authority(
            session,
            tenant_id=tenant_id,
            kind=kind,
            organisation=organisation,
            unique=unique,
            signing=signing,
            # Whoever goes on where this process dies knows them by it.
            server_names=names if kind == "issuing" else (),
        )
        for kind in OWN_KINDS
    )
    commit_intent(session)
    repository.lock_tenant(session, tenant_id)
    if repository.active_issuing(session, tenant_id) is not None:
        raise AlreadyExists("The tenant has its authorities already.", place="tenant")
    root = sign_root(session, reserved_root, actor=actor, now=now)
    issuing = sign_issuing(session, reserved_issuing, actor=actor, root=root, signing=signing, now=now)
    server = issue_server(session, actor=actor, tenant_id=tenant_id, dns_names=names, signing=signing, now=now)
    return TenantAuthorities(root, issuing, server)


def finish_tenant_authorities(
    session: Session, *, actor: str, tenant_id: TenantId, signing: Signing, now: datetime
) -> TenantAuthorities | None:
    """Where whoever made the first ones died, and what he began was given up (`nac.certificates.intents.settle`); else
    None. Commits in between."""
    tenant = repository.lock_tenant(session, tenant_id)
    if tenant.status == "deleting" or not repository.lacks_what_was_begun(session, tenant_id):
        return None
    return create_tenant_authorities(session, actor=actor, tenant_id=tenant_id, signing=signing, now=now)


def complete_tenant_authorities(
    session: Session, *, actor: str, tenant_id: TenantId, signing: Signing, now: datetime
) -> None:
    """As `finish_tenant_authorities`, and the server certificate, at once: for whoever knows that their maker died.

    Raises AlreadyExists where somebody else was quicker. Commits in between.
    """
    tenant = repository.lock_tenant(session, tenant_id)
    given: dict[str, Any] = {"actor": actor, "tenant_id": tenant_id, "signing": signing, "now": now}
    if not repository.has_own_authorities(session, tenant_id):
        create_tenant_authorities(session, **given)
    elif repository.newest_server(session, tenant_id, SERVER_PROFILE, even_revoked=True) is None:
        issue_server(session, dns_names=first_server_names(session, tenant), **given)


def first_server_names(session: Session, tenant: Tenant) -> Sequence[str]:
    """Of the server certificate of a tenant that has had none: those that were asked for with it, or the usual one."""
    return repository.server_names_asked(session, TenantId(tenant.id)) or (default_server_name(tenant),)


def list_authorities(session: Session, *, tenant_id: TenantId) -> Sequence[CertificateAuthority]:
    """Roots first; of each kind the newest first."""
    return repository.list_authorities(session, tenant_id)


def list_authority_page(
    session: Session, *, tenant_id: TenantId, span: Span, text: str = "", kind: str = "", status: str = ""
) -> Sequence[CertificateAuthority]:
    """`text` is a part of name or subject."""
    return repository.list_authority_page(session, tenant_id, span=span, text=text, kind=kind, status=status)


def own_authorities(session: Session, *, tenant_id: TenantId) -> list[x509.Certificate]:
    """Those that were made here and are good, roots first: in use or, after a rollover, still to be believed."""
    found = repository.list_authorities(session, tenant_id)
    return [
        x509.load_der_x509_certificate(authority.certificate_der)
        for authority in found
        if authority.kind != "external" and authority.status != "revoked"
    ]


def require_authority(session: Session, *, tenant_id: TenantId, which: str, lock: bool = False) -> CertificateAuthority:
    """By id, or the newest active one of a kind: "root", "issuing". `lock` keeps all of the tenant as they are."""
    if lock:
        repository.lock_tenant(session, tenant_id)
    for authority in repository.list_authorities(session, tenant_id):
        if which == str(authority.id) or (which == authority.kind and authority.status == "active"):
            return authority
    raise AuthorityNotFound(
        f"There is no certificate authority {which!r}.", place="authority", remedy="They are listed by: ./admit ca list"
    )
