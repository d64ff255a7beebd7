"""An MSP with tenants of one template, in a cell that knows its dictionaries."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine, text, update
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.core.jobs import service as jobs
from nac.kit.clock import utc_now
from nac.kit.db import MspScope, TenantScope, session_scope
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import Permission
from nac.models import Job, Rollout, RolloutTenant
from nac.onboarding.templates import repository, rollouts, service
from nac.onboarding.templates.rollouts import RolloutStage
from tests.factories.dictionary import give_dictionary
from tests.factories.tenancy import ACTOR, Platform, make_platform, make_tenant
from tests.job_runs import run_next
from tests.row_snapshots import snapshotted

SLUGS = ("t0", "t1", "t2", "t3")


def everything(_: TenantId) -> frozenset[Permission]:
    """All parts of the template, applied at each tenant."""
    return frozenset(Permission)


def policy(vlan: int) -> dict[str, Any]:
    when = {"attribute": "endpoint.group", "operator": "equals", "value": "printers"}
    return {
        "rules": [
            {"id": "printers", "name": "Printers", "when": when, "then": {"verdict": "permit", "vlan": str(vlan)}}
        ],
        "fallback": {"verdict": "deny"},
    }


def document(vlan: int = 10, **more: Any) -> dict[str, Any]:
    return {
        "endpoint_groups": ["printers"],
        "policies": [{"slug": "office", "document": policy(vlan)}],
        "sites": [{"slug": "main", "time_zone": "Europe/Berlin", "policy": "office"}],
        "settings": {"replay_days": None, "silent_days": 5},
    } | more


@dataclass(frozen=True)
class Field:
    app: Engine
    worker: Engine
    owner: Engine
    msp_id: MspId
    tenants: dict[str, TenantId]

    @contextmanager
    def msp(self) -> Iterator[Session]:
        with session_scope(MspScope(self.msp_id), engine=self.app) as session:
            yield session

    @contextmanager
    def tenant(self, slug: str) -> Iterator[tuple[Session, TenantId]]:
        with session_scope(TenantScope(self.tenants[slug]), engine=self.app) as session:
            yield session, self.tenants[slug]

    def call(self, function: Callable[..., Any], **given: Any) -> Any:
        with self.msp() as session:
            return function(session, actor=ACTOR, msp_id=self.msp_id, **given)

    def follow(self, slug: str, tenant: str, **more: Any) -> None:
        self.call(service.follow_template, slug=slug, tenant=tenant, held=everything, **more)

    def save(self, content: object, *, slug: str = "school") -> int:
        return self.call(service.save_version, slug=slug, document=content).number

    def start(self, function: Callable[..., Any], **given: Any) -> Any:
        return self.call(function, held=everything, seal=lambda plain, _: plain, **given)

    def roll_out(self, number: int, *stages: RolloutStage, slug: str = "school", **more: Any) -> UUID:
        given = {"slug": slug, "number": number, "stages": stages or (RolloutStage(1, share=100),), "most_moved": 0.05}
        return self.start(rollouts.start_rollout, **given | more).id

    def roll_out_fully(self, number: int) -> None:
        self.roll_out(number)
        self.work()
        self.work(after=2)

    def stop(self, rollout_id: UUID) -> None:
        self.call(rollouts.stop_rollout, rollout_id=rollout_id)

    def go_on(self, rollout_id: UUID) -> None:
        self.start(rollouts.resume_rollout, rollout_id=rollout_id)

    def roll_back(self, rollout_id: UUID) -> None:
        self.start(rollouts.roll_back_rollout, rollout_id=rollout_id)
        self.work()

    def job(self, rollout_id: UUID) -> Job:
        with self.msp() as session:
            job_id = rollouts.require_rollout(session, msp_id=self.msp_id, rollout_id=rollout_id).job_id
            assert job_id is not None
            return jobs.require_job(session, owner=Owner(self.msp_id), job_id=job_id)

    def work_once(self) -> bool:
        handlers = {rollouts.JOB_KIND: rollouts.ROLLOUT_HANDLER}
        return run_next(handlers, unseal=lambda sealed, _: sealed, app_engine=self.app, engine=self.worker)

    def work(self, *, after: int | None = None) -> None:
        """Run all due work, after this number of minutes."""
        if after is not None:
            self.pass_minutes(after)
        while self.work_once():
            pass

    def pass_minutes(self, minutes: int) -> None:
        """Move recorded times into the past."""
        past = timedelta(minutes=minutes)
        with self.owner.begin() as connection:
            connection.execute(update(Job).values(due_at=utc_now()))
            connection.execute(update(Rollout).values(stage_applied_at=Rollout.stage_applied_at - past))
            connection.execute(update(RolloutTenant).values(applied_at=RolloutTenant.applied_at - past))
            connection.execute(text("UPDATE auth_log SET at = at - make_interval(mins => :m)"), {"m": minutes})

    def hear(self, slug: str, *, rejected: int, permitted: int, seconds_ago: float = 1, **more: Any) -> None:
        """Log authentications of devices that try three times each."""
        given = {"tenant": self.tenants[slug], "rejected": rejected, "all": rejected + permitted, "ago": seconds_ago}
        with self.owner.begin() as connection:
            connection.execute(
                text(
                    "INSERT INTO auth_log (at, tenant_id, cell_id, method, permitted, reason, mac, nas_identifier)"
                    " SELECT now() - make_interval(secs => :ago), :tenant, :cell_id, 'mab', d > :rejected, :reason,"
                    " ('0200000000' || lpad(to_hex(d), 2, '0'))::macaddr, :nas"
                    " FROM generate_series(1, :all) d, generate_series(1, 3)"
                ),
                {"reason": "x", "cell_id": 1, "nas": "", **given, **more},
            )

    def rollout(self, rollout_id: UUID) -> tuple[Rollout, dict[str, RolloutTenant]]:
        with self.msp() as session:
            found = rollouts.require_rollout(session, msp_id=self.msp_id, rollout_id=rollout_id)
            return found, {tenant.slug: row for row, tenant in repository.list_rollout_tenants(session, found)}

    def state(self, rollout_id: UUID) -> str:
        return self.rollout(rollout_id)[0].state

    def followers(self) -> list[Any]:
        """The tenants of the template, in order, with their drift."""
        with self.msp() as session:
            template = service.require_template(session, msp_id=self.msp_id, slug="school")
            return list(service.list_followers(session, template=template, with_drift=True))

    def states(self, rollout_id: UUID) -> dict[str, str]:
        return {slug: row.state for slug, row in self.rollout(rollout_id)[1].items()}

    def has(self, slug: str) -> set[str]:
        """The VLANs of the current policy."""
        with self.owner.connect() as connection:
            found = connection.scalars(
                text(
                    "SELECT v.document #>> '{rules,0,then,vlan}' FROM policies p JOIN policy_versions v"
                    " ON v.policy_id = p.id AND v.number = p.published_version WHERE p.tenant_id = :tenant"
                ),
                {"tenant": self.tenants[slug]},
            )
            return set(found)


@pytest.fixture
@snapshotted
def platform(app_engine: Engine, cell_engine: Engine) -> Platform:
    platform = make_platform(app_engine, cell_engine, slots=6)
    give_dictionary(cell_engine, platform.cell_id)
    return platform


@pytest.fixture
@snapshotted
def field(app_engine: Engine, worker_engine: Engine, owner_engine: Engine, platform: Platform) -> Field:
    tenants = {slug: TenantId(make_tenant(app_engine, platform, slug).id) for slug in SLUGS}
    field = Field(app_engine, worker_engine, owner_engine, MspId(platform.msp_id), tenants)
    field.call(service.create_template, slug="school")
    for slug in SLUGS:
        field.follow("school", slug)
    return field
