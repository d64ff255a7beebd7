"""Current alarms of a cell, for `cells.alarms` and the status file."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nac.kit.clock import utc_now
from nac.kit.db import driver_connection

# Seconds that the alarm of an event stays after the last one: a person sees it the next day, too.
EVENT_ALARM_SECONDS = 24 * 3600.0
# Limit of alarms about rows: all alarms are written out each second.
MAX_ACTIVE_ALARMS = 200


@dataclass(frozen=True, slots=True)
class Alarm:
    code: str
    # Can be an Advice.
    detail: str
    # ISO 8601, UTC.
    since: str
    # Number of the tenant, whose feeds receive the alarm; 0 if it concerns the whole cell.
    tenant: int = 0


@dataclass(slots=True)
class _ActiveAlarm:
    alarm: Alarm
    # On the clock of `Alarms`.
    at: float
    until: float


class Alarms:
    """Alarms of the agent's threads. A repeated alarm keeps its `since`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, _ActiveAlarm] = {}
        # Codes raised since the last report, and alarms of these that have ended.
        self._new: set[str] = set()
        self._brief: list[Alarm] = []
        # Since when alarms are left out (MOST_STANDING); None if none are.
        self._crowded_since: str | None = None

    def tell(self, code: str, detail: str, *, tenant: int = 0) -> None:
        """Raise the alarm of a state. It stands until it is cleared."""
        self._tell(code, detail, float("inf"), tenant)

    def tell_of_row(self, code: str, detail: str, *, tenant: int) -> bool:
        """Raise the alarm of a row, as `tell`. Returns whether it stands: at most MOST_STANDING alarms do."""
        with self._lock:
            if code not in self._entries and len(self._entries) >= MAX_ACTIVE_ALARMS:
                self._crowded_since = self._crowded_since or utc_now().isoformat()
                return False
        self.tell(code, detail, tenant=tenant)
        return True

    def tell_event(self, code: str, detail: str) -> None:
        """Raise the alarm of an event. It stands for EVENT_SECONDS."""
        self._tell(code, detail, EVENT_ALARM_SECONDS, 0)

    def _tell(self, code: str, detail: str, stands_seconds: float, tenant: int) -> None:
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
        """Seconds since the alarm was last raised; 0 if it does not stand."""
        with self._lock:
            entry = self._entries.get(code)
            return 0.0 if entry is None else self._clock() - entry.at

    def standing(self) -> list[Alarm]:
        with self._lock:
            self._expire(self._clock())
            alarms = [entry.alarm for entry in self._entries.values()]
            if self._crowded_since:
                alarms.append(Alarm("more-alarms", "The cell has more alarms than this list.", self._crowded_since))
            return alarms

    def list_for_report(self) -> list[Alarm]:
        """Standing alarms, and alarms that began and ended since the last report."""
        standing = self.standing()
        with self._lock:
            return [*self._brief, *standing]

    def mark_reported(self, alarms: Sequence[Alarm]) -> None:
        """Mark alarms of `to_report` as delivered."""
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


__all__ = ["driver_connection", "first_error_line"]


def first_error_line(exc: BaseException) -> str:
    """The first line of an error's message, without the statement that the driver adds."""
    return (str(exc).strip().splitlines() or [type(exc).__name__])[0]
