"""Listeners parse any entry of a stream, and filters select events."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.logs.events import accounting as accounting_events
from nac.logs.events import authentication
from nac.logs.events.document import to_json
from nac.logs.events.event_values import EventTenant
from nac.logs.events.live_stream import ALL_EVENTS, EventFilter, ListenerState, StreamNotice, build_entry, listen
from tests.agent.journal_records import AT, auth

LINES = [b"[]", b"[1]", b'[{"message":"\xff"}]', b"[" * 5_000]
ENTRIES = st.dictionaries(
    st.sampled_from([b"writer", b"first", b"events", b"more"]),
    st.binary(max_size=20) | st.integers(-(2**70), 2**70).map(lambda n: b"%d" % n) | st.sampled_from(LINES),
)


@pytest.mark.parametrize(
    ("wanted", "heard"),
    [
        (EventFilter(mac="AA-BB-CC-DD-EE-01"), ["anna", ""]),
        (EventFilter(user="ANNA"), ["anna", ""]),
        (EventFilter(rejects=True), ["carl"]),
        (EventFilter(verdict="quarantine"), ["bert"]),
        (EventFilter(kinds=frozenset(["accounting"])), [""]),
        (EventFilter(nas=frozenset(["switch-2"])), ["bert"]),
        (EventFilter(nas=frozenset(["192.0.2.7"])), ["anna", "bert", "carl", ""]),
        (EventFilter(nas=frozenset(["11111111-0000-4000-8000-000000000000"])), ["carl"]),
        (EventFilter(site="22222222-0000-4000-8000-000000000000"), ["carl"]),
        (EventFilter(rejects=True, user="anna"), []),
    ],
)
def test_filter_passes_matching_events(wanted, heard, alpha):
    tenant = EventTenant(str(alpha.id), "alpha")
    of_carl = {"nas_id": "11111111-0000-4000-8000-000000000000", "site_id": "22222222-0000-4000-8000-000000000000"}
    events = [
        authentication.from_record(record, number=1, tenant=tenant)
        for record in (
            auth(alpha, mac="aabbccddee01", identity="anna"),
            auth(alpha, mac="aabbccddee02", identity="bert", verdict="quarantine", nas_identifier="switch-2"),
            auth(alpha, mac="aabbccddee03", identity="carl", permitted=False, **of_carl),
        )
    ]
    attributes = (("NAS-Identifier", "switch-1"),)
    record = accounting_events.AccountingRequest(
        AT, None, None, "192.0.2.7", "Start", "s1", "aabbccddee01", "anna", None, None, None, "", attributes
    )
    events.append(accounting_events.from_record(record, number=1, tenant=tenant))
    named = [event.user.name if event.admit.__struct_config__.tag == "authentication" else "" for event in events]
    assert [name for event, name in zip(events, named, strict=True) if wanted.fits(event)] == heard


@given(st.lists(ENTRIES, max_size=5))
def test_any_entry_is_parsed_or_skipped(entries):
    tenant = UUID(int=1)
    state = ListenerState([tenant], ALL_EVENTS, 0.0)
    (stream,) = state.unstarted
    reply = [(stream, [(b"%d-0" % number, fields) for number, fields in enumerate(entries)])]
    assert {each.kind for each in state.take(reply, 1.0)} <= {"left-out", "listening"}
    assert not entries or state.positions[stream] == b"%d-0" % (len(entries) - 1)


def test_later_version_or_broken_event_is_skipped(alpha):
    event = to_json(authentication.from_record(auth(alpha), number=1, tenant=EventTenant(str(alpha.id), "alpha")))
    later = event.replace(b'"kind":"authentication"', b'"kind":"prophecy"')
    more = event.replace(b'"admit":{', b'"admit":{"more":1,')
    broken = event.replace(b'"message":"', b'"message":"\xff')
    assert len({event, later, more, broken}) == 4
    state = ListenerState([alpha.id], ALL_EVENTS, 0.0)
    fields = {name.encode(): each for name, each in build_entry("writer", 0, [later, broken, event, more]).items()}
    fields |= {b"writer": b"writer", b"first": b"0"}
    heard = list(state.take([(state.unstarted[0], [(b"1-0", fields)])], 1.0))
    assert heard[1:3] == [StreamNotice("left-out", alpha.id, 1)] * 2
    assert [each.line for each in heard[3:]] == [event, more]


def test_listener_has_a_limit_of_tenants():
    with pytest.raises(ValueError, match="at most 1000"):
        next(listen("unix:///nonexistent/redis.sock", [UUID(int=number) for number in range(1_001)]))
