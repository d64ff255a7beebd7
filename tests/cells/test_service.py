import hashlib
import threading
import zlib
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import Engine, Text, cast, func, select, update

from nac.kit.clock import utc_now
from nac.kit.db import CellScope, PlatformScope, TenantScope, session_scope
from nac.kit.errors import CellTaken, Conflict, NotLiveYet, TenantHasNoCell
from nac.kit.ids import CellId, TenantId
from nac.models import Cell, Slot
from nac.onboarding import tenant_purge
from nac.tenancy import sites
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import service as tenants
from tests.factories.tenancy import ACTOR, Platform, make_cell, make_platform, make_tenant, seal
from tests.factories.tenant_fixtures import tenant, tenant_id

__all__ = ["tenant", "tenant_id"]


def _slots(cell_engine: Engine, cell_id: CellId) -> list[Slot]:
    with session_scope(CellScope(cell_id), engine=cell_engine) as session:
        return list(session.scalars(select(Slot).order_by(Slot.number)))


def _ensure(cell_engine: Engine, cell_id: CellId, count: int, first_port: int = 18120) -> None:
    with session_scope(CellScope(cell_id), engine=cell_engine) as session:
        cells.ensure_slots(session, cell_id=cell_id, count=count, first_port=first_port, seal=seal)


def _register(cell_engine: Engine, host: str) -> CellId:
    with session_scope(CellScope(cells.UNREGISTERED_CELL), engine=cell_engine) as session:
        return cells.register_cell(session, name="cell-1", host=host)


def _report(cell_engine: Engine, cell_id: CellId, host: str) -> None:
    with session_scope(CellScope(cell_id), engine=cell_engine) as session:
        cells.report_cell(session, cell_id=cell_id, host=host, counters={}, alarms=[])


def _hosts(app_engine: Engine) -> list[str]:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        return [cell.host for cell in cells.list_cells(session)]


def _silence(owner_engine: Engine, seconds: int) -> None:
    with owner_engine.begin() as connection:
        connection.execute(update(Cell).values(agent_seen_at=utc_now() - timedelta(seconds=seconds)))


def test_cell_moves_to_another_host_only_from_a_silent_agent(cell_engine, app_engine, owner_engine):
    cell_id = _register(cell_engine, "host-1")
    assert _register(cell_engine, "host-1") == cell_id
    with pytest.raises(CellTaken, match=r"Host host-1 already serves cell 'cell-1'\. Set another name"):
        _register(cell_engine, "host-2")
    _silence(owner_engine, cells.SILENT_SECONDS - 10)
    with pytest.raises(CellTaken):
        _register(cell_engine, "host-2")
    _report(cell_engine, cell_id, "host-1")
    assert _hosts(app_engine) == ["host-1"]
    _silence(owner_engine, cells.SILENT_SECONDS + 1)
    assert _register(cell_engine, "host-2") == cell_id
    with pytest.raises(CellTaken, match="Host host-2 already serves"):
        _report(cell_engine, cell_id, "host-1")
    with pytest.raises(CellTaken):
        _register(cell_engine, "host-1")


def test_cleanly_stopped_cell_is_taken_over_at_once(cell_engine, app_engine):
    cell_id = _register(cell_engine, "host-1")
    for host in ("host-2", "host-1"):
        with session_scope(CellScope(cell_id), engine=cell_engine) as session:
            cells.leave_cell(session, cell_id=cell_id, host=host)
    assert _register(cell_engine, "host-2") == cell_id
    assert _hosts(app_engine) == ["host-2"]


def test_slots_get_their_own_ports_and_secrets(cell_engine):
    slots = _slots(cell_engine, make_cell(cell_engine, slots=3, first_port=20000))
    ports = [(slot.number, slot.auth_port, slot.acct_port) for slot in slots]
    assert ports == [(0, 20000, 20001), (1, 20002, 20003), (2, 20004, 20005)]
    secrets = set()
    for slot in slots:
        context, secret = slot.secret_sealed.split(b"|", 1)
        assert context == f"slot:{slot.id}".encode()
        assert len(secret) == 32
        secrets.add(secret)
    assert len(secrets) == 3


def test_ensured_slots_keep_secrets_and_follow_ports(cell_engine):
    cell_id = make_cell(cell_engine, slots=2)
    before = [slot.secret_sealed for slot in _slots(cell_engine, cell_id)]
    _ensure(cell_engine, cell_id, 3, first_port=30000)
    after = _slots(cell_engine, cell_id)
    assert [slot.secret_sealed for slot in after[:2]] == before
    assert [slot.auth_port for slot in after] == [30000, 30002, 30004]


def test_fewer_slots_retire_free_ones_and_reject_used_ones(app_engine, cell_engine):
    platform = make_platform(app_engine, cell_engine, slots=3)
    make_tenant(app_engine, platform, "alpha")
    _ensure(cell_engine, platform.cell_id, 1)
    assert [slot.status for slot in _slots(cell_engine, platform.cell_id)] == ["assigned", "retired", "retired"]
    with pytest.raises(Conflict, match="Start the cell with at least 1 slots"):
        _ensure(cell_engine, platform.cell_id, 0)


def test_retired_slots_return_with_new_secrets(app_engine, cell_engine):
    platform = make_platform(app_engine, cell_engine, slots=1)
    tenant = make_tenant(app_engine, platform, "alpha")
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenants.delete_tenant(session, actor=ACTOR, tenant_id=tenant.id)
        tenant_purge.purge_tenant(session, actor=ACTOR, tenant_id=tenant.id)
    old = _slots(cell_engine, platform.cell_id)[0].secret_sealed
    with session_scope(CellScope(platform.cell_id), engine=cell_engine) as session:
        renewed = cells.renew_retired_slots(session, cell_id=platform.cell_id, count=1, seal=seal)
    slot = _slots(cell_engine, platform.cell_id)[0]
    assert (renewed, slot.status) == ([0], "retired")
    assert slot.secret_sealed != old
    with session_scope(CellScope(platform.cell_id), engine=cell_engine) as session:
        cells.mark_slots_free(session, cell_id=platform.cell_id, numbers=renewed)
    assert _slots(cell_engine, platform.cell_id)[0].status == "free"


def test_cell_dictionary_is_loaded_for_its_tenant(app_engine, cell_engine, platform, tenant_id):
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        assert cells.load_dictionary(session, tenant_id=tenant_id) is None
    content = b'{"attributes": []}'
    for _ in range(2):
        with session_scope(CellScope(platform.cell_id), engine=cell_engine) as session:
            digest = cells.upload_dictionary(session, cell_id=platform.cell_id, content=content, server_version="3.2.7")
            assert digest == hashlib.sha256(zlib.compress(content)).digest()
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        assert cells.load_dictionary(session, tenant_id=tenant_id) == content


def _report_position(cell_engine: Engine, platform: Platform) -> None:
    with session_scope(CellScope(platform.cell_id), engine=cell_engine) as session:
        position = session.scalar(select(cast(func.pg_current_snapshot(), Text)))
        session.execute(update(Cell).values(replica_position=position))


def _change(app_engine: Engine, tenant_id: TenantId, slug: str) -> str:
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        sites.create_site(session, actor=ACTOR, tenant_id=tenant_id, slug=slug)
        return cells.get_current_xact(session)


def test_change_is_live_once_the_cell_has_read_it(app_engine, cell_engine, platform, tenant_id):
    xact = _change(app_engine, tenant_id, "one")
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        assert cells.is_live(session, tenant_id=tenant_id, xact=xact) is False
    _report_position(cell_engine, platform)
    later = _change(app_engine, tenant_id, "two")
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        assert cells.is_live(session, tenant_id=tenant_id, xact=xact) is True
        assert cells.is_live(session, tenant_id=tenant_id, xact=later) is False


def test_waiting_ends_on_confirmation_or_times_out(app_engine, cell_engine, platform, tenant_id):
    xact = _change(app_engine, tenant_id, "one")
    wait = {"tenant_id": tenant_id, "xact": xact, "engine": app_engine}
    with pytest.raises(NotLiveYet):
        cells.wait_until_live(TenantScope(tenant_id), **wait, timeout_seconds=0.1)
    agent = threading.Timer(0.2, _report_position, [cell_engine, platform])
    agent.start()
    cells.wait_until_live(TenantScope(tenant_id), **wait, timeout_seconds=10)
    agent.join()


def test_cells_are_notified_of_an_awaited_change(app_engine, tenant_id):
    # No trigger notifies the cell, because none of its rows changes.
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        xact = cells.get_current_xact(session)
    url = app_engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    wait = {"tenant_id": tenant_id, "xact": xact, "engine": app_engine}
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute("LISTEN replica_changes")
        with pytest.raises(NotLiveYet):
            cells.wait_until_live(TenantScope(tenant_id), **wait, timeout_seconds=0.5)
        assert len(list(listener.notifies(timeout=5, stop_after=1))) == 1


def test_liveness_of_a_tenant_without_cell_is_an_error(app_engine, tenant_id):
    with session_scope(PlatformScope(), engine=app_engine) as session:
        cells.release_slot(session, tenant_id=tenant_id)
        with pytest.raises(TenantHasNoCell):
            cells.is_live(session, tenant_id=tenant_id, xact="1")
