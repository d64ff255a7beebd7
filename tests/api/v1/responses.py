"""Pages and problems in responses of the API."""

import base64
import json
from typing import Any

import httpx


def walk(api: httpx.Client, path: str, **asked: Any) -> list[dict[str, Any]]:
    """Return the items of all pages."""
    rows, after = [], ""
    while after is not None:
        answer = api.get(path, params={"limit": 2, **asked} | ({"after": after} if after else {}))
        assert answer.status_code == 200, answer.text
        rows += answer.json()["items"]
        after = answer.json()["next"]
    return rows


def cursor(*key: object) -> str:
    """Return a cursor with this sort order and key."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def created(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def error_paths(answer: httpx.Response) -> list[str]:
    """Return the paths of the reported errors."""
    problem = answer.json()
    return [each.get("place", "") for each in problem.get("mistakes") or [problem]]
