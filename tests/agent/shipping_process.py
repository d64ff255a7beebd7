"""A shipper for tests to kill.

Run `python -m tests.agent.shipping_process <cell url> <cell id> <journal> [<Redis> <tenant>]`.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path

from nac.kit.ids import CellId
from radius.agent.alarms import Alarms
from radius.agent.shipping import shipper as journal_shipping
from radius.agent.shipping.live_feed import LiveFeed
from radius.agent.shipping.streams import AccountingStream


def ship_until_killed(url: str, cell_id: CellId, journal: Path, *told: str, tell: Callable[[str], object]) -> None:
    """Ship the journal until the process is killed. `tell` is called with "ready"."""
    # Batches are small, so that most kills interrupt a transaction.
    journal_shipping.MAX_RECORDS = 40
    feed = None
    if told:
        feed = LiveFeed(told[0], lambda: {told[1]: "alpha"}, cell="cell-1")
        threading.Thread(target=feed.run, args=(threading.Event(),), daemon=True).start()
    stream = AccountingStream(live=feed)
    shipper = journal_shipping.Shipper(
        stream,
        cell_id=cell_id,
        host="127.0.0.1",
        engine=journal_shipping.shipping_engine(url, stream),
        journal=journal,
        alarms=Alarms(),
    )
    tell("ready")
    shipper.run(threading.Event())


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    url, cell_id, journal, *told = sys.argv[1:]
    ship_until_killed(url, CellId(int(cell_id)), Path(journal), *told, tell=_say)
