"""Audit logs of two tenants, an MSP and the platform, and an attacker with full database access."""

import json
from dataclasses import dataclass
from functools import partial

import psycopg
import pytest
from sqlalchemy import Engine

from nac.core.access.grants import Owner
from nac.core.audit import chain
from nac.core.audit import service as audit
from nac.core.audit.chain import load_or_create_keys
from nac.core.audit.chain_seals import seal_waiting_entries
from nac.kit.clock import utc_now
from nac.kit.db import MspScope, PlatformScope, Scope, TenantScope, session_scope
from nac.kit.ids import TenantId
from tests.factories.certificates import SEALER
from tests.factories.tenancy import Platform, make_tenant
from tests.postgres import Database
from tests.row_snapshots import snapshotted


@dataclass
class Log:
    app: Engine
    worker: Engine
    database: Database
    alpha: Owner
    bravo: Owner
    msp: Owner
    platform: Owner

    def write(self, owner: Owner, *targets: str, **told) -> None:
        with session_scope(PlatformScope(), engine=self.app) as session:
            for target in targets:
                audit.append(session, actor="test:x", action="thing.set", target=target, **owner.columns(), **told)

    def seal(self, most: int = 5_000) -> int:
        with session_scope(PlatformScope(), engine=self.worker) as session:
            return seal_waiting_entries(session, keys=load_or_create_keys(session, SEALER), now=utc_now(), most=most)

    def scope(self, owner: Owner) -> Scope:
        if owner.tenant_id is not None:
            return TenantScope(owner.tenant_id)
        return PlatformScope() if owner.msp_id is None else MspScope(owner.msp_id)

    def export(self, owner: Owner, behind: int = 0) -> list[str]:
        read = partial(session_scope, self.scope(owner), engine=self.app)
        return "".join(chain.export_chain(read, owner=owner, behind=behind)).splitlines()

    def targets(self, owner: Owner) -> list[str]:
        rows = [json.loads(line) for line in self.export(owner)[1:-1]]
        return [json.loads(row["entry"])["target"] for row in rows]

    def tamper(self, sql: str, *parameters: object) -> None:
        """Tamper as the owner of the database, who can disable triggers."""
        with psycopg.connect(self.database.superuser_url, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute(sql.encode(), parameters)

    def query(self, sql: str, *parameters: object) -> list[tuple]:
        with psycopg.connect(self.database.superuser_url, autocommit=True) as connection:
            return connection.execute(sql.encode(), parameters).fetchall()


@pytest.fixture
@snapshotted
def log(database: Database, app_engine: Engine, worker_engine: Engine, platform: Platform) -> Log:
    alpha, bravo = (
        Owner(tenant_id=TenantId(make_tenant(app_engine, platform, slug).id)) for slug in ("alpha", "bravo")
    )
    log = Log(app_engine, worker_engine, database, alpha, bravo, Owner(platform.msp_id), Owner())
    log.seal()
    return log
