"""Row-level security of trials, which are rows of the platform."""

from datetime import timedelta

import pytest
from sqlalchemy import select, update

from nac.kit.clock import utc_now
from nac.kit.db import MspScope, PlatformScope, TenantScope, session_scope
from nac.kit.errors import ScopeViolation
from nac.models import Mail, SignUp, Trial
from nac.tenancy.tenants import service as tenants
from tests.factories.tenancy import Platform, make_tenant


@pytest.mark.parametrize("table", [Mail, SignUp, Trial])
def test_tenant_sees_only_its_own_trial(trial, app_engine, worker_engine, table):
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenant = tenants.require_by_slug(session, slug=trial)
        assert session.scalars(select(table)).all()
        cell = tenants.cells.require_slot(session, tenant_id=tenant.id).cell_id
    other = make_tenant(app_engine, Platform(tenant.msp_id, cell), "other")
    for engine in (app_engine, worker_engine):
        for scope, seen in (
            (TenantScope(tenant.id), table is Trial),
            (TenantScope(other.id), False),
            (MspScope(tenant.msp_id), False),
        ):
            with session_scope(scope, engine=engine) as session:
                assert bool(session.scalars(select(table)).all()) == seen, (table, scope)


def test_tenant_cannot_extend_its_trial(trial, app_engine):
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenant_id = tenants.require_by_slug(session, slug=trial).id
    later = update(Trial).values(ends_at=utc_now() + timedelta(days=1000))
    with pytest.raises(ScopeViolation), session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        session.execute(later)
