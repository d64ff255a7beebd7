"""PostgreSQL freezes under 64 clients. Each process responds in time, and recovers afterwards."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http import HTTPStatus
from itertools import count
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Final, NamedTuple
from uuid import UUID

import httpx
import psycopg
import pytest
from cryptography.x509.ocsp import OCSPResponseStatus, load_der_ocsp_response
from sqlalchemy import Engine

from api.connections import HttpWithFiles
from api.enrolment import main as enrolment
from api.main import create_app
from api.public import main as public
from nac.kit.db import MAX_CONNECTIONS
from nac.kit.ids import TenantId
from nac.models import CertificateAuthority
from tests.api.app_server import serve_app, settings_of_public
from tests.api.conftest import publish_all
from tests.api.test_ocsp import question
from tests.api.v1.conftest import bearer
from tests.factories.certificates import Certified
from tests.polling import until
from tests.postgres import Cluster, Database

Ask = Callable[[httpx.Client, int], httpx.Response]

_ENDPOINTS: Final = "/v1/tenants/alpha/endpoints"
_CLIENTS: Final = 64
# The 64 clients and the API share one interpreter. A response takes longer than the probe's limit of 1.5 s.
_ANSWER_SECONDS, _READY_SECONDS = 10.0, 4.0
_FROZEN_SECONDS: Final = 12.0
_numbers = count(1)


class Answer(NamedTuple):
    status: int
    seconds: float
    text: str


def timed(ask: Ask, client: httpx.Client, number: int) -> Answer:
    began = time.monotonic()
    answer = ask(client, number)
    return Answer(answer.status_code, time.monotonic() - began, answer.text)


@contextmanager
def asking(client: httpx.Client, asks: Sequence[Ask]) -> Iterator[list[Answer]]:
    """Run 64 clients in a loop until the block ends, and collect the responses."""
    answers: list[Answer] = []
    stop = Event()

    def repeat(number: int) -> None:
        while not stop.is_set():
            answers.append(timed(asks[number % len(asks)], client, number))

    with ThreadPoolExecutor(_CLIENTS) as clients:
        running = [clients.submit(repeat, number) for number in range(_CLIENTS)]
        try:
            yield answers
        finally:
            stop.set()
        for each in running:
            each.result()


def freeze(cluster: Cluster, client: httpx.Client, asks: Sequence[Ask], *, is_warm: bool) -> list[Answer]:
    """Freeze PostgreSQL: during requests if `is_warm`, otherwise when the first requests open connections."""
    with ExitStack() as stack:
        if not is_warm:
            stack.enter_context(cluster.frozen())
        answers = stack.enter_context(asking(client, asks))
        if is_warm:
            until(lambda: len(answers) > 3 * _CLIENTS, "answers before the freeze")
            stack.enter_context(cluster.frozen())
            answers.clear()
        moment, probes = time.monotonic() + _FROZEN_SECONDS, []
        while time.monotonic() < moment:
            probes.append(timed(lambda c, _: c.get("/readyz"), client, 0))
            time.sleep(0.2)
        during = list(answers)
    assert {each.status for each in probes} == {503}
    assert max(each.seconds for each in probes) < _READY_SECONDS
    assert max(each.seconds for each in answers) < _ANSWER_SECONDS
    assert len(during) >= _CLIENTS
    return during


def assert_recovered(client: httpx.Client, asks: Sequence[Ask], good: set[int]) -> None:
    until(lambda: client.get("/readyz").status_code == 200, "ready again", seconds=5)
    with ThreadPoolExecutor(_CLIENTS) as clients:
        answers = list(clients.map(lambda number: timed(asks[number % len(asks)], client, number), range(_CLIENTS)))
    assert {each.status for each in answers} <= good, [each for each in answers if each.status not in good]


def add(client: httpx.Client, _: int) -> httpx.Response:
    return client.post(_ENDPOINTS, json={"mac": f"0000{next(_numbers):08x}"})


_API: Final[Sequence[Ask]] = (
    lambda client, _: client.get(_ENDPOINTS),
    lambda client, _: client.get("/v1/tenants/alpha/authorities/x/download"),
    add,
    lambda client, _: client.get("/sign-in/company?name=alpha"),
)


@pytest.mark.parametrize("is_warm", [True, False])
def test_api_reports_a_frozen_database_in_time(
    database: Database, cluster: Cluster, tenant_id: TenantId, msp_token: str, tmp_path: Path, is_warm: bool
) -> None:
    app = create_app(settings_of_public(database, tmp_path))
    with serve_app(app, http=HttpWithFiles) as client:
        client.headers.update(bearer(msp_token))
        answers = freeze(cluster, client, _API, is_warm=is_warm)
        # Responses from before the freeze may arrive late.
        late = [each for each in answers if each.status != HTTPStatus.SERVICE_UNAVAILABLE]
        assert len(late) < _CLIENTS if is_warm else not late, late
        told = [each for each in answers if each.status == HTTPStatus.SERVICE_UNAVAILABLE]
        assert all("PostgreSQL" in each.text or "in use" in each.text for each in told), {each.text for each in told}
        assert_recovered(client, _API, {200, 201, 404})


def test_api_recovers_from_a_freeze_in_transactions(
    database, cluster, tenant_id, msp_token, tmp_path, monkeypatch
) -> None:
    """Each transaction has written a row and waits for a lock."""
    # One token represents many owners.
    monkeypatch.setattr("api.thread_limits.MAX_OWNER_REQUESTS", MAX_CONNECTIONS)
    app = create_app(settings_of_public(database, tmp_path))
    with serve_app(app, http=HttpWithFiles) as client, ThreadPoolExecutor(MAX_CONNECTIONS) as clients:
        client.headers.update(bearer(msp_token))
        assert add(client, 0).status_code == 201
        with psycopg.connect(database.superuser_url, autocommit=True) as other:
            other.execute("BEGIN; LOCK TABLE audit_log IN ACCESS EXCLUSIVE MODE")
            asked = [clients.submit(timed, add, client, number) for number in range(MAX_CONNECTIONS)]
            waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'audit_log'::regclass AND NOT granted"
            until(lambda: other.execute(waiting).fetchone() == (MAX_CONNECTIONS,), "transactions that wait")
            with cluster.frozen():
                answers = [each.result() for each in asked]
            other.execute("ROLLBACK")
        assert {each.status for each in answers} == {503}
        assert max(each.seconds for each in answers) < _ANSWER_SECONDS
        assert_recovered(client, _API, {200, 201, 404})


def get(path: str) -> Ask:
    return lambda client, _: client.get(path)


def ask_status(authority: CertificateAuthority) -> Ask:
    """Send an OCSP request. The response `tryLater` counts as 503."""

    def ask(client: httpx.Client, number: int) -> httpx.Response:
        # Responses to requests with a nonce never come from the cache.
        asked = question(authority, 1 + number, nonce=number.to_bytes(16))
        answer = client.post(f"/ocsp/{authority.id}", content=asked)
        if answer.status_code != HTTPStatus.OK:
            return answer
        status = load_der_ocsp_response(answer.content).response_status
        is_late = status == OCSPResponseStatus.TRY_LATER
        return httpx.Response(HTTPStatus.SERVICE_UNAVAILABLE if is_late else HTTPStatus.OK)

    return ask


@pytest.mark.parametrize("process", [public, enrolment], ids=["CRL, SCEP, OCSP", "EST"])
def test_devices_get_an_error_on_a_frozen_database(
    database: Database, cluster: Cluster, worker_engine: Engine, alpha: Certified, tmp_path: Path, process: ModuleType
) -> None:
    if process is public:
        publish_all(worker_engine)
        paths = (f"/crl/{UUID(int=1)}.crl", "/scep/alpha?operation=GetCACert")
        asks = [*map(get, paths), ask_status(alpha.authorities.issuing)]
    else:
        asks = [get("/.well-known/est/alpha/cacerts")]
    settings = replace(settings_of_public(database, tmp_path), connections_per_source=0)
    with serve_app(process.create_app(settings)) as client:
        before = {ask(client, 0).status_code for ask in asks}
        assert HTTPStatus.SERVICE_UNAVAILABLE not in before
        answers = freeze(cluster, client, asks, is_warm=True)
        assert sum(each.status != HTTPStatus.SERVICE_UNAVAILABLE for each in answers) < _CLIENTS
        assert_recovered(client, asks, before)
