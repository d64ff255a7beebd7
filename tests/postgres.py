"""A private PostgreSQL cluster for one test run, in a temporary directory, with a unix socket and no durability."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from nac.kit.db import make_engine
from nac.kit.db.migration import upgrade_schema
from tests.frozen_processes import frozen
from tests.polling import PATIENCE_SECONDS

_DATABASE = "admit"
# The migrated template, to which no test connects. Every other database is a copy of it.
_PATTERN = "admit_pattern"
# The folder of a stopped cluster with the template database, or of a cluster in preparation (tests/preparation.py).
PREPARED = "TESTS_CLUSTER"
_PREPARED_SECONDS = 60
_ROLES_SQL = Path(__file__).parents[1] / "migrations" / "roles.sql"


@dataclass(frozen=True)
class Database:
    """URLs of one database, for each role."""

    name: str
    socket_directory: Path

    def url(self, role: str) -> str:
        return f"postgresql://{role}@/{self.name}?host={self.socket_directory}"

    @property
    def superuser_url(self) -> str:
        return self.url("postgres")

    @property
    def owner_url(self) -> str:
        return self.url("admit_owner")

    @property
    def app_url(self) -> str:
        return self.url("admit_app")

    @property
    def public_url(self) -> str:
        return self.url("admit_public")

    @property
    def cell_url(self) -> str:
        return self.url("admit_cell")

    @property
    def worker_url(self) -> str:
        return self.url("admit_worker")


def _copy_prepared(data: Path) -> bool:
    """Whether a prepared cluster exists, or was completed in time."""
    place = Path(os.environ.get(PREPARED, "/nowhere/data"))
    latest = time.monotonic() + _PREPARED_SECONDS
    while not place.exists():
        if not place.parent.exists() or time.monotonic() > latest:
            return False
        time.sleep(0.05)
    subprocess.run(["cp", "--archive", place, data], check=True)
    return True


def _binaries() -> Path:
    found = shutil.which("initdb")
    return Path(found).parent if found else max(Path("/usr/lib/postgresql").glob("*/bin"))


class Cluster:
    """A private cluster.

    PostgreSQL refuses to run as root, so root runs it as `postgres` or, without this user, `nobody`.
    """

    def __init__(self, **settings: str) -> None:
        """Create the cluster. `settings` are for PostgreSQL, in addition to the fast test defaults."""
        self._settings = settings
        self.directory = Path(tempfile.mkdtemp(prefix="admit-pg-"))
        self._user: dict[str, object] = {}
        if os.geteuid() == 0:
            names = {entry.pw_name: entry for entry in pwd.getpwall()}
            entry = names.get("postgres") or names["nobody"]
            self._user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            os.chown(self.directory, entry.pw_uid, entry.pw_gid)
        self.directory.chmod(0o755)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        binaries, data = _binaries(), self.directory / "data"
        if not data.exists() and not _copy_prepared(data):
            initdb = [
                binaries / "initdb",
                "-D",
                data,
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "-N",
            ]
            subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd="/", **self._user)
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.directory),
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "shared_buffers": "64MB",
            "max_connections": "100",
            "jit": "off",
        } | self._settings
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [binaries / "postgres", "-D", data, *options], stdout=log, stderr=log, cwd="/", **self._user
            )
        self._await_ready()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                psycopg.connect(Database("postgres", self.directory).superuser_url).close()
                return
            except psycopg.OperationalError as exc:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.directory / "log").read_text()) from exc
                time.sleep(0.05)

    def frozen(self) -> AbstractContextManager[None]:
        """Freeze all processes of the cluster until the block ends."""
        assert self._process is not None
        return frozen(self._process.pid)

    def create_database(self, name: str = _DATABASE, *, migrated: bool = True) -> Database:
        if not migrated:
            return self._create(name)
        self._ensure_pattern()
        database = self._create(name, template=_PATTERN)
        with self._maintained() as connection:
            # A copy of a database has no rights of connection.
            connection.execute(
                "UPDATE pg_database copy SET datacl = pattern.datacl FROM pg_database pattern "
                "WHERE pattern.datname = %s AND copy.datname = %s",
                [_PATTERN, name],
            )
        return database

    def _ensure_pattern(self) -> None:
        with self._maintained() as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [_PATTERN]).fetchone()
        if not known:
            upgrade_schema(self._create(_PATTERN).owner_url)

    def _create(self, name: str, *, template: str = "template1") -> Database:
        names = {"name": sql.Identifier(name), "template": sql.Identifier(template)}
        with self._maintained() as connection:
            connection.execute(_ROLES_SQL.read_bytes())
            connection.execute(sql.SQL("CREATE DATABASE {name} OWNER admit_owner TEMPLATE {template}").format(**names))
        return Database(name, self.directory)

    def _maintained(self) -> psycopg.Connection:
        return psycopg.connect(Database("postgres", self.directory).superuser_url, autocommit=True)

    def become_prepared(self, place: Path) -> None:
        """Stop, and leave the data in this folder with everything that `create_database` needs."""
        self._ensure_pattern()
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)
        self._process = None
        (self.directory / "data").rename(place)

    def stop(self) -> None:
        """Stop immediately, because no data here needs a checkpoint."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.directory)


class Engines:
    """One engine per role for all tests of a process. It keeps its connections and their cached tables."""

    def __init__(self, database: Database) -> None:
        self.app = make_engine(database.app_url)
        self.cell = make_engine(database.cell_url)
        self.worker = make_engine(database.worker_url)
        self.owner = make_engine(database.owner_url)

    def dispose(self) -> None:
        for engine in (self.app, self.cell, self.worker, self.owner):
            engine.dispose()
