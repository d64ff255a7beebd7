"""Having logs written into files: the worker does it, the job's row says how far it has come."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.clock import utc_now
from nac.db.orders import Span
from nac.db.quotas import count_alone
from nac.errors import Conflict, InvalidInput, Mistakes, NotFound
from nac.exports import repository
from nac.exports.repository import ORDERS as ORDERS
from nac.ids import TenantId
from nac.models import ExportJob
from nac.models.export import EXPORT_FORMATS, EXPORT_STATES
from nac.retention.logs import EXPORTED_LOGS

MOST_DAYS = 3_660
# Of a tenant at a time, beside those that go before deletion: that wait, and whose files are kept.
MOST_WAITING = 20
MOST_KEPT = 200
MAKE_ROOM = "Remove one: ./admit export remove"
_LISTED = "They are listed by: ./admit export list"


class ExportNotFound(NotFound):
    """There is no such export."""


class ExportFileNotFound(NotFound):
    """There is no such file of this export."""


def start(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    log: str,
    since: datetime,
    until: datetime,
    format: str,  # noqa: A002 -- as it is called everywhere
    most_bytes: int = 0,
) -> ExportJob:
    """A job for the rows from `since` to before `until` (aware), tomorrow at the latest.

    `most_bytes` is what the tenant's exports may have together; 0 for no limit.

    Raises InvalidInput with every mistake, and Conflict where too many wait.
    """
    mistakes = Mistakes()
    with mistakes.noted():
        _require_one_of(log, EXPORTED_LOGS, "log")
    with mistakes.noted():
        _require_one_of(format, EXPORT_FORMATS, "format")
    until = min(until, utc_now() + timedelta(days=1))
    with mistakes.noted():
        if not since < until:
            raise InvalidInput("It ends before it begins.", place="until", remedy="Give a later time.")
        if until - since > timedelta(days=MOST_DAYS):
            raise InvalidInput(f"That is more than {MOST_DAYS} days.", place="since", remedy="Give a later time.")
    mistakes.refuse()
    count_alone(session, "exports", tenant_id)
    if repository.count_waiting(session, tenant_id) >= MOST_WAITING:
        raise Conflict(f"{MOST_WAITING} exports wait already.", remedy="Wait for them, or cancel one.")
    kept = repository.kept(session, tenant_id)
    if kept.jobs >= MOST_KEPT:
        raise Conflict(f"Files of {MOST_KEPT} exports are kept, which is all there may be.", remedy=MAKE_ROOM)
    if most_bytes and kept.bytes >= most_bytes:
        raise Conflict(f"Exports have {kept.bytes} bytes, and {most_bytes} are allowed.", remedy=MAKE_ROOM)
    job = ExportJob(
        tenant_id=tenant_id, log=log, since=since, until=until, done_until=since, format=format, asked_by=actor
    )
    session.add(job)
    session.flush()
    session.refresh(job)
    after = {"log": log, "since": since.isoformat(), "until": until.isoformat(), "format": format}
    _audit(session, actor, job, "start", after)
    return job


def _require_one_of(value: str, allowed: Sequence[str], place: str) -> None:
    if value not in allowed:
        raise InvalidInput(f"{value!r} is no {place} to export.", place=place, remedy=f"Use {', '.join(allowed)}.")


def list_jobs(
    session: Session,
    *,
    tenant_id: TenantId,
    states: Sequence[str] = (),
    span: Span | None = None,
) -> Sequence[ExportJob]:
    """The newest first, unless `span` says otherwise. `states` leaves out the others."""
    for state in states:
        _require_one_of(state, EXPORT_STATES, "state")
    return repository.list_page(session, tenant_id, states=states, span=span or ORDERS.first())


def get_job(session: Session, *, tenant_id: TenantId, job_id: int, lock: bool = False) -> ExportJob:
    """Raises ExportNotFound."""
    job = (repository.lock if lock else repository.get)(session, tenant_id, job_id)
    if job is None:
        raise ExportNotFound(f"There is no export {job_id}.", place="export", remedy=_LISTED)
    return job


def cancel(session: Session, *, actor: str, tenant_id: TenantId, job_id: int) -> ExportJob:
    """Its files go, too. Raises ExportNotFound, and Conflict where it has ended, or deletion waits for it."""
    job = get_job(session, tenant_id=tenant_id, job_id=job_id, lock=True)
    if job.standing and repository.is_ordered(session, tenant_id, job.log):
        raise Conflict(
            f"Export {job_id} is of a day that is to be exported before it is deleted.",
            place="export",
            remedy="End that with: ./admit retention set --export none",
        )
    if job.state not in ("queued", "running"):
        raise Conflict(f"Export {job_id} is {job.state} already.", place="export")
    # Of an order that was ended nobody waits for it; a new one has the day exported again.
    job.state, job.standing, job.ended_at = "cancelled", False, utc_now()
    session.flush()
    _audit(session, actor, job, "cancel", {"state": job.state})
    return job


def remove(session: Session, *, actor: str, tenant_id: TenantId, job_id: int) -> ExportJob:
    """Do not keep the files of one that ended any longer; the worker removes them within the hour.

    Raises ExportNotFound, and Conflict where there are none, or rows are deleted because they are in them.
    """
    job = get_job(session, tenant_id=tenant_id, job_id=job_id, lock=True)
    if job.state not in ("done", "failed"):
        raise Conflict(f"Export {job_id} is {job.state}: there are no files to remove.", place="export")
    if job.asked_by == repository.ACTOR:
        raise Conflict(
            f"Export {job_id} is of a day that is deleted because its files are there.",
            place="export",
            remedy="They go by themselves, when their time is over.",
        )
    job.state = "pruned" if job.state == "done" else "cancelled"
    session.flush()
    _audit(session, actor, job, "remove", {"state": job.state})
    return job


def retry(session: Session, *, actor: str, tenant_id: TenantId, job_id: int) -> ExportJob:
    """Go on with one that failed, or do not wait any longer to try it again. Raises ExportNotFound and Conflict."""
    job = get_job(session, tenant_id=tenant_id, job_id=job_id, lock=True)
    if job.state != "failed" and not (job.state == "queued" and job.failures):
        raise Conflict(f"Export {job_id} is {job.state}: there is nothing to try again.", place="export")
    job.state, job.ended_at, job.failures, job.due_at = "queued", None, 0, utc_now()
    session.flush()
    _audit(session, actor, job, "retry", {"state": job.state})
    return job


def _audit(session: Session, actor: str, job: ExportJob, verb: str, after: dict[str, str]) -> None:
    audit.append(
        session, actor=actor, action=f"export.{verb}", target=str(job.id), tenant_id=job.tenant_id, after=after
    )
