"""Rollouts of templates: in stages, stopped on a regression, and reverted."""

from itertools import combinations
from math import comb
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, insert, select

from nac.inventory.groups import ENDPOINT_GROUPS, USER_GROUPS, Groups
from nac.kit.db import MspScope, PlatformScope, TenantScope, session_scope
from nac.kit.errors import Conflict, InUse, InvalidInput, ScopeViolation
from nac.models import Rollout, RolloutTenant, Template, TemplateTenant, TemplateVersion
from nac.onboarding.templates import rollouts, service
from nac.onboarding.templates.reject_rates import DeviceCounts, compute_p_value, has_share_moved
from nac.onboarding.templates.rollouts import RolloutStage
from nac.policies import service as policies
from nac.policies import site_settings
from nac.tenancy import msps, sites
from nac.tenancy.tenants import service as tenants
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.postgres import Database
from tests.templates.conftest import SLUGS, Field, document, policy


def test_each_stage_waits_for_the_previous_one(field: Field) -> None:
    number = field.save(document(10))
    rollout_id = field.roll_out(
        number, RolloutStage(30, tenants=["t2"]), RolloutStage(10, share=50), RolloutStage(1, share=100)
    )
    field.work()
    assert [slug for slug, state in field.states(rollout_id).items() if state == "applied"] == ["t2"]
    field.work(after=29)
    assert list(field.states(rollout_id).values()).count("applied") == 1
    field.work(after=2)
    assert list(field.states(rollout_id).values()).count("applied") == 2
    field.work(after=11)
    assert set(field.states(rollout_id).values()) == {"applied"}
    assert field.state(rollout_id) == "running"
    field.work(after=2)
    assert field.state(rollout_id) == "done"
    assert [field.has(slug) for slug in SLUGS] == [{"10"}] * 4
    with field.tenant("t0") as (session, tenant_id):
        site = sites.require_by_slug(session, tenant_id=tenant_id, slug="main")
        assert (site.time_zone, site.policy_id is not None) == ("Europe/Berlin", True)
    with pytest.raises(Conflict, match="already have version"):
        field.roll_out(number)


@pytest.mark.parametrize(
    ("before", "since", "moved"),
    [
        ((2, 38), (30, 10), True),
        # A change that accepts every device is equally dangerous.
        ((30, 10), (2, 38), True),
        ((2, 38), (3, 37), False),
        # Too few devices to prove a regression, for any result.
        ((0, 2), (2, 0), False),
        ((2, 38), (0, 0), False),
    ],
)
def test_rollout_stops_when_the_rejection_rate_changes(
    field: Field, before: tuple[int, int], since: tuple[int, int], moved: bool
) -> None:
    number = field.save(document(10))
    field.hear("t2", rejected=before[0], permitted=before[1], seconds_ago=60)
    field.hear("t1", rejected=1, permitted=9, seconds_ago=60)
    rollout_id = field.roll_out(number, RolloutStage(30, tenants=["t1", "t2"]), RolloutStage(1, share=100))
    field.work()
    field.pass_minutes(10)
    field.hear("t2", rejected=since[0], permitted=since[1])
    field.hear("t1", rejected=1, permitted=9)
    field.work()
    found, rows = field.rollout(rollout_id)
    assert (rows["t2"].rejected_since, rows["t2"].devices_since) == (since[0], sum(since))
    assert found.state == ("stopped" if moved else "running")
    assert ("'t2'" in found.detail) == moved
    field.work(after=30)
    assert field.has("t0") == (set() if moved else {"10"})


def test_stopped_rollout_is_resumed_or_reverted(field: Field) -> None:
    first = field.save(document(10))
    field.roll_out_fully(first)
    second = field.save(document(20, settings={"silent_days": 9}))
    rollout_id = field.roll_out(second, RolloutStage(5, tenants=["t0", "t1"]), RolloutStage(5, share=100))
    field.work()
    field.stop(rollout_id)
    field.work(after=60)
    assert [field.has(slug) for slug in SLUGS] == [{"20"}, {"20"}, {"10"}, {"10"}]
    field.go_on(rollout_id)
    for _ in range(3):
        field.work()
        field.pass_minutes(6)
    assert field.state(rollout_id) == "done"
    assert field.has("t3") == {"20"}
    # A user changes a part meanwhile, and this change remains.
    with field.tenant("t1") as (session, tenant_id):
        given = {"actor": ACTOR, "tenant_id": tenant_id, "slug": "office"}
        policies.save_draft(session, **given, document=policy(77))
        policies.publish_policy(session, **given)
    field.roll_back(rollout_id)
    assert field.state(rollout_id) == "rolled-back"
    assert [field.has(slug) for slug in SLUGS] == [{"10"}, {"77"}, {"10"}, {"10"}]
    found = [(each.row.version, [one.part for one in each.drift]) for each in field.followers()]
    assert found == [(first, []), (first, ["policy:office"]), (first, []), (first, [])]


def test_incompatible_tenant_stops_the_rollout_unchanged(field: Field) -> None:
    """Examples are a tenant's own review, or NASes that do not support the policy. Here the group is missing."""
    number = field.save(document(10, endpoint_groups=["others"]))
    rollout_id = field.roll_out(number)
    field.work()
    found, rows = field.rollout(rollout_id)
    assert found.state == "stopped"
    assert "policy:office" in found.detail
    assert sorted(row.state for row in rows.values()) == ["failed", "waiting", "waiting", "waiting"]
    failed = next(slug for slug, row in rows.items() if row.state == "failed")
    with field.tenant(failed) as (session, tenant_id):
        assert sites.require_by_slug(session, tenant_id=tenant_id, slug="main").time_zone == "UTC"


def test_overrides_are_kept_and_are_no_drift(field: Field) -> None:
    field.follow("school", "t1", overrides=["policy:office", "settings.silent_days"])
    field.follow("school", "t2", overrides=["site:main"])
    field.roll_out(field.save(document(10, sites=[{"slug": "main", "time_zone": "Europe/Berlin"}])))
    field.work()
    assert [field.has(slug) for slug in SLUGS] == [{"10"}, set(), {"10"}, {"10"}]
    with field.tenant("t2") as (session, tenant_id):
        assert sites.require_by_slug(session, tenant_id=tenant_id, slug="main").time_zone == "UTC"
    assert [each.drift for each in field.followers()] == [[]] * 4


def test_template_group_cannot_be_renamed_in_a_tenant(field: Field) -> None:
    field.roll_out(field.save(document(10, endpoint_groups=["printers", "spare", "own"], user_groups=["staff"])))
    field.work()
    field.follow("school", "t0", overrides=["group:endpoint/own"])

    def rename(slug: str, groups: Groups[Any], name: str) -> None:
        with field.tenant(slug) as (session, tenant_id):
            groups.rename(session, actor=ACTOR, tenant_id=tenant_id, name=name, new_name=f"{name}-2")

    for groups, name in ((ENDPOINT_GROUPS, "spare"), (USER_GROUPS, "staff")):
        with pytest.raises(InUse, match="template"):
            rename("t0", groups, name)
    rename("t0", ENDPOINT_GROUPS, "own")
    with pytest.raises(InUse, match="template"):
        rename("t1", ENDPOINT_GROUPS, "own")
    field.call(service.release_follower, slug="school", tenant="t1")
    rename("t1", ENDPOINT_GROUPS, "own")
    # A saved version that was not rolled out applies to no tenant.
    field.save(document(10, endpoint_groups=["printers", "own-2"]))
    with field.tenant("t0") as (session, tenant_id):
        ENDPOINT_GROUPS.rename(session, actor=ACTOR, tenant_id=tenant_id, name="own-2", new_name="other")


def test_drift_shows_changed_values_and_no_display_names(field: Field) -> None:
    """Drift compares slugs, which never change."""
    field.roll_out(field.save(document(10, sites=[{"slug": "main", "name": "Main", "time_zone": "Europe/Berlin"}])))
    field.work()
    with field.tenant("t3") as (session, tenant_id):
        tenants.rename_tenant(session, actor=ACTOR, tenant_id=tenant_id, name="Renamed")
        site_settings.update_site(session, actor=ACTOR, tenant_id=tenant_id, slug="main", time_zone="UTC")
    drifted = service.DriftedPart("site:main.time_zone", "Europe/Berlin", "UTC")
    assert [each.drift for each in field.followers()] == [[], [], [], [drifted]]


@pytest.mark.parametrize(
    ("stages", "place"),
    [
        ([], "stages"),
        ([RolloutStage(0, share=10)], "stages[0].minutes"),
        ([RolloutStage(1)], "stages[0]"),
        ([RolloutStage(1, tenants=["t0"], share=5)], "stages[0]"),
        ([RolloutStage(1, share=100), RolloutStage(1, tenants=["nobody"])], "stages[1].tenants"),
        ([RolloutStage(1, share=101)], "stages[0].share"),
    ],
)
def test_invalid_plans_are_rejected(field: Field, stages: list[RolloutStage], place: str) -> None:
    number = field.save(document(10))
    with pytest.raises(InvalidInput) as refused:
        field.start(rollouts.start_rollout, slug="school", number=number, stages=stages, most_moved=0.1)
    assert refused.value.place == place


def test_msp_sees_and_changes_only_its_own_templates(
    field: Field, app_engine: Engine, database: Database, platform: Platform
) -> None:
    tables = (Template, TemplateVersion, TemplateTenant, Rollout, RolloutTenant)
    field.roll_out(field.save(document()))
    with session_scope(PlatformScope(), engine=app_engine) as session:
        other = msps.create_msp(session, actor=ACTOR, slug="bolt").id
    foreign = make_tenant(app_engine, Platform(other, platform.cell_id), "foreign").id
    with field.msp() as session:
        assert all(session.scalars(select(table)).all() for table in tables)
        (template,) = session.scalars(select(Template)).all()
    for scope in (MspScope(other), TenantScope(field.tenants["t0"]), TenantScope(foreign), PlatformScope()):
        with session_scope(scope, engine=app_engine) as session:
            assert [session.scalars(select(table)).all() for table in tables] == [[]] * len(tables), scope
    mine = {"msp_id": field.msp_id, "template_id": template.id}
    for scope, row in (
        (MspScope(other), {**mine, "tenant_id": foreign}),
        (MspScope(field.msp_id), {**mine, "tenant_id": foreign}),
    ):
        denied = pytest.raises(ScopeViolation, match="row-level security")
        with denied, session_scope(scope, engine=app_engine) as session:
            session.execute(insert(TemplateTenant).values(row))
    with pytest.raises(ScopeViolation), session_scope(MspScope(other), engine=app_engine) as session:
        session.execute(insert(Template).values(id=uuid4(), msp_id=field.msp_id, slug="x", name="x"))
    for url in (database.cell_url, database.worker_url):
        for table in tables:
            with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SELECT FROM {table.__tablename__}")


def count_probability(before: DeviceCounts, since: DeviceCounts) -> float:
    """The sum over all arrangements of rejected devices that are at most as likely as the observed arrangement."""
    everyone = before.all + since.all
    rejected = before.rejected + since.rejected
    ways: dict[int, int] = {}
    for chosen in combinations(range(everyone), rejected):
        k = sum(each < since.all for each in chosen)
        ways[k] = ways.get(k, 0) + 1
    seen = ways[since.rejected]
    return sum(count for count in ways.values() if count <= seen) / comb(everyone, rejected)


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))
def test_probability_matches_counting(a: int, b: int, c: int, d: int) -> None:
    before, since = DeviceCounts(a, a + b), DeviceCounts(c, c + d)
    assert compute_p_value(before, since) == pytest.approx(count_probability(before, since))


@pytest.mark.parametrize(
    ("before", "since", "moved"),
    [
        ((5, 100), (25, 100), True),
        ((5, 100), (9, 100), False),
        ((0, 20), (5, 5), True),
        ((0, 3), (3, 3), False),
        ((0, 0), (50, 50), False),
        # A significant change, but too small to matter.
        ((1000, 100_000), (3000, 100_000), False),
        ((1000, 100_000), (8000, 100_000), True),
    ],
)
def test_change_needs_both_size_and_significance(before: tuple[int, int], since: tuple[int, int], moved: bool) -> None:
    assert has_share_moved(DeviceCounts(*before), DeviceCounts(*since), most=0.05) == moved
