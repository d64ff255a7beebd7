"""Timeline of an endpoint."""

from datetime import timedelta

import httpx
import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db.base import Base
from nac.kit.ids import TenantId
from nac.models import Endpoint
from tests.api.v1.responses import cursor, error_paths
from tests.factories.rows import make_row

NOW = utc_now().replace(microsecond=0)
MAC = "00a0c0000001"
PATH = f"/v1/tenants/alpha/endpoints/{MAC}/timeline"
_USED = {"session_seconds": 60, "input_octets": 7, "output_octets": 9, "terminate_cause": "User-Request"}
_ABSENT = dict.fromkeys(("site_id", "nas_id", "nas_address", "framed_ip", "framed_ipv6", "framed_prefix"))


@pytest.fixture
def write(owner_engine: Engine, tenant_id: TenantId):
    def write(table: str, **values: object) -> None:
        with Session(owner_engine) as session, session.begin():
            make_row(session, Base.metadata.tables[table], tenant_id, **values)

    return write


@pytest.fixture
def log(write):
    def log(minutes_ago: float, **values: object) -> None:
        given = {"permitted": True, "verdict": "permit", "reason": "rule-permitted", "certificate_serial": ""}
        given |= {"mac": MAC, "nas_identifier": "switch-1", "nas_port": "7", "suppressed": 0, **values}
        write("auth_log", at=_ago(minutes_ago), **given)

    return log


@pytest.fixture
def put_session(write):
    def put(start: float, stop: float | None = None, *, history: bool = False) -> None:
        ended = None if stop is None else _ago(stop)
        values = {"mac": MAC, "started_at": _ago(start), "stopped_at": ended, "nas_key": "switch-1|", "identity": "anna"}
        if history:
            values |= {"id": int(start * 10), "identity_key": "anna", "delegated_prefix": None}
        write("session_history" if history else "sessions", **values, **_USED, **_ABSENT)

    return put


@pytest.fixture
def get(api: httpx.Client):
    def get(headers: dict[str, str] | None = None, **query: object) -> dict:
        response = api.get(PATH, params=query, headers=headers)
        assert response.status_code == 200, response.text
        return response.json()

    return get


def _ago(minutes: float):
    return NOW - timedelta(minutes=minutes)


def _kinds(page: dict) -> list[str]:
    return [item["kind"] for item in page["items"]]


def _walk(get, **query: object) -> list[dict]:
    items, after = [], ""
    while after is not None:
        page = get(**query, **({"after": after} if after else {}))
        items += page["items"]
        after = page["next"]
        assert (page["searched_to"] is None) == (after is None)
    return items


def test_all_kinds_are_in_one_list(get, api, write, log, put_session, owner_engine, tenant_id) -> None:
    assert api.post("/v1/tenants/alpha/endpoints", json={"mac": MAC}).status_code == 201
    assert api.patch(f"/v1/tenants/alpha/endpoints/{MAC}", json={"notes": "lent"}).status_code == 200
    with Session(owner_engine) as session:
        endpoint = session.query(Endpoint).filter_by(tenant_id=tenant_id, mac=MAC).one()
    log(10)
    put_session(9)
    put_session(30, 20)
    write("endpoint_evidence", mac=MAC, source="dhcp", key="hostname", value="printer-7", at=_ago(40))
    issued = {"status": "revoked", "certificate_der": b"x", "not_after": NOW + timedelta(days=99), "user_id": None}
    serial = bytes.fromhex("5f3a9c0e")
    write(
        "certificates",
        endpoint_id=endpoint.id,
        serial=serial,
        common_name="laptop-1",
        created_at=_ago(60),
        revoked_at=_ago(50),
        revocation_reason="keyCompromise",
        **issued,
    )
    page = get()
    changes, others = page["items"][:2], page["items"][2:]
    assert [item["title"] for item in others] == [
        "A session started at switch-1.",
        "Admit admitted the device at switch-1, port 7: Admitted by a rule.",
        "A session ended at switch-1.",
        "A session started at switch-1.",
        "The device has a new value of dhcp hostname.",
        "The certificate laptop-1 was revoked.",
        f"Admit issued the certificate laptop-1, valid until {NOW + timedelta(days=99):%Y-%m-%d}.",
    ]
    assert [item["change"]["action"] for item in changes] == ["endpoint.set", "endpoint.add"]
    assert changes[0]["title"].endswith(" changed the device.")
    assert changes[0]["change"]["differences"] == [{"name": "notes", "before": "", "after": "lent"}]
    assert (page["next"], page["searched_to"], page["omitted"]) == (None, None, [])
    assert others[2]["detail"] == "60 s, 7 octets received, 9 octets sent, User-Request"
    assert (others[2]["session"]["event"], others[2]["session"]["session"]["input_octets"]) == ("ended", 7)
    assert others[4]["evidence"]["value"] == others[4]["detail"] == "printer-7"
    for item in page["items"]:
        filled = [kind for kind in ("decision", "session", "change", "certificate", "evidence") if item[kind]]
        assert filled == [item["kind"]]
    assert set(_kinds(get(kind=["evidence", "change"]))) == {"evidence", "change"}


def test_adjacent_equal_decisions_become_one_item(get, log, put_session) -> None:
    denied = {"permitted": False, "verdict": "deny", "reason": "unknown-mac"}
    for minutes in (1, 2, 3):
        log(minutes, **denied, suppressed=4 if minutes == 2 else 0)
    log(4)
    log(5, **denied)
    log(6, **denied, nas_port="8")
    put_session(7, 6.5)
    log(8, **denied, nas_port="8")
    page = get(kind="decision")
    assert [item["decision"]["count"] for item in page["items"]] == [7, 1, 1, 2]
    first = page["items"][0]
    assert first["title"].startswith("Admit rejected the device at switch-1, port 7 7 times: ")
    assert (first["decision"]["first_at"], first["at"]) == (_iso(3), _iso(1))
    # A session between two decisions keeps them apart.
    assert _kinds(get())[3:] == ["decision", "session", "session", "decision"]
    assert [item["id"] for item in _walk(get, limit=1)] == [item["id"] for item in get()["items"]]


def _iso(minutes: float) -> str:
    return _ago(minutes).isoformat().replace("+00:00", "Z")


def test_pages_have_each_item_once(get, log, put_session, write) -> None:
    # At equal times, too. One session contains several others.
    put_session(100, 1, history=True)
    put_session(90)
    for number in range(12):
        log(10 * number, permitted=number % 2 == 0)
        put_session(10 * number + 9, 10 * number, history=number > 5)
    everything = _summarise(get(limit=1000)["items"])
    assert len(everything) == 12 + 24 + 2 + 1
    assert [at for at, *_ in everything] == sorted((at for at, *_ in everything), reverse=True)
    for limit in (1, 2, 5, 7):
        assert _summarise(_walk(get, limit=limit)) == everything
    within = [item for item in everything if _iso(50) <= item[0] < _iso(20)]
    assert _summarise(_walk(get, since=_iso(50), until=_iso(20), limit=3)) == within


def _summarise(items: list[dict]) -> list[tuple[str, str, str]]:
    return [(item["at"], item["id"], item["title"]) for item in items]


def test_unreadable_kinds_are_omitted(get, api, log, as_tenant) -> None:
    log(1)
    page = get(as_tenant("endpoint.read", "session.read"))
    assert (page["items"], page["omitted"]) == ([], ["decision", "change", "certificate"])
    page = get(as_tenant("endpoint.read", "log.read"), kind=["decision", "change"])
    assert (_kinds(page), page["omitted"]) == (["decision"], ["change"])
    assert api.get(PATH, headers=as_tenant("log.read")).status_code == 403


def test_device_without_events_has_an_empty_list(get) -> None:
    assert get() == {"items": [], "next": None, "searched_to": None, "omitted": []}


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ({"after": "x"}, "after"),
        ({"after": cursor("2026-01-01T00:00:00+00:00 1")}, "after"),
        ({"kind": "nas"}, "kind[0]"),
        ({"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, "until"),
    ],
)
def test_invalid_input_is_rejected(api: httpx.Client, query: dict[str, str], place: str) -> None:
    response = api.get(PATH, params=query)
    assert response.status_code == 422
    assert set(error_paths(response)) == {place}


def test_invalid_mac_is_rejected(api: httpx.Client) -> None:
    assert api.get("/v1/tenants/alpha/endpoints/xyz/timeline").status_code == 422
