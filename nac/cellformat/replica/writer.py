"""Writes the replica in batches of changes. Each batch is one LMDB transaction."""

import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import lmdb
import msgspec

from nac.cellformat.replica import files, keys
from nac.cellformat.replica.records import (
    DATABASES,
    FORMAT,
    AuthorityRecord,
    CertificateRecord,
    EndpointRecord,
    ExternalStatusRecord,
    IdentitySourceRecord,
    IssuerRecord,
    NasRecord,
    PolicyRecord,
    PoolLeaseRecord,
    PoolRecord,
    PoolStockRecord,
    Record,
    SessionCountRecord,
    SiteRecord,
    SlotRecord,
    UserRecord,
)

_TENANT_DATABASES = (
    *("sites", "policies", "nases", "endpoints", "users", "certificates", "sources", "statuses"),
    *("session_counts", "pools", "pool_stocks", "pool_leases"),
)


class ReplicaFull(files.ReplicaError):
    """The disk or the LMDB map is full. The batch was not applied."""


class ReplicaWriter:
    """Writer of a replica. A replica can have only one writer. Methods raise ReplicaDamaged if LMDB finds damage.

    `fresh` starts a new generation. Readers continue with the current generation until the first batch commits. The
    constructor raises ReplicaMissing (unknown format) or ReplicaDamaged if the current file cannot be used. In this
    case, open the writer with `fresh`.
    """

    def __init__(self, directory: str | Path, *, fresh: bool = False, map_size_bytes: int = files.MAP_BYTES) -> None:
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._map_bytes = map_size_bytes
        self._owner = _lock_directory(self._directory)
        try:
            self._generation = files.current_generation(self._directory) if not fresh else ""
            files.delete_generations(self._directory, keep=files.current_generation(self._directory))
            self._published = bool(self._generation)
            if not self._generation:
                self._generation = files.create_generation(self._directory)
            self._open()
        except BaseException:
            os.close(self._owner)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self) -> "WriteBatch":
        # Remove killed readers, because LMDB cannot reuse the pages of their snapshots.
        with _translate_lmdb_errors():
            self._environment.reader_check()
        return WriteBatch(self, self._environment, self._databases)

    def rebuild(self) -> None:
        """Continue with a new, empty generation. Readers switch to the new generation at its first commit."""
        self._environment.close()
        self._generation, self._published = files.create_generation(self._directory), False
        self._open()

    def meta(self, name: str) -> str:
        """Return a value of the database `meta`; "" if the value was never set."""
        with _translate_lmdb_errors(), self._environment.begin() as transaction:
            value = transaction.get(name.encode(), db=self._databases["meta"])
        return "" if value is None else value.decode()

    def slots(self) -> dict[int, SlotRecord]:
        """Return the records of the slots (port pairs of the cell) that have a tenant, by slot number."""
        with _translate_lmdb_errors(), self._environment.begin() as transaction:
            return _slots(transaction, self._databases)

    def close(self) -> None:
        self._environment.close()
        os.close(self._owner)

    def committed(self) -> None:
        """Publish the generation if it is new. A batch calls this method after its commit."""
        if not self._published:
            files.publish_generation(self._directory, self._generation)
            self._published = True

    def _open(self) -> None:
        path = self._directory / self._generation
        if self._published and not (path / "data.mdb").exists():
            raise files.ReplicaDamaged(f"{path / 'data.mdb'} is missing")
        self._environment = files.open_environment(path, readonly=False, map_bytes=self._map_bytes)
        try:
            self._databases = files.open_databases(self._environment, path, create=not self._published)
        except files.ReplicaError:
            self._environment.close()
            raise


class WriteBatch:
    """One transaction.

    At the end of the `with` block, all changes become visible. After an error, no change becomes visible.
    """

    def __init__(self, writer: ReplicaWriter, environment: lmdb.Environment, databases: files.Databases) -> None:
        self._writer = writer
        self._environment = environment
        self._databases = databases
        self._encode = msgspec.msgpack.Encoder().encode
        self._cleared: dict[str, dict[bytes, bytes]] = {}

    def __enter__(self) -> Self:
        with _translate_lmdb_errors():
            self._transaction = self._environment.begin(write=True)
            try:
                self._transaction.put(b"format", str(FORMAT).encode(), db=self._databases["meta"])
            except lmdb.Error:
                # Otherwise no other transaction could begin.
                self._transaction.abort()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._transaction.abort()
            if isinstance(error, lmdb.Error):
                raise _translate_error(error) from error
            return
        with _translate_lmdb_errors():
            self._transaction.commit()  # house: allow commit -- LMDB's transaction, no session
        self._writer.committed()

    def put_slot(self, number: int, record: SlotRecord) -> None:
        self._put("slots", keys.pack_slot(number), record)

    def delete_slot(self, number: int) -> None:
        self._delete("slots", keys.pack_slot(number))

    def put_site(self, tenant: int, record: SiteRecord) -> None:
        self._put("sites", keys.by_id(tenant, record.site_id), record)

    def delete_site(self, tenant: int, site_id: str) -> None:
        self._delete("sites", keys.by_id(tenant, site_id))

    def put_policy(self, tenant: int, record: PolicyRecord) -> None:
        self._put("policies", keys.by_id(tenant, record.policy_id), record)

    def delete_policy(self, tenant: int, policy_id: str) -> None:
        self._delete("policies", keys.by_id(tenant, policy_id))

    def put_nas(self, key: bytes, record: NasRecord) -> None:
        """Store a NAS; `key` is from keys.by_identifier or keys.by_address."""
        self._put("nases", key, record)

    def put_endpoint(self, tenant: int, mac: str, record: EndpointRecord) -> None:
        self._put("endpoints", keys.endpoint(tenant, mac), record)

    def delete_endpoint(self, tenant: int, mac: str) -> None:
        self._delete("endpoints", keys.endpoint(tenant, mac))

    def put_user(self, tenant: int, record: UserRecord) -> None:
        self._put("users", keys.user(tenant, record.name), record)

    def delete_user(self, tenant: int, name: str) -> None:
        self._delete("users", keys.user(tenant, name))

    def put_certificate(self, tenant: int, serial_hex: str, record: CertificateRecord) -> None:
        self._put("certificates", keys.certificate(tenant, serial_hex), record)

    def delete_certificate(self, tenant: int, serial_hex: str) -> None:
        self._delete("certificates", keys.certificate(tenant, serial_hex))

    def put_identity_source(self, tenant: int, record: IdentitySourceRecord) -> None:
        self._put("sources", keys.by_id(tenant, record.source_id), record)

    def delete_identity_source(self, tenant: int, source_id: str) -> None:
        self._delete("sources", keys.by_id(tenant, source_id))

    def put_session_count(self, tenant: int, key: str, live: int) -> None:
        self._put("session_counts", keys.session_count(tenant, key), SessionCountRecord(live))

    def delete_session_count(self, tenant: int, key: str) -> None:
        self._delete("session_counts", keys.session_count(tenant, key))

    def clear_session_counts(self, tenant: int) -> None:
        self._clear(tenant, "session_counts")

    def put_pool(self, tenant: int, record: PoolRecord, stock: PoolStockRecord) -> None:
        """Store a pool under its current name, and delete the key with its previous name."""
        known = self._known_stock(tenant, record.pool_id)
        if known is not None and known.name != stock.name:
            self._forget_pool_name(tenant, record.pool_id, known)
        self._put("pools", keys.pool(tenant, stock.site_id, stock.name), record)
        self._put("pool_stocks", keys.by_id(tenant, record.pool_id), stock)

    def delete_pool(self, tenant: int, pool_id: str) -> None:
        """Delete a pool. The leases of the pool are separate records, which stay."""
        known = self._known_stock(tenant, pool_id)
        if known is not None:
            self._forget_pool_name(tenant, pool_id, known)
            self._delete("pool_stocks", keys.by_id(tenant, pool_id))

    def _known_stock(self, tenant: int, pool_id: str) -> PoolStockRecord | None:
        known = self._transaction.get(keys.by_id(tenant, pool_id), db=self._databases["pool_stocks"])
        return None if known is None else msgspec.msgpack.decode(known, type=PoolStockRecord)

    def _forget_pool_name(self, tenant: int, pool_id: str, stock: PoolStockRecord) -> None:
        """Delete the stored name of a pool, unless another pool uses that name now."""
        key = keys.pool(tenant, stock.site_id, stock.name)
        value = self._transaction.get(key, db=self._databases["pools"])
        if value is not None and msgspec.msgpack.decode(value, type=PoolRecord).pool_id == pool_id:
            self._delete("pools", key)

    def put_pool_lease(self, tenant: int, pool_id: str, mac: str, record: PoolLeaseRecord) -> None:
        self._put("pool_leases", keys.pool_lease(tenant, pool_id, mac), record)

    def delete_pool_lease(self, tenant: int, pool_id: str, mac: str) -> None:
        self._delete("pool_leases", keys.pool_lease(tenant, pool_id, mac))

    def put_authority(self, issuer: str, record: AuthorityRecord) -> None:
        self._put("authorities", keys.authority_key(issuer), record)

    def put_issuer(self, tenant: int, issuer: str, record: IssuerRecord) -> None:
        self._put("issuers", keys.issuer(tenant, issuer), record)

    def put_external_status(
        self, tenant: int, authority_id: str, serial_hex: str, record: ExternalStatusRecord
    ) -> None:
        self._put("statuses", keys.external_status(tenant, authority_id, serial_hex), record)

    def delete_external_status(self, tenant: int, authority_id: str, serial_hex: str) -> None:
        self._delete("statuses", keys.external_status(tenant, authority_id, serial_hex))

    def set_meta(self, name: str, value: str) -> None:
        self._transaction.put(name.encode(), value.encode(), db=self._databases["meta"])

    def clear(self) -> None:
        """Delete all records, including the values of `meta`.

        In the same batch, `keep_site` and `keep_policy` can restore the records of sites and policies.
        """
        for name in ("sites", "policies"):
            cursor = self._transaction.cursor(db=self._databases[name])
            self._cleared[name] = {bytes(key): bytes(value) for key, value in cursor}
            cursor.close()
        for name in DATABASES:
            self._transaction.drop(self._databases[name], delete=False)
        self._transaction.put(b"format", str(FORMAT).encode(), db=self._databases["meta"])

    def keep_site(self, tenant: int, site_id: str) -> None:
        """Restore the record of a site if `clear` deleted the record in this batch."""
        self._keep("sites", keys.by_id(tenant, site_id))

    def keep_policy(self, tenant: int, policy_id: str) -> None:
        self._keep("policies", keys.by_id(tenant, policy_id))

    def slots(self) -> dict[int, SlotRecord]:
        return _slots(self._transaction, self._databases)

    def clear_authorities(self) -> None:
        for name in ("authorities", "issuers"):
            self._transaction.drop(self._databases[name], delete=False)

    def clear_tenant(self, tenant: int) -> None:
        """Delete all records of this tenant, except the records of its slot and of its trusted authorities."""
        for name in _TENANT_DATABASES:
            self._clear(tenant, name)

    def _clear(self, tenant: int, database: str) -> None:
        prefix = keys.pack_tenant(tenant)
        cursor = self._transaction.cursor(db=self._databases[database])
        found = cursor.set_range(prefix)
        while found and cursor.key()[:4] == prefix:
            cursor.delete()
            found = bool(cursor.key())
        cursor.close()

    def clear_nases(self, tenant: int, nas_ids: Collection[str]) -> None:
        """Delete all keys of these NASes, including previous identifiers and addresses."""
        prefix = keys.pack_tenant(tenant)
        decode = msgspec.msgpack.Decoder(NasRecord).decode
        cursor = self._transaction.cursor(db=self._databases["nases"])
        found = cursor.set_range(prefix)
        while found and cursor.key()[:4] == prefix:
            if decode(cursor.value()).nas_id in nas_ids:
                cursor.delete()
                found = bool(cursor.key())
            else:
                found = cursor.next()
        cursor.close()

    def _keep(self, database: str, key: bytes) -> None:
        cleared = self._cleared.get(database, {}).get(key)
        if cleared is not None:
            self._transaction.put(key, cleared, db=self._databases[database])

    def _put(self, database: str, key: bytes, record: Record) -> None:
        self._transaction.put(key, self._encode(record), db=self._databases[database])

    def _delete(self, database: str, key: bytes) -> None:
        self._transaction.delete(key, db=self._databases[database])


def _slots(transaction: lmdb.Transaction, databases: files.Databases) -> dict[int, SlotRecord]:
    decode = msgspec.msgpack.Decoder(SlotRecord).decode
    with transaction.cursor(db=databases["slots"]) as cursor:
        return {keys.unpack_slot(key)[0]: decode(value) for key, value in cursor}


def _lock_directory(directory: Path) -> int:
    descriptor = os.open(directory / "writer.lock", os.O_RDWR | os.O_CREAT, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(descriptor)
        raise files.ReplicaError(
            f"another agent already writes the replica in {directory}: stop that agent first"
        ) from exc
    return descriptor


@contextmanager
def _translate_lmdb_errors() -> Iterator[None]:
    try:
        yield
    except lmdb.Error as exc:
        raise _translate_error(exc) from exc


def _translate_error(error: lmdb.Error) -> files.ReplicaError:
    if isinstance(error, lmdb.MapFullError | lmdb.DiskError):
        return ReplicaFull(f"no room for the replica: {error}")
    return files.ReplicaDamaged(f"the replica is damaged: {error}")
