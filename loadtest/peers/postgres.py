"""A private PostgreSQL cluster for rlm_sql, with the distribution's schema and the devices of the benchmark."""

import signal
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import psycopg
from psycopg.sql import SQL, Identifier

from loadtest import processes
from loadtest.peers.freeradius import RADDB
from loadtest.processes import BenchError
from nac.kit.db.server_settings import compute_server_settings
from radius.agent.radiusd.memory import available_bytes

# Settings as in Admit's cluster. Both clusters have fsync and synchronous_commit on, which is the default.
SCHEMA = RADDB / "mods-config/sql/main/postgresql/schema.sql"


def _binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise BenchError("PostgreSQL is not installed: apt install postgresql")
    return found[-1].parent


class Postgres:
    """Runs PostgreSQL during a `with` block. All OS accounts can connect by the unix socket in `socket`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._owner = processes.find_account("postgres")
        self.socket = folder

    def __enter__(self) -> Self:
        self._folder.mkdir()
        processes.chown_tree(self._folder, self._owner)
        binaries, log = _binaries(), self._folder / "log"
        options = ["--username=radius", "--auth=trust", "--encoding=UTF8", "--locale=C"]
        initdb: list[str | Path] = [binaries / "initdb", "-D", self._data, *options]
        if processes.start_process(initdb, owner=self._owner, output=log).wait(60):
            raise BenchError(f"initdb failed\n{log.read_text()}")
        values = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket),
            **compute_server_settings(available_bytes()),
        }
        options = [word for name, value in values.items() for word in ("-c", f"{name}={value}")]
        self._process = processes.start_process(
            [binaries / "postgres", "-D", self._data, *options], owner=self._owner, output=log
        )
        try:
            processes.wait_until(self._answers, "the peer's PostgreSQL", seconds=30, process=self._process, log=log)
        except BenchError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # SIGINT: fast shutdown, which does not wait for clients.
        processes.end_process(self._process, request=signal.SIGINT)

    @property
    def pid(self) -> int:
        return self._process.pid

    def connect(self, database: str = "radius") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(host=str(self.socket), dbname=database, user="radius", autocommit=True)

    def _answers(self) -> bool:
        try:
            self.connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def load(self, known: Sequence[tuple[str, str]]) -> None:
        """Create the database `radius`. Each (MAC address, VLAN) gets a password and a VLAN."""
        with self.connect("postgres") as connection:
            connection.execute("CREATE DATABASE radius")
        with self.connect() as connection:
            connection.execute(SCHEMA.read_bytes())
            with connection.cursor() as cursor:
                _copy(cursor, "radcheck", ((mac, "Cleartext-Password", ":=", mac) for mac, _ in known))
                _copy(cursor, "radreply", (row for mac, vlan in known for row in _vlan_rows(mac, vlan)))
            connection.execute("VACUUM ANALYZE")

    def count(self, table: str) -> int:
        with self.connect() as connection:
            row = connection.execute(SQL("SELECT count(*) FROM {}").format(Identifier(table))).fetchone()
        assert row is not None
        return int(str(row[0]))


def _copy(cursor: psycopg.Cursor[tuple[object, ...]], table: str, rows: Iterable[tuple[str, str, str, str]]) -> None:
    statement = SQL("COPY {} (UserName, Attribute, op, Value) FROM STDIN").format(Identifier(table))
    with cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _vlan_rows(mac: str, vlan: str) -> Iterable[tuple[str, str, str, str]]:
    yield mac, "Tunnel-Type", "=", "VLAN"
    yield mac, "Tunnel-Medium-Type", "=", "IEEE-802"
    yield mac, "Tunnel-Private-Group-Id", "=", vlan
