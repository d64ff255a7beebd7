"""A tenant goes from one real cell to another and back: agents and radiusds of both, one database."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import func, select

from cli.demo.tools import Server, radclient
from nac.db import PlatformScope, TenantScope, session_scope
from nac.endpoints import service as endpoints
from nac.errors import Conflict
from nac.models import AccountingLog, AuthLog, QuarantinedRecord, RadiusSession
from nac.nases import service as nases
from nac.policies import service as policies
from nac.sites import service as sites
from nac.tenants import moving
from nac.tenants.standard_policy import DOCUMENT
from tests.agent.running import RunningCell, RunningTenant, running_cell, running_tenant
from tests.factories.tenancy import ACTOR
from tests.postgres import Database
from tests.waiting import until

pytestmark = pytest.mark.early

MAC = "00:00:5e:00:53:01"
_OWN_SECRET = "the-nas-has-one-of-its-own"


@contextmanager
def two_cells(database: Database, folder) -> Iterator[tuple[RunningCell, RunningCell]]:
    (first, second) = (folder / "first", folder / "second")
    first.mkdir()
    second.mkdir()
    with running_cell(database, first, CELL_NAME="cell-1") as one:
        key = str(first / "master.key")
        with running_cell(database, second, CELL_NAME="cell-2", MASTER_KEY_FILE=key) as other:
            yield one, other


class Moving:
    """The steps of an operator, and what NASes of the tenant are answered."""

    def __init__(self, cell: RunningCell, tenant: RunningTenant) -> None:
        self.tenant = tenant
        self.sealer = cell.signing.sealer

    def step(self, function, **arguments) -> moving.MoveStatus:
        with session_scope(PlatformScope(), engine=self.tenant.engine) as session:
            return function(session, actor=ACTOR, tenant_id=self.tenant.id, **arguments)

    def switch(self) -> None:
        until(lambda: self.status().is_ready, "radiusd of the new cell answers with the secret")
        self.step(moving.switch_move, sealer=self.sealer)

    def status(self) -> moving.MoveStatus:
        with session_scope(PlatformScope(), engine=self.tenant.engine) as session:
            moving.enter_tenant(session, self.tenant.id)
            return moving.require_move(session, tenant_id=self.tenant.id)

    def at(self, place: moving.Place) -> Server:
        return replace(self.tenant.server, auth_port=place.auth_port, acct_port=place.acct_port)

    def is_admitted(self, server: Server) -> bool:
        asked = (("User-Name", MAC), ("User-Password", MAC), ("Calling-Station-Id", MAC), ("NAS-Identifier", "sw"))
        answer = radclient(server, "auth", asked, timeout_seconds=1)
        assert answer is None or answer.code == "Access-Reject" or answer.code == "Access-Accept"
        return answer is not None and answer.code == "Access-Accept"

    def account(self, server: Server, status: str, session_id: str) -> bool:
        told = (
            ("User-Name", MAC),
            ("Calling-Station-Id", MAC),
            ("NAS-Identifier", "sw"),
            ("Acct-Status-Type", status),
            ("Acct-Session-Id", session_id),
            ("Acct-Session-Time", "60"),
        )
        return radclient(server, "acct", told, timeout_seconds=1) is not None

    def count(self, query) -> int:
        with session_scope(TenantScope(self.tenant.id), engine=self.tenant.engine) as session:
            return session.scalars(query).one()


def test_tenant_moves_and_its_sessions_and_accounting_go_on(database, app_engine, owner_engine, tmp_path):
    with two_cells(database, tmp_path) as (one, other):
        # Of two with as many free slots the first one is taken.
        tenant = running_tenant(one, app_engine, "alpha")
        subject = Moving(one, tenant)
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            endpoints.add_endpoint(session, actor=ACTOR, tenant_id=tenant.id, mac=MAC)
            nases.add_nas(
                session,
                actor=ACTOR,
                tenant_id=tenant.id,
                site_id=sites.require_by_slug(session, tenant_id=tenant.id, slug="main").id,
                name="own",
                address="127.0.0.9",
                secret=_OWN_SECRET,
                seal=one.signing.sealer.seal,
            )
            _permit_known(session, tenant.id)
        tenant.wait_live()
        before = tenant.server
        assert subject.is_admitted(before)
        assert subject.account(before, "Start", "s-1")

        prepared = subject.step(moving.prepare_move, cell="cell-2", sealer=subject.sealer)
        after = subject.at(prepared.after)
        assert (prepared.before.cell, prepared.after.cell) == ("cell-1", "cell-2")
        assert not subject.is_admitted(after)
        assert subject.is_admitted(before)

        until(lambda: subject.status().is_ready, "radiusd of the new cell answers with the secret")
        served = other.radiusds
        subject.switch()
        switched = time.monotonic()
        tenant.wait_live()
        took = time.monotonic() - switched
        assert subject.is_admitted(after), f"{took:.2f} s after the switch"
        until(lambda: not subject.is_admitted(before), "the cell before answers no more")
        assert radclient(before, "auth", (("User-Name", "x"), ("User-Password", "x")), timeout_seconds=1) is None
        assert not subject.account(before, "Stop", "s-1")
        assert subject.account(after, "Stop", "s-1")
        ended = select(func.count()).select_from(RadiusSession).where(RadiusSession.stopped_at.is_not(None))
        until(lambda: subject.count(ended) == 1, "the session of the one cell is ended in the other")
        assert subject.count(select(func.count()).select_from(RadiusSession)) == 1

        # It was configured with what the tenant has, secrets of single NASes included.
        assert other.radiusds == served
        # The way back is as short.
        subject.step(moving.cancel_move)
        tenant.wait_live()
        assert subject.is_admitted(before)
        until(lambda: not subject.is_admitted(after), "the cell after answers no more")

        again = subject.step(moving.prepare_move, cell="cell-2", sealer=subject.sealer)
        after = subject.at(again.after)
        subject.switch()
        tenant.wait_live()
        assert subject.is_admitted(after)
        subject.step(moving.finish_move)
        with pytest.raises(Conflict, match="in this cell already"):
            subject.step(moving.prepare_move, cell="cell-2", sealer=subject.sealer)
        accounted = select(func.count()).select_from(AccountingLog)
        until(lambda: subject.count(accounted) == 2, "both records are told, once")
        with owner_engine.connect() as connection:
            assert connection.scalar(select(func.count()).select_from(QuarantinedRecord)) == 0
        assert subject.count(select(func.count()).select_from(AuthLog)) >= 4


def _permit_known(session, tenant_id) -> None:
    named = {"actor": ACTOR, "tenant_id": tenant_id, "slug": "certificates"}
    policies.save_draft(session, document=DOCUMENT, **named)
    policies.publish_policy(session, **named)
