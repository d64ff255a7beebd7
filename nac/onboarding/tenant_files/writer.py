"""Writes a tenant file (zip with a manifest, and JSON lines for each table). Requires the tenant's scope."""

import hashlib
import json
import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import IO, Any

from sqlalchemy import Table, select
from sqlalchemy.orm import Session

from nac.core.audit.service import tenant_recorder
from nac.kit.clock import utc_now
from nac.kit.db.base import Base
from nac.kit.db.declarations import SealedColumn
from nac.kit.db.schema import list_revisions
from nac.kit.errors import TenantHasNoCell
from nac.kit.ids import TenantId
from nac.kit.secrets import Sealer
from nac.models import Slot, Tenant
from nac.onboarding.tenant_files import tables
from nac.onboarding.tenant_files.file_key import FileKey
from nac.onboarding.tenant_files.values import to_json
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import service as tenants

FORMAT = "admit-tenant"
VERSION = 1
MANIFEST = "manifest.json"
_BATCH_ROWS = 1_000
_PKCS11 = b"pkcs11:"


_Rows = Generator[Mapping[str, Any], None, None]

_audit = tenant_recorder("tenant")


@dataclass(slots=True)
class TenantExportResult:
    """Number of written rows by table, and notes about data that the file lacks."""

    rows: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def write_tenant(
    session: Session,
    target: IO[bytes],
    *,
    actor: str,
    tenant_id: TenantId,
    sealer: Sealer,
    passphrase: str = "",
    logs: bool = False,
    report: Callable[[int], None] = lambda done: None,
) -> TenantExportResult:
    """Write the tenant to the file `target`. Without a passphrase, the file contains neither secrets nor keys.

    To export a consistent state, use a session with a snapshot. Calls `report` with the number of written rows; an
    error in `report` stops the export. Raises PassphraseRefused.
    """
    key = FileKey.make(passphrase) if passphrase else None
    tenant = tenants.require_tenant(session, tenant_id=tenant_id)
    writer = _TenantFileWriter(session, tenant, sealer, key, report)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for table in tables.content_tables():
            writer.write(archive, f"tables/{table.name}.jsonl", table, writer.rows_of(table))
        for name in tables.LOG_TABLES if logs else ():
            table = Base.metadata.tables[name]
            writer.write(archive, f"logs/{name}.jsonl", table, writer.plain_rows_of(table))
        archive.writestr(MANIFEST, writer.manifest())
    _audit(
        session,
        actor,
        tenant,
        "export",
        after={"secrets": key is not None, "logs": logs, "rows": sum(writer.written.rows.values())},
    )
    if key is None:
        writer.written.notes.append(
            "The file contains no secrets, keys, certificates or feeds, because no passphrase was set."
        )
    return writer.written


class _TenantFileWriter:
    def __init__(
        self, session: Session, tenant: Tenant, sealer: Sealer, key: FileKey | None, report: Callable[[int], None]
    ) -> None:
        self.written = TenantExportResult()
        self._report = report
        self._done = 0
        self._session = session
        self._tenant = tenant
        self._sealer = sealer
        self._key = key
        self._files: dict[str, dict[str, Any]] = {}

    def write(self, archive: zipfile.ZipFile, name: str, table: Table, rows: _Rows) -> None:
        digest, count, size = hashlib.sha256(), 0, 0
        with closing(rows), archive.open(name, "w", force_zip64=True) as entry:
            for row in rows:
                line = json.dumps(row, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"
                entry.write(line)
                digest.update(line)
                count += 1
                size += len(line)
                self._done += 1
                self._report(self._done)
        self._files[name] = {"rows": count, "bytes": size, "sha256": digest.hexdigest()}
        self.written.rows[table.name] = count

    def manifest(self) -> bytes:
        tenant = self._tenant
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "schema": list_revisions()[-1],
            "made_at": utc_now().isoformat(),
            "tenant": {"slug": tenant.slug, "id": str(tenant.id), "default_site": to_json(tenant.default_site_id)},
            "settings": {name: to_json(getattr(tenant, name)) for name in tables.TENANT_COLUMNS},
            "files": self._files,
            "secrets": None,
        }
        if self._key is not None:
            document["secrets"] = {"salt": self._key.salt.hex(), "radius_secret": self._radius_secret(self._key)}
            document["signature"] = self._key.sign(encode_signed_part(document))
        return json.dumps(document, indent=1).encode()

    def _radius_secret(self, key: FileKey) -> str | None:
        try:
            slot: Slot = cells.require_slot(self._session, tenant_id=self._tenant.id)
        except TenantHasNoCell:
            return None
        return key.seal(self._sealer.open(slot.secret_sealed, cells.slot_secret_context(slot)), "radius-secret")

    def plain_rows_of(self, table: Table) -> _Rows:
        for row in self._select(table):
            yield {name: to_json(value) for name, value in row.items()}

    def rows_of(self, table: Table) -> _Rows:
        content = tables.CONTENT_TABLES[table.name]
        keyless: Mapping[str, object] = {}
        if self._key is None and content.needs_key:
            if content.keyless is None:
                return
            keyless = content.keyless
        for row in self._select(table):
            if keyless.items() <= row.items():
                yield self._written(table, row)

    def _select(self, table: Table) -> Iterator[dict[str, Any]]:
        columns = tables.stored_columns(table)
        order = list(table.primary_key.columns) or columns[:1]
        query = select(*columns).where(table.c.tenant_id == self._tenant.id).order_by(*order)
        with self._session.execute(query, execution_options={"yield_per": _BATCH_ROWS}) as found:
            for row in found.mappings():
                yield {column.name: row[column] for column in columns}

    def _written(self, table: Table, row: dict[str, Any]) -> dict[str, Any]:
        row |= tables.CONTENT_TABLES[table.name].reset
        shown = {name: to_json(value) for name, value in row.items()}
        for name, column in tables.sealed_columns(table).items():
            shown[name] = self._sealed(table, row, name, column)
        for name, hashed in tables.hashed_columns(table).items():
            place = secret_place(table.name, name, row.get("id"))
            shown[name] = hashed.without_key if self._key is None else self._key.seal(str(row[name]).encode(), place)
        return shown

    def _sealed(self, table: Table, row: Mapping[str, Any], name: str, column: SealedColumn) -> str | None:
        if row[name] is None or self._key is None:
            return None
        plaintext = self._sealer.open(row[name], column.context(self._tenant.id, row.get("id")))
        if plaintext.startswith(_PKCS11):
            self.written.notes.append(
                f"The file lacks the key of authority {row['name']}: the key is in a PKCS#11 token."
            )
            return None
        return self._key.seal(plaintext, secret_place(table.name, name, row.get("id")))


def secret_place(table: str, column: str, row_id: object) -> str:
    """Return the text that binds a secret in the file to its table, column and row."""
    return f"{table}.{column}:{row_id or ''}"


def encode_signed_part(manifest: Mapping[str, Any]) -> bytes:
    """Return the content that the signature covers.

    The signed content contains the checksums of all entries, so the signature covers the whole file.
    """
    rest = {name: value for name, value in manifest.items() if name != "signature"}
    return json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()
