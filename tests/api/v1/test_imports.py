"""Imports and exports of endpoint, user and NAS files in the API."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from nac.inventory.endpoints import service as endpoints
from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import AuditEntry
from nac.onboarding.imports import csv_writer
from tests.api.v1.conftest import As
from tests.api.v1.responses import error_paths, refusal
from tests.api.v1.test_bulk import assert_sentences
from tests.factories.tenancy import ACTOR
from tests.imports.test_forms import CLIENTS, ISE, NODES, USERS

TENANT = "/v1/tenants/alpha"
IMPORTS = f"{TENANT}/imports"


def give(api: httpx.Client, form: str, text: str, **options: object) -> httpx.Response:
    return api.post(IMPORTS, params={"format": form} | options, content=text.encode())


@pytest.mark.parametrize(
    ("form", "text", "counts"),
    [
        ("freeradius-clients", CLIENTS, {"nases": 4}),
        ("freeradius-users", USERS.replace("testing it", "testing it well"), {"users": 4, "endpoints": 2}),
        ("packetfence-nodes", NODES, {"endpoints": 2}),
        ("ise-endpoints", ISE, {"endpoints": 4}),
    ],
)
def test_file_is_previewed_stored_and_idempotent(
    api: httpx.Client, form: str, text: str, counts: dict[str, int]
) -> None:
    preview = give(api, form, text, dry_run=True, make_groups=True)
    assert preview.status_code == 200, preview.text
    told = preview.json()
    assert (told["stored"], told["mistakes"]) == (False, [])
    assert {noun: told["counts"][noun]["add"] for noun in counts} == counts
    assert told["notes"]
    assert [api.get(f"{TENANT}/{noun}").json()["items"] for noun in counts] == [[]] * len(counts)
    done = give(api, form, text, make_groups=True)
    assert done.status_code == 200, done.text
    assert done.json() == told | {"stored": True}
    assert int(done.headers["admit-position"]) > 0
    for noun, count in counts.items():
        assert len(api.get(f"{TENANT}/{noun}").json()["items"]) == count
    assert give(api, form, text).json()["code"] == "rows-refused"
    again = give(api, form, text, existing="keep").json()
    assert {noun: again["counts"][noun]["keep"] for noun in counts} == counts


def test_preview_lists_errors_and_import_rejects_them(api: httpx.Client) -> None:
    text = "mac,groups\nxyz,\n00005e005301,nobody-made-it\n"
    told = give(api, "endpoints", text, dry_run=True).json()
    assert [(each["line"], each["field"]) for each in told["mistakes"]] == [(2, "mac"), (3, "groups")]
    assert_sentences(told["mistakes"])
    refused = give(api, "endpoints", text)
    assert refusal(refused) == (422, "rows-refused")
    assert error_paths(refused) == ["line 2: mac", "line 3: groups"]
    for form, content, place in (("freeradius-clients", "$INCLUDE x", "line 1"), ("users", "", "file")):
        unreadable = give(api, form, content)
        assert (unreadable.status_code, unreadable.json()["place"]) == (422, place)
    assert give(api, "nothing", "x").status_code == 422
    assert api.get(f"{TENANT}/endpoints").json()["items"] == []


def test_preview_does_not_count_invalid_rows_as_new(api: httpx.Client) -> None:
    for form, text, name in (
        ("users", "name,password\nann,short\nbob,correct horse battery\n", "bob"),
        ("endpoints", "mac,groups\n00005e005301,nobody-made-it\n00005e005302,\n", "00:00:5e:00:53:02"),
        ("nases", "name,identifier,secret\none,sw-1,short\ntwo,sw-2,\n", "two"),
    ):
        told = give(api, form, text, dry_run=True).json()
        assert [each["line"] for each in told["mistakes"]] == [2]
        assert [(row["line"], row["name"], row["action"]) for row in told["rows"]] == [(3, name, "add")]
        assert (told["counts"][form]["add"], told["rows_in_all"]) == (1, 1)


def test_secrets_in_a_file_are_not_shown_or_logged(api: httpx.Client, app_engine: Engine, tenant_id: TenantId) -> None:
    answers = [give(api, "freeradius-clients", CLIENTS), give(api, "freeradius-users", USERS, dry_run=True)]
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        entries = [str(vars(entry)) for entry in session.scalars(select(AuditEntry))]
    for secret in ("long-enough-to-be-taken", "another-long-enough-one", "testing it", "0CB6948805F797"):
        assert not any(secret in answer.text for answer in answers)
        assert not any(secret in entry for entry in entries)


def test_large_file_and_preview_become_jobs(api: httpx.Client, work: Callable[[], bool]) -> None:
    text = "mac,name\n" + "".join(f"00005e{number:06x},Printer {number}\n" for number in range(1_001))

    def job(text: str, **options: object) -> dict[str, Any]:
        begun = give(api, "endpoints", text, **options)
        assert begun.status_code == 202, begun.text
        assert work()
        return api.get(begun.headers["location"]).json()

    # The last line has an error.
    result = job(text + "xyz,\n", dry_run=True)["result"]
    assert (result["stored"], result["rows_in_all"], len(result["rows"])) == (False, 1_001, 1_000)
    assert [(each["line"], each["field"]) for each in result["mistakes"]] == [(1_003, "mac")]
    assert api.get(f"{TENANT}/endpoints").json()["items"] == []
    done = job(text)
    assert (done["state"], done["total"], done["result"]["counts"]["endpoints"]["add"]) == ("done", 1_001, 1_001), done
    failed = job(text + "xyz,\n", existing="update")["problem"]
    assert [each["place"] for each in failed["mistakes"]] == ["line 1003: mac"]


def test_invalid_lines_are_listed_and_skipped_on_request(api: httpx.Client) -> None:
    text = """\
ann Cleartext-Password := "short"
bob Cleartext-Password := "a good long password"
cyd Cleartext-Password := "also"
00005e005301 Cleartext-Password := "00005e005301"
"""
    wrong = ["line 1: password", "line 3: password"]
    assert error_paths(give(api, "freeradius-users", text)) == wrong
    assert api.get(f"{TENANT}/users").json()["items"] == []
    done = give(api, "freeradius-users", text, wrong="leave-out").json()
    assert (done["stored"], done["counts"]["users"]["add"], done["counts"]["endpoints"]["add"]) == (True, 1, 1)
    assert [each["line"] for each in done["notes"] if "was skipped: password" in each["text"]] == [1, 3]
    assert [row["name"] for row in api.get(f"{TENANT}/users").json()["items"]] == ["bob"]
    assert "also" not in str(done)


@pytest.mark.parametrize("noun", ["endpoints", "users"])
def test_lines_with_unknown_groups_are_skipped(api: httpx.Client, noun: str) -> None:
    key, extra, value = {"endpoints": ("mac", "name", "x"), "users": ("name", "password", "correct horse")}[noun]
    names = [f"00:00:5e:00:53:0{n}" if noun == "endpoints" else f"user{n}" for n in range(1, 6)]
    groups = ["printers", "", "printers", "cameras;printers", ""]
    rows = "".join(f"{name},{value},{group}\n" for name, group in zip(names, groups, strict=True))
    text = f"{key},{extra},groups\n{rows}"
    refused = give(api, noun, text)
    assert error_paths(refused) == [f"line {line}: groups" for line in (2, 4, 5, 5)]
    seen = give(api, noun, text, dry_run=True).json()
    assert (seen["counts"][noun]["add"], seen["rows_in_all"], seen["mistakes_in_all"]) == (2, 2, 4)
    assert [each["line"] for each in seen["mistakes"]] == [2, 4, 5, 5]
    preview = give(api, noun, text, wrong="leave-out", dry_run=True).json()
    done = give(api, noun, text, wrong="leave-out")
    assert done.status_code == 200, done.text
    assert (done.json()["stored"], done.json()["mistakes"]) == (True, [])
    assert done.json() == preview | {"stored": True}
    assert done.json()["counts"][noun]["add"] == 2
    left = {each["line"]: each["text"] for each in done.json()["notes"]}
    assert left.keys() == {2, 4, 5}
    assert all(text.startswith("was skipped: groups: Unknown group '") for text in left.values())
    assert [row[key] for row in api.get(f"{TENANT}/{noun}").json()["items"]] == [names[1], names[4]]
    assert api.get(f"{TENANT}/{'endpoint' if noun == 'endpoints' else 'user'}-groups").json()["items"] == []


@pytest.mark.parametrize(
    ("noun", "lines", "left_out", "stored"),
    [
        ("endpoints", "mac,groups\n00005e005301,none\n00005e005301,\n00005e005302,\n00005e005302,\n", {2, 5}, 2),
        ("endpoints", "mac,groups\n00005e005301,none\n00005e005301,\n00005e005301,\n", {2, 4}, 1),
        ("endpoints", "mac,groups\n00005e005301,none\n00005e005301,none\n", {2, 3}, 0),
        ("users", "name,password\nann,short\nann,correct horse\n", {2}, 1),
        ("nases", "name,identifier\nvendors,one\nb,one\n", {2}, 1),
    ],
)
def test_duplicate_of_a_skipped_line_is_stored(
    api: httpx.Client, noun: str, lines: str, left_out: set[int], stored: int
) -> None:
    done = give(api, noun, lines, wrong="leave-out")
    assert done.status_code == 200, done.text
    assert {each["line"] for each in done.json()["notes"]} == left_out
    assert len(api.get(f"{TENANT}/{noun}").json()["items"]) == stored


def test_import_needs_the_permission_of_each_kind(api: httpx.Client, as_tenant: As) -> None:
    files = (("endpoints", "mac\n00005e005301"), ("nases", "name\nx"), ("users", "name\nx"))
    for permissions, statuses in (
        (("endpoint.read", "user.manage"), [403, 403, 403]),
        (("endpoint.manage",), [200, 403, 403]),
        (("endpoint.manage", "user.manage"), [200, 403, 200]),
    ):
        api.headers.update(as_tenant(*permissions))
        assert [give(api, form, text, dry_run=True).status_code for form, text in files] == statuses


def test_export_is_imported_unchanged(api: httpx.Client) -> None:
    first = (
        "mac,name,groups,owner,notes,attribute.room,valid_until\n"
        '00:00:5e:00:53:01,=1+1,printers;staff,"Ann, IT",@home,12,2099-01-31\n00:00:5e:00:53:02,,,,,,\n'
    )
    assert give(api, "endpoints", first, make_groups=True).status_code == 200
    nases = (
        "name,address,behind_nat,secret,mab_password,mab_password_text,mab_by_name\n"
        "North,192.0.2.7,yes,a-secret-of-its-own-1,fixed,NOPASSWORD,yes\n"
    )
    assert give(api, "nases", nases).status_code == 200
    assert give(api, "users", "name,password,groups\nann,correct horse,\n").status_code == 200
    for noun, rows in (("endpoints", 2), ("nases", 1), ("users", 1)):
        written = api.get(f"{TENANT}/{noun}.csv")
        assert (written.status_code, written.headers["content-type"]) == (200, "text/csv; charset=utf-8")
        assert written.text.count("\n") == rows + 1
        assert ",=1+1" not in written.text
        for secret in ("correct horse", "a-secret-of-its-own-1", "NOPASSWORD"):
            assert secret not in written.text
        told = give(api, noun, written.text, existing="update", dry_run=True).json()
        assert told["counts"][noun]["same"] == rows, (written.text, told)


def test_slow_download_holds_no_transaction(
    app_engine: Engine, tenant_id: TenantId, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each download would hold one of the few shared connections."""
    held = 0

    @contextmanager
    def read() -> Iterator[Session]:
        nonlocal held
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            held += 1
            yield session
            held -= 1

    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        for number in range(3):
            endpoints.create_endpoint(session, actor=ACTOR, tenant_id=tenant_id, mac=f"00005e00530{number}", groups=[])
    monkeypatch.setattr(csv_writer, "_PAGE_ROWS", 1)
    for write in (csv_writer.endpoints_csv, csv_writer.nases_csv, csv_writer.users_csv):
        parts = [(held, part) for part in write(read, tenant_id=tenant_id)]
        assert {held for held, _ in parts} == {0}
    assert "".join(csv_writer.endpoints_csv(read, tenant_id=tenant_id)).lower().count("00:00:5e:00:53:0") == 3


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("endpoints", "mac,name,groups\n00:00:5e:00:53:01,a,x;y\n"),
        ("users", "name,password,groups\nann,correct horse,x;y\n"),
    ],
)
def test_preview_rejects_too_many_groups_like_the_import(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch, form: str, text: str
) -> None:
    monkeypatch.setattr("nac.inventory.groups.MAX_NEW_GROUPS", 1)
    for is_preview in (True, False):
        answer = give(api, form, text, make_groups=True, dry_run=is_preview)
        assert answer.json()["code"] == "too-many-groups", answer.text
        assert answer.json()["remedy"] == "Create at most 1 groups at once."
