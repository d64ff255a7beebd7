"""Searches of sessions at a help desk: by device, user, address, place and time, in pages."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.cellformat.class_attribute import encode_class
from nac.kit.db import TenantScope, session_scope
from nac.models import USAGE_HOURS, AuthLog, EndedSession, RadiusSession
from nac.sessions import service as sessions
from nac.sessions.usage import list_usage
from tests.factories.rows import make_row
from tests.factories.tenant_fixtures import two_tenants

__all__ = ["two_tenants"]

NOON = datetime.fromisoformat("2026-11-20T12:00:00+00:00")
MAC = "02a0c0000001"
# The data of a NAS that is not registered.
SWITCH = "switch-1|192.0.2.7"
_ABSENT = ("site_id", "nas_id", "nas_address", "framed_ip", "framed_ipv6", "framed_prefix", "delegated_prefix")
_USED = {"session_seconds": 0, "input_octets": 0, "output_octets": 0}
_SETTLED = {"settled_seconds": 0, "settled_input": 0, "settled_output": 0}


@pytest.fixture
def put(owner_engine: Engine, two_tenants):
    """Function that stores a session of alpha. It began `minutes` after noon and ended at `stop`."""

    def put(minutes: int, *, stop: int | None = None, history: bool = False, tenant: int = 0, **more) -> None:
        table = EndedSession if history else RadiusSession
        values = {
            "started_at": NOON + timedelta(minutes=minutes),
            "stopped_at": None if stop is None else NOON + timedelta(minutes=stop),
            "usage_hour": NOON,
            **dict.fromkeys(_ABSENT),
            **_USED,
            **_SETTLED,
            "class": "",
            "session_id": f"s{minutes}",
        }
        values |= {"identity": "anna", **more}
        if history:
            values |= {"id": minutes, "identity_key": values["identity"].lower()}
        known = {column.name for column in table.__table__.columns if column.computed is None}
        row = {name: value for name, value in values.items() if name in known}
        with Session(owner_engine) as session, session.begin():
            make_row(session, table.__table__, two_tenants[tenant], **row)

    return put


@pytest.fixture
def ask(app_engine: Engine, two_tenants):
    def ask(**wanted) -> list[str]:
        with session_scope(TenantScope(two_tenants[0]), engine=app_engine) as session:
            found = sessions.list_sessions(session, tenant_id=two_tenants[0], **wanted)
            return [shown.row.session_id for shown in found]

    return ask


def test_pages_list_each_session_exactly_once(put, app_engine, two_tenants):
    for minutes in range(3):
        put(minutes)
        put(10 + minutes, stop=60)
        put(20 + minutes, stop=60, flags=["stale"])
        put(30 + minutes, stop=60 + minutes, history=True)
    found, after = [], None
    with session_scope(TenantScope(two_tenants[0]), engine=app_engine) as session:
        while page := sessions.list_sessions(session, tenant_id=two_tenants[0], ended=True, after=after, limit=2):
            found += [shown.row.session_id for shown in page]
            after = page[-1].key
    assert len(found) == len(set(found)) == 12
    assert found[:3] == ["s2", "s1", "s0"]
    assert found[3:5] == ["s32", "s31"]


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize(
    ("wanted", "row"),
    [
        ({"mac": "02-A0-C0-00-00-01"}, {"mac": MAC}),
        ({"user": "ANNA"}, {"identity": "Anna"}),
        ({"address": "192.0.2.9"}, {"framed_ip": "192.0.2.9"}),
        ({"address": "2001:db8::7"}, {"framed_ipv6": "2001:db8::7"}),
        ({"address": "2001:db8:1::5"}, {"framed_prefix": "2001:db8:1::/64"}),
        ({"address": "2001:db8:40:1::5"}, {"delegated_prefix": "2001:db8:40::/48"}),
        ({"address": "2001:db8::/32"}, {"framed_ipv6": "2001:db8:ffff::7"}),
        ({"address": "2001:db8:40::/48"}, {"delegated_prefix": "2001:db8:40:ff00::/56"}),
        ({"address": "2001:db8:40:ff00::/56"}, {"delegated_prefix": "2001:db8:40::/48"}),
        ({"address": "2001:db8:1::/64"}, {"framed_prefix": "2001:db8:1::/64"}),
        ({"address": "192.0.2.8/30"}, {"framed_ip": "192.0.2.9"}),
    ],
)
def test_session_is_found_by_each_of_its_keys(history, wanted, row, put, ask):
    put(1, stop=20, history=history, **row)
    near = {"framed_ip": "192.0.2.12", "framed_ipv6": "2001:db7::7", "framed_prefix": "2001:db8:2::/64"}
    near["delegated_prefix"] = "2001:db8:41::/48"
    if wanted == {"address": "2001:db8::/32"}:
        near |= {"framed_prefix": "2001:db9::/64", "delegated_prefix": None}
    put(2, stop=20, history=history, identity="otto", mac="02a0c0000002", **near)
    assert ask(ended=True, **wanted) == ["s1"]


def test_time_filter_finds_sessions_of_that_time(put, ask):
    """For example: the session that had this address yesterday at 12:15."""
    put(0, stop=10, framed_ip="192.0.2.9")
    put(12, stop=20, framed_ip="192.0.2.9", history=True)
    put(25, framed_ip="192.0.2.9")
    at = NOON + timedelta(minutes=15)
    assert ask(ended=True, address="192.0.2.9", since=at, until=at + timedelta(seconds=1)) == ["s12"]


@pytest.mark.parametrize("history", [False, True])
def test_unregistered_nas_is_found_by_its_own_identifiers(history, put, ask, app_engine, two_tenants):
    for minutes, key in enumerate((SWITCH, SWITCH, "|192.0.2.9", "192.0.2.10", "switch-11|192.0.2.7")):
        put(minutes, stop=20 if history or minutes else None, history=history, nas_key=key, nas_address="203.0.113.5")
    assert ask(ended=True, nas="192.0.2.9") == ["s2"]
    assert ask(ended=True, nas="192.0.2.10") == ["s3"]
    with session_scope(TenantScope(two_tenants[0]), engine=app_engine) as session:
        wanted = {"tenant_id": two_tenants[0], "nas": "switch-1", "ended": True, "limit": 1}
        found, after = [], None
        while page := sessions.list_sessions(session, after=after, **wanted):
            found += page
            after = page[-1].key
    assert [(shown.row.session_id, shown.nas) for shown in found] == [
        (name, "switch-1") for name in (("s1", "s0") if history else ("s0", "s1"))
    ]


def test_session_names_its_first_decision(put, owner_engine, app_engine, two_tenants):
    at = 1_795_000_000_123_457
    put(1, mac=MAC, **{"class": encode_class(at)})
    with Session(owner_engine) as session, session.begin():
        for mac, rule in (("02a0c0000002", "Others"), (MAC, "Staff")):
            moment = datetime.fromtimestamp(0, NOON.tzinfo) + timedelta(microseconds=at)
            make_row(session, AuthLog.__table__, two_tenants[0], at=moment, mac=mac, rule_name=rule)
    with session_scope(TenantScope(two_tenants[0]), engine=app_engine) as session:
        (shown,) = sessions.list_sessions(session, tenant_id=two_tenants[0])
        decision = sessions.find_deciding_row(session, shown)
        assert decision is not None
        assert decision.rule_name == "Staff"
        with pytest.raises(sessions.SessionNotFound):
            sessions.get_session(session, tenant_id=two_tenants[1], row=shown.row.id)


def test_usage_includes_the_latest_interim_updates(put, owner_engine, app_engine, two_tenants):
    used = {"session_seconds": 100, "input_octets": 1_000, "output_octets": 7}
    put(1, mac=MAC, **used, settled_seconds=40, settled_input=400, nas_key=SWITCH)
    row = {"mac": MAC, "identity": "ANNA", "seconds": 10, "input_octets": 5, "output_octets": 1 << 40}
    row |= {"site_id": None, "nas_id": UUID(int=1), "nas_key": SWITCH}
    with Session(owner_engine) as session, session.begin():
        for number, tenant in enumerate((two_tenants[0], two_tenants[0], two_tenants[1])):
            hour = {"hour": NOON - timedelta(hours=number), "session_row": number}
            session.execute(USAGE_HOURS.insert().values(tenant_id=tenant, **hour, **row))
    period = {"since": NOON - timedelta(hours=5), "until": NOON + timedelta(hours=1)}
    with session_scope(TenantScope(two_tenants[0]), engine=app_engine) as session:
        given = {"session": session, "tenant_id": two_tenants[0], **period}
        hours = [(use.what, use.seconds, use.input_octets) for use in list_usage(by="hour", **given)]
        assert hours == [("2026-11-20T11:00:00+00:00", 10, 5), ("2026-11-20T12:00:00+00:00", 70, 605)]
        (user,) = list_usage(by="user", **given)
        assert (user.what, user.sessions, user.output_octets) == ("anna", 3, (2 << 40) + 7)
        (device,) = list_usage(by="endpoint", **given)
        assert device.what == MAC
        for by, what in (("nas", "switch-1"), ("site", "")):
            (place,) = list_usage(by=by, **given)
            assert (place.what, place.seconds) == (what, 80)
