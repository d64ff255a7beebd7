"""The effect on the NASes of a cell while one tenant rotates its secret under load. The test logs the figures."""

import logging
import time

import pytest

from nac.inventory.endpoints import service as endpoints
from nac.kit.db import TenantScope, session_scope
from nac.tenancy.secret_rotations import service as rotations
from tests.agent.cell_process import running_cell, running_tenant
from tests.agent.steady_load import Load
from tests.factories.tenancy import ACTOR
from tests.polling import next_second, until
from tests.two_cells.mab import MAC, OPEN_POLICY
from tests.two_cells.test_secret_rotation import NEW, Rotating

log = logging.getLogger(__name__)


@pytest.mark.long
def test_rotation_drops_no_request(database, app_engine, tmp_path):
    with running_cell(database, tmp_path) as cell:
        alpha, bravo = (running_tenant(cell, app_engine, slug, policy=OPEN_POLICY) for slug in ("alpha", "bravo"))
        for tenant in (alpha, bravo):
            with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
                endpoints.create_endpoint(session, actor=ACTOR, tenant_id=tenant.id, mac=MAC)
            tenant.wait_live()
        subject = Rotating(cell, alpha)
        moments = {}
        with Load([alpha.server, bravo.server], MAC).running() as load:

            def step(name, function, **given) -> None:
                began = time.monotonic()
                subject.step(function, **given)
                alpha.wait_live()
                if name.startswith("begin"):
                    subject.wait_open()
                time.sleep(1.5)
                moments[name] = (began, time.monotonic())

            time.sleep(2)
            moments["before"] = (time.monotonic() - 2, time.monotonic())
            step("begin", rotations.start_rotation, sealer=subject.sealer, secret=NEW)
            next_second()
            load.change_over(alpha.server, NEW)
            until(lambda: subject.counts().get("new"), "they were heard with the new one", seconds=30)
            time.sleep(3)
            step("finish", rotations.finish_rotation, sealer=subject.sealer, leave_behind=True)
            step("begin again", rotations.start_rotation, sealer=subject.sealer)
            step("cancel", rotations.cancel_rotation, leave_behind=True)
            load.settle(time.monotonic())
        for name, (since, to) in moments.items():
            for whose, tenant in (("alpha", alpha), ("bravo", bravo)):
                figures = load.figures(tenant.server, since, to)
                log.info("%-12s %s: %s", name, whose, figures)
                assert (name, whose, figures.dropped) == (name, whose, 0)
