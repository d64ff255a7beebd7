"""Removes the demo's tenants, whatever a person has made of them, so that `seed` makes them anew."""

import shutil

from cli.demo.seed import MSP, TENANTS
from cli.domain import Domain
from nac.msps import service as msps
from nac.tenants import service as tenants


def remove_tenants(domain: Domain) -> None:
    """Those of the demo's MSP; a tenant of that name that is another MSP's stays."""
    for slug in TENANTS:
        if _is_ours(domain, slug):
            with domain.tenant(slug) as (session, tenant_id):
                tenants.delete_tenant(session, actor=domain.actor, tenant_id=tenant_id)
            with domain.platform() as session:
                tenants.purge_tenant(session, actor=domain.actor, tenant_id=tenant_id)
            # Passwords, keys and certificates of what is gone.
            shutil.rmtree(domain.settings.var_dir / "demo" / slug, ignore_errors=True)


def _is_ours(domain: Domain, slug: str) -> bool:
    with domain.platform() as session:
        try:
            return tenants.require_by_slug(session, slug=slug).msp_id == msps.require_by_slug(session, slug=MSP).id
        except (tenants.TenantNotFound, msps.MspNotFound):
            return False
