"""Declarations of models in addition to the schema, such as error messages, roles in tenant files, and encrypted
columns.

A model declares properties of its table as class attributes of `nac.kit.db.base.Base`, and properties of a column or
constraint with `info=`. `nac.kit.db.error_translation` collects the messages, and
`nac.onboarding.tenant_files.tables` the parts of tenant files.
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
    """Words for a row that another row refers to."""

    # Field of the request.
    place: str
    # With an article.
    what: str


@dataclass(frozen=True, slots=True)
class FileContent:
    """Role in tenant files: rows are exported and imported."""

    # What reading or creating the rows one by one requires.
    read: Permission
    make: tuple[Permission, ...]
    # Files without secrets omit the rows, except those with the values of `keyless`.
    needs_key: bool = False
    keyless: Mapping[str, object] | None = None
    # Values that imported rows always start with.
    reset: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileLog:
    """Role in tenant files: a log, exported on request and never imported."""

    read: Permission


@dataclass(frozen=True, slots=True)
class FileExclusion:
    """Role in tenant files: rows are not exported."""

    reason: str


class Purge(Enum):
    """Procedure that deletes the rows of a purged tenant. Only for tables whose foreign key to the tenant does not
    delete the rows."""

    # Before the tenant's row, because one statement would take too long.
    BATCHES = auto()
    # With the tenant's row, by a trigger. The worker deletes rows that cells deliver later.
    LATE_ROWS = auto()


class TableDeclaration(NamedTuple):
    """The class attributes of a model."""

    reference: Reference | None = None
    plural: str = ""
    tenant_file: FileContent | FileLog | FileExclusion | None = None
    purge: Purge | None = None
    effects: tuple[Effect, ...] | None = None


class SealedColumn(NamedTuple):
    """A column with sealed values."""

    # Context of the sealed value, with the placeholders {tenant} and {id} (of the row).
    template: str
    # radiusd reads the secret, so the characters of the secret are restricted.
    is_radius_secret: bool

    def context(self, tenant_id: TenantId, row_id: UUID | None) -> str:
        return self.template.format(tenant=tenant_id, id=row_id)


class HashColumn(NamedTuple):
    """A column that is unsealed in the database, but encrypted in a tenant file."""

    # Replaces the value in a file without secrets.
    without_key: str


# A column of the tenant's row that a tenant file has. All other columns belong to the installation.
EXPORTED: Final[Info] = {"exported": True}


def report_conflict(place: str, detail: str, *, remedy: str = "Reload and try again.") -> Info:
    """Describe a unique constraint that concurrent requests can violate."""
    return {UniqueConflict: UniqueConflict(place, detail, remedy)}


def report_taken(place: str, detail: str) -> Info:
    """Describe a unique constraint on values that people choose."""
    return report_conflict(place, detail, remedy="Choose another value.")


def describe_reference(place: str, what: str) -> Info:
    """Describe a foreign key for error messages: the field of the request, and the noun with an article. Overrides the
    `reference` of the referred table."""
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
