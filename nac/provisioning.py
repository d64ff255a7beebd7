"""A tenant with everything it needs to answer: orchestrates nouns that do not know each other."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from uuid import UUID

from sqlalchemy.orm import Session

from nac.certificates.authorities import complete_tenant_authorities, create_tenant_authorities
from nac.certificates.signing import Signing
from nac.clock import utc_now
from nac.db import enter_tenant
from nac.errors import AlreadyExists, Conflict, NotFound
from nac.ids import MspId, TenantId
from nac.models import Tenant
from nac.tenants import service as tenants
from nac.tenants.standard_policy import assign_standard_policy


def provision_tenant(
    session: Session,
    *,
    actor: str,
    slug: str,
    msp_id: MspId,
    signing: Signing,
    name: str = "",
    server_names: Sequence[str] = (),
    label: str = "",
    has_policy: bool = False,
    note: Callable[[UUID], None] = lambda tenant_id: None,
) -> Tenant:
    """A tenant with slot, first site, certificate authorities and server certificate. In PlatformScope.

    It denies everything until a policy is assigned to its site; `has_policy`: the standard one is. `label` is of the
    cell. `note` is told its id before the first commit, for `finish_tenant` where this process dies. Enters the tenant.
    """
    tenant = tenants.create_tenant(session, actor=actor, slug=slug, msp_id=msp_id, name=name, label=label)
    note(tenant.id)
    if has_policy:
        assign_standard_policy(session, actor=actor, tenant_id=tenant.id)
    # Last: these commit in between, and what is missing of them where a process dies is made by the worker.
    create_tenant_authorities(
        session, actor=actor, tenant_id=tenant.id, signing=signing, now=utc_now(), server_names=server_names
    )
    return tenant


def finish_tenant(session: Session, *, actor: str, tenant_id: TenantId | None, signing: Signing) -> Tenant | None:
    """A tenant that `provision_tenant` began to make in a process that died, with what was missing of it; None where it
    is gone. In PlatformScope. Enters the tenant. Raises Conflict while it is being deleted."""
    if tenant_id is None:
        return None
    try:
        enter_tenant(session, tenant_id)
    except NotFound:
        return None
    if tenants.require_tenant(session, tenant_id=tenant_id).status == "deleting":
        raise Conflict("The tenant that this key has made is being deleted.", remedy="Restore it, or use another key.")
    # The worker may have come to it as well.
    with suppress(AlreadyExists):
        complete_tenant_authorities(session, actor=actor, tenant_id=tenant_id, signing=signing, now=utc_now())
    return tenants.require_tenant(session, tenant_id=tenant_id)
