"""Declarations of models beyond the database schema: error messages, tables in tenant files, encrypted columns.

A model declares properties of its table as class attributes (see `nac.kit.db.base.Base`), and properties of a column or
constraint with the argument `info=`. `nac.kit.db.error_translation` collects the error messages, and
`nac.onboarding.tenant_files.tables` collects the tables of tenant files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Table

from nac.kit.ids import TenantId
from nac.kit.permissions import Effect, Permission

# Value of `info=`: maps the class of each declaration to the declaration.
Info = dict[Any, Any]


class UniqueConflict(NamedTuple):
    """Error message for a request that violates a unique constraint."""

    # Field of the request.
    place: str
    detail: str
    remedy: str


class Reference(NamedTuple):
    """Names of a table's row or of a foreign key, for errors about a missing row to which a foreign key refers."""

    # Field of the request that contains the reference.
    place: str
    # Noun for the row, with an article, such as "a site".
    what: str


@dataclass(frozen=True, slots=True)
class FileContent:
    """Declares that tenant files contain the rows of a table, and that an import creates these rows."""

    # Permissions that callers of the API need to read a row (`read`) and to create a row (`make`).
    read: Permission
    make: tuple[Permission, ...]
    # If true, tenant files without secrets omit the rows, except rows that have the column values in `keyless`.
    needs_key: bool = False
    keyless: Mapping[str, object] | None = None
    # Column values that an import sets instead of the values in the file.
    reset: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileLog:
    """Declares that tenant files can contain the rows of this log. An import does not store these rows."""

    read: Permission


@dataclass(frozen=True, slots=True)
class FileExclusion:
    """Declares that tenant files never contain the rows of a table."""

    reason: str


class Purge(Enum):
    """Procedure that deletes a purged tenant's rows, for tables whose foreign key to the tenant does not do so."""

    # The worker deletes the rows in batches before the tenant's row, because one statement would take too long.
    BATCHES = auto()
    # A trigger deletes the rows with the tenant's row. The worker deletes rows that cells deliver later.
    LATE_ROWS = auto()


class TableDeclaration(NamedTuple):
    """The class attributes that a model declares (`nac.kit.db.base.Base`)."""

    reference: Reference | None = None
    plural: str = ""
    tenant_file: FileContent | FileLog | FileExclusion | None = None
    purge: Purge | None = None
    effects: tuple[Effect, ...] | None = None


class SealedColumn(NamedTuple):
    """A column with sealed (encrypted) values."""

    # Encryption context of the value, with placeholders: {tenant} is the tenant's id, {id} is the row's id.
    template: str
    # Whether radiusd reads the secret. The characters of such a secret are restricted.
    is_radius_secret: bool

    def context(self, tenant_id: TenantId, row_id: UUID | None) -> str:
        return self.template.format(tenant=tenant_id, id=row_id)


class HashColumn(NamedTuple):
    """A column with hashes of secrets: not encrypted in the database, but encrypted in tenant files."""

    # Value of the column in a tenant file without secrets.
    without_key: str


# Marks a column of the table `tenants` that tenant files contain. Values of the other columns are valid only in this
# installation.
EXPORTED: Final[Info] = {"exported": True}


def report_conflict(place: str, detail: str, *, remedy: str = "Reload and try again.") -> Info:
    """Return the `info` of a unique constraint that only concurrent requests can violate."""
    return {UniqueConflict: UniqueConflict(place, detail, remedy)}


def report_taken(place: str, detail: str) -> Info:
    """Return the `info` of a unique constraint on values that people choose, such as names."""
    return report_conflict(place, detail, remedy="Choose another value.")


def describe_reference(place: str, what: str) -> Info:
    """Return the `info` of a foreign key: the field of the request, and a noun with an article for the referenced row.

    Overrides the `reference` of the table to which the key refers.
    """
    return {Reference: Reference(place, what)}


def seal_with(template: str, *, is_radius_secret: bool = False) -> Info:
    """Return the `info` of a column with sealed (encrypted) values. `template` is the encryption context."""
    return {SealedColumn: SealedColumn(template, is_radius_secret)}


def keep_hash(*, without_key: str) -> Info:
    """Return the `info` of a column with hashes of secrets."""
    return {HashColumn: HashColumn(without_key)}


def describe_table(table: Table) -> TableDeclaration:
    declared: TableDeclaration | None = table.info.get(TableDeclaration)
    return declared or TableDeclaration()
