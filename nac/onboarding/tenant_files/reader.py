"""Reads tenant files, which are not trusted.

Limits the length of every part of the file, and uses no content as a path. Before the reader returns a row, it verifies
the checksums of the whole file, and the signature if the file has one.
"""

import hashlib
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import IO, Any
from uuid import UUID

from sqlalchemy import Table

from nac.kit.db.base import Base
from nac.kit.db.schema import list_revisions
from nac.kit.errors import InvalidInput
from nac.onboarding.tenant_files import tables
from nac.onboarding.tenant_files.file_key import SALT_BYTES, FileKey, PassphraseRefused
from nac.onboarding.tenant_files.values import ColumnReader, build_reader
from nac.onboarding.tenant_files.writer import FORMAT, MANIFEST, VERSION, encode_signed_part, secret_place

MAX_FILE_BYTES = 512 << 20
MAX_UNPACKED_BYTES = 4 << 30
# Maximum compression ratio. JSON lines usually compress to a tenth of their size.
MAX_RATIO = 200
MAX_ROWS = 10_000_000
_MAX_MANIFEST_BYTES = 1 << 20
_MAX_LINE_BYTES = 8 << 20
# Maximum number of JSON values per row, because a value in memory needs several times its length in the file.
_MAX_VALUES = 200_000
_CHUNK_BYTES = 1 << 16
# Maximum size of one read by zipfile. zipfile reads the archive's list of entries at once. This list has about 3 KB.
_MAX_PIECE_BYTES = 1 << 17
# Errors that zipfile raises for invalid data.
_ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError),
    *(ValueError, LookupError, OverflowError),
)


class TenantFileRefused(InvalidInput):
    """The file is not a tenant file, or is damaged."""


@dataclass(frozen=True, slots=True)
class TableRow:
    # Values by column, without tenant_id.
    values: dict[str, Any]
    # Decrypted values of sealed columns, by column.
    secrets: dict[str, bytes]
    # Size of the row in the file.
    size_bytes: int


class _BoundedFile:
    """A file that limits the size of reads.

    Without the limit, zipfile would read as many bytes as the archive claims, and would need several times as much
    memory.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.seek = source.seek
        self.tell = source.tell
        self.seekable = source.seekable

    def read(self, size: int = -1) -> bytes:
        most = _MAX_PIECE_BYTES + 1
        piece = self._source.read(most if size < 0 else min(size, most))
        if len(piece) == most:
            raise TenantFileRefused("The archive's list of entries is too long.", place="file")
        return piece


class TenantFile:
    """A verified tenant file. The constructor raises TenantFileRefused and PassphraseRefused."""

    def __init__(self, source: IO[bytes], *, passphrase: str = "") -> None:
        size = source.seek(0, 2)
        if size > MAX_FILE_BYTES:
            raise TenantFileRefused(f"The file has {size} bytes; the maximum is {MAX_FILE_BYTES}.", place="file")
        try:
            self._archive = zipfile.ZipFile(_BoundedFile(source))
        except _ZIP_ERRORS as exc:
            raise TenantFileRefused("The file is not a zip archive, or is truncated.", place="file") from exc
        self._sizes = self._require_entries()
        self.manifest = self._read_manifest()
        self._key = self._read_key(passphrase)
        self._verify(size)

    @property
    def has_secrets(self) -> bool:
        return self._key is not None

    @property
    def tenant_id(self) -> UUID:
        """Id of the tenant in the installation that wrote the file."""
        return _parse_uuid(self.manifest["tenant"].get("id"), "id")

    @property
    def default_site_id(self) -> UUID:
        return _parse_uuid(self.manifest["tenant"].get("default_site"), "default_site")

    @property
    def count(self) -> int:
        """Number of rows in all tables of the tenant, without logs."""
        files: Mapping[str, Any] = self.manifest["files"]
        return sum(listed["rows"] for name, listed in files.items() if name.startswith("tables/"))

    def settings(self) -> dict[str, Any]:
        """Return the exported columns of the tenant's row in the table `tenants`."""
        values = self.manifest["settings"]
        unknown = values.keys() - set(tables.TENANT_COLUMNS)
        if unknown:
            raise TenantFileRefused(f"Unknown setting {sorted(unknown)[0][:40]!r}.", place="settings")
        columns = Base.metadata.tables["tenants"].c
        try:
            return {name: build_reader(columns[name])(value) for name, value in values.items()}
        except ValueError as exc:
            raise TenantFileRefused(f"{exc}.", place="settings") from exc

    def radius_secret(self) -> str | None:
        sealed = self.manifest["secrets"].get("radius_secret") if self._key is not None else None
        if sealed is None or self._key is None:
            return None
        try:
            return self._key.open(sealed, "radius-secret").decode("ascii")
        except ValueError as exc:
            raise TenantFileRefused("The RADIUS secret cannot be decrypted.", place="secrets") from exc

    def rows(self, table: Table) -> Iterator[TableRow]:
        name = f"tables/{table.name}.jsonl"
        if name not in self.manifest["files"]:
            return
        readers = {column.name: build_reader(column) for column in tables.stored_columns(table)}
        hidden = frozenset((*tables.sealed_columns(table), *tables.hashed_columns(table)))
        columns: Set[str] = frozenset()
        for number, line in enumerate(self._lines(name), 1):
            try:
                if sum(map(line.count, (b",", b"[", b"{"))) > _MAX_VALUES:
                    raise ValueError(f"more than {_MAX_VALUES} values")
                document = json.loads(line)
                row = self._row(table.name, document, len(line), readers, hidden)
                columns = columns or document.keys()
                if document.keys() != columns:
                    raise ValueError("not the same columns as the first row")
            except (ValueError, RecursionError) as exc:
                why = "invalid JSON" if isinstance(exc, json.JSONDecodeError | RecursionError) else str(exc)
                raise TenantFileRefused(f"Row {number}: {why}.", place=table.name) from exc
            yield row

    def _row(
        self,
        table: str,
        document: Any,  # noqa: ANN401 -- whatever a file holds
        size_bytes: int,
        readers: Mapping[str, ColumnReader],
        hidden: Set[str],
    ) -> TableRow:
        if not isinstance(document, dict):
            raise ValueError("not a JSON object")
        unknown = document.keys() - readers.keys()
        if unknown:
            raise ValueError(f"unknown column {sorted(unknown)[0][:40]!r}")
        secrets: dict[str, bytes] = {}
        values = {name: readers[name](value) for name, value in document.items() if name not in hidden}
        row_id = values.get("id")
        for name in hidden & document.keys():
            if document[name] is not None and self._key is not None:
                secrets[name] = self._key.open(document[name], secret_place(table, name, row_id))
        return TableRow(values, secrets, size_bytes)

    def _require_entries(self) -> dict[str, int]:
        known = {MANIFEST}
        known |= {f"tables/{name}.jsonl" for name in tables.CONTENT_TABLES} | {
            f"logs/{name}.jsonl" for name in tables.LOG_TABLES
        }
        sizes: dict[str, int] = {}
        for entry in self._archive.infolist():
            if entry.filename not in known:
                raise TenantFileRefused(f"Unexpected entry {entry.filename[:80]!r} in the archive.", place="file")
            if entry.filename in sizes:
                raise TenantFileRefused(f"Duplicate entry {entry.filename} in the archive.", place="file")
            if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise TenantFileRefused(f"Unsupported compression or encryption of {entry.filename}.", place="file")
            sizes[entry.filename] = entry.file_size
        if MANIFEST not in sizes:
            raise TenantFileRefused("The archive has no manifest.", place="file")
        return sizes

    def _read_manifest(self) -> dict[str, Any]:
        text = b"".join(self._chunks(MANIFEST, _MAX_MANIFEST_BYTES))
        try:
            manifest = json.loads(text)
        except (ValueError, RecursionError) as exc:
            raise TenantFileRefused("The manifest is not valid JSON.", place=MANIFEST) from exc
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise TenantFileRefused("The file is not a tenant file.", place=MANIFEST)
        if manifest.get("version") != VERSION:
            raise TenantFileRefused(
                f"Unsupported format version {str(manifest.get('version'))[:20]}; this installation reads {VERSION}.",
                place=MANIFEST,
                remedy="Import the file in an installation that supports the version of the file.",
            )
        schema = manifest.get("schema")
        if not isinstance(schema, str) or schema not in list_revisions():
            raise TenantFileRefused(
                "A newer version of Admit wrote the file.", place=MANIFEST, remedy="Upgrade this installation first."
            )
        kinds = {"tenant": dict, "settings": dict, "files": dict}
        if any(not isinstance(manifest.get(name), kind) for name, kind in kinds.items()):
            raise TenantFileRefused("The manifest is incomplete.", place=MANIFEST)
        if not isinstance(manifest.get("secrets"), dict | None):
            raise TenantFileRefused("The manifest is incomplete.", place=MANIFEST)
        return manifest

    def _read_key(self, passphrase: str) -> FileKey | None:
        secret_header = self.manifest["secrets"]
        if secret_header is None:
            return None
        if not passphrase:
            raise PassphraseRefused(
                "The file contains secrets and needs a passphrase.",
                place="passphrase",
                remedy="Enter the passphrase of the file.",
            )
        try:
            salt = bytes.fromhex(secret_header.get("salt"))
        except (TypeError, ValueError):
            salt = b""
        if len(salt) != SALT_BYTES:
            raise TenantFileRefused("The manifest is incomplete.", place=MANIFEST)
        key = FileKey.make(passphrase, salt)
        if self.manifest.get("signature") != key.sign(encode_signed_part(self.manifest)):
            raise PassphraseRefused(
                "The passphrase is wrong, or the file was changed.",
                place="passphrase",
                remedy="Enter the passphrase of the file.",
            )
        return key

    def _verify(self, size: int) -> None:
        files: Mapping[str, Any] = self.manifest["files"]
        if files.keys() != self._sizes.keys() - {MANIFEST}:
            raise TenantFileRefused("The entries of the archive differ from the manifest.", place=MANIFEST)
        total = rows = 0
        for listed in files.values():
            if not isinstance(listed, dict) or not all(_is_number(listed.get(each)) for each in ("rows", "bytes")):
                raise TenantFileRefused("The manifest is incomplete.", place=MANIFEST)
            total, rows = total + listed["bytes"], rows + listed["rows"]
        if total > min(MAX_UNPACKED_BYTES, MAX_RATIO * size + _MAX_MANIFEST_BYTES) or rows > MAX_ROWS:
            raise TenantFileRefused("The uncompressed file is too large.", place="file")
        for name, listed in files.items():
            self._verify_entry(name, listed)

    def _verify_entry(self, name: str, listed: Mapping[str, Any]) -> None:
        digest, lines, length, last = hashlib.sha256(), 0, 0, b"\n"
        for chunk in self._chunks(name, listed["bytes"]):
            digest.update(chunk)
            lines += chunk.count(b"\n")
            length += len(chunk)
            last = chunk[-1:]
        if digest.hexdigest() != listed.get("sha256") or length != listed["bytes"]:
            raise TenantFileRefused("The checksum or size of the entry differs from the manifest.", place=name)
        if lines != listed["rows"] or last != b"\n":
            raise TenantFileRefused("The number of rows in the entry differs from the manifest.", place=name)

    def _chunks(self, name: str, most: int) -> Iterator[bytes]:
        """Yield the chunks of an entry. Raises TenantFileRefused if the entry has more than `most` bytes."""
        left = most
        try:
            with self._archive.open(name) as entry:
                while chunk := entry.read(min(_CHUNK_BYTES, left + 1)):
                    left -= len(chunk)
                    if left < 0:
                        raise TenantFileRefused("The entry has more bytes than the manifest states.", place=name)
                    yield chunk
        except _ZIP_ERRORS as exc:
            raise TenantFileRefused("The entry is damaged or truncated.", place=name) from exc

    def _lines(self, name: str) -> Iterator[bytes]:
        rest = b""
        for chunk in self._chunks(name, self.manifest["files"][name]["bytes"]):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
            if len(rest) > _MAX_LINE_BYTES:
                raise TenantFileRefused(f"A row has more than {_MAX_LINE_BYTES} bytes.", place=name)


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 0


def _parse_uuid(value: object, place: str) -> UUID:
    try:
        return UUID(value) if isinstance(value, str) else UUID("")
    except ValueError as exc:
        raise TenantFileRefused("The manifest is incomplete.", place=place) from exc
