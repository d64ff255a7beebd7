"""The steps that move a tenant between two cells, and the responses to the tenant's NASes."""

from dataclasses import replace

from cli.demo.tools import RadiusServer, run_radclient
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.onboarding.provisioning import STANDARD_DOCUMENT
from nac.policies import service as policies
from nac.tenancy.tenants import moves
from tests.agent.cell_process import RunningCell, RunningTenant
from tests.factories.tenancy import ACTOR
from tests.polling import until
from tests.two_cells.mab import MAC, ask


class MoveSteps:
    def __init__(self, cell: RunningCell, tenant: RunningTenant) -> None:
        self.tenant = tenant
        self.sealer = cell.signing.sealer

    def step(self, function, **arguments) -> moves.MoveStatus:
        with session_scope(PlatformScope(), engine=self.tenant.engine) as session:
            return function(session, actor=ACTOR, tenant_id=self.tenant.id, **arguments)

    def prepare(self) -> RadiusServer:
        """Prepare the move to the other cell. Returns the tenant's server in that cell."""
        prepared = self.step(moves.prepare_move, cell="cell-2", sealer=self.sealer)
        assert (prepared.before.cell, prepared.after.cell) == ("cell-1", "cell-2")
        return replace(self.tenant.server, auth_port=prepared.after.auth_port, acct_port=prepared.after.acct_port)

    def wait_ready(self) -> None:
        until(lambda: self.status().is_ready, "radiusd of the new cell answers with the secret")

    def switch(self) -> None:
        self.wait_ready()
        self.step(moves.switch_move, sealer=self.sealer)

    def status(self) -> moves.MoveStatus:
        with session_scope(PlatformScope(), engine=self.tenant.engine) as session:
            moves.enter_tenant(session, self.tenant.id)
            return moves.require_move(session, tenant_id=self.tenant.id)

    def is_admitted(self, server: RadiusServer) -> bool:
        return ask(server, seconds=1) == "Access-Accept"

    def account(self, server: RadiusServer, status: str, session_id: str, *, seconds: int = 5) -> bool:
        """Send an accounting request once. Returns whether it was acknowledged."""
        told = (
            ("User-Name", MAC),
            ("Calling-Station-Id", MAC),
            ("NAS-Identifier", "sw"),
            ("Acct-Status-Type", status),
            ("Acct-Session-Id", session_id),
            ("Acct-Session-Time", "60"),
        )
        return run_radclient(server, "acct", told, timeout_seconds=seconds) is not None

    def count(self, query) -> int:
        with session_scope(TenantScope(self.tenant.id), engine=self.tenant.engine) as session:
            return session.scalars(query).one()


def permit_known(session, tenant_id) -> None:
    named = {"actor": ACTOR, "tenant_id": tenant_id, "slug": "certificates"}
    policies.save_draft(session, document=STANDARD_DOCUMENT, **named)
    policies.publish_policy(session, **named)
