"""The agent reads radiusd's log while radiusd writes it, and truncates it."""

from collections import Counter

import pytest

from radius.agent.radiusd import log
from radius.agent.radiusd.log import LogFollower

STAMP = b"Sat Nov 21 04:03:28 2026 : Info: "
LINES = {
    b"Dropping packet without response because of error: Received packet from 127.0.0.1 with invalid "
    b"Message-Authenticator!  (Shared secret is incorrect.) (from client slot-0)": "bad_message_authenticator",
    b"Dropping packet without response because of error: Received Accounting-Request packet from client 127.0.0.1 "
    b"with invalid Request Authenticator!  (Shared secret is incorrect.)": "bad_request_authenticator",
    b"admit: unsigned slot=0 source=192.0.2.7": "missing_message_authenticator",
    b"Ignoring request to auth address 127.0.0.1 port 1812 from unknown client 192.0.2.1 port 9": "unknown_client",
    b"Ignoring duplicate packet from client slot-0 port 9 - ID: 7 due to unfinished request": "duplicate_in_progress",
    b"admit: journal-refused stream=acct: no room": "journal_refused",
    b"admit: not-ready slot=2": "not_ready",
    b"admit: internal-error in authorize": "internal_error",
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "radiusd.log"


@pytest.fixture
def counters():
    return Counter()


@pytest.fixture
def follower(path, counters):
    return LogFollower(path, counters)


@pytest.mark.parametrize(("line", "name"), LINES.items(), ids=LINES.values())
def test_line_of_radiusd_is_counted(path, counters, follower, line, name):
    path.write_bytes(STAMP + line + b"\n" + STAMP + b"Ready to process requests\n")
    heard = follower.poll()
    assert counters == {name: 1}
    is_ours = line.startswith(b"admit: ") and name != "missing_message_authenticator"
    assert heard == ([line.removeprefix(b"admit: ").decode()] if is_ours else [])


def test_sources_are_listed_once_within_limits(path, follower):
    path.write_bytes(STAMP + b"admit: unsigned slot=3 source=2001:db8::7\n")
    append(path, STAMP + b"admit: conversations-full slot=3 source=192.0.2.7\n")
    assert follower.poll() == []
    assert follower.take("unsigned") == {(3, "2001:db8::7")}
    assert follower.take("conversations_full") == {(3, "192.0.2.7")}
    assert follower.take("unsigned") == follower.take("wrong_secret") == set()
    append(path, b"".join(b"admit: unsigned slot=0 source=10.0.0.%d\n" % last for last in range(255)))
    follower.poll()
    assert len(follower.take("unsigned")) == 100


def test_earlier_lines_are_not_counted_again(path, counters):
    path.write_bytes(b"admit: not-ready slot=1\n")
    follower = LogFollower(path, counters)
    append(path, b"admit: not-ready slot=2\n")
    assert [follower.poll(), follower.poll()] == [["not-ready slot=2"], []]
    assert counters == {"not_ready": 1}


def test_incomplete_line_is_parsed_once_it_is_complete(path, follower):
    heard = []
    for piece in (b"admit: not-", b"ready slot=1\nadmit: not", b"-ready slot=2\n"):
        append(path, piece)
        heard.append(follower.poll())
    assert heard == [[], ["not-ready slot=1"], ["not-ready slot=2"]]


def test_missing_or_invalid_log_is_no_error(path, follower):
    assert follower.poll() == []
    path.write_bytes(b"admit: not-ready \xff\n")
    assert follower.poll() == ["not-ready �"]


def test_truncated_log_is_read_from_its_start(path, follower):
    path.write_bytes(b"x" * 1_000 + b"\n")
    follower.poll()
    path.write_bytes(b"admit: not-ready slot=3\n")
    assert follower.poll() == ["not-ready slot=3"]


def test_large_log_is_truncated_and_its_end_is_kept(path, counters, follower, monkeypatch):
    monkeypatch.setattr(log, "MAX_LOG_BYTES", 1_000)
    with path.open("ab", buffering=0) as radiusd:
        for number in range(100):
            radiusd.write(b"admit: not-ready slot=%d\n" % number)
            heard = follower.poll()
            assert heard == [f"not-ready slot={number}"]
    assert counters == {"not_ready": 100}
    assert path.stat().st_size <= 1_000 + 50
    older = path.with_suffix(".1.log").read_bytes()
    assert len(older) <= 1_000
    assert older.endswith(b"\n")


def test_flood_between_two_reads_is_counted_in_full(path, counters, follower, monkeypatch):
    monkeypatch.setattr(log, "MAX_LOG_BYTES", 2_000)
    monkeypatch.setattr(log, "READ_BYTES", 1_000)
    path.write_bytes(b"admit: not-ready slot=1\n" * 1_000)
    heard = sum(len(follower.poll()) for _ in range(50))
    assert counters["not_ready"] == 1_000
    assert heard == log.MAX_LINES


def append(path, data):
    with path.open("ab") as file:
        file.write(data)
