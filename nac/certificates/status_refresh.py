"""Manual refresh of external statuses: `request_refresh` marks the statuses as due, and the worker fetches them while
the caller waits."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from nac.certificates import repository
from nac.certificates.external_authorities import require_external_authority
from nac.certificates.external_status import list_due_crls, list_due_queries
from nac.kit.ids import TenantId
from nac.models import CertificateAuthority, ExternalCertificate, StatusSource


@dataclass(frozen=True, slots=True)
class RefreshRequest:
    """CRLs and OCSP statuses that a refresh marked as due, each with the time of its last fetch before the refresh."""

    authorities: tuple[CertificateAuthority, ...]
    # Times of the last CRL fetch by authority id, without authorities whose CRL URL is unknown.
    lists: Mapping[UUID, datetime | None]
    # Times of the last OCSP query by authority id and serial number, without certificates whose OCSP URL is unknown.
    certificates: Mapping[tuple[UUID, bytes], datetime | None]

    def about(self, authority_id: UUID) -> list[str]:
        """Return which statuses of the authority the refresh marked: a list with "crl", "ocsp", both or neither."""
        ocsp = any(authority_id == each for each, _ in self.certificates)
        return ["crl"] * (authority_id in self.lists) + ["ocsp"] * ocsp


@dataclass(frozen=True, slots=True)
class OcspState:
    """Results of OCSP queries about certificates that one external authority issued and that devices used."""

    # Number of certificates with at least one query.
    certificates: int
    checked_at: datetime | None
    # Number of certificates whose last query failed, and one of the reasons.
    failures: int
    failure: str


def request_refresh(session: Session, *, tenant_id: TenantId, which: str | None, now: datetime) -> RefreshRequest:
    """Mark the CRL and the OCSP statuses of the external authority `which` as due; None means all authorities.

    Raises AuthorityNotFound or InvalidInput.
    """
    if which is not None:
        authorities: Sequence[CertificateAuthority] = [
            require_external_authority(session, tenant_id=tenant_id, which=which)
        ]
    else:
        rows = repository.list_authorities(session, tenant_id)
        authorities = [row for row in rows if row.kind == "external" and row.status != "revoked"]
    ids = [row.id for row in authorities]
    unsynchronised = {"synchronize_session": False}
    lists = update(StatusSource).where(StatusSource.authority_id.in_(ids)).values(crl_due_at=now)
    session.execute(lists, execution_options=unsynchronised)
    seen = ExternalCertificate
    questions = update(seen).where(seen.tenant_id == tenant_id, seen.authority_id.in_(ids)).values(ocsp_due_at=now)
    session.execute(questions, execution_options=unsynchronised)
    lists_due = {source.authority_id for source in list_due_crls(session, now)}
    checked = {source.authority_id: source.crl_checked_at for source in _list_sources(session, ids)}
    return RefreshRequest(
        tuple(authorities),
        {authority_id: at for authority_id, at in checked.items() if authority_id in lists_due},
        _last_checks(
            session, tenant_id, ids, {(due.authority_id, due.serial) for due in list_due_queries(session, now)}
        ),
    )


def is_refresh_answered(session: Session, asked: RefreshRequest, *, tenant_id: TenantId, now: datetime) -> bool:
    """Whether the worker has tried to fetch all requested statuses since the request.

    Compares only times that the worker wrote, so the clocks of caller and worker may differ.
    """
    sources = _list_sources(session, [row.id for row in asked.authorities])
    for source in sources:
        if source.authority_id in asked.lists and source.crl_checked_at == asked.lists[source.authority_id]:
            return False
    # The worker sends no OCSP queries for authorities with a valid revocation list.
    without = [each.authority_id for each in sources if each.crl_next_update is None or each.crl_next_update <= now]
    checked = _last_checks(session, tenant_id, without, asked.certificates.keys())
    return not any(at == asked.certificates[which] for which, at in checked.items())


def _list_sources(session: Session, authority_ids: Collection[UUID]) -> Sequence[StatusSource]:
    return session.scalars(select(StatusSource).where(StatusSource.authority_id.in_(authority_ids))).all()


def _last_checks(
    session: Session, tenant_id: TenantId, authority_ids: Collection[UUID], which: Collection[tuple[UUID, bytes]]
) -> dict[tuple[UUID, bytes], datetime | None]:
    """Map authority id and serial number to the time of the last OCSP query; None if there was no query."""
    seen = ExternalCertificate
    query = select(seen.authority_id, seen.serial, seen.ocsp_checked_at).where(
        seen.tenant_id == tenant_id,
        seen.authority_id.in_(authority_ids),
        seen.serial.in_({serial for _, serial in which}),
    )
    return {
        (authority_id, serial): at
        for authority_id, serial, at in session.execute(query)
        if (authority_id, serial) in which
    }


def get_ocsp_state(session: Session, *, tenant_id: TenantId, authority_id: UUID) -> OcspState:
    seen = ExternalCertificate
    failed = seen.ocsp_failure != ""
    query = select(
        func.count(),
        func.max(seen.ocsp_checked_at),
        func.count().filter(failed),
        func.coalesce(func.max(seen.ocsp_failure).filter(failed), ""),
    ).where(seen.tenant_id == tenant_id, seen.authority_id == authority_id, seen.ocsp_checked_at.is_not(None))
    return OcspState(*session.execute(query).one())
