"""Shared parts of commands on tenants: settings, database, actor, and waiting for the cell."""

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import click
from sqlalchemy.orm import Session

from cli import environment
from cli.errors import Refused, describe_error
from cli.layout import NothingRuns, require_layout
from cli.supervisor import Supervisor
from nac.certificates.signing import SigningContext
from nac.kit.db import PlatformScope, TenantScope, make_engine, require_current_schema, session_scope
from nac.kit.errors import DatabaseUnavailable, NotLiveYet, SchemaTooOld
from nac.kit.ids import TenantId
from nac.kit.secrets import Sealer
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import service as tenants

# A cell uses a change within one second (ARCHITECTURE.md, promise 5), unless the cell is down.
_LIVE_SECONDS = 5
# The agent tests the new radiusd on other ports, then replaces the old radiusd in a quiet moment (up to 10 s).
_EXCHANGE_SECONDS = 30


class CommandContext:
    """Database and settings of this installation for a command. The database role is admit_app."""

    def __init__(self) -> None:
        self.settings = environment.load_into_process(required=("DATABASE_URL",))
        self._engine = make_engine(self.settings.database_url, pool_size=1, application_name="admit-cli")
        click.get_current_context().call_on_close(self._engine.dispose)
        self._require_database()
        self.actor = f"cli:{os.environ.get('SUDO_USER') or getpass.getuser()}"

    def _require_database(self) -> None:
        try:
            require_current_schema(self._engine)
        except SchemaTooOld as exc:
            exc.remedy = "Migrate the database first: ./admit up"
            raise
        except DatabaseUnavailable as exc:
            if not Supervisor(require_layout()).is_up():
                raise NothingRuns from exc
            raise Refused("The database does not respond.", remedy="See ./admit status and ./admit doctor.") from exc

    @cached_property
    def signing(self) -> SigningContext:
        return SigningContext.from_settings(self.settings)

    @property
    def sealer(self) -> Sealer:
        return self.signing.sealer

    @contextmanager
    def platform(self) -> Iterator[Session]:
        with session_scope(PlatformScope(), engine=self._engine) as session:
            yield session

    @contextmanager
    def tenant(self, slug: str, *, is_snapshot: bool = False) -> Iterator[tuple[Session, TenantId]]:
        """Open a database session in the scope of the tenant.

        See `session_scope` for `is_snapshot`.
        """
        with self.platform() as session:
            tenant_id = tenants.require_by_slug(session, slug=slug).id
        with session_scope(TenantScope(tenant_id), engine=self._engine, is_snapshot=is_snapshot) as session:
            yield session, tenant_id

    @contextmanager
    def change(self, slug: str) -> Iterator[tuple[Session, TenantId]]:
        """Open a session like `tenant`. After the block, waits until the tenant's cell uses the change."""
        with self.tenant(slug) as (session, tenant_id):
            yield session, tenant_id
            xact = cells.get_current_xact(session)
        self.await_live(tenant_id, xact)

    def await_exchange(self, slug: str) -> None:
        """Wait until radiusd runs with the new configuration. Prints a note on standard error after the timeout."""
        # Imported here because few commands need the agent's libraries.
        from cli.radiusd_exchange import NotInForceYet, wait_until_in_force

        with self.tenant(slug) as (session, tenant_id):
            cell_id = cells.require_slot(session, tenant_id=tenant_id).cell_id
        try:
            wait_until_in_force(self.settings, self.sealer, cell_id=cell_id, timeout_seconds=_EXCHANGE_SECONDS)
        except NotInForceYet as exc:
            click.echo(f"Note: {describe_error(exc)}", err=True)

    def await_live(self, tenant_id: TenantId, xact: str) -> None:
        """Wait until the cell confirms the stored change. Prints a note on standard error after the timeout."""
        try:
            cells.wait_until_live(
                TenantScope(tenant_id),
                tenant_id=tenant_id,
                xact=xact,
                timeout_seconds=_LIVE_SECONDS,
                engine=self._engine,
            )
        except NotLiveYet as exc:
            click.echo(f"Note: {describe_error(exc)}", err=True)
