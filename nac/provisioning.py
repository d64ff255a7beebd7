"""A tenant with everything it needs to answer: orchestrates nouns that do not know each other."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from nac.certificates.authorities import create_tenant_authorities
from nac.certificates.signing import Signing
from nac.clock import utc_now
from nac.ids import MspId
from nac.models import Tenant
from nac.tenants import service as tenants
from nac.tenants.standard_policy import give_standard_policy


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
) -> Tenant:
    """A tenant with slot, first site, certificate authorities and server certificate. In PlatformScope.

    It denies everything until a policy is assigned to its site; `has_policy`: the standard one is. `label` is of the
    cell. Enters the tenant.
    """
    tenant = tenants.create_tenant(session, actor=actor, slug=slug, msp_id=msp_id, name=name, label=label)
    if has_policy:
        give_standard_policy(session, actor=actor, tenant_id=tenant.id)
    # Last: these commit in between, and what is missing of them where a process dies is made by the worker.
    create_tenant_authorities(
        session, actor=actor, tenant_id=tenant.id, signing=signing, now=utc_now(), server_names=server_names
    )
    return tenant
