"""Background jobs run exactly once, for any failure of the worker."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.core.audit.service import RequestOrigin, set_origin
from nac.core.jobs import runner, service
from nac.core.jobs.runner import (
    JobCancelled,
    JobContinuation,
    JobRun,
    MultiTransactionHandler,
    SingleTransactionHandler,
)
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.errors import AdmitError, Conflict, DatabaseUnavailable, InvalidInput, SeveralMistakes
from nac.kit.ids import TenantId
from nac.models import AuditEntry, Job, Site
from nac.tenancy import sites
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.job_runs import run_next
from tests.row_snapshots import snapshotted


def seal(plaintext: bytes, context: str) -> bytes:
    return context.encode() + b"\0" + plaintext[::-1]


def unseal(sealed: bytes, context: str) -> bytes:
    found, _, plain = sealed.partition(b"\0")
    assert found == context.encode()
    return plain[::-1]


class Jobs:
    """Jobs of a tenant and of other owners, and a worker."""

    def __init__(self, tenant_id: TenantId, app: Engine, worker: Engine, owner_engine: Engine) -> None:
        self.tenant_id, self.app, self.worker, self._owner_engine = tenant_id, app, worker, owner_engine
        self.owner = Owner(tenant_id=tenant_id)

    def start(self, owner: Owner | None = None, **given: object) -> UUID:
        owner = owner or self.owner
        named = {"actor": ACTOR, "owner": owner, "kind": "sites.make", "title": "Sites", "needs": ()}
        scope = TenantScope(owner.tenant_id) if owner.tenant_id else PlatformScope()
        with session_scope(scope, engine=self.app) as session:
            set_origin(session, RequestOrigin("192.0.2.1", "req-1"))
            return service.start_job(session, **named, input=given, seal=seal, total=2).id

    def row(self, job_id: UUID) -> Job:
        with session_scope(TenantScope(self.tenant_id), engine=self.app) as session:
            return service.require_job(session, owner=self.owner, job_id=job_id)

    def work(self, handle: Callable[..., object], handler: type = SingleTransactionHandler) -> bool:
        return run_next({"sites.make": handler(handle)}, unseal=unseal, app_engine=self.app, engine=self.worker)

    def take(self, job_id: UUID) -> JobRun | None:
        return runner.take_job(job_id, unseal=unseal, app_engine=self.app, engine=self.worker)

    def cancel(self, job_id: UUID) -> None:
        with session_scope(TenantScope(self.tenant_id), engine=self.app) as session:
            service.cancel_job(session, actor=ACTOR, owner=self.owner, job_id=job_id)

    def retry(self, job_id: UUID) -> None:
        """Retry the job, which then succeeds."""
        with session_scope(TenantScope(self.tenant_id), engine=self.app) as session:
            service.retry_job(session, actor=ACTOR, owner=self.owner, job_id=job_id)
        # The old error does not apply to a job that will restart.
        assert (self.row(job_id).state, self.row(job_id).problem) == ("queued", None)
        assert self.work(lambda *_: None)
        assert self.row(job_id).state == "done"

    def update(self, **values: object) -> None:
        with self._owner_engine.begin() as connection:
            connection.execute(update(Job).values(values))

    def make_due(self) -> None:
        """Make all waiting jobs due: leases expire, and the delays of retries end."""
        self.update(due_at=utc_now() - timedelta(seconds=1))

    def slugs(self) -> set[str]:
        """The sites that the jobs have created."""
        with session_scope(TenantScope(self.tenant_id), engine=self.app) as session:
            return set(session.scalars(select(Site.slug))) - {"main"}


@pytest.fixture
@snapshotted
def tenant_id(app_engine: Engine, platform: Platform) -> TenantId:
    return TenantId(make_tenant(app_engine, platform, "alpha").id)


@pytest.fixture
def jobs(tenant_id: TenantId, app_engine: Engine, worker_engine: Engine, owner_engine: Engine) -> Jobs:
    return Jobs(tenant_id, app_engine, worker_engine, owner_engine)


def die(*_: object) -> None:
    raise KeyboardInterrupt


def test_input_is_passed_and_result_returned(jobs: Jobs) -> None:
    given: list[JobRun] = []
    job_id = jobs.start(names=["x"], secret="hush")
    assert b"hush" not in (jobs.row(job_id).input_sealed or b"")

    def handle(session: object, own_job: JobRun) -> Mapping[str, object]:
        given.append(own_job)
        return {"made": 1}

    assert jobs.work(handle)
    assert not jobs.work(handle)
    (own_job,) = given
    assert (own_job.input, own_job.actor, own_job.owner) == ({"names": ["x"], "secret": "hush"}, ACTOR, jobs.owner)
    row = jobs.row(job_id)
    assert (row.state, row.result, row.input_sealed, row.takes) == ("done", {"made": 1}, None, 1)
    # The job reported no progress, and has completed.
    assert (row.done, row.total) == (2, 2)
    assert row.ended_at is not None
    with session_scope(TenantScope(jobs.tenant_id), engine=jobs.app) as session:
        entry = session.scalars(select(AuditEntry).where(AuditEntry.action == "job.start")).one()
    assert (entry.target, entry.request_id) == (str(job_id), "req-1")


@pytest.mark.parametrize(
    ("error", "code", "mistakes"),
    [
        (InvalidInput("No.", place="rows[3]"), "invalid-input", 0),
        (SeveralMistakes([InvalidInput("a"), InvalidInput("b")]), "several-mistakes", 2),
        (Conflict("It is there."), "conflict", 0),
    ],
)
def test_rejection_is_reported_and_not_retried(jobs: Jobs, error, code, mistakes) -> None:
    def refuse(*_: object) -> None:
        raise error

    job_id = jobs.start()
    assert jobs.work(refuse)
    row = jobs.row(job_id)
    assert (row.state, row.problem["code"], len(row.problem.get("mistakes", ()))) == ("failed", code, mistakes)
    jobs.make_due()
    assert not jobs.work(refuse)


class InternalError(AdmitError):
    """An internal error."""

    status = 500


@pytest.mark.parametrize("error", [ZeroDivisionError("hush"), InternalError("It is.")])
def test_internal_error_is_retried_until_it_fails_finally(jobs: Jobs, error: Exception) -> None:
    def fail(*_: object) -> None:
        raise error

    job_id = jobs.start()
    for _ in range(4):
        assert jobs.row(job_id).state == "queued"
        assert jobs.work(fail)
        assert not jobs.work(fail), "not at once"
        jobs.make_due()
    row = jobs.row(job_id)
    assert (row.state, row.takes) == ("failed", 4)
    assert "hush" not in str(row.problem)
    jobs.retry(job_id)


def test_unreachable_service_is_retried_later(jobs: Jobs) -> None:
    def fail(*_: object) -> None:
        raise DatabaseUnavailable

    job_id = jobs.start()
    for _ in range(6):
        assert jobs.work(fail)
        jobs.make_due()
    assert jobs.row(job_id).state == "queued"


def test_failure_after_an_outage_is_retried(jobs: Jobs) -> None:
    errors = [*([DatabaseUnavailable()] * 6), *([ZeroDivisionError()] * 4)]

    def fail(*_: object) -> None:
        raise errors.pop(0)

    job_id = jobs.start()
    while errors:
        assert jobs.row(job_id).state == "queued", f"{len(errors)} attempts are left"
        assert jobs.work(fail)
        jobs.make_due()
    assert jobs.row(job_id).state == "failed"


def test_job_that_kills_its_worker_fails_finally(jobs: Jobs) -> None:
    job_id = jobs.start()
    for _ in range(runner.MAX_LAPSES):
        with pytest.raises(KeyboardInterrupt):
            jobs.work(die)
        jobs.make_due()
    assert jobs.work(die)
    row = jobs.row(job_id)
    assert (row.state, row.problem["code"]) == ("failed", "job-never-ends")
    jobs.retry(job_id)


def test_progressing_job_survives_any_number_of_workers(jobs: Jobs) -> None:
    job_id = jobs.start()

    def step(own_job: JobRun) -> Mapping[str, object]:
        at = int(own_job.place.get("at", 0))
        if at == 2 * runner.MAX_LAPSES:
            return {"at": at}
        with own_job.transaction() as session:
            own_job.save_place(session, {"at": at + 1})
        raise KeyboardInterrupt

    for _ in range(2 * runner.MAX_LAPSES):
        with pytest.raises(KeyboardInterrupt):
            jobs.work(step, MultiTransactionHandler)
        jobs.make_due()
    assert jobs.work(step, MultiTransactionHandler)
    assert jobs.row(job_id).state == "done"


def test_progress_is_visible_and_undone_with_its_transaction(jobs: Jobs) -> None:
    job_id, seen = jobs.start(), []
    ends = iter([DatabaseUnavailable, KeyboardInterrupt, Conflict("It is there.")])

    def fail(_: object, own_job: JobRun) -> None:
        seen.append(jobs.row(job_id).done)
        for done in (0, 700, 1_700, 2_100):
            own_job.report(done)
            seen.append(jobs.row(job_id).done)
        raise next(ends)

    def progress() -> tuple[str, int]:
        jobs.make_due()
        return jobs.row(job_id).state, jobs.row(job_id).done

    assert jobs.work(fail)
    assert progress() == ("queued", 0)
    # After the worker is killed, the last progress remains until the job resumes.
    with pytest.raises(KeyboardInterrupt):
        jobs.work(fail)
    assert progress() == ("running", 1_700)
    assert jobs.work(fail)
    assert progress() == ("failed", 0)
    assert seen == 3 * [0, 0, 0, 1_700, 1_700]


@pytest.mark.parametrize(
    ("ended_by", "state"), [({"is_cancelled": True}, "cancelled"), ({"lapses": runner.MAX_LAPSES}, "failed")]
)
def test_progress_of_undone_work_is_cleared_at_the_end(jobs: Jobs, ended_by, state) -> None:
    def report_and_die(_: object, own_job: JobRun) -> None:
        own_job.report(1)
        raise KeyboardInterrupt

    job_id = jobs.start()
    with pytest.raises(KeyboardInterrupt):
        jobs.work(report_and_die)
    assert jobs.row(job_id).done == 1
    jobs.update(**ended_by)
    jobs.make_due()
    assert jobs.work(report_and_die)
    assert (jobs.row(job_id).state, jobs.row(job_id).done) == (state, 0)


def test_cancelled_failed_job_can_be_retried(jobs: Jobs) -> None:
    job_id = jobs.start()

    def refuse(session: object, own_job: JobRun) -> None:
        jobs.cancel(own_job.id)
        raise Conflict("It is there.")

    assert jobs.work(refuse)
    assert jobs.row(job_id).state == "failed"
    jobs.retry(job_id)


def add_site(session: Session, own_job: JobRun, slug: str) -> None:
    sites.create_site(session, actor=own_job.actor, tenant_id=own_job.owner.tenant_id, slug=slug, name=slug)


def test_replaced_worker_changes_nothing(jobs: Jobs) -> None:
    """One worker freezes beyond its lease while another worker completes the job."""
    job_id = jobs.start()

    def add(session: Session, own_job: JobRun, slug: str) -> Mapping[str, object]:
        add_site(session, own_job, slug)
        return {"by": slug}

    def wait_beyond_the_lease(session: Session, own_job: JobRun) -> Mapping[str, object]:
        jobs.make_due()
        assert jobs.work(lambda session, own_job: add(session, own_job, "second"))
        return add(session, own_job, "first")

    assert jobs.work(wait_beyond_the_lease)
    assert jobs.slugs() == {"second"}
    assert (jobs.row(job_id).state, jobs.row(job_id).result) == ("done", {"by": "second"})


def test_several_transactions_resume_where_they_stopped(jobs: Jobs) -> None:
    """The worker is killed in the middle. Then each run adds one more tenant."""
    job_id = jobs.start(names=["a", "b", "c"])
    died = []

    def handle(own_job: JobRun) -> Mapping[str, object] | JobContinuation:
        at = int(own_job.place.get("at", 0))
        if at == 3:
            return {"made": at}
        with own_job.transaction() as session:
            add_site(session, own_job, own_job.input["names"][at])
            own_job.save_place(session, {"at": at + 1})
        own_job.report(at + 1)
        if at == 1 and not died:
            died.append(True)
            raise KeyboardInterrupt
        return JobContinuation()

    assert jobs.work(handle, MultiTransactionHandler)
    with pytest.raises(KeyboardInterrupt):
        jobs.work(handle, MultiTransactionHandler)
    assert (jobs.row(job_id).state, jobs.row(job_id).done) == ("running", 2)
    assert not jobs.work(handle, MultiTransactionHandler), "it is still taken"
    jobs.make_due()
    assert jobs.work(handle, MultiTransactionHandler)
    assert jobs.work(handle, MultiTransactionHandler)
    assert jobs.slugs() == {"a", "b", "c"}
    assert (jobs.row(job_id).state, jobs.row(job_id).result) == ("done", {"made": 3})


def test_cancelled_job_leaves_nothing(jobs: Jobs) -> None:
    waits, runs = jobs.start(), jobs.start()
    jobs.cancel(waits)

    def handle(session: Session, own_job: JobRun) -> None:
        assert own_job.id == runs
        add_site(session, own_job, "x")
        jobs.cancel(own_job.id)
        with pytest.raises(JobCancelled):
            own_job.report(1)
        own_job.report(1)

    assert jobs.work(handle)
    assert not jobs.work(handle)
    assert [jobs.row(each).state for each in (waits, runs)] == ["cancelled", "cancelled"]
    assert jobs.slugs() == set()
    with pytest.raises(Conflict, match="already"):
        jobs.cancel(runs)


def test_owners_take_turns_within_limits(jobs: Jobs, platform: Platform) -> None:
    """Two jobs run at a time, but only one per owner.

    A second owner's job does not wait for twenty jobs of the first.
    """
    other = Owner(tenant_id=TenantId(make_tenant(jobs.app, platform, "bravo").id))
    for _ in range(service.MAX_WAITING):
        jobs.start()
    with pytest.raises(Conflict, match="queued and running jobs"):
        jobs.start()
    jobs.start(other)
    jobs.start(Owner())

    def claim(most: int = runner.MAX_RUNNING) -> list[UUID]:
        with session_scope(PlatformScope(), engine=jobs.worker) as session:
            return [each.id for each in service.claim_due(session, resend_after=timedelta(0), most=most)]

    assert len(claim()) == runner.MAX_RUNNING
    # The messages are late, so the message of the third owner's job is sent too.
    first, second, third = claim(most=30)
    owners = {run and run.owner for run in map(jobs.take, (first, second))}
    assert owners < {jobs.owner, other, Owner()}
    assert len(owners) == 2
    assert (jobs.take(first), jobs.take(third)) == (None, None)
    assert claim() == []


def test_owner_with_a_running_job_runs_no_second_job(jobs: Jobs) -> None:
    _, second = jobs.start(), jobs.start()
    taken: list[JobRun | None] = []
    assert jobs.work(lambda *_: taken.append(jobs.take(second)))
    assert taken == [None]
    assert jobs.work(lambda *_: None)


def test_ended_jobs_are_deleted(jobs: Jobs) -> None:
    jobs.start()
    assert jobs.work(lambda *_: None)
    jobs.update(ended_at=utc_now() - timedelta(days=31))
    new = jobs.start()
    assert jobs.work(lambda *_: None)
    with session_scope(PlatformScope(), engine=jobs.worker) as session:
        service.prune(session)
    with session_scope(TenantScope(jobs.tenant_id), engine=jobs.app) as session:
        assert session.scalars(select(Job.id)).all() == [new]
