"""Crafted files are rejected with a sentence, and nothing is stored."""

import base64
import hashlib
import io
import json
import os
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.errors import AdmitError
from nac.models import Tenant
from nac.onboarding.tenant_files.file_key import FileKey, PassphraseRefused
from nac.onboarding.tenant_files.reader import TenantFile, TenantFileRefused
from nac.onboarding.tenant_files.tables import content_tables
from nac.onboarding.tenant_files.writer import encode_signed_part
from tests.certificates.uploads import authority, weak_key
from tests.factories.certificates import Certified
from tests.factories.tenancy import Platform
from tests.run_depth import examples
from tests.tenant_files.conftest import PASSPHRASE, exported, imported

Parts = dict[str, bytes]


def unpacked(source: io.BytesIO) -> Parts:
    with zipfile.ZipFile(source) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts: Parts, *, twice: str = "") -> io.BytesIO:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, content in parts.items():
            archive.writestr(name, content)
        if twice:
            archive.writestr(twice, parts[twice])
    return target


def resigned(parts: Parts) -> Parts:
    """Sign a changed file as a holder of the passphrase can: checksums, counts and signature match the contents."""
    manifest = json.loads(parts["manifest.json"])
    for name, told in manifest["files"].items():
        content = parts[name]
        told |= {"rows": content.count(b"\n"), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    if manifest["secrets"] is not None:
        key = FileKey.make(PASSPHRASE, bytes.fromhex(manifest["secrets"]["salt"]))
        manifest["signature"] = key.sign(encode_signed_part(manifest))
    return parts | {"manifest.json": json.dumps(manifest).encode()}


def with_row(table: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[Parts], Parts]:
    """Replace the first row of a table."""

    def changed(parts: Parts) -> Parts:
        name = f"tables/{table}.jsonl"
        first, *others = parts[name].splitlines(keepends=True)
        row = change(json.loads(first))
        return resigned(parts | {name: json.dumps(row).encode() + b"\n" + b"".join(others)})

    return changed


def with_manifest(**values: Any) -> Callable[[Parts], Parts]:
    return lambda parts: resigned(
        parts | {"manifest.json": json.dumps(json.loads(parts["manifest.json"]) | values).encode()}
    )


def with_copy(table: str, *, without: str = "") -> Callable[[Parts], Parts]:
    """Add a copy of the first row, perhaps without a column."""
    name = f"tables/{table}.jsonl"

    def changed(parts: Parts) -> Parts:
        row = json.loads(parts[name].splitlines()[0])
        row.pop(without, None)
        return resigned(parts | {name: parts[name] + json.dumps(row).encode() + b"\n"})

    return changed


def with_sealed(table: str, column: str, plain: bytes) -> Callable[[Parts], Parts]:
    def changed(parts: Parts) -> Parts:
        manifest = json.loads(parts["manifest.json"])
        key = FileKey.make(PASSPHRASE, bytes.fromhex(manifest["secrets"]["salt"]))
        return with_row(table, lambda row: row | {column: key.seal(plain, f"{table}.{column}:{row['id']}")})(parts)

    return changed


def without(name: str) -> Callable[[Parts], Parts]:
    return lambda parts: {each: parts[each] for each in parts if each != name}


_ANOTHER = str(uuid4())
WEAK_AUTHORITY = base64.b64encode(
    authority("Weak", utc_now(), key=weak_key()).certificate.public_bytes(Encoding.DER)
).decode()
DEAR_HASH = b"$argon2id$v=19$m=65536,t=150,p=1$p08hrPR30FzXa4sh8XfU1g$iexKppQir0TJJ3388cOWT9R6eOTWL97s8w2cApGmSc8"

HOSTILE: dict[str, tuple[Callable[[Parts], Parts], str]] = {
    "path": (lambda parts: parts | {"../../etc/passwd": b"x"}, "Unexpected entry '../../etc/passwd'"),
    "unknown table": (lambda parts: parts | {"tables/slots.jsonl": b""}, "Unexpected entry"),
    "no manifest": (without("manifest.json"), "no manifest"),
    "manifest no json": (lambda parts: parts | {"manifest.json": b"{"}, "not valid JSON"),
    "manifest deep": (lambda parts: parts | {"manifest.json": b"[" * 100_000}, "not valid JSON"),
    "format": (with_manifest(format="zip"), "not a tenant file"),
    "version": (with_manifest(version=2), "format version 2"),
    "schema": (with_manifest(schema="9999"), "newer version"),
    "no files": (with_manifest(tenant=None), "incomplete"),
    "setting": (with_manifest(settings={"status": "active"}), "Unknown setting 'status'"),
    "setting's type": (with_manifest(settings={"silent_days": "x"}), "silent_days is not"),
    "missing file": (without("tables/users.jsonl"), "differ from the manifest"),
    "column missing in a later row": (with_copy("users", without="disabled"), "not the same columns as the first row"),
    "checksum": (lambda parts: parts | {"tables/users.jsonl": b"{}\n"}, "checksum|more bytes"),
    "longer": (lambda parts: parts | {"tables/users.jsonl": parts["tables/users.jsonl"] + b"{}\n"}, "more bytes"),
    "another tenant's id": (with_row("sites", lambda row: row | {"tenant_id": _ANOTHER}), "unknown column 'tenant_id'"),
    "another tenant's policy": (
        with_row("sites", lambda row: row | {"policy_id": _ANOTHER}),
        "sites: The request refers to a policy that does not exist",
    ),
    "another tenant's pool": (
        with_row("pool_addresses", lambda row: row | {"pool_id": _ANOTHER}),
        "pool_addresses: The request refers to a pool that does not exist",
    ),
    "no row": (with_row("sites", lambda row: [row]), "not a JSON object"),
    "wrong type": (with_row("sites", lambda row: row | {"monitor": "yes"}), "monitor is not a valid boolean"),
    "huge number": (with_row("pools", lambda row: row | {"stock": 1 << 70}), "stock is not"),
    "zero character": (with_row("sites", lambda row: row | {"name": "a\0b"}), "name is not a valid text"),
    "surrogate": (with_row("sites", lambda row: row | {"name": "\ud800"}), "name is not a valid text"),
    "refused by the database": (with_row("pools", lambda row: row | {"stock": 0}), "rejects|stock"),
    "posture without its value": (with_row("endpoints", lambda row: row | {"posture": {"disk": {}}}), "posture"),
    "attributes that are a list": (with_row("endpoints", lambda row: row | {"attributes": [1]}), "attributes"),
    "attributes that are numbers": (with_row("endpoints", lambda row: row | {"attributes": {"a": 1}}), "attributes"),
    "fallback that is a word": (with_row("sites", lambda row: row | {"fallback": "permit"}), "fallback"),
    "key twice": (with_copy("sites"), "sites: The object already exists"),
    "secret of another row": (with_row("nases", lambda row: row | {"id": _ANOTHER}), "a secret cannot be decrypted"),
    "hash of any cost": (with_sealed("users", "password_hash", DEAR_HASH), "cost of a password hash"),
    "secret of a NAS that no configuration can hold": (
        with_sealed("nases", "secret_sealed", b'short" }'),
        "invalid RADIUS secret",
    ),
    "secret to come that no configuration can hold": (
        with_sealed("secret_rotations", "next_sealed", b'short" }'),
        "invalid RADIUS secret",
    ),
    "secret to come that is no text": (
        with_sealed("secret_rotations", "next_sealed", b"\xff" * 20),
        "invalid RADIUS secret",
    ),
    "token of the platform": (
        with_sealed("certificate_authorities", "key_sealed", b"pkcs11:id=%01;type=private"),
        "key",
    ),
    "authority with a weak key": (
        with_row("certificate_authorities", lambda row: row | {"kind": "external", "certificate_der": WEAK_AUTHORITY}),
        "The RSA key has 1024 bits",
    ),
}


@pytest.fixture
def parts(app_engine: Engine, full) -> Parts:
    return unpacked(exported(app_engine, full))


def test_crafted_files_are_rejected_with_a_sentence(
    app_engine: Engine, owner_engine: Engine, platform: Platform, parts: Parts
) -> None:
    for name, (change, told) in HOSTILE.items():
        with pytest.raises(AdmitError, match=told) as refused:
            imported(app_engine, platform, packed(change(dict(parts))))
        assert refused.value.status in (409, 422), name
        with Session(owner_engine) as session:
            assert session.scalars(select(Tenant.slug)).all() == ["alpha"], name
    with pytest.raises(TenantFileRefused, match="Duplicate"):
        imported(app_engine, platform, packed(parts, twice="tables/sites.jsonl"))


def test_wrong_and_missing_passphrases_are_rejected(
    app_engine: Engine, platform: Platform, parts: Parts, alpha: Certified
) -> None:
    for wrong in ("", "another passphrase", "short"):
        with pytest.raises(PassphraseRefused):
            imported(app_engine, platform, packed(parts), passphrase=wrong)
    with pytest.raises(PassphraseRefused, match="12 to"):
        exported(app_engine, alpha.tenant_id, passphrase="short")


def test_zip_bomb_is_not_unpacked(parts: Parts) -> None:
    bomb = resigned(parts | {"tables/users.jsonl": b"\n" * (64 << 20)})
    with pytest.raises(TenantFileRefused, match="too large"):
        TenantFile(packed(bomb), passphrase=PASSPHRASE)
    liar = json.loads(bomb["manifest.json"])
    liar["files"]["tables/users.jsonl"] |= {"bytes": 10, "rows": 10}
    liar["secrets"] = None
    with pytest.raises(TenantFileRefused, match="more bytes"):
        TenantFile(packed(bomb | {"manifest.json": json.dumps(liar).encode()}))


@pytest.mark.parametrize(("name", "value"), [("bytes", -5), ("bytes", -2), ("rows", -1), ("bytes", True)])
def test_invalid_lengths_are_rejected_before_unpacking(parts: Parts, name: str, value: int) -> None:
    """Python's zipfile treats a negative length as "read everything"."""
    liar = json.loads(parts["manifest.json"]) | {"secrets": None}
    liar["files"]["tables/users.jsonl"][name] = value
    bomb = parts | {"manifest.json": json.dumps(liar).encode(), "tables/users.jsonl": b"\n" * (8 << 20)}
    with pytest.raises(TenantFileRefused, match="incomplete"):
        TenantFile(packed(bomb))


def test_endless_entry_list_is_not_read() -> None:
    """14 MB of entries unpack to 150 MB, and a file may have 500 MB."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", *(20, 0, 20, 0), *[0] * 7, *(1, 0, 0, 0, 0, 0, 0)) + b"a"
    listed = entry * 100_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 100_000 & 0xFFFF, 100_000 & 0xFFFF, len(listed), 0, 0)
    with pytest.raises(TenantFileRefused, match="too long"):
        TenantFile(io.BytesIO(listed + end))


def test_row_of_unbounded_values_is_rejected(app_engine: Engine, platform: Platform, parts: Parts) -> None:
    changed = with_row("sites", lambda row: row | {"fallback": [[]] * 300_000})(dict(parts))
    with pytest.raises(TenantFileRefused, match="more than 200000 values"):
        imported(app_engine, platform, packed(changed))


@pytest.mark.long
def test_large_rows_take_bounded_memory(app_engine: Engine, platform: Platform, parts: Parts) -> None:
    """Each certificate renews the next certificate. The limit of 48 MiB is enough for a few of them."""
    (first,) = map(json.loads, parts["tables/certificates.jsonl"].splitlines())
    ids = [str(uuid4()) for _ in range(48)]
    rows = [
        first
        | {
            "id": own,
            "renews_id": behind,
            "serial": base64.b64encode(b"\x01" + UUID(own).bytes).decode(),
            "public_key_sha256": base64.b64encode(hashlib.sha256(own.encode()).digest()).decode(),
            "key_sealed": None,
            "certificate_der": base64.b64encode(os.urandom(1 << 17) + bytes(7 << 17)).decode(),
        }
        for own, behind in zip(ids, [*ids[1:], None], strict=True)
    ]
    certificates = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    source = packed(resigned(parts | {"tables/certificates.jsonl": certificates, "tables/scep_webhooks.jsonl": b""}))
    del rows, certificates
    tracemalloc.start()
    try:
        done = imported(app_engine, platform, source)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done.rows["certificates"] == 48
    # The key derivation uses 64 MiB, which Python does not count.
    assert peak < 32 << 20


@pytest.fixture
def whole(app_engine: Engine, alpha: Certified) -> bytes:
    return exported(app_engine, alpha.tenant_id, passphrase="").getvalue()


def test_truncated_files_are_rejected_at_every_length(whole: bytes) -> None:
    for length in range(0, len(whole), max(1, len(whole) // 60)):
        with pytest.raises(TenantFileRefused):
            TenantFile(io.BytesIO(whole[:length]))


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_altered_bytes_are_harmless_or_rejected(whole: bytes, data: st.DataObject) -> None:
    altered = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        altered[data.draw(st.integers(0, len(altered) - 1))] = data.draw(st.integers(0, 255))
    try:
        file = TenantFile(io.BytesIO(bytes(altered)))
        for table in content_tables():
            list(file.rows(table))
        file.settings()
    except (TenantFileRefused, PassphraseRefused):
        pass


def test_tls_versions_are_imported_as_a_range(
    app_engine: Engine, owner_engine: Engine, platform: Platform, parts: Parts
) -> None:
    """The first version is the lowest that radiusd accepts, and the last version is the highest."""
    settings = json.loads(parts["manifest.json"])["settings"] | {"tls_versions": ["1.3", "1.2", "1.3"]}
    done = imported(app_engine, platform, packed(with_manifest(settings=settings)(parts)))
    with Session(owner_engine) as session:
        assert session.get_one(Tenant, done.tenant.id).tls_versions == ["1.2", "1.3"]
