"""One of two concurrent changes with the same ETag succeeds."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

import httpx
import pytest

from api.change import Change
from nac.core.access.owners import Owner
from tests.api.v1.conftest import MakeToken

PEOPLE = "/v1/platform/people"


@pytest.fixture
def side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pause each caller after its comparison until another one has compared too, or is held up."""
    compared = Barrier(2)
    compare = Change.require_match

    def compare_and_wait(self: Change, current: Any) -> None:
        compare(self, current)
        if "if-match" in self.request.headers:
            with suppress(BrokenBarrierError):
                compared.wait(1)

    monkeypatch.setattr(Change, "require_match", compare_and_wait)


def test_one_of_two_changes_of_a_user_succeeds(api: httpx.Client, make_token: MakeToken, side_by_side: None) -> None:
    api.headers["Authorization"] = f"Bearer {make_token(Owner())}"
    path = f"{PEOPLE}/{api.post(PEOPLE, json={'email': 'ann@example.com'}).json()['id']}"
    _require_one(api, path, lambda tag: api.patch(path, json={"status": "disabled"}, headers={"If-Match": tag}))


def _require_one(api: httpx.Client, path: str, change: Callable[[str], httpx.Response]) -> None:
    tag = api.get(path).headers["etag"]
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(change, [tag, tag]))
    assert sorted(each.status_code for each in answers) == [200, 412], [each.text for each in answers]
