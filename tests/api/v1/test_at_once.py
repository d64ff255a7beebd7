"""Two changes of the same thing at once: of two that have seen the same state exactly one is made."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

import httpx
import pytest
from pydantic import BaseModel
from sqlalchemy.orm import Session

from api.change import Change
from nac.accounts.owners import Owner
from tests.api.v1.conftest import MakeToken

ALPHA, ACME = "/v1/tenants/alpha", "/v1/msps/acme"
LIMITS = "/v1/platform/retention/limits/auth"
_MAKES = {
    f"{ALPHA}/policies/office": (f"{ALPHA}/policies", {"slug": "office"}),
    f"{ACME}/templates/office": (f"{ACME}/templates", {"slug": "office"}),
    f"{ALPHA}/nases/sw-1": (f"{ALPHA}/nases", {"name": "North", "identifier": "sw-1"}),
    f"{ALPHA}/sites/branch": (f"{ALPHA}/sites", {"slug": "branch"}),
    f"{ALPHA}/pools/devices": (f"{ALPHA}/pools", {"name": "devices", "ranges": ["10.1.0.0/29"]}),
    f"{ALPHA}/endpoints/00:00:5e:00:53:01": (f"{ALPHA}/endpoints", {"mac": "00:00:5e:00:53:01"}),
    f"{ALPHA}/enrolment-secrets/mdm": (f"{ALPHA}/enrolment-secrets", {"name": "mdm"}),
    f"{ALPHA}/feeds/siem": (
        f"{ALPHA}/feeds",
        {"kind": "webhook", "name": "siem", "settings": {"url": "https://siem.example/admit"}},
    ),
    f"{ALPHA}/users/ann": (f"{ALPHA}/users", {"name": "ann", "password": "correct horse battery"}),
}


def meet() -> Callable[[], None]:
    """Two wait for each other, unless something else keeps one of them away."""
    barrier = Barrier(2, timeout=1.5)

    def wait() -> None:
        with suppress(BrokenBarrierError):
            barrier.wait()

    return wait


def at_once(ask: Callable[[int], httpx.Response]) -> list[httpx.Response]:
    with ThreadPoolExecutor(2) as both:
        return sorted(both.map(ask, range(2)), key=lambda answer: answer.status_code)


def make(api: httpx.Client, path: str) -> None:
    if path in _MAKES:
        where, body = _MAKES[path]
        made = api.post(where, json=body)
        assert made.status_code == 201, made.text


def _go_on_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has compared waits for the other one, as far as that comes."""
    wait, compare = meet(), Change.require_match

    def require_match(change: Change, current: BaseModel | None) -> None:
        compare(change, current)
        wait()

    monkeypatch.setattr(Change, "require_match", require_match)


def limits(days: int) -> dict[str, int]:
    return {"floor_days": 10, "default_days": days, "ceiling_days": 400}


@pytest.mark.parametrize(
    ("method", "path", "bodies"),
    [
        ("PATCH", f"{ALPHA}/policies/office", [{"name": "One"}, {"name": "Two"}]),
        ("PATCH", f"{ACME}/templates/office", [{"name": "One"}, {"name": "Two"}]),
        ("PUT", LIMITS, [limits(100), limits(200)]),
        ("PUT", f"{ALPHA}/renewal-settings", [{"keeps_key": True}, {"keeps_key": True}]),
        ("PUT", f"{ALPHA}/authorities/key-store", [{"store": "sealed"}, {"store": "sealed"}]),
        (
            "PUT",
            f"{ALPHA}/certificate-profiles/eap-client-device",
            [{"validity_days": 30}, {"validity_days": 31}],
        ),
        ("PATCH", f"{ALPHA}/redecisions/settings", [{"per_second": 7}, {"per_second": 8}]),
        ("PUT", f"{ACME}/sign-in-rules", [{"two_factors": True}, {"two_factors": True}]),
    ],
)
def test_one_of_two_that_have_seen_the_same_is_made(
    api: httpx.Client,
    make_token: MakeToken,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    bodies: list[dict[str, Any]],
) -> None:
    make(api, path)
    if path == LIMITS:
        api.headers["Authorization"] = f"Bearer {make_token(Owner())}"
    tag = api.get(path).headers["etag"]
    _go_on_together(monkeypatch)
    answers = at_once(lambda which: api.request(method, path, json=bodies[which], headers={"If-Match": tag}))
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
def test_one_of_two_that_act_on_what_they_have_seen_is_made(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch, path: str, act: str, body: dict[str, Any] | None
) -> None:
    make(api, path)
    if act == "publish":
        assert api.put(f"{path}/draft", json={"rules": [], "fallback": {"verdict": "deny"}}).status_code == 200
    tag = api.get(path).headers["etag"]
    _go_on_together(monkeypatch)
    answers = at_once(lambda _: api.post(f"{path}/{act}", json=body, headers={"If-Match": tag}))
    assert [answer.status_code for answer in answers] == [200, 412], [answer.text for answer in answers]
    assert answers[1].json()["code"] == "has-changed"
    # The answer has the state of what was acted on.
    assert answers[0].headers["etag"].partition("-")[0] == api.get(path).headers["etag"].partition("-")[0]


@pytest.mark.parametrize(
    "path", [path for path in _MAKES if path.split("/")[-2] in ("nases", "sites", "pools", "users")]
)
def test_what_is_removed_twice_at_once_is_gone_for_the_second(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    make(api, path)
    wait, refresh = meet(), Session.refresh

    def refreshed(session: Session, *args: Any, **given: Any) -> None:
        wait()
        refresh(session, *args, **given)

    monkeypatch.setattr(Session, "refresh", refreshed)
    answers = at_once(lambda _: api.delete(path))
    codes = [answer.status_code for answer in answers]
    assert codes == ([202, 404] if codes[0] == 202 else [204, 404]), [answer.text for answer in answers]
