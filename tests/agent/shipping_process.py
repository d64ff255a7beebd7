"""A shipper to be killed: python -m tests.agent.shipping_process <cell url> <cell id> <journal> [<Redis> <tenant>]"""

import sys
import threading
from pathlib import Path

from nac.ids import CellId
from radius.agent import ship
from radius.agent.alarms import Alarms
from radius.agent.live import LiveFeed
from radius.agent.streams import AccountingStream

# Small batches: most kills then hit a transaction somewhere.
ship.MAX_RECORDS = 40


def main():
    url, cell_id, journal, *told = sys.argv[1:]
    feed = None
    if told:
        feed = LiveFeed(told[0], lambda: {told[1]: "alpha"}, cell="cell-1")
        threading.Thread(target=feed.run, args=(threading.Event(),), daemon=True).start()
    stream = AccountingStream(live=feed)
    shipper = ship.Shipper(
        stream,
        cell_id=CellId(int(cell_id)),
        host="127.0.0.1",
        engine=ship.shipping_engine(url, stream),
        journal=Path(journal),
        alarms=Alarms(),
    )
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    shipper.run(threading.Event())


if __name__ == "__main__":
    main()
