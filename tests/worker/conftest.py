"""A real worker process with beat, a real Redis and a real PostgreSQL."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from sqlalchemy import Engine

from nac.kit.db import set_process_engine
from tests.factories.certificates import write_master_key
from tests.polling import PATIENCE_SECONDS, until
from tests.postgres import Database
from tests.redis_server import RedisServer
from worker.constants import HEARTBEAT_KEY

Query = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def query(database: Database) -> Query:
    """SQL as the superuser, committed at once."""

    def query(sql: str, *given: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            cursor = connection.execute(sql.encode(), given)
            return cursor.fetchall() if cursor.description else []

    return query


@pytest.fixture
def job_process(worker_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The context of a worker process, for jobs that the test calls."""
    monkeypatch.setenv("ADMIT_VAR_DIR", str(tmp_path))
    monkeypatch.setenv("ADMIT_REDIS_URL", "unix:///nonexistent")
    monkeypatch.setenv("ADMIT_MASTER_KEY_FILE", str(write_master_key(tmp_path)))
    set_process_engine(worker_engine)
    yield
    set_process_engine(None)


@contextmanager
def worker(database: Database, redis_server: RedisServer, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {
        "ADMIT_VAR_DIR": str(folder),
        "ADMIT_DATABASE_URL": database.app_url,
        "ADMIT_DATABASE_WORKER_URL": database.worker_url,
        "ADMIT_REDIS_URL": redis_server.url,
    }
    command = [sys.executable, "-m", "worker", "--processes=1", f"--schedule={folder / 'beat'}"]
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(PATIENCE_SECONDS)


def wait_for(condition: Callable[[], object], folder: Path, seconds: float = PATIENCE_SECONDS) -> None:
    try:
        until(condition, "a result of the worker", seconds=seconds)
    except AssertionError as exc:
        raise AssertionError((folder / "worker.log").read_text()) from exc


def last_heartbeat(server: RedisServer) -> int:
    with redis.Redis.from_url(server.url) as client:
        return int(client.get(HEARTBEAT_KEY) or 0)
