"""Declarations of models in addition to the schema, such as error messages, content of tenant files, and encrypted
columns.

A model declares properties of its table as class attributes of `nac.kit.db.base.Base`, and properties of a column or
constraint with `info=`. `nac.kit.db.error_translation` collects the messages, and
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

# Value of `info=`: declarations by class.
Info = dict[Any, Any]


class UniqueConflict(NamedTuple):
    """Message for a violated unique constraint."""

    # Field of the request.
    place: str
    detail: str
    remedy: str


class Reference(NamedTuple):
    """Noun and field name for errors about a row that another row refers to."""

    # Field of the request that contains the reference.
    place: str
    # Noun with an article.
    what: str


@dataclass(frozen=True, slots=True)
class FileContent:
    """Declares that tenant files contain the rows, and that an import creates the rows."""

    # Permissions to read and to create single rows.
    read: Permission
    make: tuple[Permission, ...]
    # If true, files without secrets omit the rows, except rows with the column values in `keyless`.
    needs_key: bool = False
    keyless: Mapping[str, object] | None = None
    # Column values that an import always sets.
    reset: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileLog:
    """Declares that tenant files can contain the rows of this log. An import does not create them."""

    read: Permission


@dataclass(frozen=True, slots=True)
class FileExclusion:
    """Declares that tenant files never contain the rows."""

    reason: str


class Purge(Enum):
    """Procedure that deletes the rows of a purged tenant, if the foreign key to the tenant does not delete them."""

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

    # Context of the sealed value, with the placeholders {tenant} and {id} (of the row).
    template: str
    # Whether radiusd reads the secret. The characters of such a secret are restricted.
    is_radius_secret: bool

    def context(self, tenant_id: TenantId, row_id: UUID | None) -> str:
        return self.template.format(tenant=tenant_id, id=row_id)


class HashColumn(NamedTuple):
    """A column with hashes of secrets: not encrypted in the database, but encrypted in tenant files."""

    # Value of the column in a file without secrets.
    without_key: str


# Marks a column of the tenant's row that tenant files contain. All other columns depend on the installation.
EXPORTED: Final[Info] = {"exported": True}


def report_conflict(place: str, detail: str, *, remedy: str = "Reload and try again.") -> Info:
    """Describe a unique constraint that concurrent requests can violate."""
    return {UniqueConflict: UniqueConflict(place, detail, remedy)}


def report_taken(place: str, detail: str) -> Info:
    """Describe a unique constraint on values that people choose."""
    return report_conflict(place, detail, remedy="Choose another value.")


def describe_reference(place: str, what: str) -> Info:
    """Describe a foreign key for error messages: the field of the request, and the noun with an article.

    Overrides the `reference` of the table to which the key refers.
    """
    return {Reference: Reference(place, what)}


def seal_with(template: str, *, is_radius_secret: bool = False) -> Info:
    """Describe a column with sealed (encrypted) values. `template` is the context of the encryption."""
    return {SealedColumn: SealedColumn(template, is_radius_secret)}


def keep_hash(*, without_key: str) -> Info:
    """Describe a column with hashes of secrets."""
    return {HashColumn: HashColumn(without_key)}


def describe_table(table: Table) -> TableDeclaration:
    declared: TableDeclaration | None = table.info.get(TableDeclaration)
    return declared or TableDeclaration()
