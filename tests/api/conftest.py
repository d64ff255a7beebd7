"""The public application on a real PostgreSQL, with tenants whose authorities have published their CRLs."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Engine

from api.public.main import create_app
from nac.certificates import publication
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.kit.settings import Settings
from tests.api.app_server import serve_app, settings_of_public
from tests.factories.certificates import SIGNING, Certified, certify
from tests.factories.tenancy import Platform, make_tenant
from tests.postgres import Database
from tests.row_snapshots import snapshotted


@pytest.fixture
def public_settings(database: Database, tmp_path: Path) -> Settings:
    return settings_of_public(database, tmp_path, ADMIT_DATABASE_URL=database.public_url)


@pytest.fixture
def public_app(public_settings: Settings) -> FastAPI:
    return create_app(public_settings)


@pytest.fixture
def client(public_app: FastAPI) -> Iterator[httpx.Client]:
    with serve_app(public_app) as client:
        yield client


def publish_all(engine: Engine, *, now: datetime | None = None) -> None:
    """Publish for all tenants once, as the worker's job does."""
    now = now or utc_now()
    with session_scope(PlatformScope(), engine=engine) as session:
        waiting = publication.list_due(session, now=now)
    for work in waiting:
        tenant_id = TenantId(work.tenant_id)
        with session_scope(TenantScope(tenant_id), engine=engine) as session:
            publication.publish_status(
                session,
                actor="worker",
                tenant_id=tenant_id,
                authority_id=work.authority_id,
                signing=SIGNING,
                now=now,
            )


@pytest.fixture
@snapshotted
def alpha(app_engine: Engine, worker_engine: Engine, platform: Platform) -> Certified:
    alpha = certify(app_engine, make_tenant(app_engine, platform, "alpha").id)
    publish_all(worker_engine)
    return alpha


@pytest.fixture
@snapshotted
def bravo(app_engine: Engine, worker_engine: Engine, platform: Platform) -> Certified:
    bravo = certify(app_engine, make_tenant(app_engine, platform, "bravo").id)
    publish_all(worker_engine)
    return bravo
