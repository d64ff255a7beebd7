"""Deletes the demo's tenants, so that `seed` creates them again."""

import shutil

from cli.command_context import CommandContext
from cli.demo.seed import MSP, TENANTS
from nac.onboarding import tenant_purge
from nac.tenancy.msps import service as msps
from nac.tenancy.tenants import service as tenants


def remove_tenants(domain: CommandContext) -> None:
    """Delete the demo MSP's tenants. Tenants of other MSPs with the same names stay."""
    for slug in TENANTS:
        if _is_ours(domain, slug):
            with domain.tenant(slug) as (session, tenant_id):
                tenants.delete_tenant(session, actor=domain.actor, tenant_id=tenant_id)
            with domain.platform() as session:
                tenant_purge.purge_tenant(session, actor=domain.actor, tenant_id=tenant_id)
            # Passwords, keys and certificates of the deleted tenants.
            shutil.rmtree(domain.settings.var_dir / "demo" / slug, ignore_errors=True)


def _is_ours(domain: CommandContext, slug: str) -> bool:
    with domain.platform() as session:
        try:
            return tenants.require_by_slug(session, slug=slug).msp_id == msps.require_by_slug(session, slug=MSP).id
        except (tenants.TenantNotFound, msps.MspNotFound):
            return False
