"""A process that sends CoA requests, and that a test kills at a chosen moment."""

import os
import signal
import threading
from typing import Literal

from nac.kit.db import make_engine
from nac.kit.ids import CellId
from radius.agent.coa.queue import CoaQueue
from radius.agent.coa.sender import CoaSender
from tests.agent.nas_simulator import OpenSealer, make_sender


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


class KilledQueue(CoaQueue):
    def record(self, sendings):
        super().record(sendings)
        die()


def send_and_die(url: str, cell_id: CellId, moment: Literal["recorded", "sent"]) -> None:
    engine = make_engine(url)
    if moment == "recorded":
        queue = KilledQueue(engine, cell_id, OpenSealer())
    else:
        queue = CoaQueue(engine, cell_id, OpenSealer())
        CoaSender._receive = lambda sender: die() if sender.counters["packets"] else None
    make_sender(engine, cell_id, queue=queue).run(threading.Event())
