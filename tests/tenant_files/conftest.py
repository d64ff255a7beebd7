"""A tenant with a row in every table, whose file is exported and imported."""

import io
from typing import Any
from uuid import UUID, uuid5

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import Engine, Table, select, update
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.db.base import Base
from nac.kit.errors import AdmitError
from nac.kit.ids import TenantId
from nac.onboarding.tenant_files import tables
from nac.onboarding.tenant_files.importer import TenantImportResult, import_tenant
from nac.onboarding.tenant_files.writer import write_tenant
from tests.certificates.uploads import authority
from tests.factories.certificates import SEALER, SIGNING, Certified
from tests.factories.dictionary import give_dictionary
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR, Platform
from tests.row_snapshots import snapshotted

PASSPHRASE = "correct horse battery"
SECRET = b"a-secret-of-sixteen"
_PLAIN = {"private_sealed": b'{"url": "https://siem.corp.example/events", "headers": {"X-Key": "hush"}}'}


def exported(app_engine: Engine, tenant_id: TenantId, **changes: Any) -> io.BytesIO:
    target = io.BytesIO()
    given = {"passphrase": PASSPHRASE} | changes
    with session_scope(TenantScope(tenant_id), engine=app_engine, is_snapshot=True) as session:
        write_tenant(session, target, actor=ACTOR, tenant_id=tenant_id, sealer=SEALER, **given)
    return target


def imported(app_engine: Engine, platform: Platform, source: io.BytesIO, **changes: Any) -> TenantImportResult:
    given = {"passphrase": PASSPHRASE, "slug": "copy"} | changes
    with session_scope(PlatformScope(), engine=app_engine) as session:
        return import_tenant(session, source, actor=ACTOR, msp_id=platform.msp_id, signing=SIGNING, **given)


@pytest.fixture
@snapshotted
def dictionary(cell_engine: Engine, platform: Platform) -> None:
    """Dictionaries of the cell, which validate the policies of imported files."""
    give_dictionary(cell_engine, platform.cell_id)


@pytest.fixture
def full(dictionary, alpha: Certified, owner_engine: Engine) -> TenantId:
    """A tenant with a row in every table, written by the services or generated from the schema."""
    with Session(owner_engine) as session, session.begin():
        for slot in session.execute(select(Base.metadata.tables["slots"])).mappings().all():
            sealed = SEALER.seal(b"a-radius-secret-of-the-slot", f"slot:{slot['id']}")
            slots = Base.metadata.tables["slots"]
            session.execute(update(slots).where(slots.c.id == slot["id"]).values(secret_sealed=sealed))
        for table in tables.content_tables():
            _add_row(session, table, alpha.tenant_id)
        for table in tables.content_tables():
            _seal_rows(session, table, alpha.tenant_id)
    return alpha.tenant_id


def _add_row(session: Session, table: Table, tenant_id: TenantId) -> None:
    authorities = Base.metadata.tables["certificate_authorities"]
    if table is authorities:
        certificate = authority("Corp Root", utc_now()).certificate.public_bytes(Encoding.DER)
        make_row(session, table, tenant_id, kind="external", certificate_der=certificate)
    elif table.name == "status_sources":
        of_others = select(authorities.c.id).where(authorities.c.kind == "external")
        make_row(session, table, tenant_id, authority_id=session.scalars(of_others).one())
    elif table.name == "feeds":
        settings = {"url": "https://siem.corp.example/", "kinds": ["audit"]}
        make_row(session, table, tenant_id, kind="webhook", settings=settings, sources=["audit_log"])
    elif session.scalar(select(table.c.tenant_id).where(table.c.tenant_id == tenant_id).limit(1)) is None:
        make_row(session, table, tenant_id)


def _seal_rows(session: Session, table: Table, tenant_id: TenantId) -> None:
    """Seal the values of the factory, which are not sealed."""
    for name, sealed_column in tables.sealed_columns(table).items():
        for row in session.execute(select(table).where(table.c.tenant_id == tenant_id)).mappings().all():
            context = sealed_column.context(tenant_id, row.get("id"))
            if (row[name] is None or _opens(row[name], context)) and table.name != "nases":
                continue
            keys = [column == row[column.name] for column in table.primary_key.columns]
            sealed = SEALER.seal(_PLAIN.get(name, SECRET), context)
            session.execute(update(table).where(*keys).values({name: sealed, **_beside(table)}))


def _beside(table: Table) -> dict[str, str]:
    return {"address": "192.0.2.7", "mab_password": "fixed"} if table.name == "nases" else {}


def _opens(sealed: bytes, context: str) -> bool:
    try:
        SEALER.open(sealed, context)
    except AdmitError:
        return False
    return True


def contents_of(engine: Engine, tenant_id: TenantId, *, renamed_by: TenantId | None = None) -> dict[str, list[Any]]:
    with Session(engine) as session:
        return read_contents(session, tenant_id, renamed_by=renamed_by)


def read_contents(session: Session, tenant_id: TenantId, *, renamed_by: TenantId | None) -> dict[str, list[Any]]:
    """Every row of every exported table, with ids mapped by `renamed_by`."""
    found: dict[str, list[Any]] = {}
    for table in tables.content_tables():
        rows = session.execute(select(table).where(table.c.tenant_id == tenant_id)).mappings().all()
        found[table.name] = sorted((_plain(table, dict(row), tenant_id, renamed_by) for row in rows), key=repr)
    return found


def _plain(table: Table, row: dict[str, Any], tenant_id: TenantId, renamed_by: TenantId | None) -> dict[str, Any]:
    for name, column in tables.sealed_columns(table).items():
        row[name] = row[name] and SEALER.open(row[name], column.context(tenant_id, row.get("id")))
    del row["tenant_id"]
    row |= tables.CONTENT_TABLES[table.name].reset
    if table.name == "feeds":
        del row["done"]
    if renamed_by is not None:
        for column, value in row.items():
            if isinstance(value, UUID):
                row[column] = uuid5(renamed_by, str(value))
    return row
