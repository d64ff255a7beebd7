"""Rollouts that are interrupted: by their job, by a tenant, or by another rollout."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import text, update
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.core.jobs import service as jobs
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, make_engine, session_scope
from nac.kit.errors import Conflict, InvalidInput
from nac.models import Cell, Slot
from nac.onboarding import tenant_purge
from nac.onboarding.templates import rollouts, service
from nac.onboarding.templates.rollouts import RolloutStage
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import moves
from nac.tenancy.tenants import service as tenants
from tests.commit_kills import deaths
from tests.factories.certificates import SIGNING
from tests.factories.tenancy import ACTOR, make_cell
from tests.postgres import Database
from tests.templates.conftest import SLUGS, Field, document

_STAGES = (RolloutStage(5, tenants=["t0"]), RolloutStage(5, tenants=["t1", "t2"]), RolloutStage(1, share=100))


def begin(field: Field) -> UUID:
    """Start a rollout that has updated its first tenant, t0."""
    rollout_id = field.roll_out(field.save(document(10)), *_STAGES)
    field.work()
    return rollout_id


def cancel_job(field: Field, rollout_id) -> None:
    with field.msp() as session:
        jobs.cancel_job(session, actor=ACTOR, owner=Owner(field.msp_id), job_id=field.job(rollout_id).id)


def break_once(monkeypatch: pytest.MonkeyPatch, act: Callable[[str], None]) -> None:
    """Call `act` with the tenant's slug once, before the rollout changes a tenant."""
    put = rollouts.apply_parts

    def put_parts(session, **given):
        act(tenants.require_tenant(session, tenant_id=given["tenant_id"]).slug)
        return put(session, **given)

    monkeypatch.setattr(rollouts, "apply_parts", put_parts)


def finish(field: Field, rollout_id) -> None:
    field.work()
    for _ in range(4):
        field.work(after=6)
    assert field.state(rollout_id) == "done"


def test_cancelled_job_pauses_the_rollout_until_resumed(field: Field) -> None:
    number = field.save(document(10))
    rollout_id = field.roll_out(number, *_STAGES)
    with pytest.raises(Conflict):
        field.roll_out(number)
    field.work()
    cancel_job(field, rollout_id)
    found, rows = field.rollout(rollout_id)
    assert (found.state, found.detail) == ("stopped", "Its job was cancelled.")
    assert [row.state for row in rows.values()] == ["applied", "waiting", "waiting", "waiting"]
    field.go_on(rollout_id)
    finish(field, rollout_id)
    assert set(field.states(rollout_id).values()) == {"applied"}


def test_cancel_during_a_tenant_ends_after_that_tenant(field: Field, monkeypatch) -> None:
    """The current tenant gets all changes or none, and the next tenant gets none."""
    stages = RolloutStage(5, tenants=["t0", "t1", "t2"]), RolloutStage(1, share=100)
    rollout_id = field.roll_out(field.save(document(10)), *stages)
    break_once(monkeypatch, lambda slug: cancel_job(field, rollout_id) if slug == "t1" else None)
    field.work()
    assert field.state(rollout_id) == "stopped"
    assert [field.has(slug) for slug in ("t0", "t1", "t2")] == [{"10"}, set(), set()]
    monkeypatch.undo()
    field.go_on(rollout_id)
    finish(field, rollout_id)


def test_failed_job_pauses_the_rollout_with_a_reason(field: Field, monkeypatch) -> None:
    rollout_id = field.roll_out(field.save(document(10)), *_STAGES)

    def fail(_: str) -> None:
        raise ZeroDivisionError

    break_once(monkeypatch, fail)
    for _ in range(4):
        assert field.state(rollout_id) == "running"
        field.work()
        field.pass_minutes(10)
    found, _ = field.rollout(rollout_id)
    assert (found.state, found.detail) == ("stopped", "Its job failed: The error is in the worker's log.")
    monkeypatch.undo()
    # A retry of the job changes nothing. The paused rollout must be resumed.
    with field.msp() as session:
        jobs.retry_job(session, actor=ACTOR, owner=Owner(field.msp_id), job_id=field.job(rollout_id).id)
    field.work()
    assert field.has("t0") == set()
    field.go_on(rollout_id)
    finish(field, rollout_id)


def test_killed_worker_applies_each_tenant_once(field: Field, database: Database) -> None:
    """The worker is killed before and after each commit. Each run still makes progress."""
    rollout_id = field.roll_out(field.save(document(10)), *_STAGES)

    def work() -> None:
        replace(field, app=make_engine(database.app_url), worker=make_engine(database.worker_url)).work()

    # With fewer kills, the fourth kill is the last, after which a job fails.
    for _ in deaths(work, is_whole=True):
        field.pass_minutes(6)
        if (stopped := field.rollout(rollout_id)[0]).state == "stopped":
            assert stopped.detail
            field.go_on(rollout_id)
    finish(field, rollout_id)
    assert set(field.states(rollout_id).values()) == {"applied"}
    with field.owner.connect() as connection:
        published = text("SELECT tenant_id, count(*) FROM audit_log WHERE action = 'policy.publish' GROUP BY tenant_id")
        assert [row.count for row in connection.execute(published)] == [1] * 4


def test_old_job_does_nothing_while_another_is_active(field: Field) -> None:
    rollout_id = begin(field)
    before = field.job(rollout_id).id
    field.stop(rollout_id)
    field.go_on(rollout_id)
    field.work(after=0)
    with field.msp() as session:
        states = {job.id: job.state for job in jobs.list_jobs(session, owner=Owner(field.msp_id))}
    assert states == {before: "done", field.job(rollout_id).id: "queued"}
    finish(field, rollout_id)


@pytest.mark.parametrize("goes_back", [True, False])
def test_deleted_and_detached_tenants_are_skipped(field: Field, goes_back: bool) -> None:
    first = RolloutStage(5, tenants=["t0", "t1", "t2"] if goes_back else ["t0"])
    rollout_id = field.roll_out(field.save(document(10)), first, RolloutStage(5, share=100))
    field.work()
    purge_at = None if goes_back else utc_now() + timedelta(days=1)
    with field.tenant("t1") as (session, tenant_id):
        tenants.delete_tenant(session, actor=ACTOR, tenant_id=tenant_id, purge_at=purge_at)
    field.call(service.release_follower, slug="school", tenant="t2")
    if goes_back:
        field.stop(rollout_id)
        field.roll_back(rollout_id)
        assert field.state(rollout_id) == "rolled-back"
    else:
        field.pass_minutes(6)
        finish(field, rollout_id)
    found = {slug: (row.state, row.detail) for slug, row in field.rollout(rollout_id)[1].items()}
    assert found["t1"] == ("left-out", "The tenant is being deleted.")
    assert found["t2"] == ("left-out", "The tenant no longer follows the template.")
    assert found["t0"][0] == ("rolled-back" if goes_back else "applied")


def test_purged_tenant_leaves_the_rollout(field: Field) -> None:
    rollout_id = begin(field)
    for slug in ("t0", "t1"):
        with session_scope(PlatformScope(), engine=field.app) as session:
            given = {"actor": ACTOR, "tenant_id": field.tenants[slug]}
            tenants.delete_tenant(session, **given)
            tenant_purge.purge_tenant(session, **given)
    field.pass_minutes(6)
    finish(field, rollout_id)
    assert field.states(rollout_id) == {"t2": "applied", "t3": "applied"}


def test_suspended_tenant_is_updated_but_not_measured(field: Field) -> None:
    """A suspended tenant rejects every device. After it is resumed, it has the version of the other tenants."""
    field.hear("t0", rejected=1, permitted=39, seconds_ago=60)
    rollout_id = begin(field)
    for slug in ("t0", "t1"):
        with field.tenant(slug) as (session, tenant_id):
            tenants.suspend_tenant(session, actor=ACTOR, tenant_id=tenant_id)
    field.pass_minutes(4)
    field.hear("t0", rejected=40, permitted=0, reason="tenant-suspended")
    field.work()
    assert field.rollout(rollout_id)[1]["t0"].devices_since == 0
    finish(field, rollout_id)
    assert field.has("t1") == {"10"}


def test_self_tests_do_not_count_as_rejections(field: Field) -> None:
    """A self-test expects many rejections, and users often start a self-test after a change."""
    field.hear("t0", rejected=0, permitted=20, seconds_ago=60)
    rollout_id = begin(field)
    field.pass_minutes(1)
    field.hear("t0", rejected=8, permitted=2, nas="admit-self-test")
    field.work()
    found, rows = field.rollout(rollout_id)
    assert (found.state, rows["t0"].devices_since) == ("running", 0)
    field.hear("t0", rejected=8, permitted=2)
    field.work(after=1)
    assert field.state(rollout_id) == "stopped"


def test_two_rollouts_of_two_templates_run_in_turns(field: Field) -> None:
    """Each rollout has its own tenants. A rollout that stops does not stop the other."""
    field.call(service.create_template, slug="shop")
    for slug in ("t2", "t3"):
        field.call(service.release_follower, slug="school", tenant=slug)
        field.follow("shop", slug)
    with pytest.raises(Conflict, match="another template"):
        field.follow("shop", "t0")
    field.save(document(30), slug="shop")
    school = field.roll_out(field.save(document(10)), RolloutStage(5, tenants=["t0"]), RolloutStage(5, share=100))
    shop = field.roll_out(1, RolloutStage(5, tenants=["t2"]), RolloutStage(5, share=100), slug="shop")
    # One rollout waits for its stage while the other runs.
    for rollout_id in (school, shop):
        assert field.work_once(), rollout_id
    assert [field.has(slug) for slug in SLUGS] == [{"10"}, set(), {"30"}, set()]
    field.stop(school)
    field.work(after=6)
    assert [field.has(slug) for slug in SLUGS] == [{"10"}, set(), {"30"}, {"30"}]


@pytest.mark.parametrize("goes_back", [True, False])
def test_regressing_rollout_reverts_automatically_if_configured(field: Field, goes_back: bool) -> None:
    field.roll_out_fully(field.save(document(10)))
    field.hear("t2", rejected=2, permitted=38, seconds_ago=60)
    stages = RolloutStage(30, tenants=["t2"]), RolloutStage(1, share=100)
    rollout_id = field.roll_out(field.save(document(20)), *stages, back_when_moved=goes_back)
    field.work()
    assert field.has("t2") == {"20"}
    field.pass_minutes(5)
    field.hear("t2", rejected=30, permitted=10)
    field.work()
    found, rows = field.rollout(rollout_id)
    assert "'t2', 30 of 40 devices were rejected after the update, compared with 2 of 40 before." in found.detail
    ended = ("rolled-back", "rolled-back", {"10"}) if goes_back else ("stopped", "applied", {"20"})
    assert (found.state, rows["t2"].state, field.has("t2")) == ended


def test_failed_revert_does_not_block_other_rollouts(field: Field, monkeypatch) -> None:
    first = field.save(document(10))
    field.roll_out_fully(first)
    rollout_id = field.roll_out(field.save(document(20)))
    field.work()
    field.stop(rollout_id)

    def refuse(slug: str) -> None:
        if slug == "t1":
            raise InvalidInput("Its NASes cannot do it.")

    break_once(monkeypatch, refuse)
    field.roll_back(rollout_id)
    found, _ = field.rollout(rollout_id)
    assert found.state == "stopped"
    assert found.detail == "Cannot roll back tenant 't1': Its NASes cannot do it."
    assert [field.has(slug) for slug in SLUGS] == [{"10"}, {"20"}, {"10"}, {"10"}]
    monkeypatch.undo()
    field.roll_back(rollout_id)
    assert field.state(rollout_id) == "rolled-back"
    assert field.has("t1") == {"10"}
    assert [each.row.version for each in field.followers()] == [first] * 4


def test_moving_tenant_is_watched_in_both_cells(field: Field, cell_engine) -> None:
    """The move is prepared when the rollout reaches the tenant, and completed while the rollout watches it.

    Rejections in the new cell count.
    """
    sealer = SIGNING.sealer
    other = make_cell(cell_engine, name="cell-2", slots=1, first_port=28_000, seal_with=sealer.seal)
    with Session(field.owner) as session, session.begin():
        slot = cells.require_slot(session, tenant_id=field.tenants["t0"])
        slot.secret_sealed = sealer.seal(b"the-secret-of-tenant-0", cells.slot_secret_context(slot))
        session.execute(update(Cell).values(agent_seen_at=utc_now()))

    def move(step, **given) -> None:
        with session_scope(PlatformScope(), engine=field.app) as session:
            step(session, actor=ACTOR, tenant_id=field.tenants["t0"], **given)

    field.hear("t0", rejected=0, permitted=40, seconds_ago=60)
    move(moves.prepare_move, cell="cell-2", sealer=sealer)
    rollout_id = begin(field)
    assert field.states(rollout_id)["t0"] == "applied"
    with Session(field.owner) as session, session.begin():
        session.execute(update(Slot).where(Slot.status == "reserved").values(status="ready"))
    move(moves.switch_move, sealer=sealer)
    field.pass_minutes(1)
    field.hear("t0", rejected=30, permitted=10, cell_id=other)
    field.work()
    found = field.rollout(rollout_id)[0]
    assert (found.state, "30 of 40 devices" in found.detail) == ("stopped", True)
    move(moves.cancel_move)
    field.roll_back(rollout_id)
    assert field.states(rollout_id)["t0"] == "rolled-back"


@pytest.mark.parametrize("moves_at_the_end", [False, True])
def test_last_stage_is_watched_to_its_end(field: Field, moves_at_the_end: bool) -> None:
    """This holds also for a stage with 100 percent. A regression in its last minute stops the rollout."""
    field.hear("t3", rejected=0, permitted=40, seconds_ago=60)
    rollout_id = field.roll_out(field.save(document(10)), RolloutStage(30, share=100))
    field.work()
    assert set(field.states(rollout_id).values()) == {"applied"}
    field.work(after=29)
    assert field.state(rollout_id) == "running"
    if moves_at_the_end:
        field.hear("t3", rejected=20, permitted=20)
    field.work(after=1)
    assert field.state(rollout_id) == ("stopped" if moves_at_the_end else "done")


def test_tenant_with_too_few_devices_is_reported(field: Field) -> None:
    """Too few devices prove nothing and stop nothing. The rollout lists these tenants."""
    field.hear("t0", rejected=0, permitted=2, seconds_ago=60)
    field.hear("t1", rejected=0, permitted=40, seconds_ago=60)
    rollout_id = field.roll_out(field.save(document(10)), RolloutStage(5, share=100))
    field.work()
    field.pass_minutes(5)
    # This time is in the middle of the baseline, which ended when the tenants were updated.
    field.hear("t0", rejected=2, permitted=0, seconds_ago=150)
    field.hear("t1", rejected=0, permitted=40, seconds_ago=150)
    field.work()
    found, rows = field.rollout(rollout_id)
    assert found.state == "done"
    assert "Too few" in found.detail
    assert {slug for slug in rows if slug in found.detail} == {"t0", "t2", "t3"}
