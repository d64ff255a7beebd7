"""A reader opens the replica for the first time, when radiusd starts while devices send requests."""

import threading
from concurrent.futures import ThreadPoolExecutor

from nac.cellformat.replica.store import ReplicaReader, ReplicaWriter

THREADS = 4
ROUNDS = 60


def test_no_thread_misses_a_replica_that_another_opens(tmp_path):
    """`radiusd` authenticates and accounts in two threads. The later thread must wait."""
    writer = ReplicaWriter(tmp_path)
    with writer.begin() as batch:
        batch.set_meta("complete", "1")
    writer.close()

    def read(reader, together):
        together.wait()
        with reader.begin() as view:
            return view.version

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(ROUNDS):
            reader, together = ReplicaReader(tmp_path), threading.Barrier(THREADS)
            versions = [work.result() for work in [pool.submit(read, reader, together) for _ in range(THREADS)]]
            assert len(set(versions)) == 1
            reader.close()
