"""Syslog messages follow RFC 5424 for any text that devices send."""

import json
from datetime import UTC, datetime
from typing import Annotated
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import Meta

from nac.logs.events import audit, authentication
from nac.logs.events.document import MAX_MESSAGE, Event, SessionPart, Text, to_json
from nac.logs.events.event_values import EventTenant
from nac.logs.events.schema import event_schema
from nac.logs.feeds.settings import SyslogSettings
from nac.logs.feeds.syslog_message import MAX_OCTETS, SyslogFormatter
from nac.models import AuditEntry, AuthLog
from tests.feeds.syslog_parser import frames, parse

AT = datetime(2026, 11, 21, 18, 30, 0, 7, UTC)
STAMP = "2026-11-21T18:30:00.000007Z"
VALIDATOR = Draft202012Validator(event_schema(), format_checker=Draft202012Validator.FORMAT_CHECKER)
ACME = EventTenant(str(uuid4()), "acme")
# Events contain no lone surrogates, because PostgreSQL cannot store them.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def form(**settings) -> SyslogFormatter:
    return SyslogFormatter(SyslogSettings(host="siem.example", **{"hostname": "nac.example"} | settings))


def decision(**values) -> Event:
    row = {"id": 7, "at": AT, "method": "mab", "permitted": True, "reason": "rule-permitted", "identity": "anna"}
    columns = {column.name: "" for column in AuthLog.__table__.columns if column.type.python_type is str}
    numbers = {"policy_version": 0, "module_microseconds": 1, "suppressed": 0}
    nothing = {"site_id": None, "nas_id": None, "policy_id": None, "request": {}, "resumed": False}
    return authentication.from_log(
        AuthLog(**columns | {"mac": None, "nas_address": None} | numbers | nothing | row | values), tenant=ACME
    )


def test_header_and_data_describe_the_event():
    message = parse(form().message(decision()))
    assert (message.facility, message.severity) == (10, 6)
    assert message.timestamp == "2026-11-21T18:30:00.000007Z"
    assert (message.hostname, message.app_name, message.process) == ("nac.example", "admit", "-")
    assert (message.message_id, message.sd_id) == ("device-admitted", "admit@32473")
    assert message.parameters == {
        "id": "authentication:1795285800000007-7",
        "kind": "authentication",
        "outcome": "success",
        "tenant": "acme",
    }
    assert message.body == json.loads(to_json(decision()))


@pytest.mark.parametrize(
    ("severities", "permitted", "severity"),
    [
        ({}, True, 6),
        ({}, False, 4),
        ({"authentication": "debug"}, True, 7),
        # The severity of the outcome overrides the severity of the kind. Without either, the default applies.
        ({"authentication": "debug"}, False, 4),
        ({"authentication": "debug", "authentication.failure": "alert"}, False, 1),
    ],
)
def test_severity_follows_the_outcome(severities, permitted, severity):
    assert parse(form(severities=severities).message(decision(permitted=permitted))).severity == severity


def test_settings_are_in_every_message():
    message = parse(form(facility="local7", app_name="nac", enterprise=64512).message(decision()))
    assert (message.facility, message.app_name, message.sd_id) == (23, "nac", "admit@64512")


def test_hostname_is_the_default_name(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "nac host")
    assert parse(form(hostname="").message(decision())).hostname == "-"


@pytest.mark.parametrize("bom", [False, True])
def test_text_is_ascii_or_begins_with_a_bom(bom):
    message = parse(form(bom=bom).message(decision(identity="Ådne 🦉 \u007f")))
    assert message.has_bom == bom
    assert message.body["user"]["name"] == "Ådne 🦉 \u007f"


@pytest.mark.parametrize("bom", [False, True])
@given(TEXT, TEXT, TEXT)
def test_any_device_text_makes_one_valid_message(bom, identity, detail, slug):
    event = decision(identity=identity, detail=detail, nas_identifier=identity)
    event = msgspec.structs.replace(event, organization=msgspec.structs.replace(event.organization, name=slug))
    made = form(bom=bom)
    [octets], rest = frames(made.frame(event))
    assert rest == b""
    assert parse(octets).body == json.loads(to_json(event))
    assert len(octets) <= MAX_OCTETS


def test_quotes_and_brackets_in_data_are_escaped():
    event = decision()
    told = msgspec.structs.replace(event.organization, name='a"b]c\\d\ne')
    octets = form().message(msgspec.structs.replace(event, organization=told))
    assert b'tenant="a\\"b\\]c\\\\d e"' in octets
    assert parse(octets).parameters["tenant"] == 'a"b]c\\d e'


@pytest.mark.parametrize("bom", [False, True])
def test_long_event_is_shortened_to_valid_json_with_a_note(bom):
    values = {f"member {number}": "🦉" * 1_000 for number in range(40)}
    row = AuditEntry(id=3, at=AT, actor="cli:anna", action="policy.publish", target="x", before=values, after=values)
    event = audit.from_log(row, tenant=ACME)
    assert len(to_json(event)) > 2 * MAX_OCTETS
    octets = form(bom=bom).message(event)
    assert len(octets) <= MAX_OCTETS
    message = parse(octets)
    assert message.body["left_out"] == ["admit.before", "admit.after"]
    assert message.body["event"]["id"] == message.parameters["id"]
    assert message.body["admit"]["actor"] == "cli:anna"


def fill_texts(part, text: str):
    """The event with every free-text field set to this text."""
    made = {}
    for field in msgspec.structs.fields(part):
        value, kind = getattr(part, field.name), field.type
        if isinstance(value, msgspec.Struct):
            made[field.name] = fill_texts(value, text)
        elif field.name in ("id", "dataset", "version", "category", "type") and field.required:
            made[field.name] = value
        elif kind in (Text, Annotated[str, Meta(max_length=MAX_MESSAGE)]):
            made[field.name] = text
    return msgspec.structs.replace(part, **made)


def of_every_kind() -> list[Event]:
    parts = {"version": 1, "since": STAMP, "session": SessionPart(id="s"), "verdict": "deny", "feed": "siem"}
    parts |= {"request": "bounce", "code": "disk", "state": "raised", "actor": "cli:anna", "target": "x"}
    event, made = decision(), []
    for kind in Event.__annotations__["admit"].__args__:
        names = {field.name for field in msgspec.structs.fields(kind) if field.required}
        status = {"status": "blocked" if kind.__name__ == "Endpoint" else "issued"}
        admit = kind(**{name: value for name, value in (parts | status).items() if name in names})
        made.append(msgspec.structs.replace(event, admit=admit))
    return made


@pytest.mark.parametrize("bom", [False, True])
@pytest.mark.parametrize("event", of_every_kind(), ids=lambda event: type(event.admit).__name__)
@pytest.mark.parametrize("length", [60, 300, 1_024])
def test_shortened_event_of_any_kind_fits_the_schema(event: Event, bom: bool, length: int):
    long = fill_texts(event, "🦉" * length)
    octets = form(bom=bom).message(long)
    assert len(octets) <= MAX_OCTETS
    message = parse(octets)
    assert [error.message for error in VALIDATOR.iter_errors(message.body)] == []
    assert message.body["event"]["id"] == message.parameters["id"] == event.event.id
    assert message.body["event"]["outcome"] == event.event.outcome
    assert message.body["organization"]["id"] == ACME.id
    assert message.body["admit"]["kind"] == message.parameters["kind"]
    assert ("left_out" in message.body) == (json.loads(to_json(long)) != message.body)


def test_shortened_event_keeps_the_required_fields():
    body = parse(form().message(fill_texts(decision(), "🦉" * 1_024))).body
    assert body["left_out"] == ["*"]
    assert body["message"] == "🦉" * 61 + "..."
