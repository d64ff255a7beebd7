"""Lists of several kinds of items: each has pages, orders and filters."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import Engine, insert
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.ids import MspId
from nac.models import Membership, Person, SignIn, SignOn
from tests.api.v1.test_lists import walk
from tests.factories.certificates import Certified
from tests.factories.tenancy import Platform

ALPHA, ACME = "/v1/tenants/alpha", "/v1/msps/acme"
_LDAP = {"urls": ["ldaps://ldap.example.net"], "base_dn": "ou=people,dc=example,dc=net"}
_WEBHOOK = {"url": "https://siem.example/", "kinds": ["authentication"]}
_ROLE = {"permissions": ["session.read"]}
# For each kind: the requests that create items, and the orders of the list.
MADE: Mapping[str, tuple[list[dict[str, Any]], set[str]]] = {
    f"{ALPHA}/sites": (
        [{"slug": "north", "name": "Branch"}, {"slug": "south", "name": "Branch", "time_zone": "Europe/Berlin"}],
        {"slug", "name", "time_zone"},
    ),
    f"{ALPHA}/feeds": (
        [
            {"kind": "webhook", "name": "siem", "settings": _WEBHOOK},
            {"kind": "syslog", "name": "logs", "settings": {"host": "logs.example"}},
            {"kind": "webhook", "name": "alarms", "settings": _WEBHOOK},
        ],
        {"name", "kind", "created_at"},
    ),
    f"{ALPHA}/pools": (
        [
            {"name": "phones", "ranges": ["10.1.0.0/29"]},
            {"name": "devices", "ranges": ["2001:db8::/62"], "kind": "ipv6"},
            {"name": "phones", "ranges": ["10.2.0.0/29"], "site": "main"},
        ],
        {"name", "kind", "created_at"},
    ),
    f"{ALPHA}/identity-sources": (
        [
            {"name": name, "kind": "ldap", "settings": _LDAP, "position": position, "enabled": name != "corp"}
            for name, position in (("corp", 100), ("branch", 100), ("school", 7))
        ],
        {"position", "name", "kind"},
    ),
    f"{ALPHA}/roles": ([{"slug": "kicker", "name": "Auditor of the night", **_ROLE}], {"slug", "name"}),
    f"{ACME}/roles": ([{"slug": "kicker", "name": "Kicker", **_ROLE}], {"slug", "name"}),
    f"{ACME}/templates": (
        [{"slug": "school"}, {"slug": "office", "name": "An office"}, {"slug": "shop", "name": "school"}],
        {"slug", "name", "created_at", "updated_at"},
    ),
    f"{ALPHA}/retention/holds": ([{"reason": f"Case {number}"} for number in range(3)], {"set_at"}),
}
NARROWED = (
    ("sites", {"text": "BRANCH"}, 2),
    ("sites", {"text": "north"}, 1),
    ("feeds", {"kind": "syslog"}, 1),
    ("feeds", {"text": "al"}, 1),
    ("pools", {"site": "main"}, 1),
    ("pools", {"kind": "ipv6"}, 1),
    ("pools", {"text": "PHONE"}, 2),
    ("identity-sources", {"enabled": False}, 1),
    ("identity-sources", {"kind": "oidc"}, 0),
    ("roles", {"own": True}, 1),
    ("roles", {"text": "audit"}, 2),
    ("retention/holds", {"in_force": False}, 0),
    ("authorities", {"kind": "root"}, 1),
    ("authorities", {"status": "revoked"}, 0),
    ("authorities", {"text": "issuing"}, 1),
)


def require_orders(api: httpx.Client, path: str, names: set[str]) -> None:
    whole = api.get(path).json()["items"]
    assert len(whole) > 1
    for name in names:
        up = walk(api, path, sort=name, limit=1)
        assert sorted(map(str, up)) == sorted(map(str, whole)), (path, name)
        if name in up[0]:
            assert [each[name] for each in up] == sorted(each[name] for each in up), (path, name)
        assert walk(api, path, sort=f"-{name}", limit=1) == up[::-1], (path, name)
    refused = api.get(path, params={"sort": "colour"})
    assert (refused.status_code, refused.json()["mistakes"][0]["place"]) == (422, "sort")


def test_lists_are_paged_in_each_order_and_filtered(api: httpx.Client, alpha: Certified) -> None:
    for path, (rows, names) in MADE.items():
        for row in rows:
            made = api.post(path, json=row)
            assert made.status_code == 201, made.text
        require_orders(api, path, names)
    require_orders(api, f"{ALPHA}/authorities", {"name", "not_before", "not_after"})
    for noun, asked, count in NARROWED:
        found = api.get(f"{ALPHA}/{noun}", params=asked)
        assert len(found.json()["items"]) == count, (noun, asked, found.text)
    assert api.get(f"{ALPHA}/sites", params={"policy": "unheard-of"}).json()["code"] == "policy-not-found"


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
