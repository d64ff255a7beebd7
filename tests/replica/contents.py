"""The content of a writer's replica, read in the writer's process."""

from contextlib import contextmanager
from types import SimpleNamespace

from nac.cellformat.replica.store import ReplicaView


@contextmanager
def view_of(writer):
    transaction = writer._environment.begin(buffers=True)
    with ReplicaView(SimpleNamespace(name="", **writer._databases), transaction) as view:
        yield view


def everything(writer):
    """All databases except meta, as {database: {key: value}}."""
    with writer._environment.begin() as transaction:
        return {
            name: dict(transaction.cursor(db=database))
            for name, database in writer._databases.items()
            if name != "meta"
        }
