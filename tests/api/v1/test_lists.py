"""Lists: pages, orders, filters, cursors and the number of statements."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import Engine, insert
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import get_process_engine
from nac.kit.ids import MspId
from nac.models import Membership, Person, SignIn, SignOn
from tests.api.v1.responses import created, cursor, error_paths, walk
from tests.api.v1.test_authorities import foreign_root, upload
from tests.factories.certificates import Certified
from tests.factories.tenancy import Platform
from tests.statements import counted

ALPHA, ACME = "/v1/tenants/alpha", "/v1/msps/acme"
_LDAP = {"urls": ["ldaps://ldap.example.net"], "base_dn": "ou=people,dc=example,dc=net"}
_WEBHOOK = {"url": "https://siem.example/", "kinds": ["authentication"]}
_SOON = (utc_now() + timedelta(days=1)).isoformat()
_GROUPS = [{"name": name} for name in ("b", "a/ c", "a")]
_ROLE = {"slug": "kicker", "name": "Auditor of the night", "permissions": ["session.read"]}
# For each list: the requests that create items.
MADE: Final[Mapping[str, Sequence[dict[str, Any]]]] = {
    f"{ALPHA}/sites": (
        {"slug": "north", "name": "Branch"},
        {"slug": "south", "name": "Branch", "time_zone": "Europe/Berlin"},
    ),
    f"{ALPHA}/endpoints": [
        {"mac": f"00:00:5e:00:53:{number:02x}", "name": name}
        for number, name in enumerate(("b", "ä", "a", "b", "", "日本" * 60, "a"))
    ],
    f"{ALPHA}/nases": (
        {"name": "South", "address": "192.0.2.2"},
        {"name": "South", "identifier": "sw-3"},
        {"name": "North", "identifier": "n", "site": "north", "vendor": "aruba"},
    ),
    f"{ALPHA}/endpoint-groups": _GROUPS,
    f"{ALPHA}/user-groups": _GROUPS,
    f"{ALPHA}/users": [
        user | {"password": "correct horse"}
        for user in ({"name": "ann"}, {"name": "bert", "groups": ["a"]}, {"name": "host/pc"})
    ],
    f"{ALPHA}/policies": ({"slug": "office"}, {"slug": "branch"}, {"slug": "lab", "name": "Library"}),
    f"{ALPHA}/members": [
        {"email": f"{name}@example.com", "role": role, "invite": False}
        for name, role in (("ann", "auditor"), ("bob", "help-desk"), ("cyd", "auditor"))
    ],
    f"{ALPHA}/tokens": [
        {"name": name, "expires_at": _SOON, "permissions": ["session.read"]}
        for name in ("monitoring", "backup", "script")
    ],
    f"{ALPHA}/certificates": [{"name": f"laptop-{number}"} for number in "312"],
    f"{ALPHA}/authorities": [upload(foreign_root(name)) for name in "AB"],
    f"{ALPHA}/enrolment-secrets": [{"name": name, "uses": 5} for name in ("lab", "hall", "attic")],
    f"{ALPHA}/feeds": (
        {"kind": "webhook", "name": "siem", "settings": _WEBHOOK},
        {"kind": "syslog", "name": "logs", "settings": {"host": "logs.example"}},
        {"kind": "webhook", "name": "alarms", "settings": _WEBHOOK},
    ),
    f"{ALPHA}/pools": (
        {"name": "phones", "ranges": ["10.1.0.0/29"]},
        {"name": "devices", "ranges": ["2001:db8::/62"], "kind": "ipv6"},
        {"name": "phones", "ranges": ["10.2.0.0/29"], "site": "main"},
    ),
    f"{ALPHA}/identity-sources": [
        {"name": name, "kind": "ldap", "settings": _LDAP, "position": position, "enabled": name != "corp"}
        for name, position in (("corp", 100), ("branch", 100), ("school", 7))
    ],
    f"{ALPHA}/roles": (_ROLE,),
    f"{ALPHA}/retention/holds": [{"reason": f"Case {number}"} for number in range(3)],
    f"{ACME}/roles": (_ROLE,),
    f"{ACME}/templates": (
        {"slug": "school"},
        {"slug": "office", "name": "An office"},
        {"slug": "shop", "name": "school"},
    ),
    f"{ACME}/tenants": [
        {"slug": f"school-{number}", "name": f"100% School_{number}", "policy": "none"} for number in range(3)
    ],
}
# The filter of a list, and what identifies the found items.
FILTERED: Final = (
    ("sites", {"text": "BRANCH"}, ["north", "south"]),
    ("sites", {"text": "north"}, ["north"]),
    ("endpoints", {"status": "blocked"}, []),
    ("nases", {"site": "north"}, ["North"]),
    ("nases", {"site": "nowhere"}, []),
    ("nases", {"address": "192.0.2.2"}, ["South"]),
    ("nases", {"text": "OUT"}, ["South", "South"]),
    ("nases", {"text": "SW-3"}, ["South"]),
    ("nases", {"vendor": "aruba"}, ["North"]),
    ("users", {"name": "ANN"}, ["ann"]),
    ("users", {"text": "PC"}, ["host/pc"]),
    ("users", {"group": "a"}, ["bert"]),
    ("users", {"disabled": True}, ["ann"]),
    ("policies", {"text": "ibra"}, ["lab"]),
    ("policies", {"published": True}, []),
    ("members", {"text": "ANN"}, ["ann@example.com"]),
    ("members", {"role": "help-desk"}, ["bob@example.com"]),
    ("tokens", {"text": "back"}, ["backup"]),
    ("tokens", {"status": "revoked"}, ["backup"]),
    ("certificates", {"name": "laptop-2"}, ["laptop-2"]),
    ("feeds", {"kind": "syslog"}, ["logs"]),
    ("feeds", {"text": "al"}, ["alarms"]),
    ("pools", {"site": "main"}, ["phones"]),
    ("pools", {"kind": "ipv6"}, ["devices"]),
    ("pools", {"text": "PHONE"}, ["phones", "phones"]),
    ("identity-sources", {"enabled": False}, ["corp"]),
    ("identity-sources", {"kind": "oidc"}, []),
    ("roles", {"own": True}, ["kicker"]),
    ("roles", {"text": "audit"}, ["auditor", "kicker"]),
    ("retention/holds", {"in_force": False}, []),
    ("authorities", {"kind": "root"}, ["root"]),
    ("authorities", {"status": "revoked"}, []),
    ("authorities", {"text": "issuing"}, ["issuing"]),
    ("tenants", {"text": "SCHOOL"}, ["school-0", "school-1", "school-2"]),
    ("tenants", {"text": "% school_1"}, ["school-1"]),
    ("tenants", {"text": "%%"}, []),
    ("tenants", {"text": "school", "status": "suspended"}, ["school-1"]),
)


def require_orders(api: httpx.Client, path: str) -> None:
    """Check the pages in each order that the list offers. Null is last in both directions."""
    whole = walk(api, path, limit=1_000)
    assert len(whole) > 1
    [mistake] = api.get(path, params={"sort": "colour"}).json()["mistakes"]
    names = re.findall(r"'-(\w+)'", mistake["detail"])
    assert (mistake["place"], bool(names)) == ("sort", True), mistake
    for name in names:
        up = walk(api, path, sort=name, limit=1)
        assert sorted(map(str, up)) == sorted(map(str, whole)), (path, name)
        valued = [each for each in up if each.get(name, "") is not None]
        if name in up[0]:
            assert [each[name] for each in valued] == sorted(each[name] for each in valued), (path, name)
        nulls = up[len(valued) :]
        assert up == [*valued, *nulls], (path, name)
        assert walk(api, path, sort=f"-{name}") == [*valued[::-1], *nulls[::-1]], (path, name)


def test_lists_are_paged_in_each_order_and_filtered(api: httpx.Client, alpha: Certified) -> None:
    for path, rows in MADE.items():
        costs = []
        for row in rows:
            created(api.post(path, json=row))
            with counted(get_process_engine()) as statements:
                api.get(path)
            costs.append(sum("UPDATE api_tokens" not in each for each in statements))
        # The number of statements does not grow with the list.
        assert costs[0] == costs[-1], (path, costs)
        require_orders(api, path)
    [backup] = api.get(f"{ALPHA}/tokens", params={"text": "backup"}).json()["items"]
    for change in (
        api.patch(f"{ALPHA}/users/ann", json={"disabled": True}),
        api.delete(f"{ALPHA}/tokens/{backup['id']}"),
        api.post("/v1/tenants/school-1/suspend"),
    ):
        assert change.status_code < 300, change.text
    for noun, asked, wanted in FILTERED:
        path = f"{ACME if noun == 'tenants' else ALPHA}/{noun}"
        found = walk(api, path, **asked)
        names = ("kind",) if noun == "authorities" else ("slug", "mac", "email", "name")
        assert [next(each[name] for name in names if name in each) for each in found] == wanted, (noun, asked)
    assert api.get(f"{ALPHA}/sites", params={"policy": "unheard-of"}).json()["code"] == "policy-not-found"


def test_nulls_sort_last_in_both_directions(api: httpx.Client) -> None:
    addresses = ["192.0.2.10", "192.0.2.9", None, None]
    for number, address in enumerate(addresses):
        given = {"name": f"nas-{number}", "identifier": f"id-{number}"} | ({"address": address} if address else {})
        created(api.post(f"{ALPHA}/nases", json=given))
    for sort, wanted in (("address", addresses[1::-1]), ("-address", addresses[:2])):
        assert [each["address"] for each in walk(api, f"{ALPHA}/nases", sort=sort)] == [*wanted, None, None]


def test_cursor_of_another_order_is_rejected(api: httpx.Client) -> None:
    for mac in ("00:00:5e:00:53:01", "00:00:5e:00:53:02"):
        created(api.post(f"{ALPHA}/endpoints", json={"mac": mac}))
    place = api.get(f"{ALPHA}/endpoints", params={"limit": 1, "sort": "name"}).json()["next"]
    refused = api.get(f"{ALPHA}/endpoints", params={"after": place, "sort": "-name"})
    assert (refused.status_code, refused.json()["place"]) == (422, "after")
    assert "'name'" in refused.json()["detail"]


_MAC, _ID = "02005e005301", "00000000-0000-0000-0000-000000000001"
FORGED: Final = {
    # Not the form of a cursor.
    "endpoints": ("x", "%%%", "bnVsbA", "W10", "IiI", "e30", "é", "IjEyIg", cursor("mac"), cursor(1, "x")),
    "endpoints?sort=name": [
        cursor("name", key)
        for key in (
            *(None, 1, "", [], {}, ["a"], ["a", "xx"], ["a", _MAC, "b"], [None, _MAC]),
            *(["\0", _MAC], ["\ud800", _MAC], [["a"], _MAC]),
        )
    ],
    "pools/leases": [cursor("pool", key) for key in ("x", [_ID], [_ID, "x"], [_ID, 2**64], ["x", 1])],
    # A time without a zone, and a number that no row has.
    "sessions": [
        cursor("-started_at", key)
        for key in ("12", "live 2026-11-20T12:00:00 1", f"live 2026-11-20T12:00:00+00:00 {'9' * 20}")
    ],
    "decisions": ("IjEyIg", cursor("-at", "yesterday 1"), cursor("-at", "2026-11-20T12:00:00 1-1")),
    "accounting": ("IjEyIg", cursor("-at", "yesterday 1"), cursor("-at", "2026-11-20T12:00:00 1-1")),
    "audit": [
        cursor("-at", key)
        for key in (
            *("yesterday", ["yesterday", 1], ["2026-01-01T00:00:00", 1], ["2026-01-01T00:00:00+00:00"]),
            *(["2026-01-01T00:00:00+00:00", "x"], ["2026-01-01T00:00:00+00:00", 9 * 10**30]),
        )
    ],
    "jobs": ("IngiIg", cursor("-created_at", ["2026-01-01T00:00:00", _ID])),
}


@pytest.mark.parametrize("path", FORGED)
def test_forged_cursor_is_rejected(api: httpx.Client, path: str) -> None:
    noun, _, sort = path.partition("?sort=")
    for after in FORGED[path]:
        refused = api.get(f"{ALPHA}/{noun}", params={"after": after} | ({"sort": sort} if sort else {}))
        assert (refused.status_code, error_paths(refused)) == (422, ["after"]), (after, refused.text)


@pytest.fixture
def signed_in(owner_engine: Engine, platform: Platform) -> list[str]:
    """Ids of sign-ins by the MSP's provider, oldest first. They are more than one page."""
    now, sign_on_id = utc_now(), uuid4()
    with Session(owner_engine) as session, session.begin():
        session.add(SignOn(id=sign_on_id, msp_id=MspId(platform.msp_id), settings={}, secret_sealed=b""))
        people = [Person(id=uuid4(), email=f"{name}@acme.example", name=name) for name in ("ann", "bob")]
        session.add_all(people)
        session.flush()
        # An owner cannot see the users of other owners.
        here = {"msp_id": platform.msp_id, "role": "auditor", "created_by": "test"}
        session.add_all(Membership(person_id=person.id, **here) for person in people)
        rows = [
            {
                "id": uuid4(),
                "public_id": f"{number:016}",
                "secret_sha256": b"",
                "person_id": people[number % 2].id,
                "factors": ["sign-on"],
                "expires_at": now + timedelta(days=1),
                "created_at": now - timedelta(minutes=10) + timedelta(milliseconds=number // 2),
                "last_seen_at": now,
                "sign_on_id": sign_on_id,
                "via_msp_id": platform.msp_id,
                # The sessions of these sign-ins have ended.
                "ended_at": now if number % 100 == 50 else None,
            }
            for number in range(600)
        ]
        session.execute(insert(SignIn), rows)
    return [str(row["id"]) for row in rows if row["ended_at"] is None]


def test_all_provider_sign_ins_are_listed_and_can_be_ended(api: httpx.Client, signed_in: list[str]) -> None:
    path = f"{ACME}/sign-on/sessions"
    newest_first = walk(api, path, limit=100)
    assert sorted(each["id"] for each in newest_first) == sorted(signed_in)
    assert walk(api, path, limit=100, sort="created_at") == newest_first[::-1]
    by_name = walk(api, path, limit=100, text="ANN")
    assert {each["email"] for each in by_name} == {"ann@acme.example"}
    assert len(by_name) == 300 - 6
    assert api.delete(f"{path}/{signed_in[0]}").status_code == 204
    assert api.delete(f"{path}/{signed_in[0]}").json()["code"] == "sign-in-not-found"
    assert len(walk(api, path, limit=1_000)) == len(signed_in) - 1
