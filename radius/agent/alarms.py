"""What is wrong with a cell at this moment, for `cells.alarms` and `./admit status`."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nac.clock import utc_now

# An alarm about an event, which nothing takes back, stands for so long after the last one: a person sees it the next
# day, too, and the log has it for good.
EVENT_SECONDS = 24 * 3600.0
# More of those that are told of rows say nothing that these do not, and all of them are written out each second.
MOST_STANDING = 200


@dataclass(frozen=True, slots=True)
class Alarm:
    code: str
    detail: str
    # ISO 8601, UTC: since when.
    since: str
    # Number of the tenant whose it is, who is told of it by feeds; 0 where it concerns the cell as a whole.
    tenant: int = 0


@dataclass(slots=True)
class _Told:
    alarm: Alarm
    # On the clock of `Alarms`.
    at: float
    until: float


class Alarms:
    """Shared by the agent's threads. Told again, an alarm keeps its beginning."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._told: dict[str, _Told] = {}
        # Told since the last report, and of those the ones that stand no more.
        self._new: set[str] = set()
        self._brief: list[Alarm] = []
        # Since there is no room for more; None while there is.
        self._crowded_since: str | None = None

    def tell(self, code: str, detail: str, *, tenant: int = 0) -> None:
        """Of a state: stands until it is cleared."""
        self._tell(code, detail, float("inf"), tenant)

    def tell_of_row(self, code: str, detail: str, *, tenant: int) -> bool:
        """As `tell`, of one row among any number. Where MOST_STANDING stand, that there are more is all that is taken;
        returns whether it stands itself."""
        with self._lock:
            if code not in self._told and len(self._told) >= MOST_STANDING:
                self._crowded_since = self._crowded_since or utc_now().isoformat()
                return False
        self.tell(code, detail, tenant=tenant)
        return True

    def tell_event(self, code: str, detail: str) -> None:
        """Of something that has happened: stands for a day, and then is forgotten."""
        self._tell(code, detail, EVENT_SECONDS, 0)

    def _tell(self, code: str, detail: str, stands_seconds: float, tenant: int) -> None:
        with self._lock:
            now = self._clock()
            self._expire(now)
            known = self._told.get(code)
            since = known.alarm.since if known else utc_now().isoformat()
            if known is None:
                self._new.add(code)
            self._told[code] = _Told(Alarm(code, detail, since, tenant), now, now + stands_seconds)

    def clear(self, code: str) -> None:
        with self._lock:
            self._forget(code)
            self._make_room()

    def age_seconds(self, code: str) -> float:
        """Since the alarm was last told; 0 where it does not stand."""
        with self._lock:
            told = self._told.get(code)
            return 0.0 if told is None else self._clock() - told.at

    def standing(self) -> list[Alarm]:
        with self._lock:
            self._expire(self._clock())
            alarms = [told.alarm for told in self._told.values()]
            if self._crowded_since:
                alarms.append(Alarm("more-alarms", "There are more of these alarms.", self._crowded_since))
            return alarms

    def to_report(self) -> list[Alarm]:
        """What stands, and what stood for a moment since the last report, which would be told to nobody else."""
        standing = self.standing()
        with self._lock:
            return [*self._brief, *standing]

    def reported(self, alarms: Sequence[Alarm]) -> None:
        """These, of `to_report`, have arrived."""
        with self._lock:
            self._brief = [alarm for alarm in self._brief if alarm not in alarms]
            self._new -= {alarm.code for alarm in alarms if self._stands(alarm)}

    def _stands(self, alarm: Alarm) -> bool:
        told = self._told.get(alarm.code)
        return told is not None and told.alarm.since == alarm.since

    def _forget(self, code: str) -> None:
        told = self._told.pop(code, None)
        if told is not None and code in self._new:
            self._new.discard(code)
            self._brief = [*self._brief, told.alarm][-MOST_STANDING:]

    def _expire(self, now: float) -> None:
        for code in [code for code, told in self._told.items() if told.until <= now]:
            self._forget(code)
        self._make_room()

    def _make_room(self) -> None:
        if len(self._told) < MOST_STANDING:
            self._crowded_since = None
