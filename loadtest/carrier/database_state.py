"""Figures that show whether PostgreSQL sustains a rate: size, dead tuples, updates within a page, connections."""

from dataclasses import dataclass

import psycopg

_STATE = """
SELECT pg_database_size(current_database()), pg_table_size('sessions'), pg_indexes_size('sessions'), t.n_live_tup,
    t.n_dead_tup, t.n_tup_upd, t.n_tup_hot_upd,
    (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid())
FROM pg_stat_user_tables t WHERE t.relid = 'sessions'::regclass
"""


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """State of a database and its table `sessions`."""

    database_bytes: int
    table_bytes: int
    index_bytes: int
    live: int
    dead: int
    updates: int
    # Updates without a new index entry.
    hot_updates: int
    connections: int

    def hot_share_since(self, before: "DatabaseState") -> float | None:
        """Share of HOT updates; None without updates."""
        updates = self.updates - before.updates
        return (self.hot_updates - before.hot_updates) / updates if updates else None


def read_state(url: str) -> DatabaseState:
    """`url` is a superuser's."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_STATE).fetchone()
    assert row is not None
    return DatabaseState(*row)
