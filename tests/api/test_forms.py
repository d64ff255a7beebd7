"""Forms of untrusted callers: parsed, or rejected with a clear error."""

import logging

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.forms import FormUnreadable, read_form

_URLENCODED = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data; boundary=b"
_TYPES = st.sampled_from([_MULTIPART, "multipart/form-data", _URLENCODED, "text/plain"])
_BODY = (
    b'--b\r\nContent-Disposition: form-data; name="form"\r\n\r\ncsr\r\n'
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n\0\xff\r\n--b--\r\n'
)


def _part(head: bytes) -> bytes:
    return b"--b\r\n" + head + b"\r\n\r\nx\r\n--b--"


@given(_TYPES | st.text(), st.binary(max_size=300))
def test_any_body_is_a_form_or_rejected(content_type: str, body: bytes):
    _read(content_type, body)


@given(st.integers(0, len(_BODY) - 1), st.binary(max_size=3), st.integers(0, 5))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_damaged_form_is_parsed_or_rejected(at: int, put: bytes, cut: int):
    _read(_MULTIPART, _BODY[:at] + put + _BODY[at + cut :])


def _read(content_type: str, body: bytes) -> None:
    try:
        fields = read_form(content_type, body)
    except FormUnreadable:
        return
    assert all(isinstance(name, str) and isinstance(value, bytes) for name, value in fields.items())


def test_form_parts_are_read_unchanged():
    assert read_form(_MULTIPART, _BODY) == {"form": b"csr", "file": b"\0\xff"}
    named = _BODY.replace(b'"x"', b'"a; name=form"')
    assert read_form('Multipart/Form-Data; charset=utf-8; Boundary="b"', named) == {"form": b"csr", "file": b"\0\xff"}


def test_urlencoded_text_is_decoded():
    body = b"name=J%C3%BCrgen+%26+Co&again=1&again=2&empty=&=&other"
    assert read_form(_URLENCODED, body) == {"name": "Jürgen & Co".encode(), "again": b"2"}


@pytest.mark.parametrize(
    ("content_type", "field", "end"),
    [
        (_URLENCODED, b"&a=1", b""),
        (_MULTIPART, b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n', b"--b--"),
    ],
    ids=["urlencoded", "multipart"],
)
def test_more_than_twenty_fields_are_rejected(content_type: str, field: bytes, end: bytes):
    assert read_form(content_type, field * 20 + end) == {"a": b"1"}
    with pytest.raises(FormUnreadable, match="at most 20 fields"):
        read_form(content_type, field * 21 + end)


@pytest.mark.parametrize(
    ("content_type", "body", "detail"),
    [
        ("text/plain", b"form=p12", "The Content-Type must be application/x-www-form-urlencoded or"),
        ("application/octet-stream", b"form=p12", "The Content-Type must be application/x-www-form-urlencoded or"),
        ("multipart/form-data", _BODY, "The Content-Type has no boundary."),
        (_MULTIPART, _BODY[:-6], "The form is incomplete."),
        (_MULTIPART, _part(b"Content-Disposition: form-data"), "A part of the form cannot be read."),
    ],
    ids=["text", "file", "boundary", "end", "name"],
)
def test_unreadable_form_names_the_cause(content_type: str, body: bytes, detail: str):
    with pytest.raises(FormUnreadable) as caught:
        read_form(content_type, body)
    assert caught.value.detail.startswith(detail)


@pytest.mark.parametrize(
    "body",
    [
        _part(b"Content-Disposition: form-data" + b"(" * 60_000 + b"; name=a"),
        b"".join(b"--b%d\nContent-Type:multipart/x;boundary=b%d\n\n" % (at, at + 1) for at in range(1_300)),
        _part(b"Content-Type: message/rfc822\n\n" * 1_000),
        b"--b\n\n" * 10_000,
        b"--b\r\n\r\n\r\n" * 5_000,
        _part(b"a: b\r\n" * 5_000 + b"Content-Disposition: form-data; name=a"),
    ],
    ids=["comments", "nested", "messages", "parts", "fields", "headers"],
)
def test_form_expensive_to_parse_is_rejected(body: bytes):
    with pytest.raises(FormUnreadable):
        read_form(_MULTIPART, body)


def test_headers_of_a_form_are_not_logged(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    read_form(_MULTIPART, _part(b"Content-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: hunter2"))
    with pytest.raises(FormUnreadable):
        read_form(_MULTIPART, b"--c")
    assert not caplog.records
