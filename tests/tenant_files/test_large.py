"""A tenant with very many rows.

Its import is slow enough for autovacuum to run, and the cost per row remains constant.
"""

from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from loadtest.large_tenant import write_large
from nac.inventory.endpoints import service as endpoints
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.onboarding.tenant_files.importer import import_tenant
from tests.factories.certificates import SIGNING, Certified
from tests.factories.tenancy import ACTOR, Platform
from tests.tenant_files.test_round_trip import exported

_ROWS = 2_000
# Rows read by all indexes of the table, in this transaction.
_FETCHED = text(
    "SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid)) FROM pg_index WHERE indrelid = 'endpoints'::regclass"
)


@pytest.fixture
def large(dictionary: None, alpha: Certified, app_engine: Engine, tmp_path: Path) -> Path:
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        who = {"actor": ACTOR, "tenant_id": alpha.tenant_id}
        ENDPOINT_GROUPS.create(session, **who, name="printers")
        endpoints.create_endpoint(session, **who, mac="00005e005301", groups=["printers"])
    small, found = tmp_path / "small.zip", tmp_path / "large.zip"
    small.write_bytes(exported(app_engine, alpha.tenant_id, passphrase="").getvalue())
    write_large(small, found, _ROWS)
    return found


def test_statistics_during_a_bulk_insert_do_not_mislead(
    large: Path, platform: Platform, app_engine: Engine, owner_engine: Engine
) -> None:
    fetched: list[int] = []
    looked: list[int] = []

    def look(rows: int, _: int) -> None:
        """Analyze as autovacuum does, which sees no uncommitted rows."""
        if rows > _ROWS // 2 and not looked:
            looked.append(rows)
            with owner_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(text("DELETE FROM endpoints"))
                connection.execute(text("ANALYZE endpoints"))

    with large.open("rb") as source, session_scope(PlatformScope(), engine=app_engine) as session:
        given = {"actor": ACTOR, "slug": "copy", "msp_id": platform.msp_id, "signing": SIGNING}
        import_tenant(
            session, source, **given, tell=look, note=lambda done: fetched.append(session.scalar(_FETCHED) or 0)
        )
    assert looked
    assert fetched[0] < 10 * _ROWS, "each reference is checked by the rows that it is about"
