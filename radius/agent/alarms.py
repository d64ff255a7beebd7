"""What is wrong with a cell at this moment, for `cells.alarms` and `./admit status`."""

import threading
import time
from dataclasses import dataclass

from nac.clock import utc_now


@dataclass(frozen=True, slots=True)
class Alarm:
    code: str
    detail: str
    # ISO 8601, UTC: since when.
    since: str


class Alarms:
    """Shared by the agent's threads. An alarm stands until it is cleared; told again, it keeps its beginning."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._standing: dict[str, Alarm] = {}
        self._told: dict[str, float] = {}

    def tell(self, code: str, detail: str) -> None:
        with self._lock:
            known = self._standing.get(code)
            since = known.since if known else utc_now().isoformat()
            self._standing[code] = Alarm(code, detail, since)
            self._told[code] = time.monotonic()

    def clear(self, code: str) -> None:
        with self._lock:
            self._standing.pop(code, None)
            self._told.pop(code, None)

    def age_seconds(self, code: str) -> float:
        """Since the alarm was last told; 0 where it does not stand."""
        with self._lock:
            told = self._told.get(code)
        return 0.0 if told is None else time.monotonic() - told

    def standing(self) -> list[Alarm]:
        with self._lock:
            return list(self._standing.values())
