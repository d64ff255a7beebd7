"""The single sign-on of an MSP or tenant, found by its slug."""

from typing import NamedTuple
from urllib.parse import urlsplit

from nac.accounts.sign_ons import repository
from nac.accounts.sign_ons import service as sign_ons
from nac.core.access.owners import Owner
from nac.core.access.tenant_lookup import find_msp, find_tenant
from nac.kit.db import CredentialScope, MspScope, Scope, TenantScope, session_scope
from nac.kit.errors import NotFound

_MAX_SLUG_CHARACTERS = 63


class NoSignOnHere(NotFound):
    """No company with this name uses single sign-on."""


class CompanySignOn(NamedTuple):
    # Path on this origin.
    begin: str
    # Host name of the provider.
    provider: str


def find_company_sign_on(slug: str) -> CompanySignOn:
    """Single sign-on of the MSP or tenant. Raises NoSignOnHere if the slug is unknown or has none."""
    for owner in _find_owners(slug):
        with session_scope(_owner_scope(owner)) as session:
            row = repository.get(session, owner)
        if row is not None:
            return CompanySignOn(f"/v1/sign-on/{row.id}/begin", urlsplit(sign_ons.parse_settings(row).issuer).netloc)
    raise NoSignOnHere(remedy="Ask your network administrator for the name, or sign in with your password.")


def _owner_scope(owner: Owner) -> Scope:
    if owner.msp_id is not None:
        return MspScope(owner.msp_id)
    assert owner.tenant_id is not None
    return TenantScope(owner.tenant_id)


def _find_owners(slug: str) -> list[Owner]:
    """MSP and tenant with this slug. The MSP comes first; the tenant is used if the MSP has no provider."""
    if not 1 <= len(slug) <= _MAX_SLUG_CHARACTERS or "\0" in slug:
        return []
    with session_scope(CredentialScope("")) as session:
        msp, tenant = find_msp(session, slug), find_tenant(session, slug)
    found = [] if msp is None else [Owner(msp.msp_id)]
    return found if tenant is None else [*found, Owner(tenant_id=tenant.tenant_id)]
