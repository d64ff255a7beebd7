"""Options for commands on data of a tenant, an MSP or the platform."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from nac.core.access.owners import Owner
from nac.kit.errors import InvalidInput
from nac.tenancy.msps import service as msps

Command = TypeVar("Command", bound=Callable[..., Any])


def owner_options(command: Command) -> Command:
    """Add `--tenant` and `--msp`, whose values go to `owner_scope`."""
    command = click.option("--msp", metavar="SLUG", help="The MSP, including its tenants.")(command)
    return click.option("--tenant", "-t", metavar="SLUG", help="The tenant.")(command)


@contextmanager
def owner_scope(domain: CommandContext, *, tenant: str | None, msp: str | None) -> Iterator[tuple[Session, Owner]]:
    """Session and owner; the platform by default. Raises InvalidInput if both are set."""
    if tenant and msp:
        raise InvalidInput("--tenant and --msp exclude each other.", place="--msp", remedy="Use only one of them.")
    if tenant:
        with domain.tenant(tenant) as (session, tenant_id):
            yield session, Owner(tenant_id=tenant_id)
        return
    with domain.platform() as session:
        yield session, Owner(msps.require_by_slug(session, slug=msp).id) if msp else Owner()
