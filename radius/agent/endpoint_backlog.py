"""Alarm if the worker does not keep up with changes of this cell's devices."""

import time
from collections.abc import Callable

from sqlalchemy import Engine, func, select

from nac.kit.db import CellScope, session_scope
from nac.kit.ids import CellId
from nac.models import EndpointWork
from radius.agent.alarms import Alarms

# The worker looks every second. A large import or a new rule takes longer, but its oldest change progresses.
ALARM_AFTER_SECONDS = 60.0
# Limit of counting; such a backlog takes long even if it shrinks.
MAX_COUNTED = 100_000
_ALARM = "endpoints-waiting"


class EndpointBacklog:
    def __init__(
        self, engine: Engine, cell_id: CellId, alarms: Alarms, clock: Callable[[], float] = time.monotonic
    ) -> None:
        # Waiting changes of this cell's tenants.
        self.count = 0
        self._engine = engine
        self._cell_id = cell_id
        self._alarms = alarms
        self._clock = clock
        self._oldest: int | None = None
        self._since = 0.0

    def look(self) -> None:
        """Raise or clear the alarm. Raises AdmitError if the database does not respond."""
        some = select(EndpointWork.id).order_by(EndpointWork.id).limit(MAX_COUNTED).subquery()
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            oldest, self.count = session.execute(select(func.min(some.c.id), func.count())).one()
        if oldest != self._oldest:
            self._oldest, self._since = oldest, self._clock()
        waits = self._clock() - self._since if oldest is not None else 0.0
        if waits < ALARM_AFTER_SECONDS and self.count < MAX_COUNTED:
            self._alarms.clear(_ALARM)
            return
        many = "or more " if self.count == MAX_COUNTED else ""
        self._alarms.tell(
            _ALARM,
            f"Changes of devices are not processed: {self.count} {many}changes wait, "
            f"the first for {waits:.0f} s. Groups by rule, vendors and profiles are out of date. "
            "See: ./admit logs worker",
        )
