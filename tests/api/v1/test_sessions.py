"""Sessions."""

from datetime import datetime, timedelta

import httpx
import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.cellformat.class_attribute import encode_class
from nac.kit.db import get_process_engine
from nac.kit.ids import TenantId
from nac.models import AuthLog, EndedSession, RadiusSession
from tests.api.v1.responses import error_paths, walk
from tests.factories.rows import make_row
from tests.statements import counted

SESSIONS = "/v1/tenants/alpha/sessions"
NOON = datetime.fromisoformat("2026-11-20T12:00:00+00:00")
MAC = "02a0c0000001"


@pytest.fixture
def put(owner_engine: Engine, tenant_id: TenantId):
    """Function that creates a session. It began `minutes` after noon and ended at `stop`. Returns its id."""

    def put(minutes: int, *, stop: int | None = None, history: bool = False, **more: object) -> int:
        absent = ("site_id", "nas_id", "nas_address", "framed_ip", "framed_ipv6", "framed_prefix", "delegated_prefix")
        values = {
            "started_at": NOON + timedelta(minutes=minutes),
            "stopped_at": None if stop is None else NOON + timedelta(minutes=stop),
            "session_id": f"s{minutes}",
            "mac": MAC,
            "identity": "anna",
            "nas_key": "switch-1|192.0.2.7",
            "class": "",
            **dict.fromkeys(absent),
            **more,
        }
        table = EndedSession.__table__ if history else RadiusSession.__table__
        if history:
            values |= {"id": minutes + 1, "identity_key": str(values["identity"]).lower()}
        with Session(owner_engine) as session, session.begin():
            make_row(session, table, tenant_id, **values)
            return session.scalar(table.select().with_only_columns(table.c.id).order_by(table.c.id.desc()).limit(1))

    return put


def listed(api: httpx.Client, **wanted: object) -> list[str]:
    answer = api.get(SESSIONS, params=wanted)
    assert answer.status_code == 200, answer.text
    return [each["session_id"] for each in answer.json()["items"]]


def test_pages_list_live_sessions_before_ended_ones(api: httpx.Client, put) -> None:
    for minutes in range(3):
        put(minutes)
        put(10 + minutes, stop=60 + minutes)
        put(20 + minutes, stop=50, history=True)
    live = ["s2", "s1", "s0"]
    assert listed(api) == live
    seen = [each["session_id"] for each in walk(api, SESSIONS, ended=True)]
    assert seen == [*live, "s12", "s11", "s10", "s22", "s21", "s20"]


def test_filters_are_combined(api: httpx.Client, put) -> None:
    put(0, stop=10)
    put(1, framed_ip="192.0.2.9")
    put(2, identity="Otto")
    put(3, mac="02a0c0000003", cui="cui-1")
    for wanted, found in (
        ({"mac": "02-A0-C0-00-00-01"}, ["s2", "s1"]),
        ({"user": "OTTO"}, ["s2"]),
        ({"address": "192.0.2.0/24"}, ["s1"]),
        ({"nas": "switch-1"}, ["s3", "s2", "s1"]),
        ({"session_id": "s3"}, ["s3"]),
        ({"chargeable_user": "cui-1"}, ["s3"]),
        ({"site": "main"}, []),
        ({"ended": True, "until": "2026-11-20T12:00:30Z"}, ["s0"]),
        ({"ended": True, "since": "2026-11-20T12:09:00Z", "mac": MAC}, ["s2", "s1", "s0"]),
        ({"ended": True, "since": "2026-11-20T12:11:00Z", "mac": MAC}, ["s2", "s1"]),
        ({"user": "nobody"}, []),
    ):
        assert listed(api, **wanted) == found, wanted


def test_session_is_shown_with_its_first_decision(api: httpx.Client, put, owner_engine, tenant_id) -> None:
    at = NOON - timedelta(seconds=1)
    with Session(owner_engine) as session, session.begin():
        make_row(session, AuthLog.__table__, tenant_id, at=at, mac=MAC, rule_name="staff", vlan="20", policy_version=3)
    row = put(1, **{"class": encode_class(int(at.timestamp() * 1_000_000))})
    shown = api.get(f"{SESSIONS}/{row}").json()
    decided = {"rule": "staff", "vlan": "20", "policy_version": 3}
    assert (
        shown.items()
        >= {"id": row, "mac": "02:a0:c0:00:00:01", "nas": "switch-1", "stopped_at": None, **decided}.items()
    )
    assert shown["decision"].startswith(f"{int(at.timestamp())}000000-")
    plain = api.get(f"{SESSIONS}/{put(2)}").json()
    assert (plain["decision"], plain["rule"]) == (None, None)


def test_nas_is_contacted_only_for_live_sessions(api: httpx.Client, put) -> None:
    live, over = put(1), put(2, stop=5)
    for kind in ("disconnect", "reauthenticate", "bounce"):
        asked = api.post(f"{SESSIONS}/{live}/{kind}")
        assert asked.status_code == 202, asked.text
        told = asked.json()
        assert (told["kind"], told["state"], told["session"], told["reason"]) == (kind, "queued", live, "requested")
    assert api.post(f"{SESSIONS}/{over}/bounce").json()["code"] == "no-live-session"
    assert api.post(f"{SESSIONS}/{over + 1}/bounce").json()["code"] == "session-not-found"
    missing = api.get(f"{SESSIONS}/{over + 1}").json()
    assert (missing["place"], missing["remedy"]) == ("session", "List sessions: listSessions (ended=true)")


def test_invalid_parameters_are_rejected_with_their_path(api: httpx.Client) -> None:
    for wanted, place in (
        ({"mac": "xyz"}, "mac"),
        ({"address": "300.1.1.1"}, "address"),
        ({"since": "2026-11-20T12:00:00"}, "since"),
        ({"since": "0001-01-01T00:00:00+14:00"}, "since"),
        ({"until": "9999-12-31T23:59:59-14:00"}, "until"),
        ({"session_id": "x" * 254}, "session_id"),
        ({"user": "a\0b"}, "query"),
        ({"limit": 1_001}, "limit"),
    ):
        answer = api.get(SESSIONS, params=wanted)
        assert (answer.status_code, error_paths(answer)) == (422, [place]), answer.text


def test_unknown_site_and_nas_are_named(api: httpx.Client) -> None:
    assert api.get(SESSIONS, params={"site": "nowhere"}).json()["code"] == "site-not-found"
    assert api.get(SESSIONS, params={"nas": "nothing"}).json()["code"] == "nas-not-found"
    assert api.get(f"{SESSIONS}/{2**63}").status_code == 422


def test_page_takes_as_many_statements_as_one_row(api: httpx.Client, put) -> None:
    counts = []
    # The first request updates the time of the token's last use.
    api.get(SESSIONS)
    for minutes in range(4):
        put(minutes)
        with counted(get_process_engine()) as statements:
            api.get(SESSIONS)
        counts.append(len(statements))
    assert len(set(counts)) == 1
    assert counts[0] <= 5
