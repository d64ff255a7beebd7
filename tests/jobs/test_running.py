"""Background jobs run exactly once, for any failure of the worker."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import Engine, select, text, update

from nac.core.access.grants import Owner
from nac.core.audit.service import RequestOrigin, set_origin
from nac.core.jobs import runner, service
from nac.core.jobs.runner import (
    JobCancelled,
    JobContinuation,
    JobHandler,
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

Start = Callable[..., UUID]


def seal(plaintext: bytes, context: str) -> bytes:
    return context.encode() + b"\0" + plaintext[::-1]


def unseal(sealed: bytes, context: str) -> bytes:
    found, _, plain = sealed.partition(b"\0")
    assert found == context.encode()
    return plain[::-1]


@pytest.fixture
@snapshotted
def tenant_id(app_engine: Engine, platform: Platform) -> TenantId:
    return TenantId(make_tenant(app_engine, platform, "alpha").id)


@pytest.fixture
def start(app_engine: Engine, tenant_id: TenantId) -> Start:
    def start(owner: Owner | None = None, **given: object) -> UUID:
        owner = owner or Owner(tenant_id=tenant_id)
        scope = TenantScope(owner.tenant_id) if owner.tenant_id else PlatformScope()
        with session_scope(scope, engine=app_engine) as session:
            set_origin(session, RequestOrigin("192.0.2.1", "req-1"))
            return service.start_job(
                session,
                actor=ACTOR,
                owner=owner,
                kind="sites.make",
                title="Sites",
                input=given,
                needs=(),
                seal=seal,
                total=2,
            ).id

    return start


@pytest.fixture
def job(app_engine: Engine, tenant_id: TenantId) -> Callable[[UUID], Job]:
    def read(job_id: UUID) -> Job:
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            return service.require_job(session, owner=Owner(tenant_id=tenant_id), job_id=job_id)

    return read


@pytest.fixture
def work(worker_engine: Engine, app_engine: Engine) -> Callable[[JobHandler], bool]:
    def work(handler: JobHandler) -> bool:
        return run_next({"sites.make": handler}, unseal=unseal, app_engine=app_engine, engine=worker_engine)

    return work


@pytest.fixture
def overdue(owner_engine: Engine) -> Callable[[], None]:
    """Function that makes all waiting jobs due: leases expire and retries are due."""

    def make() -> None:
        with owner_engine.begin() as connection:
            connection.execute(update(Job).values(due_at=utc_now() - timedelta(seconds=1)))

    return make


def slugs(engine: Engine, tenant_id: TenantId) -> set[str]:
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        return set(session.scalars(select(Site.slug))) - {"main"}


def test_input_is_passed_and_result_returned(app_engine, tenant_id, start, job, work) -> None:
    given: list[JobRun] = []
    job_id = start(names=["x"], secret="hush")
    assert b"hush" not in (job(job_id).input_sealed or b"")

    def handler(session: object, own_job: JobRun) -> Mapping[str, object]:
        given.append(own_job)
        return {"made": 1}

    assert work(SingleTransactionHandler(handler))
    assert not work(SingleTransactionHandler(handler))
    (own_job,) = given
    assert (own_job.input, own_job.actor, own_job.owner.tenant_id) == (
        {"names": ["x"], "secret": "hush"},
        ACTOR,
        tenant_id,
    )
    row = job(job_id)
    assert (row.state, row.result, row.input_sealed, row.takes) == ("done", {"made": 1}, None, 1)
    # The job reported no progress, and has completed.
    assert (row.done, row.total) == (2, 2)
    assert row.ended_at is not None
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
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
def test_rejection_is_reported_and_not_retried(start, job, work, overdue, error, code, mistakes) -> None:
    def refuse(*_: object) -> None:
        raise error

    job_id = start()
    assert work(SingleTransactionHandler(refuse))
    row = job(job_id)
    assert row.problem is not None
    assert (row.state, row.problem["code"], len(row.problem.get("mistakes", ()))) == ("failed", code, mistakes)
    overdue()
    assert not work(SingleTransactionHandler(refuse))


def test_failure_is_retried_until_it_fails_finally(app_engine, tenant_id, start, job, work, overdue) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("hush")

    job_id = start()
    for _ in range(4):
        assert work(SingleTransactionHandler(fail))
        assert not work(SingleTransactionHandler(fail)), "not at once"
        overdue()
    row = job(job_id)
    assert (row.state, row.takes) == ("failed", 4)
    assert "hush" not in str(row.problem)
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        service.retry_job(session, actor=ACTOR, owner=Owner(tenant_id=tenant_id), job_id=job_id)
    assert work(SingleTransactionHandler(lambda *_: None))
    assert job(job_id).state == "done"


def test_unreachable_service_is_retried_later(
    start: Start, job: Callable[[UUID], Job], work: Callable[[JobHandler], bool], overdue: Callable[[], None]
) -> None:
    def fail(*_: object) -> None:
        raise DatabaseUnavailable

    job_id = start()
    for _ in range(6):
        assert work(SingleTransactionHandler(fail))
        overdue()
    assert job(job_id).state == "queued"


def test_job_that_kills_its_worker_fails_finally(app_engine, tenant_id, start, job, work, overdue) -> None:
    job_id = start()

    def kill(session: object, own_job: JobRun) -> None:
        raise KeyboardInterrupt

    for _ in range(runner.MAX_LAPSES):
        with pytest.raises(KeyboardInterrupt):
            work(SingleTransactionHandler(kill))
        overdue()
    assert work(SingleTransactionHandler(kill))
    row = job(job_id)
    assert row.problem is not None
    assert (row.state, row.problem["code"]) == ("failed", "job-never-ends")
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        service.retry_job(session, actor=ACTOR, owner=Owner(tenant_id=tenant_id), job_id=job_id)
    assert work(SingleTransactionHandler(lambda *_: {"made": 1}))
    assert job(job_id).state == "done"


def test_progressing_job_survives_any_number_of_workers(
    start: Start, job: Callable[[UUID], Job], work: Callable[[JobHandler], bool], overdue: Callable[[], None]
) -> None:
    job_id = start()

    def step(own_job: JobRun) -> Mapping[str, object]:
        at = int(own_job.place.get("at", 0))
        if at == 2 * runner.MAX_LAPSES:
            return {"at": at}
        with own_job.transaction() as session:
            own_job.save_place(session, {"at": at + 1})
        raise KeyboardInterrupt

    for _ in range(2 * runner.MAX_LAPSES):
        with pytest.raises(KeyboardInterrupt):
            work(MultiTransactionHandler(step))
        overdue()
    assert work(MultiTransactionHandler(step))
    assert job(job_id).state == "done"


def test_internal_error_is_retried_then_fails(
    start: Start, job: Callable[[UUID], Job], work: Callable[[JobHandler], bool], overdue: Callable[[], None]
) -> None:
    class InternalError(AdmitError):
        """An internal error."""

        status = 500

    def fail(*_: object) -> None:
        raise InternalError("It is.")

    job_id = start()
    assert work(SingleTransactionHandler(fail))
    assert job(job_id).state == "queued"
    for _ in range(3):
        overdue()
        assert work(SingleTransactionHandler(fail))
    assert job(job_id).state == "failed"


def test_progress_is_visible_and_undone_with_its_transaction(
    start: Start, job: Callable[[UUID], Job], work: Callable[[JobHandler], bool], overdue: Callable[[], None]
) -> None:
    job_id, seen = start(), []

    def fail(_: object, own_job: JobRun) -> None:
        seen.append(job(job_id).done)
        for done in (0, 700, 1_700, 2_100):
            own_job.tell(done)
            seen.append(job(job_id).done)
        raise (
            DatabaseUnavailable
            if len(seen) == 5
            else KeyboardInterrupt
            if len(seen) == 10
            else Conflict("It is there.")
        )

    assert work(SingleTransactionHandler(fail))
    assert (job(job_id).state, job(job_id).done) == ("queued", 0)
    overdue()
    # After the worker is killed, the last progress remains until the job resumes.
    with pytest.raises(KeyboardInterrupt):
        work(SingleTransactionHandler(fail))
    assert (job(job_id).state, job(job_id).done) == ("running", 1_700)
    overdue()
    assert work(SingleTransactionHandler(fail))
    assert (job(job_id).state, job(job_id).done) == ("failed", 0)
    assert seen == 3 * [0, 0, 0, 1_700, 1_700]


@pytest.mark.parametrize(
    ("ended_by", "state"), [({"is_cancelled": True}, "cancelled"), ({"lapses": runner.MAX_LAPSES}, "failed")]
)
def test_progress_of_undone_work_is_cleared_at_the_end(
    start, job, work, overdue, owner_engine, ended_by, state
) -> None:
    def die(_: object, own_job: JobRun) -> None:
        own_job.tell(1)
        raise KeyboardInterrupt

    job_id = start()
    with pytest.raises(KeyboardInterrupt):
        work(SingleTransactionHandler(die))
    assert job(job_id).done == 1
    with owner_engine.begin() as connection:
        connection.execute(update(Job).values(ended_by))
    overdue()
    assert work(SingleTransactionHandler(die))
    assert (job(job_id).state, job(job_id).done) == (state, 0)


def test_cancelled_failed_job_can_be_retried(app_engine, tenant_id, start, job, work) -> None:
    job_id, owner = start(), Owner(tenant_id=tenant_id)

    def refuse(session: object, own_job: JobRun) -> None:
        with session_scope(TenantScope(tenant_id), engine=app_engine) as other:
            service.cancel_job(other, actor=ACTOR, owner=owner, job_id=own_job.id)
        raise Conflict("It is there.")

    assert work(SingleTransactionHandler(refuse))
    assert job(job_id).state == "failed"
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        service.retry_job(session, actor=ACTOR, owner=owner, job_id=job_id)
    # The old error does not apply to a job that will restart.
    assert (job(job_id).state, job(job_id).problem) == ("queued", None)
    assert work(SingleTransactionHandler(lambda *_: {"made": 1}))
    assert job(job_id).state == "done"


def test_replaced_worker_changes_nothing(app_engine, tenant_id, start, job, work, overdue) -> None:
    """One worker freezes beyond its lease while another worker completes the job."""
    job_id = start()

    def add(session, own_job: JobRun, slug: str) -> Mapping[str, object]:
        sites.create_site(session, actor=own_job.actor, tenant_id=tenant_id, slug=slug, name=slug)
        return {"by": slug}

    def wait_beyond_the_lease(session, own_job: JobRun) -> Mapping[str, object]:
        overdue()
        assert work(SingleTransactionHandler(lambda session, own_job: add(session, own_job, "second")))
        return add(session, own_job, "first")

    assert work(SingleTransactionHandler(wait_beyond_the_lease))
    assert slugs(app_engine, tenant_id) == {"second"}
    assert (job(job_id).state, job(job_id).result) == ("done", {"by": "second"})


def test_several_transactions_resume_where_they_stopped(app_engine, tenant_id, start, job, work, overdue) -> None:
    """The worker is killed in the middle. Then each run adds one more tenant."""
    job_id = start(names=["a", "b", "c"])
    died = []

    def handler(own_job: JobRun) -> Mapping[str, object] | JobContinuation:
        at = int(own_job.place.get("at", 0))
        if at == 3:
            return {"made": at}
        with own_job.transaction() as session:
            slug = own_job.input["names"][at]
            sites.create_site(session, actor=own_job.actor, tenant_id=tenant_id, slug=slug, name=slug)
            own_job.save_place(session, {"at": at + 1})
        own_job.tell(at + 1)
        if at == 1 and not died:
            died.append(True)
            raise KeyboardInterrupt
        return JobContinuation()

    assert work(MultiTransactionHandler(handler))
    with pytest.raises(KeyboardInterrupt):
        work(MultiTransactionHandler(handler))
    assert (job(job_id).state, job(job_id).done) == ("running", 2)
    assert not work(MultiTransactionHandler(handler)), "it is still taken"
    overdue()
    assert work(MultiTransactionHandler(handler))
    assert work(MultiTransactionHandler(handler))
    assert slugs(app_engine, tenant_id) == {"a", "b", "c"}
    assert (job(job_id).state, job(job_id).result) == ("done", {"made": 3})


def test_cancelled_job_leaves_nothing(app_engine, tenant_id, start, job, work) -> None:
    waits, runs = start(), start()
    owner = Owner(tenant_id=tenant_id)

    def cancel(job_id: UUID) -> None:
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            service.cancel_job(session, actor=ACTOR, owner=owner, job_id=job_id)

    cancel(waits)

    def handler(session, own_job: JobRun) -> None:
        assert own_job.id == runs
        sites.create_site(session, actor=own_job.actor, tenant_id=tenant_id, slug="x", name="X")
        cancel(own_job.id)
        with pytest.raises(JobCancelled):
            own_job.tell(1)
        own_job.tell(1)

    assert work(SingleTransactionHandler(handler))
    assert not work(SingleTransactionHandler(handler))
    assert [job(each).state for each in (waits, runs)] == ["cancelled", "cancelled"]
    assert slugs(app_engine, tenant_id) == set()
    with pytest.raises(Conflict, match="already"):
        cancel(runs)


def test_owners_take_turns_within_limits(app_engine, platform, tenant_id, start, worker_engine) -> None:
    """Two jobs run at a time, but only one per owner.

    A second owner's job does not wait for twenty jobs of the first.
    """
    other = Owner(tenant_id=TenantId(make_tenant(app_engine, platform, "bravo").id))
    for _ in range(service.MAX_WAITING):
        start()
    with pytest.raises(Conflict, match="queued and running jobs"):
        start()
    start(other)
    start(Owner())

    def claim(most: int = runner.MAX_RUNNING) -> list[UUID]:
        with session_scope(PlatformScope(), engine=worker_engine) as session:
            return [each.id for each in service.claim_due(session, resend_after=timedelta(0), most=most)]

    def take(job_id: UUID) -> Owner | None:
        run = runner.take_job(job_id, unseal=unseal, app_engine=app_engine, engine=worker_engine)
        return None if run is None else run.owner

    assert len(claim()) == runner.MAX_RUNNING
    # The messages are late, so the message of the third owner's job is sent too.
    first, second, third = claim(most=30)
    owners = {take(first), take(second)}
    assert owners < {Owner(tenant_id=tenant_id), other, Owner()}
    assert len(owners) == 2
    assert (take(first), take(third)) == (None, None)
    assert claim() == []


def test_owner_with_a_running_job_runs_no_second_job(
    app_engine: Engine, start: Start, worker_engine: Engine, work: Callable[[JobHandler], bool]
) -> None:
    _, second = start(), start()
    taken: list[JobRun | None] = []

    def take_second(*_: object) -> None:
        taken.append(runner.take_job(second, unseal=unseal, app_engine=app_engine, engine=worker_engine))

    assert work(SingleTransactionHandler(take_second))
    assert taken == [None]
    assert work(SingleTransactionHandler(lambda *_: None))


def test_ended_jobs_are_deleted(
    worker_engine: Engine, owner_engine: Engine, start: Start, work: Callable[[JobHandler], bool]
) -> None:
    old, new = start(), start()
    while work(SingleTransactionHandler(lambda *_: None)):
        pass
    with owner_engine.begin() as connection:
        connection.execute(text("UPDATE jobs SET ended_at = now() - interval '31 days' WHERE id = :id"), {"id": old})
    with session_scope(PlatformScope(), engine=worker_engine) as session:
        service.prune(session)
    with owner_engine.connect() as connection:
        assert connection.scalars(text("SELECT id FROM jobs")).all() == [new]
