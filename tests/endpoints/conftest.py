"""Two tenants of one cell, and a function that runs the worker."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import Engine

from nac.inventory.endpoints.enrichment import enrich_batch
from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from tests.factories.tenancy import ACTOR
from tests.factories.tenant_fixtures import session, two_tenants, who
from tests.polling import until
from tests.postgres import Database

__all__ = ["session", "two_tenants", "who"]

TwoTenants = tuple[TenantId, TenantId]


@pytest.fixture
def tenant_id(two_tenants: TwoTenants) -> TenantId:
    return two_tenants[0]


@pytest.fixture
def change(app_engine: Engine, tenant_id: TenantId) -> Callable[..., object]:
    """Call a service in its own transaction."""

    def change(service: Callable[..., object], **given: object) -> object:
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            return service(session, actor=ACTOR, tenant_id=tenant_id, **given)

    return change


@pytest.fixture
def work(worker_engine: Engine, tenant_id: TenantId) -> Callable[[], int]:
    """Function that runs all pending work of the worker, and returns the number of processed endpoints."""

    def work(of: TenantId = tenant_id) -> int:
        done = 0
        while True:
            with session_scope(TenantScope(of), engine=worker_engine) as session:
                batch = enrich_batch(session, tenant_id=of)
            if not batch:
                return done
            done += batch

    return work


@pytest.fixture
def owner(database: Database, two_tenants: TwoTenants) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def see(owner: psycopg.Connection, tenant_id: TenantId) -> Callable[..., None]:
    """Function that reports an address as the shipper does.

    It writes a sighting, evidence as (source, key, value), and work for the worker.
    """

    def see(mac: str, *evidence: tuple[str, str, str], days_ago: float = 0, of: TenantId = tenant_id) -> None:
        owner.execute(
            "INSERT INTO endpoint_sightings (tenant_id, mac, first_seen_at, last_seen_at, permitted) "
            "VALUES (%(of)s, %(mac)s, now() - %(ago)s * interval '1 day', now() - %(ago)s * interval '1 day', false) "
            "ON CONFLICT (tenant_id, mac) DO UPDATE SET last_seen_at = excluded.last_seen_at",
            {"of": of, "mac": mac, "ago": days_ago},
        )
        for source, key, value in evidence:
            owner.execute(
                "INSERT INTO endpoint_evidence (tenant_id, mac, source, key, value, at) "
                "VALUES (%s, %s, %s, %s, %s, now()) "
                "ON CONFLICT (tenant_id, mac, source, key) DO UPDATE SET value = excluded.value",
                (of, mac, source, key, value),
            )
        owner.execute("INSERT INTO endpoint_work (tenant_id, mac) VALUES (%s, %s)", (of, mac))

    return see


@pytest.fixture
def meanwhile(owner: psycopg.Connection) -> Iterator[Callable[..., Future]]:
    """Function that begins a call in another thread, and returns when the call waits for a lock or has ended."""
    with ThreadPoolExecutor(1) as other:

        def begin(call: Callable[..., object], *given: object, **named: object) -> Future:
            begun = other.submit(call, *given, **named)
            waiting = "SELECT pid FROM pg_locks WHERE NOT granted"
            until(lambda: begun.done() or owner.execute(waiting).fetchone(), "the call waits for a lock")
            return begun

        yield begin
