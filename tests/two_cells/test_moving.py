"""A tenant moves between two real cells and back, with two agents, two radiusds and one database."""

import time

import pytest
from sqlalchemy import func, select

from cli.demo.tools import run_radclient
from nac.inventory.endpoints import service as endpoints
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import Conflict
from nac.models import AccountingLog, AuthLog, QuarantinedRecord, RadiusSession
from nac.tenancy import sites
from nac.tenancy.nases import service as nases
from nac.tenancy.tenants import moves
from tests.factories.tenancy import ACTOR
from tests.polling import until
from tests.two_cells.mab import MAC
from tests.two_cells.moves import MoveSteps, permit_known

pytestmark = pytest.mark.early

_OWN_SECRET = "the-nas-has-one-of-its-own"


def test_moved_tenant_keeps_sessions_and_accounting(cells, add_tenant, app_engine, owner_engine):
    one, other = cells
    tenant = add_tenant()
    subject = MoveSteps(one, tenant)
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        endpoints.create_endpoint(session, actor=ACTOR, tenant_id=tenant.id, mac=MAC)
        nases.create_nas(
            session,
            actor=ACTOR,
            tenant_id=tenant.id,
            site_id=sites.require_by_slug(session, tenant_id=tenant.id, slug="main").id,
            name="own",
            address="127.0.0.9",
            secret=_OWN_SECRET,
            seal=one.signing.sealer.seal,
        )
        permit_known(session, tenant.id)
    tenant.wait_live()
    before = tenant.server
    assert subject.is_admitted(before)
    assert subject.account(before, "Start", "s-1")

    after = subject.prepare()
    assert not subject.is_admitted(after)
    assert subject.is_admitted(before)

    subject.wait_ready()
    served = other.radiusds
    subject.switch()
    switched = time.monotonic()
    tenant.wait_live()
    took = time.monotonic() - switched
    assert subject.is_admitted(after), f"{took:.2f} s after the switch"
    until(lambda: not subject.is_admitted(before), "the cell before answers no more")
    assert run_radclient(before, "auth", (("User-Name", "x"), ("User-Password", "x")), timeout_seconds=1) is None
    assert not subject.account(before, "Stop", "s-1", seconds=1)
    assert subject.account(after, "Stop", "s-1")
    ended = select(func.count()).select_from(RadiusSession).where(RadiusSession.stopped_at.is_not(None))
    until(lambda: subject.count(ended) == 1, "the session of the one cell is ended in the other")
    assert subject.count(select(func.count()).select_from(RadiusSession)) == 1

    # The new cell has the tenant's configuration, including the secrets of single NASes.
    assert other.radiusds == served
    # The move back takes equally little time.
    subject.step(moves.cancel_move)
    tenant.wait_live()
    assert subject.is_admitted(before)
    until(lambda: not subject.is_admitted(after), "the cell after answers no more")

    after = subject.prepare()
    subject.switch()
    tenant.wait_live()
    assert subject.is_admitted(after)
    subject.step(moves.finish_move)
    with pytest.raises(Conflict, match="already in this cell"):
        subject.step(moves.prepare_move, cell="cell-2", sealer=subject.sealer)
    accounted = select(func.count()).select_from(AccountingLog)
    until(lambda: subject.count(accounted) == 2, "both records are told, once")
    with owner_engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(QuarantinedRecord)) == 0
    assert subject.count(select(func.count()).select_from(AuthLog)) >= 4
