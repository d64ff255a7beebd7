"""Revocation status from external authorities, which the worker fetches. Admit never fetches a status during a login.

The worker reads the URLs that are due in one transaction, fetches the statuses without a transaction, and stores the
responses in another transaction. So Admit locks no row while it waits for a remote server.
"""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from cryptography import x509
from sqlalchemy import ColumnElement, Engine, delete, func, or_, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import InstrumentedAttribute, Session

from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.kit.outbound.http_client import FetchFailed, HttpClient
from nac.models import CertificateAuthority, ExternalCertificate, ExternalStatus, StatusSource
from nac.sessions.coa_requests import request_queue
from pki.errors import StatusNotUsable
from pki.external_status import (
    MAX_CRL_BYTES,
    MAX_OCSP_BYTES,
    ExternalRevocationList,
    OcspStatus,
    build_ocsp_request,
    read_crl,
    read_ocsp,
)

# The worker fetches a status again after half of its remaining validity, but not before 5 minutes or after 1 hour.
_MAX_INTERVAL, _MIN_INTERVAL = timedelta(hours=1), timedelta(minutes=5)
# The worker sends no OCSP queries about a certificate that no device used for this time. After FORGET_AFTER, it deletes
# the certificate.
_QUERY_WHILE_SEEN = timedelta(days=30)
FORGET_AFTER = timedelta(days=90)
MAX_CERTIFICATES = 10_000
# Maximum number of OCSP queries per tenant in one run of the worker, so that no tenant delays another tenant.
_MAX_QUERIES_PER_TURN = 200
_MAX_PARALLEL = 8
_MAX_LISTS = 3
_BATCH_SIZE = 5_000


class CrlSource(NamedTuple):
    authority_id: UUID
    certificate: x509.Certificate
    urls: tuple[str, ...]


class OcspQuery(NamedTuple):
    authority_id: UUID
    certificate: x509.Certificate
    serial: bytes
    urls: tuple[str, ...]
    # Time of the previous response. Admit ignores older responses.
    this_update: datetime | None


def list_tenants(session: Session) -> Sequence[UUID]:
    """List tenants that trust an external authority. Requires the database role admit_worker."""
    return session.scalars(text("SELECT tenants_with_external_authorities()")).all()


def try_lock_refresh(session: Session) -> bool:
    """Lock the fetching of external statuses for this transaction. Returns False if another worker has the lock."""
    return bool(session.scalar(select(func.pg_try_advisory_xact_lock(func.hashtext("external_status")))))


async def refresh_tenant_status(
    tenant_id: TenantId, web: HttpClient, *, now: datetime, engine: Engine | None = None
) -> None:
    """Fetch those revocation lists of the tenant's external authorities that are due, then the OCSP statuses."""
    scope = TenantScope(tenant_id)
    with session_scope(scope, engine=engine) as session:
        sources = list_due_crls(session, now)
    for source in sources:
        fetched = await _fetch_crl(source, web, now)
        with session_scope(scope, engine=engine) as session:
            _store_crl(session, tenant_id, source.authority_id, fetched, now)
    with session_scope(scope, engine=engine) as session:
        questions = list_due_queries(session, now)
    limit = asyncio.Semaphore(_MAX_PARALLEL)
    answers = await asyncio.gather(*(_query_ocsp(question, web, now, limit) for question in questions))
    with session_scope(scope, engine=engine) as session:
        for question, answer in zip(questions, answers, strict=True):
            _store_ocsp_answer(session, tenant_id, question, answer, now)
        _delete_unseen(session, tenant_id, now)


def list_due_crls(session: Session, now: datetime) -> list[CrlSource]:
    rows = session.execute(
        select(StatusSource, CertificateAuthority.certificate_der)
        .join(CertificateAuthority, CertificateAuthority.id == StatusSource.authority_id)
        .where(_is_due(StatusSource.crl_due_at, now), CertificateAuthority.status != "revoked")
        .order_by(StatusSource.crl_due_at)
    ).all()
    due = []
    for source, der in rows:
        urls = (source.crl_url,) if source.crl_url else _crl_urls_seen(session, source.authority_id)
        if urls:
            due.append(CrlSource(source.authority_id, x509.load_der_x509_certificate(der), urls))
    return due


def _crl_urls_seen(session: Session, authority_id: UUID) -> tuple[str, ...]:
    """Return up to _MAX_LISTS CRL URLs: the most frequent URLs in the certificates that the authority issued."""
    url = func.unnest(ExternalCertificate.crl_urls).label("url")
    seen = select(url).where(ExternalCertificate.authority_id == authority_id).subquery()
    query = select(seen.c.url).group_by(seen.c.url).order_by(func.count().desc(), seen.c.url).limit(_MAX_LISTS)
    return tuple(session.scalars(query))


async def _fetch_crl(source: CrlSource, web: HttpClient, now: datetime) -> ExternalRevocationList | str:
    """Fetch and check the revocation list. Returns the list, or an error text if no URL supplied a valid list."""
    whys = []
    for url in source.urls:
        try:
            data = await web.fetch(url, most_bytes=MAX_CRL_BYTES)
            return await asyncio.to_thread(read_crl, data, source.certificate, now=now)
        except FetchFailed as exc:
            whys.append(str(exc))
        except StatusNotUsable as exc:
            whys.append(f"{url}: {exc}")
    return " ".join(whys)


def _store_crl(
    session: Session, tenant_id: TenantId, authority_id: UUID, fetched: ExternalRevocationList | str, now: datetime
) -> None:
    source = session.get(StatusSource, authority_id, with_for_update=True)
    # A person deleted the authority during the fetch.
    if source is None:
        return
    source.crl_checked_at = now
    failure = fetched if isinstance(fetched, str) else _rollback_reason(source, fetched)
    source.crl_failure = failure
    if failure or isinstance(fetched, str):
        source.crl_due_at = now + _MIN_INTERVAL
        return
    is_new = source.crl_this_update != fetched.this_update
    source.crl_due_at = _next_check(now, fetched.next_update)
    source.crl_number = None if fetched.number is None else Decimal(fetched.number)
    source.crl_this_update, source.crl_next_update = fetched.this_update, fetched.next_update
    if is_new:
        _store_listed_serials(session, tenant_id, authority_id, fetched.serials)


def _rollback_reason(source: StatusSource, fetched: ExternalRevocationList) -> str:
    """Return an error text if the fetched revocation list is older than the stored list, otherwise "".

    Without this check, an attacker could undo a revocation by sending an old list.
    """
    if source.crl_this_update is not None and fetched.this_update < source.crl_this_update:
        return f"The fetched list is from {fetched.this_update:%Y-%m-%d %H:%M} UTC, older than the stored list."
    if source.crl_number is not None and (fetched.number is None or fetched.number < source.crl_number):
        return f"The fetched list has number {fetched.number}, lower than the stored list."
    return ""


def _store_listed_serials(
    session: Session, tenant_id: TenantId, authority_id: UUID, serials: Collection[bytes]
) -> None:
    table = ExternalStatus
    of_authority = table.authority_id == authority_id
    listed = set(session.scalars(select(table.serial).where(of_authority, table.listed)))
    for batch in _split_batches(sorted(listed - set(serials))):
        gone = of_authority & table.serial.in_(batch)
        session.execute(
            update(table).where(gone, table.answer != "").values(listed=False), execution_options=_UNSYNCHRONISED
        )
        session.execute(delete(table).where(gone, table.answer == ""), execution_options=_UNSYNCHRONISED)
    fresh = sorted(set(serials) - listed)
    for batch in _split_batches(fresh):
        rows = [
            {"tenant_id": tenant_id, "authority_id": authority_id, "serial": serial, "listed": True, "answer": ""}
            for serial in batch
        ]
        statement = insert(table).values(rows)
        session.execute(
            statement.on_conflict_do_update(index_elements=["authority_id", "serial"], set_={"listed": True})
        )
    _queue_disconnects(session, tenant_id, authority_id, fresh)


def _queue_disconnects(session: Session, tenant_id: TenantId, authority_id: UUID, revoked: Sequence[bytes]) -> None:
    """Queue Disconnect-Requests for sessions that use one of the revoked certificates (serial numbers)."""
    for batch in _split_batches(revoked):
        seen = session.scalars(
            select(ExternalCertificate.serial).where(
                ExternalCertificate.authority_id == authority_id, ExternalCertificate.serial.in_(batch)
            )
        ).all()
        if seen:
            request_queue.queue_disconnects(session, tenant_id=tenant_id, serials=seen, reason="certificate-revoked")


def list_due_queries(session: Session, now: datetime) -> list[OcspQuery]:
    """Return OCSP queries that are due, about certificates whose authority has no valid revocation list."""
    seen = ExternalCertificate
    rows = session.execute(
        select(seen, StatusSource.ocsp_url, CertificateAuthority.certificate_der)
        .join(StatusSource, StatusSource.authority_id == seen.authority_id)
        .join(CertificateAuthority, CertificateAuthority.id == seen.authority_id)
        .where(
            _is_due(seen.ocsp_due_at, now),
            seen.not_after > now,
            seen.last_seen_at > now - _QUERY_WHILE_SEEN,
            (StatusSource.ocsp_url != "") | (func.cardinality(seen.ocsp_urls) > 0),
            StatusSource.crl_next_update.is_(None) | (StatusSource.crl_next_update <= now),
            CertificateAuthority.status != "revoked",
        )
        .order_by(seen.ocsp_due_at)
        .limit(_MAX_QUERIES_PER_TURN)
    ).all()
    return [
        OcspQuery(
            row.authority_id,
            x509.load_der_x509_certificate(der),
            row.serial,
            (ocsp_url,) if ocsp_url else tuple(row.ocsp_urls),
            row.ocsp_this_update,
        )
        for row, ocsp_url, der in rows
    ]


async def _query_ocsp(
    question: OcspQuery, web: HttpClient, now: datetime, limit: asyncio.Semaphore
) -> OcspStatus | str:
    request = build_ocsp_request(question.certificate, question.serial)
    headers = {"content-type": "application/ocsp-request", "accept": "application/ocsp-response"}
    whys = []
    for url in question.urls:
        try:
            async with limit:
                data = await web.fetch(url, most_bytes=MAX_OCSP_BYTES, body=request, headers=headers)
            answer = read_ocsp(data, question.certificate, question.serial, now=now)
        except FetchFailed as exc:
            whys.append(str(exc))
        except StatusNotUsable as exc:
            whys.append(f"{url}: {exc}")
        else:
            if question.this_update is None or answer.this_update >= question.this_update:
                return answer
            whys.append(f"{url}: The response is older than the stored response.")
    return " ".join(whys)


def _store_ocsp_answer(
    session: Session, tenant_id: TenantId, question: OcspQuery, answer: OcspStatus | str, now: datetime
) -> None:
    key = {"authority_id": question.authority_id, "serial": question.serial}
    seen = session.get(ExternalCertificate, key, with_for_update=True)
    if seen is None or session.get(StatusSource, question.authority_id) is None:
        return
    seen.ocsp_checked_at = now
    if isinstance(answer, str):
        seen.ocsp_failure, seen.ocsp_due_at = answer, now + _MIN_INTERVAL
        return
    seen.ocsp_failure, seen.ocsp_due_at = "", _next_check(now, answer.until)
    seen.ocsp_this_update = answer.this_update
    status = session.get(ExternalStatus, key) or ExternalStatus(tenant_id=tenant_id, listed=False, answer="", **key)
    session.add(status)
    was = status.answer
    status.answer, status.until = "revoked" if answer.revoked else "good", answer.until
    session.flush()
    if answer.revoked and was != "revoked":
        request_queue.queue_disconnects(
            session, tenant_id=tenant_id, serials=[question.serial], reason="certificate-revoked"
        )


def _delete_unseen(session: Session, tenant_id: TenantId, now: datetime) -> None:
    """Delete the certificates that no device used during the time FORGET_AFTER. If more than MAX_CERTIFICATES are left,
    also delete the least recently used certificates."""
    seen = ExternalCertificate
    newest = select(seen.authority_id, seen.serial).where(seen.tenant_id == tenant_id)
    beyond = newest.order_by(seen.last_seen_at.desc()).offset(MAX_CERTIFICATES)
    for which in (
        seen.last_seen_at < now - FORGET_AFTER,
        tuple_(seen.authority_id, seen.serial).in_(beyond),
    ):
        session.execute(delete(seen).where(seen.tenant_id == tenant_id, which), execution_options=_UNSYNCHRONISED)


_UNSYNCHRONISED = {"synchronize_session": False}


def _is_due(at: InstrumentedAttribute[datetime], now: datetime) -> ColumnElement[bool]:
    """Return the SQL condition for rows that are due. `at` is the column with the time of the next fetch.

    Rows with a time later than _MAX_INTERVAL from now are also due, because this time comes from a wrong clock.
    """
    return or_(at <= now, at > now + _MAX_INTERVAL)


def _next_check(now: datetime, until: datetime) -> datetime:
    """Return the time of the next fetch: halfway between `now` and `until`, but at least _MIN_INTERVAL and at most
    _MAX_INTERVAL from now."""
    return now + min(max((until - now) / 2, _MIN_INTERVAL), _MAX_INTERVAL)


def _split_batches(items: Sequence[bytes]) -> list[Sequence[bytes]]:
    return [items[at : at + _BATCH_SIZE] for at in range(0, len(items), _BATCH_SIZE)]
