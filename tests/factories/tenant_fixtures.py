"""Fixtures of service tests: the tenant alpha with a database session of its scope, or two tenants."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.models import Tenant
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.row_snapshots import snapshotted


@pytest.fixture
@snapshotted
def tenant(app_engine: Engine, platform: Platform) -> Tenant:
    return make_tenant(app_engine, platform, "alpha")


@pytest.fixture
def tenant_id(tenant: Tenant) -> TenantId:
    return TenantId(tenant.id)


@pytest.fixture
def who(tenant_id: TenantId) -> dict[str, object]:
    return {"actor": ACTOR, "tenant_id": tenant_id}


@pytest.fixture
def session(app_engine: Engine, tenant_id: TenantId) -> Iterator[Session]:
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        yield session


@pytest.fixture
@snapshotted
def two_tenants(app_engine: Engine, platform: Platform) -> tuple[TenantId, TenantId]:
    """The tenants alpha and bravo, in one cell."""
    alpha, bravo = (make_tenant(app_engine, platform, slug).id for slug in ("alpha", "bravo"))
    return TenantId(alpha), TenantId(bravo)
