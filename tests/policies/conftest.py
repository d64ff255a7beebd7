"""A tenant in a cell that has uploaded the dictionaries of its radiusd."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from cli.main import admit
from nac.inventory.groups import ENDPOINT_GROUPS, USER_GROUPS
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.models import AuthLog, Tenant
from nac.policies import service as policies
from nac.policies import site_settings
from nac.tenancy import sites
from tests.cli.conftest import installation, served_app
from tests.factories.dictionary import give_dictionary
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR, Platform, make_platform, make_tenant
from tests.row_snapshots import snapshotted

# Fixtures for tests of commands.
__all__ = ["installation", "served_app"]


@pytest.fixture
@snapshotted
def platform(app_engine: Engine, cell_engine: Engine) -> Platform:
    return make_platform(app_engine, cell_engine, slots=2)


@pytest.fixture
@snapshotted
def upload(cell_engine: Engine, platform: Platform) -> None:
    give_dictionary(cell_engine, platform.cell_id)


@pytest.fixture
@snapshotted
def tenant(app_engine: Engine, platform: Platform, upload: None) -> Tenant:
    tenant = make_tenant(app_engine, platform, "alpha")
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        ENDPOINT_GROUPS.create(session, actor=ACTOR, tenant_id=tenant.id, name="printers")
        USER_GROUPS.create(session, actor=ACTOR, tenant_id=tenant.id, name="staff")
    return tenant


@pytest.fixture
def as_tenant(app_engine: Engine, tenant: Tenant):
    """Call a service function in its own transaction, as the tenant."""

    def call(function, **arguments):
        with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
            return function(session, tenant_id=tenant.id, **arguments)

    return call


@pytest.fixture
def do(as_tenant):
    """Call a service function as a user. With `acting=False`, call it without a user, for reads."""

    def call(function, *, acting=True, **arguments):
        return as_tenant(function, **({"actor": ACTOR} if acting else {}), **arguments)

    return call


@pytest.fixture
def publish(as_tenant):
    """Save and publish a document and assign it to the main site. Returns the policy."""

    def publish(document, slug: str = "main", site: str = "main", **options):
        if slug not in {policy.slug for policy in as_tenant(policies.list_policies)}:
            policy = as_tenant(policies.create_policy, actor=ACTOR, slug=slug)
            as_tenant(site_settings.assign_policy, actor=ACTOR, slug=site, policy_id=policy.id)
        as_tenant(policies.save_draft, actor=ACTOR, slug=slug, document=document)
        as_tenant(policies.publish_policy, actor=ACTOR, slug=slug, **options)
        return as_tenant(policies.require_by_slug, slug=slug)

    return publish


@pytest.fixture
def main_site(as_tenant) -> UUID:
    return as_tenant(sites.require_by_slug, slug="main").id


@pytest.fixture
def record(owner_engine: Engine, tenant: Tenant, main_site: UUID) -> Iterator:
    """Write a row of the authentication log.

    `request` is the input of the rules, by default a printer's MAB request.
    """

    def record(*, request=None, minutes_ago: int = 60, at: datetime | None = None, times: int = 1, **values) -> None:
        seen = {"method": ["mab"], "endpoint.known": [True], "endpoint.group": ["printers"]} | (request or {})
        row = {
            "at": at or utc_now() - timedelta(minutes=minutes_ago),
            "site_id": main_site,
            "mac": "001122334455",
            "permitted": True,
            "reason": "rule-permitted",
            "rule_id": "r",
            "vlan": "20",
            "policy_version": 1,
            "suppressed": 0,
            "request": {name: given for name, given in seen.items() if given is not None},
        }
        with Session(owner_engine) as session, session.begin():
            for _ in range(times):
                make_row(session, AuthLog.__table__, **({"tenant_id": tenant.id} | row | values))

    return record


@pytest.fixture
def policy_command(installation: pytest.MonkeyPatch, owner_engine: Engine, tenant: Tenant):
    """Run `admit policy ...`. The document is its standard input."""
    with owner_engine.begin() as connection:
        # A cell that is always up to date, so publishing does not wait.
        connection.execute(text("UPDATE cells SET replica_position = '4000000000:4000000000:'"))

    def run(*arguments, document=None, tenant_slug="alpha"):
        options = ["--tenant", tenant_slug] if tenant_slug else []
        given = document if isinstance(document, str) else json.dumps(document)
        return CliRunner().invoke(admit, ["policy", *arguments, *options], input=given, catch_exceptions=False)

    return run
