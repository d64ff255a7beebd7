"""More requests than there are threads, while a table is locked: who can not be served is told so in time."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

import httpx
import psycopg
import pytest

from api.connections import HttpWithFiles
from api.main import create_app
from nac.db import CONNECTIONS_MOST
from nac.ids import TenantId
from tests.api.served import served, settings_of_public
from tests.postgres import Database

ENDPOINTS = "/v1/tenants/alpha/endpoints"
_CLIENTS = 64


@pytest.fixture
def hurried(database: Database, tmp_path: Path, msp_token: str, tenant_id: TenantId) -> Iterator[httpx.Client]:
    """Of an API that waits for a connection for half a second."""
    settings = settings_of_public(database, tmp_path, ADMIT_API_DATABASE_WAIT_SECONDS="0.5")
    with served(create_app(settings), http=HttpWithFiles) as client:
        client.headers["Authorization"] = f"Bearer {msp_token}"
        yield client


@pytest.mark.parametrize(
    ("ask", "good"),
    [
        (lambda api, _: api.get(ENDPOINTS), 200),
        (lambda api, number: api.post(ENDPOINTS, json={"mac": f"00:00:5e:00:53:{number:02x}"}), 201),
    ],
)
def test_who_finds_no_thread_is_told_so_while_others_wait_for_the_database(
    hurried: httpx.Client, database: Database, ask: Callable[[httpx.Client, int], httpx.Response], good: int
) -> None:
    hurried.get(ENDPOINTS)
    with psycopg.connect(database.superuser_url) as other, ThreadPoolExecutor(_CLIENTS) as clients:
        other.execute("LOCK TABLE endpoints IN ACCESS EXCLUSIVE MODE")
        asked = {clients.submit(ask, hurried, number) for number in range(_CLIENTS)}
        refused: list[httpx.Response] = []
        while len(asked) > CONNECTIONS_MOST:
            done, asked = wait(asked, timeout=20, return_when=FIRST_COMPLETED)
            assert done, f"{len(asked)} still wait"
            refused += [each.result() for each in done]
        told = {(answer.status_code, answer.json()["code"], answer.headers["retry-after"]) for answer in refused}
        assert told == {(503, "connections-in-use", "5")}
        other.rollback()
        assert [each.result().status_code for each in asked] == [good] * CONNECTIONS_MOST
    assert hurried.get(ENDPOINTS).status_code == 200
