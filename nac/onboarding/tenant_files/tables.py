"""The tables that a tenant file contains. Each model declares this for its table (`nac.kit.db.declarations`)."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from sqlalchemy import Column, Table

from nac.kit.db.base import Base
from nac.kit.db.declarations import (
    EXPORTED,
    FileContent,
    FileExclusion,
    FileLog,
    HashColumn,
    SealedColumn,
    describe_table,
)
from nac.kit.permissions import Permission
from nac.models import Tenant

_Role = TypeVar("_Role", FileContent, FileLog, FileExclusion)


def _collect(kind: type[_Role]) -> dict[str, _Role]:
    """Return the declarations of type `kind`, by table name. A declaration states how tenant files treat the table.

    A table comes after the tables to which its rows refer.
    """
    return {
        table.name: role
        for table in Base.metadata.sorted_tables
        if isinstance(role := describe_table(table).tenant_file, kind)
    }


CONTENT_TABLES: Final[Mapping[str, FileContent]] = _collect(FileContent)
LOG_TABLES: Final[Mapping[str, FileLog]] = _collect(FileLog)
EXCLUDED_TABLES: Final[Mapping[str, FileExclusion]] = _collect(FileExclusion)
# Exported columns of the tenant's row. All other columns belong to the installation.
TENANT_COLUMNS: Final = tuple(
    column.name for column in Tenant.__table__.columns if column.info.items() >= EXPORTED.items()
)
# Secrets include RADIUS secrets, passwords and the keys of authorities.
_SECRET_PERMISSIONS: Final = frozenset({Permission.SECRET_REVEAL, Permission.AUTHORITY_MANAGE})
IMPORT_PERMISSIONS: Final = frozenset({Permission.TENANT_CREATE, Permission.TENANT_MANAGE}).union(
    *(each.make for each in CONTENT_TABLES.values())
)


def content_tables() -> list[Table]:
    """Return the tables of a tenant file. Each table comes after the tables to which its rows refer."""
    return [Base.metadata.tables[name] for name in CONTENT_TABLES]


def stored_columns(table: Table) -> list[Column[Any]]:
    """Return all columns except tenant_id and generated columns."""
    return [column for column in table.columns if column.name != "tenant_id" and column.computed is None]


def sealed_columns(table: Table) -> dict[str, SealedColumn]:
    return {column.name: column.info[SealedColumn] for column in table.columns if SealedColumn in column.info}


def hashed_columns(table: Table) -> dict[str, HashColumn]:
    return {column.name: column.info[HashColumn] for column in table.columns if HashColumn in column.info}


def export_permissions(*, logs: bool, secrets: bool) -> frozenset[Permission]:
    """Return the permissions to export a tenant: TENANT_DELETE, and the permissions to read each part of the file."""
    read = {each.read for each in (*CONTENT_TABLES.values(), *(LOG_TABLES.values() if logs else ()))}
    return frozenset(
        {Permission.TENANT_DELETE, Permission.TENANT_READ, *read, *(_SECRET_PERMISSIONS if secrets else ())}
    )
