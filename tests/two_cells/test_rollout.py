"""A rollout at a real cell rejects devices, stops, and is reverted."""

from collections.abc import Callable

import pytest
from sqlalchemy import func, select, update

from nac.inventory.endpoints import service as endpoints
from nac.kit.clock import utc_now
from nac.kit.db import MspScope, TenantScope, session_scope
from nac.kit.ids import MspId
from nac.kit.permissions import Permission
from nac.models import AuthLog, Job, Rollout, Tenant
from nac.onboarding.templates import rollouts, service
from nac.onboarding.templates.rollouts import RolloutStage
from tests.agent.cell_process import RunningTenant
from tests.factories.tenancy import ACTOR
from tests.job_runs import run_next
from tests.polling import until
from tests.two_cells.mab import OPEN_POLICY, ask

pytestmark = pytest.mark.early

_MACS = [f"00:00:5e:00:53:{number:02x}" for number in range(12)]


def ask_all(tenant: RunningTenant) -> set[str]:
    tenant.wait_live()
    return {ask(tenant.server, mac) for mac in _MACS}


def test_rollout_that_rejects_devices_is_rolled_back(cell, add_tenant, app_engine, worker_engine, owner_engine) -> None:
    tenant = add_tenant(policy=OPEN_POLICY)
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        for mac in _MACS:
            endpoints.create_endpoint(session, actor=ACTOR, tenant_id=tenant.id, mac=mac)
        msp_id = MspId(session.get_one(Tenant, tenant.id).msp_id)

    def heard(permitted: bool) -> int:
        query = select(func.count()).select_from(AuthLog).where(AuthLog.permitted == permitted)
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            return session.scalars(query).one()

    def do(function: Callable, **given):
        with session_scope(MspScope(msp_id), engine=app_engine) as session:
            return function(session, actor=ACTOR, msp_id=msp_id, **given)

    def work() -> None:
        with owner_engine.begin() as connection:
            connection.execute(update(Job).values(due_at=utc_now()))
        sealer = cell.signing.sealer
        handlers = {rollouts.JOB_KIND: rollouts.ROLLOUT_HANDLER}
        while run_next(handlers, unseal=sealer.open, app_engine=app_engine, engine=worker_engine):
            pass

    def state() -> tuple[str, str]:
        with session_scope(MspScope(msp_id), engine=app_engine) as session:
            row = session.get_one(Rollout, rollout_id)
            return row.state, row.detail

    assert ask_all(tenant) == {"Access-Accept"}
    until(lambda: heard(True) == len(_MACS), "decisions are in the log")

    document = {"policies": [{"slug": "certificates", "document": {"rules": [], "fallback": {"verdict": "deny"}}}]}
    do(service.create_template, slug="school")
    do(service.save_version, slug="school", document=document)
    do(service.follow_template, slug="school", tenant=tenant.slug, held=lambda _: frozenset(Permission))
    rollout_id = do(
        rollouts.start_rollout,
        slug="school",
        number=1,
        stages=[RolloutStage(30, share=100)],
        most_moved=0.05,
        back_when_moved=True,
        held=lambda _: frozenset(Permission),
        seal=cell.signing.sealer.seal,
    ).id
    work()
    assert state() == ("running", "")
    assert ask_all(tenant) == {"Access-Reject"}
    until(lambda: heard(False) == len(_MACS), "rejects are in the log")
    work()
    assert state() == (
        "rolled-back",
        f"At tenant '{tenant.slug}', 12 of 12 devices were rejected after the update, compared with 0 of 12 before.",
    )
    assert ask_all(tenant) == {"Access-Accept"}
