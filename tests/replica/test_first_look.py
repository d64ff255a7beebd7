"""A reader opens the replica for the first time: radiusd starts while devices already send requests."""

import threading
from concurrent.futures import ThreadPoolExecutor

from nac.cellformat.replica.store import ReplicaReader, ReplicaWriter

THREADS = 4
ROUNDS = 60


def test_no_thread_misses_a_replica_that_another_opens(tmp_path):
    """Authentication and accounting are two threads of radiusd: the later one must wait."""
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
