"""Row-level security of templates, tested without the service's filters."""

from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Engine, insert, select

from nac.kit.db import MspScope, PlatformScope, TenantScope, session_scope
from nac.kit.errors import ScopeViolation
from nac.models import Rollout, RolloutTenant, Template, TemplateTenant, TemplateVersion
from nac.tenancy import msps
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.postgres import Database
from tests.templates.conftest import Field, document

TABLES = (Template, TemplateVersion, TemplateTenant, Rollout, RolloutTenant)


def test_msp_sees_and_changes_only_its_own_templates(
    field: Field, app_engine: Engine, database: Database, platform: Platform
) -> None:
    field.roll_out(field.save(document()))
    with session_scope(PlatformScope(), engine=app_engine) as session:
        other = msps.create_msp(session, actor=ACTOR, slug="bolt").id
    foreign = make_tenant(app_engine, Platform(other, platform.cell_id), "foreign").id
    with field.msp() as session:
        assert all(session.scalars(select(table)).all() for table in TABLES)
        (template,) = session.scalars(select(Template)).all()
    for scope in (MspScope(other), TenantScope(field.tenants["t0"]), TenantScope(foreign), PlatformScope()):
        with session_scope(scope, engine=app_engine) as session:
            assert [session.scalars(select(table)).all() for table in TABLES] == [[]] * len(TABLES), scope
    mine = {"msp_id": field.msp_id, "template_id": template.id}
    for scope, row in (
        (MspScope(other), {**mine, "tenant_id": foreign}),
        (MspScope(field.msp_id), {**mine, "tenant_id": foreign}),
    ):
        with (
            pytest.raises(ScopeViolation, match="row-level security"),
            session_scope(scope, engine=app_engine) as session,
        ):
            session.execute(insert(TemplateTenant).values(row))
    with pytest.raises(ScopeViolation), session_scope(MspScope(other), engine=app_engine) as session:
        session.execute(insert(Template).values(id=uuid4(), msp_id=field.msp_id, slug="x", name="x"))
    for url in (database.cell_url, database.worker_url):
        for table in TABLES:
            with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(
                    psycopg.sql.SQL("SELECT FROM {}").format(psycopg.sql.Identifier(table.__tablename__))
                )
