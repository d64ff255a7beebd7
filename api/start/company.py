"""Whose single sign-on somebody means who types the short name of an MSP or a tenant."""

from typing import NamedTuple
from urllib.parse import urlsplit

from nac.accounts.owners import Owner
from nac.accounts.places import find_msp, find_tenant
from nac.db import CredentialScope, MspScope, Scope, TenantScope, session_scope
from nac.errors import NotFound
from nac.sign_ons import repository
from nac.sign_ons import service as sign_ons

_LONGEST = 63


class NoSignOnHere(NotFound):
    """No company of this name signs in here by a provider of its own."""


class CompanySignOn(NamedTuple):
    # Path of this origin.
    begin: str
    # Host of its provider.
    provider: str


def company_sign_on(slug: str) -> CompanySignOn:
    """Raises NoSignOnHere, of a name that there is none of as well."""
    owner = _owner(slug)
    if owner is not None:
        with session_scope(_scope(owner)) as session:
            row = repository.get(session, owner)
        if row is not None:
            return CompanySignOn(f"/v1/sign-on/{row.id}/begin", urlsplit(sign_ons.settings_of(row).issuer).netloc)
    raise NoSignOnHere(remedy="Ask whoever looks after the network for the name, or sign in with your password.")


def _scope(owner: Owner) -> Scope:
    if owner.msp_id is not None:
        return MspScope(owner.msp_id)
    assert owner.tenant_id is not None
    return TenantScope(owner.tenant_id)


def _owner(slug: str) -> Owner | None:
    """An MSP before a tenant of the same name."""
    if not 1 <= len(slug) <= _LONGEST or "\0" in slug:
        return None
    with session_scope(CredentialScope("")) as session:
        if (msp := find_msp(session, slug)) is not None:
            return Owner(msp.msp_id)
        tenant = find_tenant(session, slug)
    return None if tenant is None else Owner(tenant_id=tenant.tenant_id)
