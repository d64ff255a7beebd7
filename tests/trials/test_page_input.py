"""Invalid input that the forms of the pages never send. The response is an error page with a sentence."""

import re
from typing import Final

import httpx
import pytest
from fastapi.routing import APIRoute

from api.main import PAGE_ROUTES
from tests.trials.conftest import Start

_BAD: Final = ("%00", "%ff", 2000 * "x", "%22%3E%3Cscript%3E")
_OTHERS: Final = ("%ed%a0%80", "%f0%9f", "%0d%0aa:b", "+", "")
_NAMES: Final = ("name", "after", "mac", "email", "password", "challenge", "code", "organisation", "again", "snippet")
_GIVEN: Final = "&".join(f"{name}={{0}}" for name in _NAMES)


@pytest.mark.parametrize(
    "bad",
    [pytest.param(bad, id=bad[:12]) for bad in _BAD]
    + [pytest.param(bad, id=bad, marks=pytest.mark.long) for bad in _OTHERS],
)
def test_unexpected_form_input_gets_an_error_page(start, bad):
    for route in PAGE_ROUTES:
        assert isinstance(route, APIRoute)
        method, given = next(iter(route.methods)), _GIVEN.format(bad)
        path = route.path.format(tenant=start.slug, method="totp", token="x")
        for url in (re.sub(r"\{\w+\}", bad or "%20", route.path), f"{path}?{given}", f"{path}?{given}&{given}"):
            _require_page(_ask(start, method, url))
        if method == "POST" and route.path != "/sign-out":
            for form in (given, f"{given}&{given}", f"={bad}", f"{given}&{bad}", bad):
                _require_page(_ask(start, method, path, f"csrf_token={start.csrf_token}&{form}"))


def _ask(start: Start, method: str, url: str, form: str = "") -> httpx.Response:
    kind = {"Content-Type": "application/x-www-form-urlencoded"} if method == "POST" else {}
    return start.api.request(method, url, content=form.encode() if form else None, headers=kind)


def _require_page(answer: httpx.Response) -> None:
    asked = f"{answer.request.method} {str(answer.request.url)[:200]} {answer.request.content[:200]!r}"
    told = f"{asked}: {answer.status_code} {answer.text[-400:]}"
    if answer.status_code == 303 or answer.headers["content-type"].startswith("text/javascript"):
        return
    assert answer.headers["content-type"] == "text/html; charset=utf-8", told
    assert answer.status_code < 500, told
    assert "<script>" not in answer.text, told
    if answer.status_code >= 400:
        sentences = re.findall(r"<p[^>]*>([^<]+)</p>", answer.text.partition("<h1>")[2])
        assert any(each.rstrip().endswith((".", "?")) for each in sentences), told


def test_invalid_characters_in_an_address_show_the_form_again(api):
    shown = api.get("/sign-in/company?name=%00")
    told = re.findall('role="alert">([^<]+)', shown.text)
    assert (shown.status_code, told) == (422, ["The query contains NUL. Remove the NUL."])
    assert 'action="/sign-in/company"' in shown.text
