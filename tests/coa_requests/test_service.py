"""CoA requests for live sessions: selection of sessions, kinds, rate and audit."""

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.inbox import InboxDecision, classify_endpoints
from nac.inventory.endpoints.repository import EndpointCriteria
from nac.kit.clock import utc_now
from nac.kit.db import CellScope, TenantScope, session_scope
from nac.kit.errors import Conflict, InvalidInput, NotFound, ScopeViolation, SeveralMistakes
from nac.models import AuditEntry, CoaRequest, Endpoint, Nas, RadiusSession
from nac.onboarding.imports.endpoint_file import MAX_ROWS, import_endpoints
from nac.sessions.coa_requests import request_queue, service
from nac.sessions.coa_requests.error_causes import ERROR_CAUSES, explain_error_cause
from nac.tenancy.cells import service as cells
from tests.factories.dictionary import give_dictionary
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR
from tests.factories.tenant_fixtures import two_tenants

__all__ = ["two_tenants"]

MAC, OTHER = "00a0c0000001", "00a0c0000002"


@pytest.fixture
def scoped(app_engine: Engine, two_tenants):
    def scoped(tenant: int = 0):
        return session_scope(TenantScope(two_tenants[tenant]), engine=app_engine)

    return scoped


@pytest.fixture
def live(owner_engine: Engine, two_tenants):
    """Return the id of a live session."""

    def live(mac=MAC, *, user="anna", tenant=0, **more) -> int:
        values = {"mac": mac, "mac_key": mac, "identity": user, "started_at": utc_now(), "flags": []}
        values["nas_key"] = "switch|192.0.2.1"
        absent = dict.fromkeys(("site_id", "nas_id", "nas_address", "framed_ip", "stopped_at"))
        with Session(owner_engine) as session, session.begin():
            place = {"tenant_id": two_tenants[tenant], "updated_at": utc_now(), "session_id": f"s-{mac}-{user}"}
            row = RadiusSession(**place, **(values | absent | more))
            session.add(row)
            session.flush()
            return row.id

    return live


@pytest.fixture
def given(two_tenants):
    return {"actor": ACTOR, "tenant_id": two_tenants[0]}


@pytest.fixture
def request_coa(scoped, given):
    def request_coa(kind="disconnect", **wanted):
        with scoped() as session:
            found = service.create_requests(session, kind=kind, **wanted, **given)
            return [request.session_row for request in found]

    return request_coa


def waiting_requests(session: Session) -> set[tuple[str, str]]:
    rows = session.scalars(select(CoaRequest).where(CoaRequest.state == "queued"))
    return {(row.mac or "", row.reason) for row in rows}


def test_matching_sessions_are_requested_once_at_a_time(request_coa, live, scoped, two_tenants):
    one, two = live(), live(OTHER)
    live(OTHER, user="bert", stopped_at=utc_now())
    live(tenant=1)
    assert request_coa(mac="00-A0-C0-00-00-01") == [one]
    assert request_coa(row=two) == [two]
    with pytest.raises(service.NoLiveSession):
        request_coa(row=two, mac=MAC)
    assert request_coa(user="ANNA") == [one, two]
    assert request_coa("bounce", user="anna") == [one, two]
    with scoped() as session:
        requests = service.list_requests(session, tenant_id=two_tenants[0])
        asked = [(request.kind, request.session_row) for request in requests]
        assert asked == [("bounce", two), ("bounce", one), ("disconnect", two), ("disconnect", one)]
        newest = requests[0]
        assert (newest.state, newest.reason, newest.requested_by) == ("queued", "requested", ACTOR)
        assert (newest.mac, newest.identity, newest.nas_key) == (OTHER, "anna", "switch|192.0.2.1")
        # The cell sends the request at once, because it has no earlier change to apply.
        assert newest.after_xact is None
        entries = session.scalars(
            select(AuditEntry).where(AuditEntry.action.like("session.%")).order_by(AuditEntry.id)
        ).all()
        assert [(entry.action, entry.target) for entry in entries] == [
            ("session.disconnect", "mac 00-A0-C0-00-00-01"),
            ("session.disconnect", f"session {two}"),
            ("session.disconnect", "user ANNA"),
            ("session.bounce", "user anna"),
        ]


def test_requests_of_a_nas_are_listed(request_coa, live, scoped, two_tenants, owner_engine):
    with Session(owner_engine) as session, session.begin():
        known = make_row(session, Nas.__table__, two_tenants[0], name="Switch 3", address="192.0.2.3")
    live(nas_id=known["id"], user="anna", nas_key="s3|192.0.2.3")
    live(OTHER, user="bert", nas_key="unheard|192.0.2.4")
    for user in ("anna", "bert"):
        request_coa(user=user)

    def users(nas):
        return [request.identity for request in service.list_requests(session, tenant_id=two_tenants[0], nas=nas)]

    with scoped() as session:
        for name in ("Switch 3", "192.0.2.3", known["identifier"]):
            assert users(name) == ["anna"]
        assert users("unheard") == ["bert"]
        with pytest.raises(NotFound, match="NAS 'none' does not exist"):
            users("none")
        with pytest.raises(InvalidInput, match="Unknown state 'lost'"):
            service.list_requests(session, tenant_id=two_tenants[0], states=["lost"])
    with scoped(1) as session, pytest.raises(NotFound):
        service.list_requests(session, tenant_id=two_tenants[1], nas="Switch 3")


def test_queue_of_user_requests_is_bounded(request_coa, live, scoped, two_tenants, monkeypatch):
    live()
    bert = live(OTHER, user="bert")
    monkeypatch.setattr(request_queue, "MAX_WAITING", 1)
    # Requests that blocks cause do not count.
    with scoped() as session:
        request_queue.queue_block_disconnects(session, tenant_id=two_tenants[0], macs=[MAC, OTHER], requested_by=ACTOR)
    assert request_coa(user="bert") == [bert]
    with pytest.raises(Conflict, match="Too many requests to NASes are waiting: 1"):
        request_coa(user="anna")


def test_change_is_checked_against_the_cell_dictionary(request_coa, live, platform, cell_engine, scoped, two_tenants):
    live()
    good = [{"attribute": "Session-Timeout", "value": "600"}, {"attribute": "Filter-Id", "value": "guests"}]
    with pytest.raises(Conflict, match="has not uploaded its attribute dictionaries"):
        request_coa("change", user="anna", attributes=good)
    give_dictionary(cell_engine, platform.cell_id)
    with pytest.raises(InvalidInput, match="invalid value 'soon' of Session-Timeout") as caught:
        request_coa("change", user="anna", attributes=[good[1], good[0] | {"value": "soon"}])
    assert caught.value.place == "attributes[1]"
    wrong = [{"attribute": "No-Such", "value": "1"}, good[1], good[0] | {"value": "soon"}]
    with pytest.raises(SeveralMistakes) as several:
        request_coa("change", user="anna", attributes=wrong)
    assert [mistake.place for mistake in several.value.mistakes] == ["attributes[0]", "attributes[2]"]
    assert len(request_coa("change", user="anna", attributes=good)) == 1
    # Another attribute, then the first attribute again. All of them count, in order.
    for attributes in (good[:1], good):
        assert len(request_coa("change", user="anna", attributes=attributes)) == 1
    with scoped() as session:
        changes = service.list_requests(session, tenant_id=two_tenants[0])
        assert [request.attributes for request in changes] == [good, good[:1], good]


def test_cancelled_request_is_not_sent(request_coa, live, scoped, two_tenants, given):
    live()
    request_coa(user="anna")
    with scoped() as session:
        [request] = service.list_requests(session, tenant_id=two_tenants[0])
        given |= {"request_id": request.id}
        done = service.cancel_request(session, **given)
        assert (done.state, done.detail) == ("withdrawn", f"Withdrawn by {ACTOR}.")
        with pytest.raises(Conflict, match=r"has ended\. The state of the request is withdrawn"):
            service.cancel_request(session, **given)
        with pytest.raises(service.CoaRequestNotFound, match="Unknown request 0"):
            service.cancel_request(session, **given | {"request_id": 0})
    with scoped(1) as session, pytest.raises(service.CoaRequestNotFound):
        service.cancel_request(session, **given | {"tenant_id": two_tenants[1]})


def test_every_way_to_block_disconnects_the_sessions(live, scoped, two_tenants, given):
    third = "00a0c0000003"
    for mac in (MAC, OTHER, third):
        live(mac)
        live(mac, user="again")
    live(MAC, tenant=1)
    blocked = lambda *macs: {(mac, "endpoint-blocked") for mac in macs}  # noqa: E731
    with scoped() as session:
        endpoints.create_endpoint(session, mac=MAC, **given)
        assert waiting_requests(session) == set()
        endpoints.block_endpoint(session, mac=MAC, **given)
        assert waiting_requests(session) == blocked(MAC)
        make_row(session, Endpoint.__table__, two_tenants[0], mac=OTHER, status="discovered")
        classify_endpoints(session, wanted=EndpointCriteria(macs=(OTHER,)), decision=InboxDecision("block"), **given)
        assert waiting_requests(session) == blocked(MAC, OTHER)
        import_endpoints(session, text=f"mac,status\n{third},blocked\n", **given)
        assert waiting_requests(session) == blocked(MAC, OTHER, third)
        rows = session.scalars(select(CoaRequest)).all()
        assert len(rows) == 6
        # The cell sends the request only after it knows that the devices are blocked.
        assert {row.after_xact for row in rows} == {cells.get_current_xact(session)}
    with scoped(1) as session:
        assert waiting_requests(session) == set()


def test_session_is_found_beyond_one_batch(request_coa, live, monkeypatch):
    oldest, _ = live(), live(OTHER)
    monkeypatch.setattr(service, "MAX_SESSIONS", 0)
    with pytest.raises(Conflict, match="More than 0 sessions match"):
        request_coa(user="anna")
    monkeypatch.setattr(service, "MAX_SESSIONS", 1)
    assert request_coa(row=oldest, user="anna") == [oldest]


def test_unblocked_device_is_no_longer_disconnected(live, scoped, given):
    for mac in (MAC, OTHER):
        live(mac)
    with scoped() as session:
        import_endpoints(session, text=f"mac,status\n{MAC},blocked\n{OTHER},blocked\n", **given)
        assert len(waiting_requests(session)) == 2
        endpoints.unblock_endpoint(session, mac=MAC, **given)
        assert waiting_requests(session) == {(OTHER, "endpoint-blocked")}
        import_endpoints(session, text=f"mac,status\n{OTHER},active\n", update=True, **given)
        assert waiting_requests(session) == set()
        assert {row.detail for row in session.scalars(select(CoaRequest))} == {"The block or revocation was undone."}


def test_file_of_devices_unblocks_all_of_them_at_once(live, scoped, two_tenants):
    live()
    with scoped() as session:
        request_queue.queue_block_disconnects(session, tenant_id=two_tenants[0], macs=[MAC], requested_by=ACTOR)
        macs = [MAC, *(f"{number:012x}" for number in range(MAX_ROWS - 1))]
        request_queue.withdraw_block_disconnects(session, tenant_id=two_tenants[0], macs=macs)
        assert waiting_requests(session) == set()


def test_each_disconnect_reason_waits_separately(live, scoped, given):
    """Among simultaneous requests, the first request of each NAS precedes the second request of any NAS."""
    for user, nas_key in (("a", "switch|192.0.2.1"), ("b", "switch|192.0.2.1"), ("c", "other|192.0.2.2")):
        live(user=user, nas_key=nas_key)
    with scoped() as session:
        service.create_requests(session, kind="disconnect", mac=MAC, **given)
        endpoints.create_endpoint(session, mac=MAC, **given)
        endpoints.block_endpoint(session, mac=MAC, **given)
        columns = CoaRequest.reason, CoaRequest.identity, CoaRequest.priority
        rows = session.execute(select(*columns).order_by(columns[0], columns[2], columns[1])).all()
        each = [("a", 0), ("c", 0), ("b", 1)]
        assert rows == [(reason, *rest) for reason in ("endpoint-blocked", "requested") for rest in each]


def test_cell_updates_requests_but_creates_none(request_coa, live, platform, cell_engine, two_tenants):
    live()
    request_coa(user="anna")
    with session_scope(CellScope(platform.cell_id), engine=cell_engine) as session:
        request = session.scalars(select(CoaRequest)).one()
        request.state = "sending"
    for column, value in (("reason", "endpoint-blocked"), ("session_id", "other"), ("tenant_id", two_tenants[1])):
        with (
            pytest.raises(ScopeViolation, match="permission denied"),
            session_scope(CellScope(platform.cell_id), engine=cell_engine) as session,
        ):
            session.connection().execute(CoaRequest.__table__.update().values({column: value}))


def test_every_rfc_error_cause_is_explained():
    assert set(ERROR_CAUSES) == {201, 202, *range(401, 408), *range(501, 509)}
    assert explain_error_cause(503).startswith("Error-Cause 503: The NAS does not know this session.")
    assert explain_error_cause(999).startswith("Error-Cause 999: Not defined in RFC 5176.")
    assert explain_error_cause(0) == "The NAS sent no Error-Cause."
