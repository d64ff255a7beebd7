"""Runs the agent of a cell until SIGTERM (`python -m radius.agent`).

If the cell cannot serve, prints the reason in one sentence and exits with status 1.
"""

import logging
import signal
import sys
import threading
from types import FrameType

from nac.kit.errors import AdmitError
from nac.kit.secrets import SecretsError
from nac.kit.settings import SettingsError, load_settings
from radius.agent.cell import CellAgent, CellCannotServe
from radius.agent.radiusd.configuration import RenderError
from radius.agent.radiusd.generation import PortTaken
from radius.agent.radiusd.process import RadiusdError

REQUIRED_SETTINGS = ("DATABASE_CELL_URL", "MASTER_KEY_FILE")


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stdout)
    stop = threading.Event()

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    try:
        CellAgent(load_settings(required=REQUIRED_SETTINGS)).run(stop)
    except (
        SettingsError,
        CellCannotServe,
        RadiusdError,
        RenderError,
        PortTaken,
        SecretsError,
        AdmitError,
        OSError,
    ) as exc:
        print(f"admit agent: {exc}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
