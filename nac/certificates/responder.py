"""Answers about the status of certificates (OCSP), with what was read and signed before kept in memory.

What is kept of an authority hangs on one object: it is let go when the status of anything that the authority issued
changes, and with it every status and answer that was kept with it, also those that a slower thread keeps later. While
PostgreSQL cannot be heard, nothing that was kept is used.
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

from nac.certificates.feed import StatusFeed
from nac.certificates.lookup import StatusLookUp
from nac.certificates.publication import authorities_below, signer_context
from nac.certificates.status import revocation
from nac.db import AuthorityScope, session_scope
from nac.models import CertificateAuthority, OcspSignerRow
from nac.secrets import Sealer
from pki.errors import OcspRequestMalformed
from pki.keys import load_key
from pki.ocsp import CertificateStatus, IssuerHashes, OcspRefusal, OcspRequest, OcspSigner, encode_refusal, read_request
from pki.revocation import Revocation

# RFC 5019 2.2.4: until then a client may go by an answer.
ANSWER_VALIDITY = timedelta(hours=1)
# Afterwards an authority, its signer, and what was answered are looked at again, changed or not.
_KEPT_SECONDS = 300.0
_AUTHORITIES_MOST = 1_000
# About 1.3 kB and 0.4 kB each.
_ANSWERS_MOST = 20_000
_STATUSES_MOST = 50_000
# Clients ask with about 80 bytes; what is longer is not worth keeping.
_KEPT_REQUEST_BYTES_MOST = 256

_KeyT = TypeVar("_KeyT", bound=Hashable)
_ValueT = TypeVar("_ValueT")


@dataclass(frozen=True, slots=True)
class Answer:
    der: bytes
    # Both None where nobody may keep it: an error, an answer to a nonce, or about what is not known (yet).
    this_update: datetime | None = None
    next_update: datetime | None = None
    # RFC 5019 6.2: of the answer's bytes.
    etag: str = ""

    def holds(self, now: datetime) -> bool:
        """Not beyond its end, nor before it began: the clock may have been put back."""
        return (
            self.this_update is not None and self.next_update is not None and self.this_update <= now < self.next_update
        )


_REFUSALS: dict[OcspRefusal, Answer] = {
    reason: Answer(encode_refusal(reason))
    for reason in ("malformedRequest", "internalError", "tryLater", "unauthorized")
}


def refused(reason: OcspRefusal) -> Answer:
    return _REFUSALS[reason]


class _Recent(Generic[_KeyT, _ValueT]):
    """At most so many, those used last; for several threads."""

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


# Compared by identity: another one of the same content was read at another time.
@dataclass(frozen=True, slots=True, eq=False)
class _Authority:
    hashes: IssuerHashes
    # Why nothing that it issued is good.
    revoked: Revocation | None
    # By serial number, of the authorities that it certified.
    below: Mapping[bytes, Revocation | None] = field(repr=False)
    # None while the worker has not made one yet.
    signer: OcspSigner | None
    # Of the monotonic clock.
    kept_until: float


class Responder:
    """For any number of authorities and threads. Nothing is kept before `start` and after `stop`."""

    def __init__(self, engine: Engine, sealer: Sealer) -> None:
        self._engine = engine
        self._look_up = StatusLookUp(engine)
        self._sealer = sealer
        self._feed = StatusFeed(engine, self._forget)
        self._authorities: _Recent[UUID, _Authority] = _Recent(_AUTHORITIES_MOST)
        self._statuses: _Recent[tuple[UUID, bytes], tuple[_Authority, CertificateStatus]] = _Recent(_STATUSES_MOST)
        self._answers: _Recent[tuple[UUID, bytes], tuple[_Authority, Answer]] = _Recent(_ANSWERS_MOST)
        # How often anything was forgotten: what is read meanwhile may be of before.
        self._forgotten = 0
        self._lock = threading.Lock()

    def start(self) -> None:
        self._feed.start()

    def stop(self) -> None:
        self._feed.stop()
        self._look_up.close()

    def recall(self, authority_id: UUID, data: bytes, *, now: datetime) -> Answer | None:
        """The answer to the request `data`, if what is kept suffices for it: quick, and without a database."""
        authority = self._kept(authority_id)
        if authority is None:
            return None
        kept = self._answers.get((authority_id, data))
        if kept is not None and kept[0] is authority and kept[1].holds(now):
            return kept[1]
        try:
            request = read_request(data)
        except OcspRequestMalformed:
            return refused("malformedRequest")
        found: dict[bytes, CertificateStatus] = {}
        for asked in request.certificates:
            known = self._statuses.get((authority_id, asked.serial))
            if known is None or known[0] is not authority:
                return None
            found[asked.serial] = known[1]
        return self._answer(authority_id, authority, data, request, found, now)

    def answer(self, authority_id: UUID, data: bytes, *, now: datetime) -> Answer:
        """The answer to the request `data`, read from the database. Raises errors of nac.errors where that is away."""
        try:
            request = read_request(data)
        except OcspRequestMalformed:
            return refused("malformedRequest")
        authority = self._kept(authority_id) or self._load(authority_id, now)
        if authority is None or not all(map(authority.hashes.issued, request.certificates)):
            return refused("unauthorized")
        found = self._read_statuses(authority_id, authority, {asked.serial for asked in request.certificates})
        for serial, status in found.items():
            # What is not known may be signed the next moment, which nobody tells.
            if status != "unknown":
                self._statuses.put((authority_id, serial), (authority, status))
        return self._answer(authority_id, authority, data, request, found, now)

    def _answer(
        self,
        authority_id: UUID,
        authority: _Authority,
        data: bytes,
        request: OcspRequest,
        found: Mapping[bytes, CertificateStatus],
        now: datetime,
    ) -> Answer:
        if not all(map(authority.hashes.issued, request.certificates)):
            return refused("unauthorized")
        signer = authority.signer
        this_update = now.replace(microsecond=0)
        if signer is None or signer.certificate_ends <= this_update:
            return refused("tryLater")
        next_update = min(this_update + ANSWER_VALIDITY, signer.certificate_ends)
        statuses = [found[asked.serial] for asked in request.certificates]
        der = signer.answer(request, statuses, this_update=this_update, next_update=next_update)
        if request.nonce is not None or "unknown" in statuses:
            return Answer(der)
        answer = Answer(der, this_update, next_update, hashlib.sha256(der).hexdigest())
        if len(data) <= _KEPT_REQUEST_BYTES_MOST:
            self._answers.put((authority_id, data), (authority, answer))
        return answer

    def _kept(self, authority_id: UUID) -> _Authority | None:
        if not self._feed.current:
            return None
        authority = self._authorities.get(authority_id)
        return authority if authority is not None and time.monotonic() < authority.kept_until else None

    def _load(self, authority_id: UUID, now: datetime) -> _Authority | None:
        forgotten = self._forgotten
        with session_scope(AuthorityScope(authority_id), engine=self._engine) as session:
            authority = _read_authority(session, authority_id, self._sealer, now)
        if authority is not None:
            with self._lock:
                if self._forgotten == forgotten:
                    self._authorities.put(authority_id, authority)
        return authority

    def _read_statuses(
        self, authority_id: UUID, authority: _Authority, serials: Collection[bytes]
    ) -> dict[bytes, CertificateStatus]:
        found: dict[bytes, CertificateStatus] = dict.fromkeys(serials, "unknown")
        for serial, status, at, reason, not_before in self._look_up.read(authority_id, serials):
            if status in ("abandoned", "suspended", "revoked"):
                found[serial] = revocation(at or not_before, reason)
            elif status == "valid":
                found[serial] = authority.revoked or "good"
        for serial in authority.below.keys() & found.keys():
            found[serial] = authority.below[serial] or authority.revoked or "good"
        return found

    def _forget(self, authority_id: UUID | None) -> None:
        with self._lock:
            self._forgotten += 1
            if authority_id is None:
                self._authorities.clear()
            else:
                self._authorities.forget(authority_id)


def _read_authority(session: Session, authority_id: UUID, sealer: Sealer, now: datetime) -> _Authority | None:
    row = session.get(CertificateAuthority, authority_id)
    if row is None or row.kind == "external":
        return None
    revoked = revocation(row.revoked_at or row.not_before, row.revocation_reason) if row.status == "revoked" else None
    return _Authority(
        hashes=IssuerHashes(x509.load_der_x509_certificate(row.certificate_der)),
        revoked=revoked,
        below=authorities_below(session, authority_id),
        signer=_read_signer(session, authority_id, sealer, now),
        kept_until=time.monotonic() + _KEPT_SECONDS,
    )


def _read_signer(session: Session, authority_id: UUID, sealer: Sealer, now: datetime) -> OcspSigner | None:
    """The one that ends last, of those that are in force."""
    row = OcspSignerRow
    query = select(row).where(
        row.authority_id == authority_id, row.certificate_der.is_not(None), row.not_before <= now, row.not_after > now
    )
    found = session.scalar(query.order_by(row.not_after.desc()).limit(1))
    if found is None or found.certificate_der is None:
        return None
    key = load_key(sealer.open(found.key_sealed, signer_context(found.id)))
    return OcspSigner(x509.load_der_x509_certificate(found.certificate_der), key)
