"""The agent's journal and PostgreSQL produce equal events, which match the schema."""

import json
import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import get_args
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from sqlalchemy import select

from cli.layout import CHECKOUT
from nac.cellformat.journal.records import AccountingRecord, AuthRecord
from nac.engine.reasons import REASONS
from nac.kit.db import TenantScope, session_scope
from nac.logs.events import accounting, alarms, audit, authentication, certificates, coa, endpoints, feed, sessions
from nac.logs.events.document import MAX_TEXT, CertificateStatus, EndpointStatus, from_json, to_json
from nac.logs.events.event_values import EventTenant
from nac.logs.events.schema import event_schema
from nac.models import AccountingLog, AuditEntry, AuthLog, CoaRequest, EventNote
from nac.sessions.decisions.recorded_requests import to_microseconds
from radius.agent import copy_format
from radius.agent.accounting_parser import accounting_line, accounting_record, parse_accounting
from tests.agent.journal_records import AT, auth
from tests.agent.journal_records import accounting as accounting_record_of
from tests.run_depth import examples

FILE = CHECKOUT / "docs" / "reference" / "events.schema.json"
VALIDATOR = Draft202012Validator(event_schema(), format_checker=Draft202012Validator.FORMAT_CHECKER)
NOW = datetime(2026, 11, 21, 18, 30, 0, 1, UTC)
ALPHA = EventTenant("6b1f4f0e-1111-4222-8333-444455556666", "alpha")
SLOT = SimpleNamespace(slot=0, id=ALPHA.id)
SECRET = b"correct horse battery"
# Records as devices may send them: with any text, NUL characters and long values.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["", "\0", "x" * 3_000, "ä\n\t"]
)
UUIDS = st.uuids().map(str) | st.just("")
ADDRESSES = st.ip_addresses().map(str) | st.sampled_from(
    ["", "none", "::ffff:192.0.2.1", "2001:DB8::1", "fe80::1%eth0", "010.0.0.1"]
)
MACS = st.text("0123456789abcdef", min_size=12, max_size=12) | st.just("")
SERIALS = st.text("0123456789abcdef", max_size=40)
NUMBERS = st.integers(0, 2**40)


def auth_records(tenant) -> st.SearchStrategy[AuthRecord]:
    return st.builds(
        lambda **values: auth(tenant, **values),
        at=st.integers(AT, AT + 10**9),
        site_id=UUIDS,
        nas_id=UUIDS,
        nas_address=ADDRESSES,
        nas_identifier=TEXT,
        nas_port=TEXT,
        mac=MACS,
        identity=TEXT | MACS,
        method=st.sampled_from(["mab", "eap-tls", "peap", "unknown"]),
        permitted=st.booleans(),
        reason=st.sampled_from(sorted(REASONS)) | TEXT,
        detail=TEXT,
        rule_id=TEXT,
        rule_name=TEXT,
        policy_id=UUIDS,
        policy_version=st.integers(0, 2**31 - 1),
        vlan=TEXT,
        certificate_serial=SERIALS,
        tls_version=st.sampled_from(["", "1.2", "1.3"]),
        resumed=st.booleans(),
        pairs=st.lists(st.tuples(st.sampled_from(["Called-Station-Id", "NAS-Port-Type"]), TEXT), max_size=3).map(tuple),
        facts=st.dictionaries(
            st.sampled_from(["site.name", "nas.name", "certificate.common_name", "ssid"]), st.tuples(TEXT), max_size=4
        ),
        module_microseconds=NUMBERS,
        suppressed=NUMBERS,
        verdict=st.sampled_from(["", "permit", "quarantine", "deny"]),
        monitored=st.sampled_from(["", "rule", "site"]),
    )


def accounting_records(tenant) -> st.SearchStrategy[AccountingRecord]:
    return st.builds(
        lambda status, **values: accounting_record_of(tenant, status, **values),
        status=st.sampled_from(["Start", "Interim-Update", "Stop", "Accounting-On", "Accounting-Off", "Tunnel-Start"]),
        at=st.integers(AT, AT + 10**9),
        session=TEXT,
        seconds=NUMBERS,
        nas=TEXT,
        station=MACS | TEXT,
        User_Name=TEXT,
        Acct_Input_Octets=st.integers(0, 2**32 - 1).map(str),
        Acct_Output_Octets=TEXT,
        Acct_Output_Gigawords=st.integers(0, 2**33).map(str),
        Acct_Terminate_Cause=TEXT,
        NAS_Port_Id=TEXT,
        Framed_IP_Address=ADDRESSES,
        Framed_IPv6_Address=ADDRESSES,
        Delegated_IPv6_Prefix=st.ip_addresses(v=6).map(lambda address: f"{address}/56") | TEXT,
        Class=st.just("0x" + SECRET.hex()),
    )


def checked(event):
    """The parsed JSON of an event that is one line and matches the schema."""
    line = to_json(event)
    assert from_json(line) == event
    assert b"\n" not in line
    document = json.loads(line)
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
    return document


def test_schema_file_matches_the_code():
    schema = json.loads(FILE.read_text())
    Draft202012Validator.check_schema(schema)
    assert schema == json.loads(json.dumps(event_schema())), (
        "Regenerate the file: python -m nac.logs.events.schema > docs/reference/events.schema.json"
    )


def stored(engine, tenant_id, model):
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        return session.scalars(select(model).where(model.tenant_id == tenant_id)).all()


def some(records):
    """Some of the records, one per time, so that rows and records can be matched."""
    found = {}

    @settings(max_examples=examples(100))
    @given(records)
    def gather(record):
        found[record.at] = record

    gather()
    return list(found.values())


def test_journal_decision_equals_the_log_decision(app_engine, alpha, journal):
    tenant, records = EventTenant(str(alpha.id), "alpha"), some(auth_records(alpha))
    journal.ship(*records)
    logged = {to_microseconds(row.at): row for row in stored(app_engine, alpha.id, AuthLog)}
    assert len(logged) == len(records)
    for record in records:
        row = logged[record.at]
        event = authentication.from_record(as_shipped(record, copy_format.auth_line), number=row.id, tenant=tenant)
        assert to_json(event) == to_json(authentication.from_log(row, tenant=tenant))
        assert checked(event)["event"]["id"] == f"authentication:{record.at}-{row.id}"


def as_shipped(record, line):
    try:
        line(record)
    except copy_format.Unstorable:
        return copy_format.clean_record(record)
    return record


def test_journal_accounting_equals_the_log_accounting(app_engine, alpha, journal):
    tenant, records = EventTenant(str(alpha.id), "alpha"), some(accounting_records(alpha))
    journal.ship(*records)
    logged = {to_microseconds(row.at): row for row in stored(app_engine, alpha.id, AccountingLog)}
    assert len(logged) == len(records)
    for record in records:
        row = logged[record.at]
        shipped = as_shipped(record, lambda each: accounting_line(each, parse_accounting(each)))
        parsed = accounting_record(shipped, parse_accounting(shipped))
        event = accounting.from_record(parsed, number=row.id, tenant=tenant)
        assert to_json(event) == to_json(accounting.from_log(row, tenant=tenant))
        told = checked(event)
        assert SECRET.hex() not in json.dumps(told)
        assert told["event"]["id"] == f"accounting:{record.at}-{row.id}"


def test_reply_and_packet_secrets_are_omitted():
    secret = "hunter2-hunter2"
    record = auth(
        SLOT,
        reply=(("Tunnel-Password", ":=", secret), ("Class", ":=", f"0x{secret.encode().hex()}")),
        pairs=(("User-Password", secret), ("Cisco-AVPair", f"psk={secret}")),
        facts={"endpoint.attribute.pin": (secret,)},
    )
    line = to_json(authentication.from_record(record, number=1, tenant=ALPHA)).decode()
    assert secret not in line
    assert secret.encode().hex() not in line


@pytest.mark.parametrize("name", ["aabbccddeeff", "AA-BB-CC-DD-EE-FF", "aabb.ccdd.eeff", "AA:BB:CC:DD:EE:FF"])
def test_device_named_by_its_address_is_no_user(name):
    told = checked(authentication.from_record(auth(SLOT, identity=name), number=1, tenant=ALPHA))
    assert "user" not in told
    assert told["message"].startswith("aa:bb:cc:dd:ee:ff admitted")
    other = authentication.from_record(auth(SLOT, identity="00-11-22-33-44-55"), number=1, tenant=ALPHA)
    assert checked(other)["user"] == {"name": "00-11-22-33-44-55"}


def test_long_values_are_truncated():
    record = auth(SLOT, identity="ü" * 70_000, detail="d" * 70_000)
    told = checked(authentication.from_record(record, number=1, tenant=ALPHA))
    assert len(told["user"]["name"]) == MAX_TEXT
    assert len(told["admit"]["detail"]) == MAX_TEXT


def note(kind, what, said, **values):
    return EventNote(**({"id": 7, "at": NOW, "kind": kind, "what": what, "happened_at": NOW, "said": said} | values))


# Free text of devices and users, and optional values (null in PostgreSQL).
WORDS = TEXT.filter(lambda value: "\0" not in value)
NOTES = {
    (sessions, "session", ("started", "ended", "stale", "resumed")): st.fixed_dictionaries(
        {
            "id": NUMBERS,
            "nas_key": WORDS,
            "session_id": WORDS,
            "started_at": st.just("2026-11-21T18:30:00.000001+01:00"),
            "stopped_at": st.sampled_from([None, "2026-11-21T18:31:00+00:00"]),
            "site_id": st.none() | st.uuids().map(str),
            "nas_address": st.none() | st.ip_addresses().map(str),
            "nas_port": WORDS,
            "mac": st.sampled_from([None, "aa:bb:cc:00:11:22"]),
            "identity": WORDS,
            "framed_ip": st.none() | st.ip_addresses(v=4).map(str),
            "framed_ipv6": st.none() | st.ip_addresses(v=6).map(str),
            "delegated_prefix": st.sampled_from([None, "2001:db8::/56"]),
            "session_seconds": st.none() | NUMBERS,
            "input_octets": st.none() | st.just(2**63 - 1),
            "terminate_cause": WORDS,
            "flags": st.lists(WORDS, max_size=60),
        }
    ),
    (endpoints, "endpoint", get_args(EndpointStatus)): st.fixed_dictionaries(
        {
            "mac": st.just("aa:bb:cc:00:11:22"),
            "name": WORDS,
            "vendor": WORDS,
            "profile": WORDS,
            "valid_until": st.sampled_from([None, "2026-11-21T18:31:00+00:00"]),
        }
    ),
    (certificates, "certificate", get_args(CertificateStatus)): st.fixed_dictionaries(
        {
            "serial": SERIALS,
            "name": WORDS,
            "subject": WORDS,
            "profile": WORDS,
            "not_before": st.just("2026-11-21T18:31:00+00:00"),
            "not_after": st.just("9999-12-31T23:59:59+00:00"),
            "reason": WORDS,
            "days": st.none() | st.integers(0, 60),
        }
    ),
    (alarms, "alarm", ("raised", "cleared")): st.fixed_dictionaries(
        {"code": WORDS, "detail": WORDS, "since": st.just("2026-11-21T18:31:00.5+00:00"), "cell": WORDS}
    ),
}


@given(st.data())
def test_any_note_makes_an_event_that_matches_the_schema(data):
    (module, kind, whats), said = data.draw(st.sampled_from(list(NOTES.items())))
    what = data.draw(st.sampled_from(whats))
    told = checked(module.from_note(note(kind, what, data.draw(said)), tenant=ALPHA))
    assert told["event"]["id"] == f"{kind}:{to_microseconds(NOW)}-7"
    assert told["event"]["action"] == f"{kind}-{what}"
    assert told["admit"]["kind"] == kind


def coa_row(**values):
    given = {"id": 4711, "created_at": NOW, "sent_at": NOW, "ended_at": NOW + timedelta(seconds=1)}
    given |= {"kind": "disconnect", "requested_by": "cli:anna", "reason": "endpoint-blocked", "state": "refused"}
    given |= {"session_row": 7, "session_id": "s1", "mac": "aabbccddeeff", "identity": "anna", "framed_ip": None}
    given |= {"nas_id": uuid4(), "nas_key": "switch-1|192.0.2.7", "nas_port": "", "nas_address": "192.0.2.7"}
    given |= {"step": 1, "attempts": 2, "answer_code": 42, "error_cause": 503, "detail": "The NAS refused."}
    return CoaRequest(**(given | values))


def test_ended_request_has_an_outcome():
    refused = checked(coa.from_request(coa_row(), tenant=ALPHA))
    assert (refused["event"]["outcome"], refused["event"]["code"]) == ("failure", "503")
    assert "does not know this session" in refused["event"]["reason"]
    assert refused["admit"]["step"] == 2
    done = checked(coa.from_request(coa_row(state="acknowledged", error_cause=None, answer_code=41), tenant=ALPHA))
    assert (done["event"]["outcome"], done["event"]["action"]) == ("success", "request-acknowledged")


def test_waiting_request_has_no_result_yet():
    with pytest.raises(ValueError, match="not ended"):
        coa.from_request(coa_row(state="sending", ended_at=None), tenant=ALPHA)


def test_change_lists_its_members_and_no_credential():
    after = {"mac": "00:1b:a9:00:00:01", "groups": ["a"], "reply": [{"User-Password": "very secret", "vlan": "20"}]}
    after |= {"Tunnel-Password": "x"}
    row = AuditEntry(id=3, at=NOW, actor="cli:anna", action="endpoint.add", target="x", before=None, after=after)
    told = checked(audit.from_log(row, tenant=ALPHA))
    assert (told["event"]["action"], told["user"]["name"]) == ("endpoint.add", "anna")
    assert told["admit"] == {
        "kind": "audit",
        "schema": 1,
        "actor": "cli:anna",
        "target": "x",
        "after": {"mac": '"00:1b:a9:00:00:01"', "groups": '["a"]', "reply": '[{"vlan": "20"}]'},
    }


def test_change_of_any_size_is_bounded():
    values = {f"member {number}": "x" * 5_000 for number in range(200)}
    row = AuditEntry(id=3, at=NOW, actor="a", action="policy.save", target="x" * 9_999, before=values, after=values)
    assert len(to_json(audit.from_log(row, tenant=ALPHA))) < 120_000


def test_test_of_a_feed_is_an_event():
    told = checked(feed.build_feed_tested("siem", now=NOW, tenant=ALPHA))
    assert (told["admit"]["kind"], told["admit"]["feed"]) == ("feed", "siem")


def test_examples_cover_every_kind_and_match_the_page():
    lines = (CHECKOUT / "docs" / "reference" / "events.examples.jsonl").read_bytes().splitlines()
    documents = [json.loads(line) for line in lines]
    for line, document in zip(lines, documents, strict=True):
        assert [error.message for error in VALIDATOR.iter_errors(document)] == []
        # Without fields that this version does not know.
        assert json.loads(to_json(from_json(line))) == document
    kinds = sorted(document["admit"]["kind"] for document in documents)
    assert kinds == sorted(event_schema()["$defs"]["Event"]["properties"]["admit"]["discriminator"]["mapping"])
    page = (CHECKOUT / "docs" / "reference" / "events.md").read_text()
    shown = page[page.index('    {\n      "@timestamp"') :].partition("\n\n")[0]
    assert json.loads(shown) == documents[0]
    told = re.findall(r"^\| `([a-z]+)` \|", page.partition("## Kinds")[2].partition("###")[0], re.MULTILINE)
    assert sorted(told) == kinds


def fields(schema, part, path=""):
    """Dotted names of all fields that have a value."""
    part = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    options = part.get("anyOf", [part])
    if len(options) > 1:
        return set().union(*(fields(schema, option, path) for option in options))
    if "properties" not in part:
        return {path.removeprefix(".")}
    return set().union(*(fields(schema, each, f"{path}.{name}") for name, each in part["properties"].items()))


def test_page_names_every_field():
    table = (CHECKOUT / "docs" / "reference" / "events.md").read_text().partition("## Fields")[2]
    firsts = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named = {name.removesuffix(".*") for first in firsts for name in re.findall(r"`([^`]+)`", first)}
    constant = {"ecs.version", "admit.kind", "admit.schema", "observer.type"}
    told = fields(event_schema(), {"$ref": "#/$defs/Event"}) - constant
    assert [name for name in sorted(told) if not any(f"{name}.".startswith(f"{each}.") for each in named)] == []
    assert [each for each in sorted(named) if not any(f"{name}.".startswith(f"{each}.") for name in told)] == []
