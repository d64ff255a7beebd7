"""Creates complete tenants, with a port pair of a cell, a site, authorities and optionally a policy."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from uuid import UUID

from sqlalchemy.orm import Session

from nac.certificates.authorities import complete_tenant_authorities, create_tenant_authorities
from nac.certificates.signing import SigningContext
from nac.kit.clock import utc_now
from nac.kit.db import enter_tenant
from nac.kit.errors import AlreadyExists, Conflict, NotFound
from nac.kit.ids import MspId, TenantId
from nac.models import Tenant
from nac.policies import service as policies
from nac.policies import site_settings
from nac.tenancy.tenants import service as tenants

# The optional first policy admits only devices and users that the tenant's administrators approved.
STANDARD_SLUG = "standard"
STANDARD_DOCUMENT: dict[str, object] = {
    "rules": [
        {
            # Only certificates that the tenant's own authorities issued have a profile.
            "id": "certificates",
            "name": "Own devices and people by certificate",
            "when": {
                "attribute": "certificate.profile",
                "operator": "one_of",
                "value": ["eap-client-device", "eap-client-user"],
            },
            "then": {"verdict": "permit"},
        },
        {
            "id": "users",
            "name": "People by password",
            "when": {"attribute": "user.name", "operator": "exists", "value": True},
            "then": {"verdict": "permit"},
        },
        {
            "id": "endpoints",
            "name": "Approved endpoints by MAC address",
            "when": {
                "all": [
                    {"attribute": "method", "operator": "equals", "value": "mab"},
                    {"attribute": "endpoint.known", "operator": "equals", "value": True},
                ]
            },
            "then": {"verdict": "permit"},
        },
    ],
    "fallback": {"verdict": "deny"},
}


def provision_tenant(
    session: Session,
    *,
    actor: str,
    slug: str,
    msp_id: MspId,
    signing: SigningContext,
    name: str = "",
    server_names: Sequence[str] = (),
    label: str = "",
    has_policy: bool = False,
    note: Callable[[UUID], None] = lambda tenant_id: None,
) -> Tenant:
    """Create a tenant with a port pair of a cell, a first site, authorities and a server certificate.

    Requires a session in PlatformScope, and changes it to the tenant's scope. The tenant rejects all devices until it
    has a policy. With `has_policy`, the tenant gets the standard policy. `label` selects the cell. Before the first
    commit, calls `note` with the tenant's id, because `finish_tenant` needs the id if this process dies.
    """
    tenant = tenants.create_tenant(session, actor=actor, slug=slug, msp_id=msp_id, name=name, label=label)
    note(tenant.id)
    if has_policy:
        assign_standard_policy(session, actor=actor, tenant_id=tenant.id)
    # The last step, because it commits the session. If the process dies, the worker completes the authorities.
    create_tenant_authorities(
        session, actor=actor, tenant_id=tenant.id, signing=signing, now=utc_now(), server_names=server_names
    )
    return tenant


def finish_tenant(
    session: Session, *, actor: str, tenant_id: TenantId | None, signing: SigningContext
) -> Tenant | None:
    """Complete a tenant whose `provision_tenant` was interrupted. Returns None if the tenant no longer exists.

    Requires a session in PlatformScope, and changes it to the tenant's scope. Raises Conflict while the tenant is
    being deleted.
    """
    if tenant_id is None:
        return None
    try:
        enter_tenant(session, tenant_id)
    except NotFound:
        return None
    if tenants.require_tenant(session, tenant_id=tenant_id).status == "deleting":
        raise Conflict(
            "Admit is deleting the tenant that was created with this idempotency key.",
            remedy="Restore the tenant, or use another idempotency key.",
        )
    # The worker may have completed the authorities meanwhile.
    with suppress(AlreadyExists):
        complete_tenant_authorities(session, actor=actor, tenant_id=tenant_id, signing=signing, now=utc_now())
    return tenants.require_tenant(session, tenant_id=tenant_id)


def assign_standard_policy(session: Session, *, actor: str, tenant_id: TenantId, site: str = "main") -> None:
    """Publish the standard policy and assign it to `site`."""
    policy = policies.create_policy(session, actor=actor, tenant_id=tenant_id, slug=STANDARD_SLUG, name="Standard")
    policies.save_draft(
        session,
        actor=actor,
        tenant_id=tenant_id,
        slug=STANDARD_SLUG,
        document=STANDARD_DOCUMENT,
        comment="First version",
    )
    policies.publish_policy(session, actor=actor, tenant_id=tenant_id, slug=STANDARD_SLUG)
    site_settings.assign_policy(session, actor=actor, tenant_id=tenant_id, slug=site, policy_id=policy.id)
