"""After a jump of the clock, Admit deletes nothing for a week, or until the clock is set back."""

from datetime import timedelta

import pytest

from nac.core import alarms
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.logs.retention import clock
from tests.retention.conftest import DAY, Logs


def codes(logs: Logs) -> list[str]:
    with session_scope(PlatformScope(), engine=logs.app) as session:
        return [alarm.code for alarm in alarms.list_alarms(session)]


def pass_time(logs: Logs, by: timedelta) -> None:
    """Advance the clock by this time since the last run."""
    logs.sql("UPDATE retention_clock SET seen_at = seen_at - %s, doubted_until = doubted_until - %s", by, by)


def test_clock_jump_stops_deletion_for_a_week(logs: Logs) -> None:
    assert clock.read_clock(engine=logs.worker).is_trusted
    pass_time(logs, timedelta(hours=23))
    assert clock.read_clock(engine=logs.worker).is_trusted
    pass_time(logs, timedelta(days=400))
    assert not clock.read_clock(engine=logs.worker).is_trusted
    assert codes(logs) == [clock.CLOCK_JUMPED]
    for _ in range(8):
        assert not clock.read_clock(engine=logs.worker).is_trusted
        pass_time(logs, timedelta(hours=21))
    assert clock.read_clock(engine=logs.worker).is_trusted
    assert codes(logs) == []
    pass_time(logs, 2 * DAY)
    assert not clock.read_clock(engine=logs.worker).is_trusted


def test_clock_set_back_ends_the_doubt(logs: Logs) -> None:
    clock.read_clock(engine=logs.worker)
    pass_time(logs, 400 * DAY)
    clock.read_clock(engine=logs.worker)
    pass_time(logs, -400 * DAY)
    assert clock.read_clock(engine=logs.worker).is_trusted
    assert codes(logs) == []


def test_worker_with_a_different_clock_deletes_nothing(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Admit deletes neither rows nor expired export files."""
    clock.read_clock(engine=logs.worker)
    monkeypatch.setattr(clock, "utc_now", lambda: utc_now() + 365 * DAY)
    [(database_now,)] = logs.sql("SELECT clock_timestamp()")
    told = clock.read_clock(engine=logs.worker)
    assert not told.is_trusted
    assert abs(told.now - database_now) < timedelta(minutes=1)
    assert codes(logs) == [clock.CLOCKS_DIFFER]
    with session_scope(PlatformScope(), engine=logs.worker) as session:
        assert not clock.is_clock_trusted(session)
    monkeypatch.undo()
    assert clock.read_clock(engine=logs.worker).is_trusted
    assert codes(logs) == []
