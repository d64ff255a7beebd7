"""Current alarms of a cell, for `cells.alarms` and the status file."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nac.kit.clock import utc_now

# An alarm about an event stays active for a day after the event, so that a person still sees it.
EVENT_ALARM_SECONDS = 24 * 3600.0
# Above this number of active alarms, the agent leaves out alarms about single database rows, because it writes all
# active alarms each second.
MAX_ACTIVE_ALARMS = 200


@dataclass(frozen=True, slots=True)
class Alarm:
    code: str
    # Text for people. It may be an `Advice`, which also has next steps.
    detail: str
    # Time since when the alarm has been active: ISO 8601, UTC.
    since: str
    # Number of the tenant whose feeds receive the alarm; 0 if the alarm concerns the whole cell.
    tenant: int = 0


@dataclass(slots=True)
class _ActiveAlarm:
    alarm: Alarm
    # Times on the clock of `Alarms`: when the alarm was last raised, and when it ends automatically.
    at: float
    until: float


class Alarms:
    """Active alarms, shared by the agent's threads. If an active alarm is raised again, the alarm keeps its
    `since`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, _ActiveAlarm] = {}
        # Codes of alarms raised since the last report, and alarms that were both raised and cleared since then.
        self._new: set[str] = set()
        self._brief: list[Alarm] = []
        # Time since when the agent leaves out alarms because of MAX_ACTIVE_ALARMS; None if it leaves out no alarm.
        self._crowded_since: str | None = None

    def report(self, code: str, detail: str, *, tenant: int = 0) -> None:
        """Raise an alarm about a lasting condition. The alarm stays active until `clear`."""
        self._report(code, detail, float("inf"), tenant)

    def report_row(self, code: str, detail: str, *, tenant: int) -> bool:
        """Raise a lasting alarm about one database row.

        Returns False, without an alarm, if MAX_ACTIVE_ALARMS other alarms are active.
        """
        with self._lock:
            if code not in self._entries and len(self._entries) >= MAX_ACTIVE_ALARMS:
                self._crowded_since = self._crowded_since or utc_now().isoformat()
                return False
        self.report(code, detail, tenant=tenant)
        return True

    def report_event(self, code: str, detail: str) -> None:
        """Raise an alarm about an event. The alarm ends after EVENT_ALARM_SECONDS."""
        self._report(code, detail, EVENT_ALARM_SECONDS, 0)

    def _report(self, code: str, detail: str, stands_seconds: float, tenant: int) -> None:
        with self._lock:
            now = self._clock()
            self._expire(now)
            known = self._entries.get(code)
            since = known.alarm.since if known else utc_now().isoformat()
            if known is None:
                self._new.add(code)
            self._entries[code] = _ActiveAlarm(Alarm(code, detail, since, tenant), now, now + stands_seconds)

    def clear(self, code: str) -> None:
        with self._lock:
            self._forget(code)
            self._make_room()

    def age_seconds(self, code: str) -> float:
        """Seconds since the alarm was last raised; 0 if the alarm is not active."""
        with self._lock:
            entry = self._entries.get(code)
            return 0.0 if entry is None else self._clock() - entry.at

    def standing(self) -> list[Alarm]:
        with self._lock:
            self._expire(self._clock())
            alarms = [entry.alarm for entry in self._entries.values()]
            if self._crowded_since:
                alarms.append(
                    Alarm(
                        "more-alarms",
                        "The cell has further alarms, which this list does not contain.",
                        self._crowded_since,
                    )
                )
            return alarms

    def list_for_report(self) -> list[Alarm]:
        """Return active alarms, and alarms that began and ended since the last report."""
        standing = self.standing()
        with self._lock:
            return [*self._brief, *standing]

    def mark_reported(self, alarms: Sequence[Alarm]) -> None:
        with self._lock:
            self._brief = [alarm for alarm in self._brief if alarm not in alarms]
            self._new -= {alarm.code for alarm in alarms if self._is_active(alarm)}

    def _is_active(self, alarm: Alarm) -> bool:
        entry = self._entries.get(alarm.code)
        return entry is not None and entry.alarm.since == alarm.since

    def _forget(self, code: str) -> None:
        entry = self._entries.pop(code, None)
        if entry is not None and code in self._new:
            self._new.discard(code)
            self._brief = [*self._brief, entry.alarm][-MAX_ACTIVE_ALARMS:]

    def _expire(self, now: float) -> None:
        for code in [code for code, entry in self._entries.items() if entry.until <= now]:
            self._forget(code)
        self._make_room()

    def _make_room(self) -> None:
        if len(self._entries) < MAX_ACTIVE_ALARMS:
            self._crowded_since = None


def first_error_line(exc: BaseException) -> str:
    """First line of an error's message, without the SQL statement that the database driver adds."""
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0]
