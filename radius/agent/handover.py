"""Ships journal records of a moved tenant. The previous cell of the tenant received these records after the move."""

import threading
from collections import Counter

import psycopg
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from nac.kit.db import CellScope, session_scope
from nac.kit.errors import AdmitError
from nac.kit.ids import CellId
from radius.agent.alarms import Alarms, driver_connection, first_error_line
from radius.agent.replay import replay
from radius.agent.shipping.shipper import shipping_engine
from radius.agent.shipping.streams import AccountingStream, AuthStream, Stream

POLL_SECONDS = 2.0
_WAITING_STREAMS = "SELECT DISTINCT stream FROM quarantined_records WHERE cell_id = %s AND handed_over"


class HandoverShipper:
    def __init__(self, cell_id: CellId, engine: Engine, *, url: str, alarms: Alarms) -> None:
        """Create the shipper, which opens its own connections to `url`."""
        self.counters: Counter[str] = Counter()
        self._cell_id = cell_id
        self._engine = engine
        self._url = url
        self._alarms = alarms

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(POLL_SECONDS):
            try:
                self.step()
                self._alarms.clear("handed-over")
            except (psycopg.Error, SQLAlchemyError, AdmitError) as exc:
                self._alarms.tell(
                    "handed-over",
                    f"Records from the previous cell of a moved tenant are not shipped: {first_error_line(exc)}",
                )

    def step(self) -> None:
        """Ship all waiting records. Raises errors of the database driver."""
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            rows = driver_connection(session).execute(_WAITING_STREAMS, (self._cell_id,)).fetchall()
        streams: tuple[Stream, ...] = (AuthStream(), AccountingStream())
        for stream in streams:
            if (stream.name,) in rows:
                engine = shipping_engine(self._url, stream)
                try:
                    done = replay(stream, cell_id=self._cell_id, engine=engine, handed_over=True)
                finally:
                    engine.dispose()
                self.counters[f"{stream.name}_shipped"] += done.shipped
