"""Invalid and hostile input gets a 4xx response with a clear message, and never a 5xx response."""

import asyncio
import json
import re
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import json_input
from api.errors import install_error_handlers
from api.json_input import BodyRule, JsonInput, accept_body, check_json, list_body_rules
from nac.kit.errors import AdmitError, InvalidInput
from tests.api.app_server import serve_app
from tests.api.v1.responses import refusal

ENDPOINTS = "/v1/tenants/alpha/endpoints"
PRINTER = "00:00:5e:00:53:01"
JSON = {"Content-Type": "application/json"}


def _named(text: str) -> bytes:
    return b'{"mac": "%s", "name": "%s"}' % (PRINTER.encode(), text.encode())


def test_unexpected_body_is_rejected(api: httpx.Client) -> None:
    path = f"{ENDPOINTS}/{PRINTER}"
    api.post(ENDPOINTS, json={"mac": PRINTER})
    for content in (b'{"days": 3}', b"[]", b"x", b'{"mac": '):
        for method, at in (("DELETE", path), ("POST", f"{path}/block"), ("GET", path)):
            for headers in (JSON, {}):
                refused = api.request(method, at, content=content, headers=headers)
                assert refusal(refused) == (400, "body-not-read"), refused.text
        assert api.get(path).json()["status"] == "active"


def test_empty_body_is_accepted(api: httpx.Client) -> None:
    for content in (b"", b"{}", b" {}\n", b"null"):
        for headers in ({}, JSON, {"Content-Type": "application/x-www-form-urlencoded"}):
            path = f"{ENDPOINTS}/{PRINTER}"
            api.post(ENDPOINTS, json={"mac": PRINTER})
            assert api.request("GET", path, content=content, headers=headers).status_code == 200
            assert api.post(f"{path}/block", content=content, headers=headers).status_code == 200
            assert api.request("DELETE", path, content=content, headers=headers).status_code == 204
            # Errors of the method and the path take precedence.
            assert api.request("DELETE", ENDPOINTS, content=b'{"a": 1}', headers=JSON).status_code == 405
            assert api.request("DELETE", "/v1/nothing", content=b'{"a": 1}', headers=JSON).status_code == 404


def test_wrong_method_is_reported_for_any_body(api: httpx.Client) -> None:
    for content in (b"a,b", b'{"a": NaN}', b"[" * 100):
        for kind in ("application/octet-stream", "application/json", "text/csv"):
            for path in ("/v1/tenants/alpha/imports", ENDPOINTS):
                answer = api.put(path, content=content, headers={"Content-Type": kind})
                assert (answer.status_code, "POST" in answer.headers["allow"]) == (405, True), answer.text


def test_invalid_body_is_rejected(api: httpx.Client) -> None:
    for body, headers, status, code in (
        (b"{", JSON, 422, "not-json"),
        (b'\xff\xfe{"a": 1}', JSON, 422, "not-json"),
        (b'{"mac": "\xed\xa0\x80"}', JSON, 422, "not-json"),
        (b'{"mac": NaN}', JSON, 422, "not-json"),
        (b'{"mac": -Infinity}', JSON, 422, "not-json"),
        (b'{"mac": 1e999}', JSON, 422, "invalid-input"),
        (b'{"mac": ' + b"9" * 5000 + b"}", JSON, 422, "invalid-input"),
        (b'{"mac": "a", "mac": "b"}', JSON, 422, "invalid-input"),
        (b'{"attributes": ' + b'{"a":' * 100 + b"1" + b"}" * 101, JSON, 422, "invalid-input"),
        (b"[" * 100_000, JSON, 422, "invalid-input"),
        (_named("\\u0000"), JSON, 422, "text-refused"),
        (_named("\\ud800"), JSON, 422, "text-refused"),
        (b'{"attributes": {"\\udfff": "x"}}', JSON, 422, "text-refused"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "unsupported-media-type"),
        (b"{}", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "unsupported-media-type"),
        (b"{}", {"Content-Type": "application/jsonx"}, 415, "unsupported-media-type"),
        (b"{}", {}, 415, "unsupported-media-type"),
    ):
        answer = api.post(ENDPOINTS, content=body, headers=headers)
        assert refusal(answer) == (status, code), answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"].endswith(".")
        assert answer.headers["x-request-id"]


def test_oversized_body_is_rejected(api: httpx.Client) -> None:
    for path, limit in ((ENDPOINTS, json_input.MAX_BODY_BYTES), (f"{ENDPOINTS}/bulk", 16 * 1024 * 1024)):
        whole = api.post(path, content=b" " * (limit + 1), headers=JSON)
        assert refusal(whole) == (413, "body-too-large")
        # A body without a length.
        parts = api.post(path, content=(b" " * 65_536 for _ in range(limit // 65_536 + 1)), headers=JSON)
        assert parts.status_code == 413


def test_valid_text_is_accepted(api: httpx.Client) -> None:
    for content, name in (
        (_named("\\ud83d\\ude00 \\\\u0000 é"), "\U0001f600 \\u0000 é"),
        (json.dumps({"mac": PRINTER, "name": "[" * 100}).encode(), "[" * 100),
    ):
        answer = api.post(ENDPOINTS, content=content, headers={"Content-Type": "Application/JSON; charset=utf-8"})
        assert (answer.status_code, answer.json()["name"]) == (201, name), answer.text
        assert api.delete(f"{ENDPOINTS}/{PRINTER}").status_code == 204


def test_odd_addresses_and_headers_get_a_response(api: httpx.Client) -> None:
    for path, headers in (
        ("/v1/tenants/a%00b", {}),
        (f"{ENDPOINTS}?text=%00", {}),
        (f"{ENDPOINTS}?after=%00", {}),
        (f"{ENDPOINTS}?text=%ff%fe&group=%ed%a0%80", {}),
        (f"{ENDPOINTS}/%ff%fe", {}),
        *((f"/v1/tenants/alpha/certificates/{serial}", {}) for serial in ("01", "zz", "%00", "f" * 90, "00/download")),
        (f"{ENDPOINTS}?limit={'9' * 5000}", {}),
        (f"{ENDPOINTS}?limit=1e3", {}),
        (f"{ENDPOINTS}?limit=NaN", {}),
        ("/v1/tenants/alpha/audit?since=0001-01-01T00:00:00%2B23:59", {}),
        ("/v1/tenants/alpha/audit?until=9999-12-31T23:59:59-23:59", {}),
        (f"/v1/tenants/alpha/audit/{'9' * 30}", {}),
        (ENDPOINTS, {b"Authorization": b"Bearer \xff\xfe"}),
        (ENDPOINTS, {b"Authorization": b"Bearer " + b"a" * 20_000}),
        (ENDPOINTS, {b"If-Match": b'"' + b"x" * 20_000}),
        ("/v1/tenants/" + "a" * 20_000, {}),
    ):
        answer = api.get(path, headers=headers)
        assert answer.status_code in (200, 401, 404, 422), answer.text


def test_missing_body_times_out(monkeypatch: pytest.MonkeyPatch, api: httpx.Client) -> None:
    monkeypatch.setattr(json_input, "BODY_TIMEOUT_SECONDS", 0.05)

    def slow_body() -> Iterator[bytes]:
        yield b"{"
        time.sleep(0.3)
        yield b"}"

    answer = api.post(ENDPOINTS, content=slow_body(), headers=JSON)
    assert refusal(answer) == (408, "body-too-slow")


def test_route_sets_its_body_size_and_media_type() -> None:
    app = FastAPI()

    @app.post("/files/{name}", openapi_extra=accept_body(most_bytes=3_000_000, media_type="text/csv"))
    async def take(name: str, request: Request) -> int:
        return len(await request.body())

    @app.post("/large", openapi_extra=accept_body(most_bytes=2_000_000))
    def large(body: dict[str, Any]) -> int:
        return len(body)

    install_error_handlers(app)
    app.state.for_strangers = False
    app.add_middleware(JsonInput, excepted=list(list_body_rules(app.routes)))
    with serve_app(app) as client:
        assert client.post("/files/a", content=b"," * 2_500_000).json() == 2_500_000
        assert client.post("/files/a", content=b"," * 3_500_000).status_code == 413
        assert client.post("/large", content=b'{"a": "' + b"x" * 1_500_000 + b'"}', headers=JSON).json() == 1
        assert client.post("/large", content=b'{"a": "' + b"x" * 2_500_000 + b'"}', headers=JSON).status_code == 413
        assert client.post("/large", content=b"a,b", headers={"Content-Type": "text/csv"}).status_code == 415


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES, st.booleans())
def test_ordinary_json_is_accepted(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    try:
        check_json(text.encode())
    except AdmitError:
        assert "\\u0000" in text


@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:\\u0d8e1.-+NaN ', max_size=60).map(str.encode))
def test_arbitrary_json_is_accepted_or_rejected(body: bytes) -> None:
    with suppress(InvalidInput):
        check_json(body)
        json.loads(body)


def _mebibytes_used(check: bytes) -> float:
    tracemalloc.start()
    with suppress(InvalidInput):
        check_json(check)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 2**20


_LARGE = 4 * 2**20


@pytest.mark.parametrize(
    "body",
    [
        b'"' + b"x" * _LARGE + b'"',
        b'"' + b'\\"' * (_LARGE // 2) + b'"',
        b'"' + b"\\u00e9" * (_LARGE // 6) + b'"',
        b'"' * _LARGE,
        b"[" + b"[]," * (_LARGE // 3) + b"1]",
        b"[" + b"1," * (_LARGE // 2) + b"1]",
        b"[]" * (_LARGE // 2),
        b"]" * _LARGE,
        b'{"a":' * (_LARGE // 5),
    ],
    ids=lambda body: body[:8].decode(),
)
def test_body_memory_is_bounded(body: bytes) -> None:
    assert _mebibytes_used(body) < 128


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"[" + b"1," * 500_000 + b"1]", "values"),
        (b"{" + b",".join(b'"%d":1' % number for number in range(10_001)) + b"}", "names"),
        (b"]", "closing bracket"),
        (b'{"a": "\\\\"]', "Expecting"),
    ],
)
def test_oversized_body_error_names_the_limit(body: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        check_json(body)


def test_compressed_body_and_other_charsets_are_rejected(api: httpx.Client) -> None:
    for headers, place in (
        ({"Content-Encoding": "gzip"}, "Content-Encoding"),
        ({"Content-Encoding": "br, identity"}, "Content-Encoding"),
        ({"Content-Type": "application/json; charset=utf-16"}, "Content-Type"),
        ({"Content-Type": 'application/json; charset="ISO-8859-1"'}, "Content-Type"),
        ({"Content-Type": "application/json; charset=utf-7"}, "Content-Type"),
    ):
        answer = api.post(ENDPOINTS, content=_named("x"), headers=JSON | headers)
        assert (answer.status_code, answer.json()["place"]) == (415, place)
        assert answer.json()["remedy"]


def test_slash_in_a_name_reaches_no_other_route(api: httpx.Client) -> None:
    for path in ("/v1/tenants/alpha%2Fendpoints", f"/v1/tenants/alpha%2fendpoints%2F{PRINTER}"):
        answer = api.get(path)
        assert (answer.status_code, answer.json()["place"]) == (422, "path")


def test_many_errors_are_counted_up_to_a_limit(api: httpx.Client) -> None:
    body = {f"field-{number}": number for number in range(9_000)} | {"y" * 500_000: 1}
    answer = api.post(ENDPOINTS, json=body)
    assert (answer.status_code, answer.json()["detail"]) == (422, "More than 200 mistakes.")
    assert len(answer.content) < 100_000
    answer = api.get(f"{ENDPOINTS}?" + "&".join(f"a{number}" + "=" for number in range(5_000)))
    assert (answer.status_code, answer.json()["detail"]) == (422, "More than 200 mistakes.")


def test_slow_large_bodies_have_bounded_memory() -> None:
    """The senders are not yet authenticated."""
    large = 16 * 1024 * 1024
    answers: list[dict[str, Any]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("well")(scope, receive, send)

    async def ask(bounded: ASGIApp, address: str, size: int | None, *, comes: asyncio.Event) -> int:
        told: list[Any] = []

        async def receive() -> Message:
            await comes.wait()
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message: Message) -> None:
            told.append(message)

        said = [] if size is None else [(b"content-length", str(size).encode())]
        headers = [(b"content-type", b"application/json"), *said]
        scope = {"type": "http", "method": "POST", "path": "/large", "query_string": b"", "client": (address, 1)}
        await bounded({**scope, "headers": headers}, receive, send)
        answers.append({name: value for name, value in told[0]["headers"] if name == b"retry-after"})
        return int(told[0]["status"])

    async def scenario() -> list[int]:
        bounded = JsonInput(app, excepted=[BodyRule("POST", "", re.compile("/large"), large, json=True)])
        comes, at_once = asyncio.Event(), asyncio.Event()
        at_once.set()
        slow = [
            asyncio.create_task(ask(bounded, f"192.0.2.{source}", size, comes=comes))
            for source in range(4)
            for size in (large, large, large, None)
        ]
        await asyncio.sleep(0)
        found = [await ask(bounded, address, large, comes=at_once) for address in ("192.0.2.0", "198.51.100.1")]
        found.append(await ask(bounded, "192.0.2.0", 1_000, comes=at_once))
        assert [each[b"retry-after"] for each in answers[:2]] == [b"2", b"2"]
        comes.set()
        assert set(await asyncio.gather(*slow)) == {200}
        return [*found, await ask(bounded, "192.0.2.0", large, comes=at_once)]

    assert asyncio.run(scenario()) == [429, 429, 200, 200]
