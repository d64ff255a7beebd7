"""A sender that is killed: python -m tests.agent.coa_process <cell url> <cell id> <recorded | sent>"""

import os
import signal
import sys
import threading

from nac.db import make_engine
from nac.ids import CellId
from radius.agent.coa import CoaSender
from radius.agent.coa_queue import CoaQueue
from tests.agent.coa import OpenSealer, make_sender


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


class Dying(CoaQueue):
    def record(self, sendings):
        super().record(sendings)
        die()


def main():
    url, cell_id, moment = sys.argv[1:]
    engine = make_engine(url)
    if moment == "recorded":
        queue = Dying(engine, CellId(int(cell_id)), OpenSealer())
    else:
        queue = CoaQueue(engine, CellId(int(cell_id)), OpenSealer())
        CoaSender._receive = lambda sender: die() if sender.counters["packets"] else None
    make_sender(engine, CellId(int(cell_id)), queue=queue).run(threading.Event())


if __name__ == "__main__":
    main()
