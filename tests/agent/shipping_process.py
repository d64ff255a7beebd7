"""A shipper to be killed: python -m tests.agent.shipping_process <cell url> <cell id> <journal>"""

import sys
import threading
from pathlib import Path

from nac.ids import CellId
from radius.agent import ship
from radius.agent.alarms import Alarms
from radius.agent.streams import AccountingStream

# Small batches: most kills then hit a transaction somewhere.
ship.MAX_RECORDS = 40


def main():
    url, cell_id, journal = sys.argv[1:]
    stream = AccountingStream()
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
