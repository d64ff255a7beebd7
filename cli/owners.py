"""Of commands about what a tenant, an MSP or the platform has: whose it is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from sqlalchemy.orm import Session

from cli.domain import Domain
from nac.accounts.owners import Owner
from nac.errors import InvalidInput
from nac.msps import service as msps

Command = TypeVar("Command", bound=Callable[..., Any])


def owner_options(command: Command) -> Command:
    """`--tenant` and `--msp`, to be handed on to `owner_scope`."""
    command = click.option("--msp", metavar="SLUG", help="Of this MSP and its tenants.")(command)
    return click.option("--tenant", "-t", metavar="SLUG", help="Of this tenant alone.")(command)


@contextmanager
def owner_scope(domain: Domain, *, tenant: str | None, msp: str | None) -> Iterator[tuple[Session, Owner]]:
    """The platform's, where neither is named. Raises InvalidInput where both are."""
    if tenant and msp:
        raise InvalidInput("It is of a tenant or of an MSP.", place="--msp", remedy="Remove one of them.")
    if tenant:
        with domain.tenant(tenant) as (session, tenant_id):
            yield session, Owner(tenant_id=tenant_id)
        return
    with domain.platform() as session:
        yield session, Owner(msps.require_by_slug(session, slug=msp).id) if msp else Owner()
