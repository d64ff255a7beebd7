"""Rotation of a tenant's secret in a real cell with its agent, radiusd and database, and NASes of two tenants."""

import os
import signal
from dataclasses import replace

import pytest

from cli.demo.tools import RadiusServer, run_radclient
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.tenancy.secret_rotations import service as rotations
from nac.tenancy.tenants import moves
from tests.agent.cell_process import RunningCell, RunningTenant
from tests.factories.tenancy import ACTOR
from tests.polling import next_second, until
from tests.two_cells.mab import MAC, ask
from tests.two_cells.moves import MoveSteps

pytestmark = pytest.mark.early

NEW = "the-secret-that-is-to-come-01"


class Rotating:
    def __init__(self, cell: RunningCell, tenant: RunningTenant) -> None:
        self.tenant, self.sealer = tenant, cell.signing.sealer

    def step(self, function, **arguments):
        with session_scope(PlatformScope(), engine=self.tenant.engine) as session:
            return function(session, actor=ACTOR, tenant_id=self.tenant.id, **arguments)

    def status(self):
        with session_scope(TenantScope(self.tenant.id), engine=self.tenant.engine) as session:
            return rotations.require_status(session, tenant_id=self.tenant.id)

    def is_open(self) -> bool:
        return self.status().rotation.opened_at is not None

    def start(self) -> None:
        self.step(rotations.start_rotation, sealer=self.sealer, secret=NEW)

    def wait_open(self) -> None:
        until(self.is_open, "radiusd takes both")

    def counts(self):
        return self.status().counts

    @property
    def new(self) -> RadiusServer:
        return replace(self.tenant.server, secret=NEW)


def is_answered(server: RadiusServer, name: str = "sw-1", *, tries: int = 1) -> bool:
    return any(ask(server, nas=name, seconds=1) for _ in range(tries))


def accounts(server: RadiusServer, session_id: str) -> bool:
    told = (
        *(("User-Name", MAC), ("Calling-Station-Id", MAC), ("NAS-Identifier", "sw-1")),
        *(("Acct-Status-Type", "Start"), ("Acct-Session-Id", session_id)),
    )
    return any(run_radclient(server, "acct", told, timeout_seconds=1) is not None for _ in range(3))


def test_both_secrets_work_until_the_rotation_is_finished(cell, add_tenant):
    alpha, bravo = (add_tenant(name) for name in ("alpha", "bravo"))
    subject = Rotating(cell, alpha)
    old = alpha.server
    assert is_answered(old)
    subject.start()
    bravo_is_answered = []

    def is_open() -> bool:
        bravo_is_answered.append(is_answered(bravo.server, tries=3))
        return subject.is_open()

    until(is_open, "radiusd takes both")
    assert all(bravo_is_answered)
    assert is_answered(old, tries=3)
    assert is_answered(subject.new, tries=3)
    assert accounts(subject.new, "s-1")
    assert is_answered(bravo.server)
    assert not is_answered(replace(old, secret="a-secret-of-nobody-at-all"), tries=3)
    until(lambda: subject.counts() == {"new": 1}, "it was heard with the new one")
    served = cell.radiusds
    subject.step(rotations.finish_rotation, sealer=subject.sealer)
    alpha.wait_live()
    assert is_answered(subject.new, tries=3)
    next_second()
    assert not is_answered(old, tries=3)
    assert is_answered(bravo.server)
    assert cell.radiusds == served


@pytest.mark.long
def test_rotation_survives_a_crash_and_is_cancelled(cell, add_tenant):
    alpha = add_tenant()
    subject = Rotating(cell, alpha)
    subject.start()
    subject.wait_open()
    assert is_answered(subject.new, tries=3)
    served = cell.radiusds
    os.kill(int(served[-1]), signal.SIGKILL)
    until(lambda: len(cell.radiusds) > len(served), "another radiusd serves")
    assert is_answered(alpha.server, "sw-2", tries=3)
    assert is_answered(subject.new, tries=3)
    until(lambda: subject.counts() == {"new": 1, "old": 1}, "both were heard")
    with pytest.raises(rotations.NasesLeftBehind, match="sw-1"):
        subject.step(rotations.cancel_rotation)
    subject.step(rotations.cancel_rotation, leave_behind=True)
    alpha.wait_live()
    next_second()
    assert not is_answered(subject.new, tries=2)
    assert is_answered(alpha.server, tries=3)
    # The agent's health check of radiusd uses no secret of the tenant.
    os.kill(int(cell.radiusds[-1]), signal.SIGKILL)
    until(lambda: len(cell.radiusds) > len(served) + 1, "another radiusd serves")
    assert is_answered(alpha.server, tries=3)


@pytest.mark.long
def test_rotation_follows_a_tenant_that_moves(cell, add_tenant):
    """The rotation begins when the other cell is already prepared.

    The move waits until that cell accepts the two secrets.
    """
    alpha = add_tenant()
    subject, move = Rotating(cell, alpha), MoveSteps(cell, alpha)
    after = move.prepare()
    move.wait_ready()
    subject.start()
    with pytest.raises(moves.NotReadyYet):
        move.step(moves.switch_move, sealer=move.sealer)
    move.switch()
    alpha.wait_live()
    assert is_answered(after, tries=3)
    assert is_answered(replace(after, secret=NEW), tries=3)
    until(lambda: subject.counts() == {"new": 1}, "it was heard with the new one, in the other cell")
    subject.step(rotations.finish_rotation, sealer=subject.sealer)
    alpha.wait_live()
    next_second()
    assert is_answered(replace(after, secret=NEW), tries=3)
    assert not is_answered(after, tries=2)
    # After the move back, the new secret still works.
    move.step(moves.cancel_move)
    alpha.wait_live()
    assert is_answered(subject.new, tries=3)
    next_second()
    assert not is_answered(alpha.server, tries=2)
