"""Two concurrent changes lock equal rows. One waits for the other, and each succeeds (nac.core.locking)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import httpx
import psycopg
import pytest

from tests.api.v1.responses import created
from tests.api.v1.test_renaming import ALPHA, document
from tests.polling import until
from tests.postgres import Database

_WAITING: Final = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted"
Ask = Callable[[], httpx.Response]
Together = Callable[..., list[httpx.Response]]


@pytest.fixture
def one_after_the_other(database: Database) -> Together:
    """Send each request when the previous request waits for a lock, all behind `lock`. Returns the responses."""

    def ask(
        lock: str, *asks: Ask, check: Callable[[psycopg.Connection], None] = lambda _: None
    ) -> list[httpx.Response]:
        with (
            psycopg.connect(database.superuser_url, autocommit=True) as looking,
            psycopg.connect(database.superuser_url) as other,
            ThreadPoolExecutor(len(asks)) as clients,
        ):
            other.execute(lock)
            answers = []
            try:
                for number, each in enumerate(asks, 1):
                    answers.append(clients.submit(each))
                    until(lambda wanted=number: looking.execute(_WAITING).fetchone() == (wanted,), f"{number} wait")
                check(looking)
            finally:
                other.rollback()
            return [each.result() for each in answers]

    return ask


def statuses(answers: list[httpx.Response]) -> list[int]:
    assert all(each.status_code < 300 for each in answers), [each.text for each in answers]
    return [each.status_code for each in answers]


@pytest.mark.parametrize("compares", [True, False], ids=["If-Match", "whatever it is"])
def test_policy_publish_and_site_change_both_succeed(
    api: httpx.Client, one_after_the_other: Together, compares: bool
) -> None:
    for path, body in (("endpoint-groups", {"name": "printers"}), ("sites", {"slug": "branch", "name": "Branch"})):
        created(api.post(f"{ALPHA}/{path}", json=body))
    office = f"{ALPHA}/policies/office"
    created(api.post(f"{ALPHA}/policies", json={"slug": "office"}))
    written = document("site.name", "Branch")
    written["rules"][0]["when"] = {
        "all": [written["rules"][0]["when"], document("endpoint.group", "printers")["rules"][0]["when"]]
    }
    assert api.put(f"{office}/draft", json=written).status_code == 200
    headers = {"If-Match": api.get(office).headers["etag"]} if compares else {}
    change = {"policy": "office", "monitor": True}
    answers = one_after_the_other(
        "SELECT FROM endpoint_groups FOR UPDATE",
        lambda: api.post(f"{office}/publish", json={}, headers=headers),
        lambda: api.patch(f"{ALPHA}/sites/branch", json=change),
    )
    assert statuses(answers) == [200, 200]
    assert api.get(office).json()["sites"] == ["branch"]


def test_default_site_and_pool_change_both_succeed(api: httpx.Client, one_after_the_other: Together) -> None:
    assert api.post(f"{ALPHA}/sites", json={"slug": "branch"}).status_code == 201
    pool = {"name": "devices", "ranges": ["10.1.0.0/29"], "site": "branch"}
    answers = one_after_the_other(
        "LOCK TABLE pools IN ACCESS EXCLUSIVE MODE",
        lambda: api.post(f"{ALPHA}/pools", json=pool),
        lambda: api.patch(f"{ALPHA}/sites/branch", json={"default": True}),
    )
    assert statuses(answers) == [201, 200]


_NAMESAKES: Final[list[tuple[str, str, list[dict[str, Any]]]]] = [
    ("nases", "sites", [{"name": "core", "identifier": "a"}, {"name": "core", "identifier": "b"}]),
    ("sites", "policies", [{"name": "core", "slug": "a"}, {"name": "core", "slug": "b"}]),
]


@pytest.mark.parametrize(("what", "table", "made"), _NAMESAKES, ids=["NASes", "sites"])
@pytest.mark.parametrize("named", [False, True], ids=["named by nobody", "named by a policy"])
def test_two_same_named_items_are_renamed_at_once(
    api: httpx.Client, one_after_the_other: Together, what: str, table: str, made: list[dict[str, Any]], named: bool
) -> None:
    """The remaining item with this name keeps it while a policy uses it."""
    for body in made:
        created(api.post(f"{ALPHA}/{what}", json=body))
    if named:
        attribute = {"nases": "nas.name", "sites": "site.name"}[what]
        created(api.post(f"{ALPHA}/policies", json={"slug": "office"}))
        assert api.put(f"{ALPHA}/policies/office/draft", json=document(attribute, "core")).status_code == 200
    answers = one_after_the_other(
        f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE",
        *(partial(api.patch, f"{ALPHA}/{what}/{key}", json={"name": f"core-{key}"}) for key in "ab"),
    )
    found = sorted((each.status_code, each.json().get("code", "")) for each in answers)
    assert found == ([(200, ""), (409, "in-use")] if named else [(200, ""), (200, "")])


@pytest.mark.parametrize(("what", "made"), [("nases", {"identifier": "a"}), ("sites", {"slug": "a"})])
def test_one_item_is_renamed_twice_at_once(
    api: httpx.Client, one_after_the_other: Together, what: str, made: dict[str, Any]
) -> None:
    """Neither request has an If-Match header."""
    assert api.post(f"{ALPHA}/{what}", json={"name": "core", **made}).status_code == 201
    answers = one_after_the_other(
        f"LOCK TABLE {what} IN SHARE ROW EXCLUSIVE MODE",
        *(partial(api.patch, f"{ALPHA}/{what}/a", json={"name": name}) for name in ("one", "two")),
    )
    assert statuses(answers) == [200, 200]
    assert api.get(f"{ALPHA}/{what}/a").json()["name"] == "two"


def test_policy_references_are_locked_by_id_order(api: httpx.Client, one_after_the_other: Together) -> None:
    """The order of creation has no effect. A change that waits for the first row has not locked the other rows."""
    for key in "abcdefgh":
        created(api.post(f"{ALPHA}/nases", json={"name": "core", "identifier": key}))
    created(api.post(f"{ALPHA}/policies", json={"slug": "office"}))
    free = []
    [saved] = one_after_the_other(
        "SELECT FROM nases WHERE id = (SELECT id FROM nases ORDER BY id LIMIT 1) FOR UPDATE",
        partial(api.put, f"{ALPHA}/policies/office/draft", json=document("nas.name", "core")),
        check=lambda looking: free.extend(looking.execute("SELECT FROM nases FOR UPDATE SKIP LOCKED").fetchall()),
    )
    assert (len(free), saved.status_code) == (7, 200)


_BULK: Final[list[tuple[str, dict[str, Any]]]] = [
    ("endpoint", {"mac": "00:00:5e:00:53:01", "groups": ["first"]}),
    ("user", {"name": "ann", "password": "correct horse battery", "groups": ["first"]}),
]


@pytest.mark.parametrize(("noun", "item"), _BULK, ids=["endpoints", "users"])
def test_group_delete_and_member_change_both_complete(
    api: httpx.Client, one_after_the_other: Together, noun: str, item: dict[str, Any]
) -> None:
    """The members stay in the group. The first change succeeds, and the second change sees its result."""
    created(api.post(f"{ALPHA}/{noun}-groups", json={"name": "first"}))
    bulk = {"operation": "put", "existing": "update", "items": [item]}
    assert api.post(f"{ALPHA}/{noun}s/bulk", json=bulk).status_code == 200
    changed = bulk | {"items": [item | ({"name": "another"} if noun == "endpoint" else {"disabled": True})]}
    answers = one_after_the_other(
        # The change has removed these members and will add them again.
        f"LOCK TABLE {noun}_group_members IN SHARE MODE",
        partial(api.post, f"{ALPHA}/{noun}s/bulk", json=changed),
        partial(api.delete, f"{ALPHA}/{noun}-groups/first"),
    )
    assert statuses(answers) == [200, 204]


@pytest.mark.parametrize(
    ("noun", "group", "file"),
    [
        ("endpoint", "printers", "mac,groups\n00:00:5e:00:53:01,printers\n"),
        ("user", "staff", "name,password,groups\nsam,pass-word-1,staff\n"),
    ],
    ids=["endpoints", "users"],
)
def test_group_create_and_import_both_complete(
    api: httpx.Client, one_after_the_other: Together, noun: str, group: str, file: str
) -> None:
    add = partial(api.post, f"{ALPHA}/{noun}-groups", json={"name": group})
    asked: dict[str, Any] = {"params": {"format": f"{noun}s", "make_groups": True}, "content": file}
    octets = {"Content-Type": "application/octet-stream"}
    take = partial(api.post, f"{ALPHA}/imports", headers=octets, **asked)
    statuses(one_after_the_other(f"LOCK {noun}_groups IN SHARE MODE", add, take))
    assert [each["groups"] for each in api.get(f"{ALPHA}/{noun}s").json()["items"]] == [[group]]
    made = {"action": f"{noun}-group.create", "target": group}
    assert len(api.get(f"{ALPHA}/audit", params=made).json()["items"]) == 1
