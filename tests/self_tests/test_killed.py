"""Self-tests whose worker is killed at any point.

The next worker continues the self-test, reports once, and deletes all temporary data.
"""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import Engine, func, select, update
from sqlalchemy.orm import Session

from nac.cellformat.self_test_ticket import SELF_TEST_PROFILE
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, make_engine, session_scope
from nac.models import AuditEntry, Certificate, Endpoint, EndpointSighting, RadiusSession, SelfTest
from nac.onboarding.self_tests import actions, runner, service
from nac.onboarding.self_tests.runner import SelfTestPlatform
from nac.tenancy.cells import service as cells
from tests.commit_kills import AFTER, deaths, killed_at_commit
from tests.factories.certificates import SEALER, SIGNING, Certified
from tests.factories.tenancy import ACTOR
from tests.postgres import Database

# A closed port, so the failure is reported at once.
_PLATFORM = SelfTestPlatform(SIGNING, "127.0.0.9", 0)


@pytest.fixture
def test_id(app_engine: Engine, owner_engine: Engine, alpha: Certified, monkeypatch: pytest.MonkeyPatch) -> UUID:
    for name in ("PATIENCE_SECONDS", "_SILENCE_SECONDS"):
        monkeypatch.setattr(actions, name, 0.05)
    monkeypatch.setattr(runner, "_LOGGED_SECONDS", 0.0)
    monkeypatch.setattr(cells, "wait_until_live", lambda *_, **__: None)
    with Session(owner_engine) as session, session.begin():
        slot = cells.require_slot(session, tenant_id=alpha.tenant_id)
        slot.secret_sealed = SEALER.seal(b"the secret of alpha", cells.slot_secret_context(slot))
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        return service.start_self_test(session, actor=ACTOR, tenant_id=alpha.tenant_id).id


@pytest.fixture
def work(database: Database) -> Callable[[], None]:
    def work() -> None:
        engine = make_engine(database.worker_url)
        runner.run_waiting(_PLATFORM, engine=engine)
        engine.dispose()

    return work


def lease_ends(engine: Engine, **values: object) -> None:
    with engine.begin() as connection:
        connection.execute(update(SelfTest).values(due_at=utc_now() - timedelta(seconds=1), **values))


def assert_nothing_is_left(engine: Engine) -> None:
    with Session(engine) as session:
        left = session.scalars(select(Certificate.status).where(Certificate.profile == SELF_TEST_PROFILE)).all()
        assert set(left) <= {"revoked", "abandoned"}, left
        for table in (Endpoint, EndpointSighting, RadiusSession):
            assert session.scalar(select(func.count()).select_from(table)) == 0, table
        started = select(func.count()).where(AuditEntry.action == "self-test.start")
        assert session.scalar(started) == 1


def test_killed_self_test_is_completed_by_the_next_worker(
    owner_engine: Engine, test_id: UUID, work: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "MAX_ATTEMPTS", 1_000)
    for _ in deaths(work):
        lease_ends(owner_engine)
    with Session(owner_engine) as session:
        found = session.get_one(SelfTest, test_id)
        assert (found.state, found.error, found.passed) == ("done", "", False)
        assert {row["got"] for row in found.board} == {"silence"}
    assert_nothing_is_left(owner_engine)


def test_self_test_that_kills_each_worker_fails(owner_engine: Engine, test_id: UUID, work: Callable[[], None]) -> None:
    # The worker is killed when the certificate to be revoked at the end is valid.
    for _ in range(runner.MAX_ATTEMPTS):
        assert killed_at_commit(work, at=6, when=AFTER)
        lease_ends(owner_engine)
    with Session(owner_engine) as session:
        good = select(func.count()).where(Certificate.profile == SELF_TEST_PROFILE, Certificate.status == "valid")
        assert session.scalar(good)
    work()
    with Session(owner_engine) as session:
        found = session.get_one(SelfTest, test_id)
        assert (found.state, found.passed, found.board) == ("failed", False, [])
        assert found.error == "The test was started 3 times. Each time, the worker stopped before the test ended."
    assert_nothing_is_left(owner_engine)


def test_presumed_dead_worker_reports_nothing(
    owner_engine: Engine, test_id: UUID, work: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old worker returns while the next worker runs."""
    run, turns = runner._SelfTestRun.run, iter((True, False))

    def slow(self: runner._SelfTestRun) -> list[runner.BoardRow]:
        if next(turns):
            lease_ends(owner_engine)
            work()
            lease_ends(owner_engine, state="running", ended_at=None)
        return run(self)

    monkeypatch.setattr(runner._SelfTestRun, "run", slow)
    work()
    with Session(owner_engine) as session:
        found = session.get_one(SelfTest, test_id)
        assert (found.state, found.attempts, found.ended_at) == ("running", 2, None)
