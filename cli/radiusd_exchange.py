"""Waits until the agent has replaced radiusd by a new process.

Changed secrets and settings of single NASes require a new radiusd.
"""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from cli import health
from nac.kit.clock import utc_now
from nac.kit.db import make_engine
from nac.kit.errors import Unavailable
from nac.kit.ids import CellId
from nac.kit.secrets import Sealer
from nac.kit.settings import Settings
from radius.agent.paths import CellPaths, read_identity
from radius.agent.radiusd import process
from radius.agent.radiusd.configuration_source import ConfigurationSource, SlotRow
from radius.agent.radiusd.generation import Generations
from radius.agent.radiusd.probe import is_serving

_POLL_SECONDS = 0.2
_ANSWER_SECONDS = 1.0
# The agent reports every second.
_SILENT_AGENT = timedelta(seconds=10)


class NotInForceYet(Unavailable):
    """The change is stored, but radiusd does not use the change yet. Admit retries automatically."""


def wait_until_in_force(settings: Settings, sealer: Sealer, *, cell_id: CellId, timeout_seconds: float) -> None:
    """Wait until radiusd runs with the configuration in the database.

    Raises NotInForceYet after the timeout, if the agent failed, or if the cell is on another machine.
    """
    paths = CellPaths(settings.cell_dir)
    if read_identity(paths) != cell_id:
        raise NotInForceYet(
            "The change is stored, but the cell is on another machine.", remedy="Run ./admit status on that machine."
        )
    generations = Generations(settings, paths)
    engine = make_engine(settings.database_cell_url, pool_size=1, application_name="admit-cli")
    directory = ConfigurationSource(engine, cell_id, sealer)
    began, deadline = utc_now(), time.monotonic() + timeout_seconds
    try:
        # Read the configuration in each round, because the replacement of radiusd can also renew the secrets of free
        # slots.
        while not _is_in_force(paths, generations, directory.slots(count=settings.cell_slots)):
            if trouble := _find_failure(settings, began):
                raise NotInForceYet(remedy=trouble)
            if time.monotonic() > deadline:
                raise NotInForceYet(remedy="See the reason in the alarms: ./admit status")
            time.sleep(_POLL_SECONDS)
    finally:
        engine.dispose()


def _is_in_force(paths: CellPaths, generations: Generations, slots: Sequence[SlotRow]) -> bool:
    running = process.load_running(paths.running)
    generation = Generations.read(running.config_directory) if running else None
    if generation is None or not generations.is_in_force(generation.facts, slots):
        return False
    status = generation.facts.status
    return is_serving("127.0.0.1", status.port, status.secret, seconds=_ANSWER_SECONDS)


def _find_failure(settings: Settings, began: datetime) -> str:
    """Return why a longer wait is useless; "" if the wait should continue."""
    status = health.read_cell_status(settings.cell_dir)
    if health.reported_at(status) < (utc_now() - _SILENT_AGENT).timestamp():
        return "The cell's agent does not report: ./admit status"
    failed = [alarm for alarm in status.get("alarms", ()) if alarm["code"] == "exchange"]
    return next((alarm["detail"] for alarm in failed if datetime.fromisoformat(alarm["since"]) >= began), "")
