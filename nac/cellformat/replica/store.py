"""Reads the replica, which the agent writes. Readers and the writer do not wait for each other.

A rebuild writes a new generation and then renames `current`. Readers see either the old or the new data completely. If
the writer is killed, readers continue with the old data.
"""

import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import lmdb
import msgspec

from nac.cellformat.replica import files, keys
from nac.cellformat.replica.files import ReplicaDamaged, ReplicaError, ReplicaMissing
from nac.cellformat.replica.records import (
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
    SessionCountRecord,
    SiteRecord,
    SlotRecord,
    UserRecord,
)
from nac.cellformat.replica.writer import ReplicaFull, ReplicaWriter, WriteBatch

__all__ = [
    "ReplicaDamaged",
    "ReplicaError",
    "ReplicaFull",
    "ReplicaMissing",
    "ReplicaReader",
    "ReplicaView",
    "ReplicaWriter",
    "WriteBatch",
]

# Seconds for which a reader can still use a replaced generation.
_REFRESH_SECONDS = 0.2

_decode_slot = msgspec.msgpack.Decoder(SlotRecord).decode
_decode_site = msgspec.msgpack.Decoder(SiteRecord).decode
_decode_policy = msgspec.msgpack.Decoder(PolicyRecord).decode
_decode_nas = msgspec.msgpack.Decoder(NasRecord).decode
_decode_endpoint = msgspec.msgpack.Decoder(EndpointRecord).decode
_decode_user = msgspec.msgpack.Decoder(UserRecord).decode
_decode_certificate = msgspec.msgpack.Decoder(CertificateRecord).decode
_decode_source = msgspec.msgpack.Decoder(IdentitySourceRecord).decode
_decode_session_count = msgspec.msgpack.Decoder(SessionCountRecord).decode
_decode_authority = msgspec.msgpack.Decoder(AuthorityRecord).decode
_decode_issuer = msgspec.msgpack.Decoder(IssuerRecord).decode
_decode_pool = msgspec.msgpack.Decoder(PoolRecord).decode
_decode_pool_stock = msgspec.msgpack.Decoder(PoolStockRecord).decode
_decode_pool_lease = msgspec.msgpack.Decoder(PoolLeaseRecord).decode
_decode_external_status = msgspec.msgpack.Decoder(ExternalStatusRecord).decode


class ReplicaReader:
    """Reads a replica. Open the reader once per process, after the fork, because LMDB allows only one environment
    for each file. All threads of the process share the reader."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._lock = threading.Lock()
        self._opened: _Generation | None = None
        self._look_at = 0.0

    def begin(self) -> "ReplicaView":
        """Return a view of the newest commit, for a short `with` block.

        Raises ReplicaMissing if no replica exists, and ReplicaDamaged if the replica cannot be read.
        """
        if time.monotonic() >= self._look_at:
            self._look()
        opened = self._opened
        if opened is None:
            raise ReplicaMissing(f"no replica in {self._directory}")
        try:
            return ReplicaView(opened, opened.environment.begin(buffers=True))
        except lmdb.Error as exc:
            raise ReplicaDamaged(f"cannot read the replica in {self._directory}: {exc}") from exc

    def close(self) -> None:
        """Close the replica. All views of the replica must have ended."""
        with self._lock:
            if self._opened is not None:
                self._opened.environment.close()
            self._opened = None
            self._look_at = 0.0

    def _look(self) -> None:
        """Switch to the current generation. If the current generation cannot be read, continue with the open
        generation."""
        with self._lock:
            if time.monotonic() < self._look_at:
                return
            try:
                self._switch_generation()
            finally:
                # Set last, so that other threads wait for the lock while the first thread opens the replica.
                self._look_at = time.monotonic() + _REFRESH_SECONDS

    def _switch_generation(self) -> None:
        name = files.current_generation(self._directory)
        if not name or (self._opened is not None and self._opened.name == name):
            return
        try:
            # Views of the old generation keep it open until they end.
            self._opened = _Generation(self._directory, name)
        except ReplicaError:
            if self._opened is None:
                raise


class _Generation:
    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        path = directory / name
        self.environment = files.open_environment(path, readonly=True)
        try:
            databases = files.open_databases(self.environment, path)
        except ReplicaError:
            self.environment.close()
            raise
        self.meta = databases["meta"]
        self.slots = databases["slots"]
        self.sites = databases["sites"]
        self.policies = databases["policies"]
        self.nases = databases["nases"]
        self.endpoints = databases["endpoints"]
        self.users = databases["users"]
        self.certificates = databases["certificates"]
        self.sources = databases["sources"]
        self.authorities = databases["authorities"]
        self.issuers = databases["issuers"]
        self.statuses = databases["statuses"]
        self.session_counts = databases["session_counts"]
        self.pools = databases["pools"]
        self.pool_stocks = databases["pool_stocks"]
        self.pool_leases = databases["pool_leases"]


class ReplicaView:
    """A read transaction. The methods return a record, or None if the record does not exist.

    The methods raise msgspec.DecodeError for an invalid record, and lmdb.Error for damage.
    """

    __slots__ = ("_from", "_get", "_transaction")

    def __init__(self, generation: _Generation, transaction: lmdb.Transaction) -> None:
        self._from = generation
        self._transaction = transaction
        self._get = transaction.get

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transaction.abort()

    @property
    def version(self) -> tuple[str, int]:
        """Name of the generation, and number of the transaction.

        Data from the replica is current while the version is the same, because each commit changes the version.
        """
        return self._from.name, self._transaction.id()

    def slot(self, number: int) -> SlotRecord | None:
        value = self._get(keys.pack_slot(number), db=self._from.slots)
        return None if value is None else _decode_slot(value)

    def site(self, tenant: int, site_id: str) -> SiteRecord | None:
        value = self._get(keys.by_id(tenant, site_id), db=self._from.sites)
        return None if value is None else _decode_site(value)

    def policy(self, tenant: int, policy_id: str) -> PolicyRecord | None:
        value = self._get(keys.by_id(tenant, policy_id), db=self._from.policies)
        return None if value is None else _decode_policy(value)

    def nas_by_identifier(self, tenant: int, identifier: str) -> NasRecord | None:
        value = self._get(keys.by_identifier(tenant, identifier), db=self._from.nases)
        return None if value is None else _decode_nas(value)

    def nas_by_address(self, tenant: int, packed: bytes) -> NasRecord | None:
        value = self._get(keys.by_address(tenant, packed), db=self._from.nases)
        return None if value is None else _decode_nas(value)

    def endpoint(self, tenant: int, mac: str) -> EndpointRecord | None:
        value = self._get(keys.endpoint(tenant, mac), db=self._from.endpoints)
        return None if value is None else _decode_endpoint(value)

    def user(self, tenant: int, name: str) -> UserRecord | None:
        value = self._get(keys.user(tenant, name), db=self._from.users)
        return None if value is None else _decode_user(value)

    def certificate(self, tenant: int, serial_hex: str) -> CertificateRecord | None:
        value = self._get(keys.certificate(tenant, serial_hex), db=self._from.certificates)
        return None if value is None else _decode_certificate(value)

    def has_identity_sources(self, tenant: int) -> bool:
        prefix = keys.pack_tenant(tenant)
        with self._transaction.cursor(db=self._from.sources) as cursor:
            return cursor.set_range(prefix) and bytes(cursor.key()[:4]) == prefix

    def identity_sources(self, tenant: int) -> list[IdentitySourceRecord]:
        """Return the sources in the order in which they are queried."""
        prefix = keys.pack_tenant(tenant)
        found = []
        with self._transaction.cursor(db=self._from.sources) as cursor:
            more = cursor.set_range(prefix)
            while more and bytes(cursor.key()[:4]) == prefix:
                found.append(_decode_source(cursor.value()))
                more = cursor.next()
        return sorted(found, key=lambda source: (source.position, source.name))

    def authority(self, issuer_oneline: str) -> AuthorityRecord | None:
        value = self._get(keys.authority_key(issuer_oneline), db=self._from.authorities)
        return None if value is None else _decode_authority(value)

    def issuer(self, tenant: int, issuer_oneline: str) -> IssuerRecord | None:
        value = self._get(keys.issuer(tenant, issuer_oneline), db=self._from.issuers)
        return None if value is None else _decode_issuer(value)

    def external_status(self, tenant: int, authority_id: str, serial_hex: str) -> ExternalStatusRecord | None:
        value = self._get(keys.external_status(tenant, authority_id, serial_hex), db=self._from.statuses)
        return None if value is None else _decode_external_status(value)

    def session_count(self, tenant: int, key: str) -> int:
        """Return the number of live sessions.

        `key` is "m" followed by a MAC address, or "u" followed by a user name in lower case.
        """
        value = self._get(keys.session_count(tenant, key), db=self._from.session_counts)
        return 0 if value is None else _decode_session_count(value).live

    def pool(self, tenant: int, site_id: str, name: str) -> PoolRecord | None:
        """Return the site's pool with this name.

        If the site has no such pool, return the tenant's pool with this name.
        """
        value = self._get(keys.pool(tenant, site_id, name), db=self._from.pools) if site_id else None
        if value is None:
            value = self._get(keys.pool(tenant, "", name), db=self._from.pools)
        return None if value is None else _decode_pool(value)

    def pool_stock(self, tenant: int, pool_id: str) -> PoolStockRecord | None:
        value = self._get(keys.by_id(tenant, pool_id), db=self._from.pool_stocks)
        return None if value is None else _decode_pool_stock(value)

    def pool_lease(self, tenant: int, pool_id: str, mac: str) -> PoolLeaseRecord | None:
        value = self._get(keys.pool_lease(tenant, pool_id, mac), db=self._from.pool_leases)
        return None if value is None else _decode_pool_lease(value)

    def meta(self, name: str) -> str | None:
        value = self._get(name.encode(), db=self._from.meta)
        return None if value is None else str(value, "utf-8")
