"""Two concurrent changes of one resource: exactly one succeeds, and the other gets a clear conflict."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

import httpx
import pytest
from pydantic import BaseModel
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from api.change import Change
from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import IdempotencyKey
from nac.pools import repository
from nac.pools import service as pools
from tests.api.v1.responses import created
from tests.factories.tenancy import ACTOR
from tests.polling import PATIENCE_SECONDS, until

ALPHA, ACME = "/v1/tenants/alpha", "/v1/msps/acme"
LIMITS = "/v1/platform/retention/limits/auth"
PEOPLE = "/v1/platform/people"
_MAKES = {
    f"{ALPHA}/policies/office": (f"{ALPHA}/policies", {"slug": "office"}),
    f"{ACME}/templates/office": (f"{ACME}/templates", {"slug": "office"}),
    f"{ALPHA}/nases/sw-1": (f"{ALPHA}/nases", {"name": "North", "identifier": "sw-1"}),
    f"{ALPHA}/sites/branch": (f"{ALPHA}/sites", {"slug": "branch"}),
    f"{ALPHA}/pools/devices": (f"{ALPHA}/pools", {"name": "devices", "ranges": ["10.1.0.0/29"]}),
    f"{ALPHA}/endpoints/00:00:5e:00:53:01": (f"{ALPHA}/endpoints", {"mac": "00:00:5e:00:53:01"}),
    f"{ALPHA}/enrolment-secrets/mdm": (f"{ALPHA}/enrolment-secrets", {"name": "mdm", "uses": 5}),
    f"{ALPHA}/feeds/siem": (
        f"{ALPHA}/feeds",
        {"kind": "webhook", "name": "siem", "settings": {"url": "https://siem.example/"}},
    ),
    f"{ALPHA}/users/ann": (f"{ALPHA}/users", {"name": "ann", "password": "correct horse battery"}),
}


class Meeting:
    """Two calls wait for each other, unless a lock delays one of them."""

    def __init__(self, engine: Engine) -> None:
        self._barrier, self._engine = Barrier(2, timeout=PATIENCE_SECONDS), engine

    def wait(self) -> None:
        with suppress(BrokenBarrierError):
            self._barrier.wait()

    def is_lock_awaited(self) -> bool:
        with self._engine.connect() as connection:
            return bool(connection.scalar(text("SELECT count(*) FROM pg_locks WHERE NOT granted")))

    def _is_one_delayed(self) -> bool:
        return self._barrier.n_waiting == 1 and self.is_lock_awaited()

    def at_once(self, ask: Callable[[int], httpx.Response]) -> list[httpx.Response]:
        """Send two requests. Returns the responses in the order of their statuses."""
        with ThreadPoolExecutor(2) as both:
            asked = [both.submit(ask, which) for which in range(2)]
            until(lambda: any(each.done() for each in asked) or self._is_one_delayed(), "one waits for the other")
            self._barrier.abort()
            return sorted((each.result() for each in asked), key=lambda answer: answer.status_code)


@pytest.fixture
def meeting(owner_engine: Engine) -> Meeting:
    return Meeting(owner_engine)


def make(api: httpx.Client, path: str) -> None:
    if path in _MAKES:
        where, body = _MAKES[path]
        created(api.post(where, json=body))


@pytest.fixture
def compare_together(meeting: Meeting, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Function that pauses each caller after its comparison until the other caller has compared too."""
    compare = Change.require_match

    def require_match(change: Change, current: BaseModel | None) -> None:
        compare(change, current)
        meeting.wait()

    return lambda: monkeypatch.setattr(Change, "require_match", require_match)


def limits(days: int) -> dict[str, int]:
    return {"floor_days": 10, "default_days": days, "ceiling_days": 400}


@pytest.mark.parametrize(
    ("method", "path", "bodies"),
    [
        ("PATCH", f"{ALPHA}/policies/office", [{"name": "One"}, {"name": "Two"}]),
        ("PATCH", f"{ALPHA}/endpoints/00:00:5e:00:53:01", [{"name": "One"}, {"name": "Two"}]),
        ("PATCH", f"{ACME}/templates/office", [{"name": "One"}, {"name": "Two"}]),
        ("PUT", LIMITS, [limits(100), limits(200)]),
        ("PUT", f"{ALPHA}/renewal-settings", [{"keeps_key": True}, {"keeps_key": True}]),
        ("PUT", f"{ALPHA}/authorities/key-store", [{"store": "sealed"}, {"store": "sealed"}]),
        ("PUT", f"{ALPHA}/certificate-profiles/eap-client-device", [{"validity_days": 30}, {"validity_days": 31}]),
        ("PATCH", f"{ALPHA}/redecisions/settings", [{"per_second": 7}, {"per_second": 8}]),
        ("PUT", f"{ACME}/sign-in-rules", [{"two_factors": True}, {"two_factors": True}]),
        ("PATCH", PEOPLE, [{"status": "disabled"}, {"status": "disabled"}]),
    ],
)
def test_one_of_two_changes_of_the_same_state_succeeds(
    api, operator, meeting, compare_together, method, path, bodies
) -> None:
    make(api, path)
    if path in (LIMITS, PEOPLE):
        api.headers.update(operator)
    if path == PEOPLE:
        path = f"{PEOPLE}/{api.post(PEOPLE, json={'email': 'ann@example.com'}).json()['id']}"
    tag = api.get(path).headers["etag"]
    compare_together()
    answers = meeting.at_once(lambda which: api.request(method, path, json=bodies[which], headers={"If-Match": tag}))
    assert [answer.status_code for answer in answers] == [200, 412], [answer.text for answer in answers]


@pytest.mark.parametrize(
    ("path", "act", "body"),
    [
        (f"{ALPHA}/endpoints/00:00:5e:00:53:01", "block", None),
        (f"{ALPHA}/feeds/siem", "pause", {"because": "It moves."}),
        (f"{ALPHA}/policies/office", "publish", None),
        (f"{ALPHA}/enrolment-secrets/mdm", "revoke", None),
    ],
)
def test_one_of_two_actions_on_the_same_state_succeeds(
    api: httpx.Client,
    meeting: Meeting,
    compare_together: Callable[[], None],
    path: str,
    act: str,
    body: dict[str, Any] | None,
) -> None:
    make(api, path)
    if act == "publish":
        assert api.put(f"{path}/draft", json={"rules": [], "fallback": {"verdict": "deny"}}).status_code == 200
    tag = api.get(path).headers["etag"]
    compare_together()
    answers = meeting.at_once(lambda _: api.post(f"{path}/{act}", json=body, headers={"If-Match": tag}))
    assert [answer.status_code for answer in answers] == [200, 412], [answer.text for answer in answers]
    assert answers[1].json()["code"] == "has-changed"
    # The response contains the resource after the action.
    assert answers[0].headers["etag"].partition("-")[0] == api.get(path).headers["etag"].partition("-")[0]


@pytest.mark.parametrize(
    "path", [path for path in _MAKES if path.split("/")[-2] in ("nases", "sites", "pools", "users")]
)
def test_second_concurrent_delete_is_not_found(
    api, meeting: Meeting, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    make(api, path)
    refresh = Session.refresh

    def refreshed(session: Session, *args: Any, **given: Any) -> None:
        meeting.wait()
        refresh(session, *args, **given)

    monkeypatch.setattr(Session, "refresh", refreshed)
    answers = meeting.at_once(lambda _: api.delete(path))
    codes = [answer.status_code for answer in answers]
    assert codes == ([202, 404] if codes[0] == 202 else [204, 404]), [answer.text for answer in answers]


def assert_name_taken(answer: httpx.Response, place: str) -> None:
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["place"]) == (409, "already-exists", place), problem
    assert " already" in problem["detail"] or problem["detail"].startswith("Another NAS"), problem
    assert "uq_" not in answer.text


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        (f"{ALPHA}/policies", {"slug": "office"}, "slug"),
        (f"{ACME}/templates", {"slug": "office"}, "slug"),
        (f"{ALPHA}/roles", {"slug": "porter", "name": "Porter", "permissions": ["endpoint.read"]}, "slug"),
        (f"{ALPHA}/nases", {"name": "North", "identifier": "sw-1"}, "identifier"),
        (f"{ALPHA}/sites", {"slug": "branch"}, "slug"),
        (f"{ALPHA}/users", {"name": "ann", "password": "correct horse battery"}, "name"),
        (f"{ALPHA}/endpoints", {"mac": "00:00:5e:00:53:01"}, "mac"),
        (f"{ALPHA}/endpoint-groups", {"name": "printers"}, "name"),
        ("/v1/tenants", {"msp": "acme", "slug": "bolt"}, "slug"),
    ],
)
def test_concurrent_duplicate_create_makes_one(
    api: httpx.Client, meeting: Meeting, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any], place: str
) -> None:
    """Each caller has already checked that the name does not exist."""
    add = Session.add

    def added(session: Session, row: object, *args: Any) -> None:
        if not isinstance(row, IdempotencyKey):
            meeting.wait()
        add(session, row, *args)

    monkeypatch.setattr(Session, "add", added)
    made, refused = meeting.at_once(lambda _: api.post(path, json=body))
    assert made.status_code == 201, made.text
    assert_name_taken(refused, place)


@pytest.mark.parametrize(
    ("noun", "place", "bodies", "wanted"),
    [
        ("endpoint-groups", "name", [{"name": "one"}, {"name": "two"}], "three"),
        ("user-groups", "name", [{"name": "one"}, {"name": "two"}], "three"),
        ("nases", "identifier", [{"name": name, "identifier": name} for name in ("one", "two")], "three"),
        ("nases", "address", [{"name": f"{n}", "address": f"192.0.2.{n}"} for n in (1, 2)], "192.0.2.3"),
    ],
)
def test_one_of_two_concurrent_renames_to_a_name_succeeds(
    api, meeting, monkeypatch, noun, place, bodies, wanted
) -> None:
    for body in bodies:
        created(api.post(f"{ALPHA}/{noun}", json=body))
    flush = Session.flush

    def flushed(session: Session, *args: Any) -> None:
        if session.dirty:
            meeting.wait()
        flush(session, *args)

    monkeypatch.setattr(Session, "flush", flushed)
    changed, refused = meeting.at_once(
        lambda which: api.patch(f"{ALPHA}/{noun}/{bodies[which]['name']}", json={place: wanted})
    )
    assert changed.status_code == 200, changed.text
    assert_name_taken(refused, place)


def test_pool_delete_waits_for_tenant_pool_changes(
    api: httpx.Client, meeting: Meeting, app_engine: Engine, tenant_id: TenantId
) -> None:
    """Every change of a pool locks the tenant before it locks a pool."""
    path = f"{ALPHA}/pools/devices"
    make(api, path)
    with ThreadPoolExecutor(1) as other, session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        repository.lock_tenant(session, tenant_id)
        removal = other.submit(api.delete, path)
        until(meeting.is_lock_awaited, "the removal waits for the tenant")
        pools.update_pool(session, actor=ACTOR, tenant_id=tenant_id, name="devices", options=pools.PoolOptions(stock=3))
        session.commit()
        assert removal.result().status_code == 204, removal.result().text
