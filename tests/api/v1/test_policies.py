"""Policies: drafts, versions, publishing, rollback and conflicts."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.models import AuthLog, PolicyHits
from nac.policies import replay_jobs
from tests.api.v1.responses import created, refusal, walk
from tests.factories.rows import make_row

HERE = "/v1/tenants/alpha"
POLICIES = f"{HERE}/policies"
OFFICE = f"{POLICIES}/office"


def document(vlan: str = "20", **more: object) -> dict[str, Any]:
    when = {"attribute": "method", "operator": "equals", "value": "mab"}
    rule = {"id": "printers", "name": "Printers", "when": when, "then": {"verdict": "permit", "vlan": vlan}}
    return {"rules": [rule], **more}


def expecting(vlan: str) -> dict[str, Any]:
    return {"name": f"A printer on {vlan}", "request": {"method": "mab"}, "expect": {"vlan": vlan}}


def save(api: httpx.Client, written: object, **headers: str) -> httpx.Response:
    content = written if isinstance(written, bytes) else json.dumps(written).encode()
    return api.put(f"{OFFICE}/draft", content=content, headers={"Content-Type": "application/json", **headers})


def publish(api: httpx.Client, written: object, **body: object) -> httpx.Response:
    if api.get(OFFICE).status_code == 404:
        created(api.post(POLICIES, json={"slug": "office"}))
    assert save(api, written).status_code == 200
    return api.post(f"{OFFICE}/publish", json=body)


def mistakes(answer: httpx.Response) -> dict[str, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    return {each["place"]: each["detail"] for each in answer.json().get("mistakes", ())}


@pytest.fixture
def record(owner_engine: Engine, tenant_id: TenantId, api: httpx.Client):
    """Function that logs MAB decisions about printers on VLAN 20."""
    site_id = UUID(api.get(f"{HERE}/sites/main").json()["id"])

    def record(times: int = 1) -> None:
        row = {"tenant_id": tenant_id, "at": utc_now(), "site_id": site_id, "mac": "00005e005301", "permitted": True}
        decided = {"reason": "rule-permitted", "rule_id": "printers", "vlan": "20", "policy_version": 1}
        row |= decided | {"suppressed": 0, "request": {"method": ["mab"]}}
        with Session(owner_engine) as session, session.begin():
            for _ in range(times):
                make_row(session, AuthLog.__table__, **row)

    return record


@pytest.fixture
def replay_required(owner_engine: Engine, tenant_id: TenantId) -> None:
    with owner_engine.begin() as connection:
        connection.exec_driver_sql("UPDATE tenants SET replay_days = 7")


def test_policy_lifecycle_from_draft_to_rollback(api: httpx.Client) -> None:
    made = created(api.post(POLICIES, json={"slug": "office", "name": "Office"}))
    named = {"slug": "office", "name": "Office"}
    assert made == {"id": made["id"], "published_version": None, "sites": [], **named}
    assert api.get(f"{OFFICE}/draft").status_code == 404
    written = json.dumps(document(), indent=4)
    kind = {"Content-Type": "application/json"}
    saved = api.put(f"{OFFICE}/draft?comment=First", content=written, headers=kind)
    assert saved.status_code == 200, saved.text
    draft = saved.json()
    assert (draft["version"], draft["status"], draft["comment"]) == (1, "draft", "First")
    assert (draft["document"], draft["written"]) == (document(), written)
    assert api.get(f"{OFFICE}/draft").json() == draft
    for answer in (api.post(f"{OFFICE}/publish", json={"version": 1}), publish(api, document("30"))):
        assert answer.status_code == 200, answer.text
        assert answer.json()["status"] == "published"
        assert int(answer.headers["admit-position"]) > 0
        assert answer.headers["admit-live"] == "false"
    assigned = api.patch(f"{HERE}/sites/main", json={"policy": "office"})
    assert assigned.json()["policy"] == "office"
    back = api.post(f"{OFFICE}/roll-back", json={"version": 1, "comment": "Oops"})
    assert back.status_code == 200, back.text
    assert (back.json()["version"], back.json()["document"]) == (3, document())
    now = api.get(OFFICE).json()
    assert (now["published_version"], now["sites"]) == (3, ["main"])
    versions = [(each["version"], each["status"]) for each in walk(api, f"{OFFICE}/versions")]
    assert versions == [(3, "published"), (2, "superseded"), (1, "superseded")]
    assert api.get(f"{OFFICE}/versions/2").json()["document"] == document("30")
    in_use = api.delete(OFFICE)
    assert refusal(in_use) == (409, "in-use")
    api.patch(f"{HERE}/sites/main", json={"policy": None})
    assert api.delete(OFFICE).status_code == 204
    assert api.get(OFFICE).json()["code"] == "policy-not-found"


def test_draft_changed_by_another_user_is_not_overwritten(api: httpx.Client) -> None:
    api.post(POLICIES, json={"slug": "office"})
    assert save(api, document(), **{"If-Match": '"x"'}).json()["code"] == "has-changed"
    first = save(api, document()).headers["etag"]
    assert api.get(f"{OFFICE}/draft").headers["etag"] == first
    assert save(api, document("30"), **{"If-Match": first}).status_code == 200
    late = save(api, document("40"), **{"If-Match": first})
    assert refusal(late) == (412, "has-changed")
    assert api.get(f"{OFFICE}/draft").json()["document"] == document("30")


def test_invalid_policy_lists_every_error(api: httpx.Client) -> None:
    api.post(POLICIES, json={"slug": "office"})
    for written, status, place in (
        (b"", 422, "line 1, column 1"),
        (b"{", 422, "line 1, column 2"),
        (b"null", 422, ""),
        (b"[]", 422, ""),
        (b"[" * 100_000, 422, ""),
        (json.dumps({"rules": [{"when": {}}]}).encode(), 422, "rules[0].when"),
        (b'{"rules": [], "rules": []}', 422, ""),
        (b'{"rules": [], "colour": 1}', 422, "colour"),
        (b'{"rules": [], "fallback": {"verdict": "permit", "vlan": "\\u0000"}}', 422, "fallback.vlan"),
        (b'{"rules": [], "fallback": {"verdict": "permit", "vlan": "\\ud800"}}', 422, "fallback.vlan"),
        (b'{"a": %b1%b}' % (b"[" * 900, b"]" * 900), 422, ""),
        (b'{"a": %b}' % (b"9" * 5_000), 422, ""),
        (b'{"a": NaN}', 422, "a"),
        (b"\xff\xfe\xff", 422, ""),
        (b'{"rules": [' + b" " * 300_000 + b"]}", 413, None),
        (b"x" * 2_000_000, 413, None),
    ):
        answer = save(api, written)
        assert answer.status_code == status, answer.text
        if answer.json()["code"] == "invalid-policy":
            assert place in mistakes(answer)
        assert api.get(f"{OFFICE}/draft").status_code == 404


def test_policy_with_failing_tests_is_not_published(api: httpx.Client) -> None:
    refused = publish(api, document("30", tests=[expecting("20"), expecting("30")]))
    assert refusal(refused) == (409, "policy-tests-failed")
    (failed,) = refused.json()["failed_tests"]
    assert failed["unmet"] == [{"what": "vlan", "expected": "20", "came": "30"}]
    assert "Printers" in failed["why"]
    assert api.get(OFFICE).json()["published_version"] is None
    tested = api.post(f"{HERE}/policy-tests", json={"policy": "office"}).json()
    assert (tested["passed"], [each["passed"] for each in tested["tests"]]) == (False, [False, True])
    assert tested["tests"][0]["unmet"] == failed["unmet"]


@pytest.mark.usefixtures("replay_required")
def test_changes_publish_only_after_acknowledgement(api: httpx.Client, record) -> None:
    assert publish(api, document()).status_code == 200
    api.patch(f"{HERE}/sites/main", json={"policy": "office"})
    record(3)
    refused = publish(api, document("30"))
    assert refusal(refused) == (409, "unacknowledged-differences")
    replay = refused.json()["replay"]
    assert (replay["total"], replay["changed"], replay["groups"]) == (3, 3, 1)
    assert (replay["differences"][0]["from"]["vlan"], replay["differences"][0]["to"]["vlan"]) == ("20", "30")
    assert replay["differences"][0]["examples"][0]["mac"] == "00:00:5e:00:53:01"
    other = api.post(f"{OFFICE}/publish", json={"acknowledge": "0" * 16})
    assert other.json()["code"] == "unacknowledged-differences"
    done = api.post(f"{OFFICE}/publish", json={"acknowledge": replay["digest"]})
    assert done.status_code == 200, done.text
    assert done.json()["replayed"]["acknowledged_by"].startswith("token:")


@pytest.mark.usefixtures("replay_required")
def test_long_replay_and_publication_are_jobs(
    api: httpx.Client, record, work: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert publish(api, document()).status_code == 200
    api.patch(f"{HERE}/sites/main", json={"policy": "office"})
    record(3)
    at_once = api.post(f"{HERE}/policy-replays", json={"days": 7, "document": document("30")})
    assert at_once.status_code == 200, at_once.text
    monkeypatch.setattr(replay_jobs, "MAX_INLINE_REQUESTS", 2)

    def job(answer: httpx.Response) -> dict[str, Any]:
        assert answer.status_code == 202, answer.text
        assert work()
        return api.get(answer.headers["location"]).json()

    replayed = job(api.post(f"{HERE}/policy-replays", json={"days": 7, "document": document("30")}))
    assert replayed["state"] == "done", replayed
    for name in ("total", "changed", "groups", "digest"):
        assert replayed["result"][name] == at_once.json()[name]
    asked = publish(api, document("30"))
    # The ETag is that of the job in Location.
    assert asked.headers["etag"] == api.get(asked.headers["location"]).headers["etag"]
    taken = api.patch(OFFICE, json={"name": "Late"}, headers={"If-Match": asked.headers["etag"]})
    assert refusal(taken) == (412, "has-changed")
    refused = job(asked)
    assert (refused["state"], refused["problem"]["code"]) == ("failed", "unacknowledged-differences")
    digest = refused["problem"]["replay"]["digest"]
    assert api.get(OFFICE).json()["published_version"] == 1
    waiting = api.post(f"{OFFICE}/publish", json={"acknowledge": digest})
    # The publication does not include a draft saved meanwhile, perhaps by a user without publish permission.
    assert api.put(f"{OFFICE}/draft", json=document("40")).status_code == 200
    late = job(waiting)
    assert (late["state"], late["problem"]["detail"]) == ("failed", "The draft is version 3, not 2.")
    assert api.put(f"{OFFICE}/draft", json=document("30")).status_code == 200
    done = job(api.post(f"{OFFICE}/publish", json={"acknowledge": digest}))
    assert (done["state"], done["result"]) == ("done", {"slug": "office", "version": 4})
    assert api.get(OFFICE).json()["published_version"] == 4


@pytest.mark.usefixtures("replay_required")
def test_publication_without_draft_starts_no_job(api: httpx.Client, record, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the job would publish a draft that was saved while it waited, without a review."""
    monkeypatch.setattr(replay_jobs, "MAX_INLINE_REQUESTS", 2)
    record(3)
    assert api.post(f"{HERE}/policies", json={"slug": "office"}).status_code == 201
    refused = api.post(f"{OFFICE}/publish", json={})
    assert refusal(refused) == (409, "nothing-to-publish"), refused.text
    assert api.get(f"{HERE}/jobs").json()["items"] == []


def test_hits_list_every_rule(api: httpx.Client, owner_engine: Engine, tenant_id: TenantId) -> None:
    api.post(POLICIES, json={"slug": "office"})
    assert api.get(f"{OFFICE}/hits").status_code == 404
    publish(api, document())
    policy_id = UUID(api.get(OFFICE).json()["id"])
    now = utc_now()
    hits = {"version": 1, "rule_id": "printers", "day": now.date(), "hits": 4, "last_at": now}
    with Session(owner_engine) as session, session.begin():
        session.add(PolicyHits(tenant_id=tenant_id, policy_id=policy_id, **hits))
    rules = api.get(f"{OFFICE}/hits").json()["rules"]
    found = [(rule["rule"], rule["hits_1d"], rule["never_hit"]) for rule in rules]
    assert found == [("printers", 4, False), ("", 0, True)]


def test_invalid_operations_are_rejected(api: httpx.Client) -> None:
    api.post(POLICIES, json={"slug": "office"})
    save(api, document())
    for path, body, code in (
        ("policies/none/publish", {}, "policy-not-found"),
        ("policies/office/publish", {"version": 7}, "conflict"),
        ("policies/office/publish", {"version": 2**40}, "invalid-input"),
        ("policies/office/publish", {"acknowledge": "?"}, "invalid-input"),
        ("policies/office/publish", {"force": True}, "invalid-input"),
        ("policies/office/roll-back", {"version": 1}, "conflict"),
        ("policies/office/roll-back", {"version": 9}, "policy-version-not-found"),
        ("policies/office/roll-back", {"version": 1, "comment": "\0"}, "text-refused"),
        ("policies", {"slug": "office"}, "already-exists"),
        ("policies", {"slug": "Office"}, "invalid-input"),
    ):
        answer = api.post(f"{HERE}/{path}", json=body)
        assert answer.status_code in (404, 409, 422), answer.text
        assert answer.json()["code"] == code
