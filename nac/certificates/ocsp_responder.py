"""OCSP responder, with a cache of certificate statuses and signed responses.

Each cache entry refers to the `_CachedAuthority` object that was current when the responder created the entry. If the
status of any certificate of the authority changes, the responder removes this object. All entries that refer to the
object are then invalid, even an entry that a thread adds later. While the responder receives no notifications of status
changes (`StatusListener`), it does not use the cache.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, TypeVar
from uuid import UUID

from cryptography import x509
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from nac.certificates.publication import list_subordinate_revocations, signer_context
from nac.certificates.status_changes import build_revocation
from nac.certificates.status_lookup import StatusListener, StatusLookup
from nac.kit.db import AuthorityScope, session_scope
from nac.kit.secrets import Sealer
from nac.models import CertificateAuthority, OcspSignerRow
from pki.crl import Revocation
from pki.errors import OcspRequestMalformed
from pki.keys import load_key
from pki.ocsp import CertificateStatus, IssuerHashes, OcspRefusal, OcspRequest, OcspSigner, encode_refusal, read_request

# Validity of a response. Clients may use the response for this time (RFC 5019 2.2.4).
ANSWER_VALIDITY = timedelta(hours=1)
# The responder reloads cached authorities and their signers after this time.
_CACHE_SECONDS = 300.0
_MAX_AUTHORITIES = 1_000
# A cached response takes about 1.3 kB of memory, and a cached status 0.4 kB.
_MAX_ANSWERS = 20_000
_MAX_STATUSES = 50_000
# Usual requests have about 80 bytes. Responses to longer requests are not cached.
_MAX_CACHED_REQUEST_BYTES = 256

_KeyT = TypeVar("_KeyT", bound=Hashable)
_ValueT = TypeVar("_ValueT")


@dataclass(frozen=True, slots=True)
class OcspResponse:
    der: bytes
    # `this_update` and `next_update` are None if the response must not be cached: an error, a nonce, or an unknown
    # certificate.
    this_update: datetime | None = None
    next_update: datetime | None = None
    # SHA-256 of the response, for the ETag header (RFC 5019 6.2).
    etag: str = ""

    def holds(self, now: datetime) -> bool:
        """Whether the response is valid at `now`. False before the start of its validity, if the clock was set back."""
        return (
            self.this_update is not None and self.next_update is not None and self.this_update <= now < self.next_update
        )


_REFUSAL_RESPONSES: dict[OcspRefusal, OcspResponse] = {
    reason: OcspResponse(encode_refusal(reason))
    for reason in ("malformedRequest", "internalError", "tryLater", "unauthorized")
}


def refusal_response(reason: OcspRefusal) -> OcspResponse:
    return _REFUSAL_RESPONSES[reason]


class _LruCache(Generic[_KeyT, _ValueT]):
    """A thread-safe LRU cache."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: OrderedDict[_KeyT, _ValueT] = OrderedDict()

    def get(self, key: _KeyT) -> _ValueT | None:
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: _KeyT, value: _ValueT) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._most:
                self._values.popitem(last=False)

    def forget(self, key: _KeyT) -> None:
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()


# Compared by identity, because an object with equal values may be from the time before a status change.
@dataclass(frozen=True, slots=True, eq=False)
class _CachedAuthority:
    hashes: IssuerHashes
    # Revocation of this authority, which applies to all certificates that it issued.
    revoked: Revocation | None
    # Revocation of each authority below this authority, by serial number; None if the lower authority is not revoked.
    below: Mapping[bytes, Revocation | None] = field(repr=False)
    # None if the authority has no valid OCSP signer, for example before the worker has created the first signer.
    signer: OcspSigner | None
    # Time at which the responder must reload the authority, in seconds of the monotonic clock.
    kept_until: float


class OcspResponder:
    """OCSP responder for all authorities. Thread-safe. Uses its cache only between `start` and `stop`."""

    def __init__(self, engine: Engine, sealer: Sealer) -> None:
        self._engine = engine
        self._look_up = StatusLookup(engine)
        self._sealer = sealer
        self._feed = StatusListener(engine, self._forget)
        self._authorities: _LruCache[UUID, _CachedAuthority] = _LruCache(_MAX_AUTHORITIES)
        self._statuses: _LruCache[tuple[UUID, bytes], tuple[_CachedAuthority, CertificateStatus]] = _LruCache(
            _MAX_STATUSES
        )
        self._answers: _LruCache[tuple[UUID, bytes], tuple[_CachedAuthority, OcspResponse]] = _LruCache(_MAX_ANSWERS)
        # Number of invalidations. If this number changes while a thread reads an authority from the database, the
        # thread must not cache the authority.
        self._forgotten = 0
        self._lock = threading.Lock()

    def start(self) -> None:
        self._feed.start()

    def stop(self) -> None:
        self._feed.stop()
        self._look_up.close()

    def recall(self, authority_id: UUID, data: bytes, *, now: datetime) -> OcspResponse | None:
        """Return the response to `data` (a DER request) from the cache; None if the cache lacks a requested status."""
        authority = self._kept(authority_id)
        if authority is None:
            return None
        kept = self._answers.get((authority_id, data))
        if kept is not None and kept[0] is authority and kept[1].holds(now):
            return kept[1]
        try:
            request = read_request(data)
        except OcspRequestMalformed:
            return refusal_response("malformedRequest")
        statuses: dict[bytes, CertificateStatus] = {}
        for certificate in request.certificates:
            known = self._statuses.get((authority_id, certificate.serial))
            if known is None or known[0] is not authority:
                return None
            statuses[certificate.serial] = known[1]
        return self._answer(authority_id, authority, data, request, statuses, now)

    def answer(self, authority_id: UUID, data: bytes, *, now: datetime) -> OcspResponse:
        """Return the response to `data` (a DER request). Raises errors of nac.kit.errors if the database fails."""
        try:
            request = read_request(data)
        except OcspRequestMalformed:
            return refusal_response("malformedRequest")
        authority = self._kept(authority_id) or self._load(authority_id, now)
        if authority is None or not all(map(authority.hashes.issued, request.certificates)):
            return refusal_response("unauthorized")
        statuses = self._read_statuses(
            authority_id, authority, {certificate.serial for certificate in request.certificates}
        )
        for serial, status in statuses.items():
            # Do not cache "unknown": Admit may issue the certificate at any time, without a notification of PostgreSQL.
            if status != "unknown":
                self._statuses.put((authority_id, serial), (authority, status))
        return self._answer(authority_id, authority, data, request, statuses, now)

    def _answer(
        self,
        authority_id: UUID,
        authority: _CachedAuthority,
        data: bytes,
        request: OcspRequest,
        by_serial: Mapping[bytes, CertificateStatus],
        now: datetime,
    ) -> OcspResponse:
        if not all(map(authority.hashes.issued, request.certificates)):
            return refusal_response("unauthorized")
        signer = authority.signer
        this_update = now.replace(microsecond=0)
        if signer is None or signer.certificate_ends <= this_update:
            return refusal_response("tryLater")
        next_update = min(this_update + ANSWER_VALIDITY, signer.certificate_ends)
        statuses = [by_serial[certificate.serial] for certificate in request.certificates]
        der = signer.answer(request, statuses, this_update=this_update, next_update=next_update)
        if request.nonce is not None or "unknown" in statuses:
            return OcspResponse(der)
        answer = OcspResponse(der, this_update, next_update, hashlib.sha256(der).hexdigest())
        if len(data) <= _MAX_CACHED_REQUEST_BYTES:
            self._answers.put((authority_id, data), (authority, answer))
        return answer

    def _kept(self, authority_id: UUID) -> _CachedAuthority | None:
        if not self._feed.current:
            return None
        authority = self._authorities.get(authority_id)
        return authority if authority is not None and time.monotonic() < authority.kept_until else None

    def _load(self, authority_id: UUID, now: datetime) -> _CachedAuthority | None:
        forgotten = self._forgotten
        with session_scope(AuthorityScope(authority_id), engine=self._engine) as session:
            authority = _read_authority(session, authority_id, self._sealer, now)
        if authority is not None:
            with self._lock:
                if self._forgotten == forgotten:
                    self._authorities.put(authority_id, authority)
        return authority

    def _read_statuses(
        self, authority_id: UUID, authority: _CachedAuthority, serials: Collection[bytes]
    ) -> dict[bytes, CertificateStatus]:
        statuses: dict[bytes, CertificateStatus] = dict.fromkeys(serials, "unknown")
        for serial, status, at, reason, not_before in self._look_up.read(authority_id, serials):
            if status in ("abandoned", "suspended", "revoked"):
                statuses[serial] = build_revocation(at or not_before, reason)
            elif status == "valid":
                statuses[serial] = authority.revoked or "good"
        for serial in authority.below.keys() & statuses.keys():
            statuses[serial] = authority.below[serial] or authority.revoked or "good"
        return statuses

    def _forget(self, authority_id: UUID | None) -> None:
        with self._lock:
            self._forgotten += 1
            if authority_id is None:
                self._authorities.clear()
            else:
                self._authorities.forget(authority_id)


def _read_authority(session: Session, authority_id: UUID, sealer: Sealer, now: datetime) -> _CachedAuthority | None:
    row = session.get(CertificateAuthority, authority_id)
    if row is None or row.kind == "external":
        return None
    revoked = (
        build_revocation(row.revoked_at or row.not_before, row.revocation_reason) if row.status == "revoked" else None
    )
    return _CachedAuthority(
        hashes=IssuerHashes(x509.load_der_x509_certificate(row.certificate_der)),
        revoked=revoked,
        below=list_subordinate_revocations(session, authority_id),
        signer=_read_signer(session, authority_id, sealer, now),
        kept_until=time.monotonic() + _CACHE_SECONDS,
    )


def _read_signer(session: Session, authority_id: UUID, sealer: Sealer, now: datetime) -> OcspSigner | None:
    """Return the authority's valid OCSP signer that expires last; None if no signer is valid."""
    row = OcspSignerRow
    query = select(row).where(
        row.authority_id == authority_id, row.certificate_der.is_not(None), row.not_before <= now, row.not_after > now
    )
    signer = session.scalar(query.order_by(row.not_after.desc()).limit(1))
    if signer is None or signer.certificate_der is None:
        return None
    key = load_key(sealer.open(signer.key_sealed, signer_context(signer.id)))
    return OcspSigner(x509.load_der_x509_certificate(signer.certificate_der), key)
