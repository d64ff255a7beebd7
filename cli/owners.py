"""What commands about things of a tenant, of an MSP or of the platform share."""

from collections.abc import Iterator
from contextlib import contextmanager

import click
from sqlalchemy.orm import Session

from cli.domain import Domain
from nac.accounts.owners import Owner
from nac.errors import InvalidInput
from nac.msps import service as msps

tenant_option = click.option("--tenant", "-t", metavar="SLUG", help="Of this tenant alone.")
msp_option = click.option("--msp", metavar="SLUG", help="Of this MSP and its tenants.")


@contextmanager
def owner_scope(domain: Domain, tenant: str | None, msp: str | None) -> Iterator[tuple[Session, Owner]]:
    """A session that sees the owner's; raises InvalidInput where both are given."""
    if tenant and msp:
        raise InvalidInput("It is of a tenant or of an MSP.", place="--msp", remedy="Leave one of them out.")
    if tenant:
        with domain.tenant(tenant) as (session, tenant_id):
            yield session, Owner(tenant_id=tenant_id)
        return
    with domain.platform() as session:
        yield session, Owner(msps.require_by_slug(session, slug=msp).id) if msp else Owner()
