"""The lifecycle of a trial: reminders, limits, end, deletion and conversion to a paid tenant."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.inventory.endpoints import service as endpoints
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, enter_tenant, make_engine, session_scope
from nac.kit.errors import Conflict
from nac.kit.ids import TenantId
from nac.models import AuditEntry, AuthLog, SignUp, Tenant, Trial
from nac.onboarding.imports import endpoint_file as endpoint_files
from nac.onboarding.tenant_purge import purge_due
from nac.onboarding.trials import lifecycle, service
from nac.onboarding.trials.lifecycle import TrialEnvironment
from nac.tenancy import msps
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import service as tenants
from nac.tenancy.trial_limits import TrialLimitReached
from tests.api.v1.conftest import make_token
from tests.commit_kills import AFTER, BEFORE, killed_at_commit
from tests.factories.certificates import SEALER
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR

__all__ = ["make_token"]
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Kept:
    """The tenant of a trial, which the worker processes."""

    tenant_id: TenantId
    keeper: TrialEnvironment
    app_engine: Engine
    worker_engine: Engine
    owner_engine: Engine

    def process(self, now: datetime | None = None) -> None:
        lifecycle.process_trials(self.keeper, now=now or utc_now(), engine=self.worker_engine)

    def platform(self) -> AbstractContextManager[Session]:
        return session_scope(PlatformScope(), engine=self.app_engine)

    def tenant(self) -> AbstractContextManager[Session]:
        return session_scope(TenantScope(self.tenant_id), engine=self.app_engine)

    def trial(self) -> Trial:
        with self.platform() as session:
            return service.require_trial(session, tenant_id=self.tenant_id)

    def status(self) -> str:
        with self.platform() as session:
            return tenants.require_tenant(session, tenant_id=self.tenant_id).status

    def add_device(self, number: int) -> None:
        with self.tenant() as session:
            given = {"actor": ACTOR, "tenant_id": self.tenant_id, "mac": f"00005e00530{number}"}
            endpoints.create_endpoint(session, **given)

    def log(self, number: int, nas: str = "") -> None:
        """Add authentications to the log."""
        with session_scope(PlatformScope(), engine=self.owner_engine) as session:
            for _ in range(number):
                make_row(session, AuthLog.__table__, self.tenant_id, at=utc_now(), nas_identifier=nas)


@pytest.fixture
def kept(trial: str, keeper: TrialEnvironment, app_engine: Engine, worker_engine: Engine, owner_engine: Engine) -> Kept:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenant_id = tenants.require_by_slug(session, slug=trial).id
    return Kept(tenant_id, keeper, app_engine, worker_engine, owner_engine)


def test_trial_is_reminded_ended_and_deleted(kept, mails, worker_engine, tmp_path):
    ends_at = kept.trial().ends_at
    told = len(mails.all())
    for days, reminders in (
        (14, []),
        (7, [7]),
        (6.9, [7]),
        (3, [7, 3]),
        (2, [7, 3]),
        (0.5, [7, 3, 1]),
        (0.4, [7, 3, 1]),
        (0, [7, 3, 1, None]),
        (-1, [7, 3, 1, None]),
    ):
        kept.process(ends_at - days * _DAY)
        assert [values.get("days") for _, _, values in mails.all()[told:]] == reminders, days
    assert mails.templates()[-1] == "trial-ended"
    assert kept.status() == "suspended"
    over = ends_at + 14 * _DAY
    kept.process(over)
    kept.process(over + _DAY)
    with kept.platform() as session:
        row = tenants.require_tenant(session, tenant_id=kept.tenant_id)
        assert (row.status, row.purge_at) == ("deleting", over)
        with pytest.raises(Conflict, match="being deleted"):
            lifecycle.extend_trial(session, actor=ACTOR, tenant_id=kept.tenant_id, days=30)
        row.purge_at = utc_now()
        enter_tenant(session, kept.tenant_id)
        slot = cells.require_slot(session, tenant_id=kept.tenant_id)
        slot.secret_sealed = SEALER.seal(b"a-radius-secret-of-the-slot", cells.slot_secret_context(slot))
        session.flush()
    assert purge_due(folder=tmp_path / "files", sealer=SEALER, now=utc_now(), engine=worker_engine)
    assert [path.suffix for path in sorted((tmp_path / "files").iterdir())] == [".key", ".zip"]
    with kept.platform() as session:
        assert session.scalars(select(Tenant)).all() == session.scalars(select(Trial)).all() == []


def test_missed_reminders_are_sent_as_one_mail(kept, mails):
    """The worker was down for a week."""
    kept.process(kept.trial().ends_at - timedelta(hours=5))
    assert [values.get("days") for _, _, values in mails.all()][-1] == 1
    assert mails.templates().count("trial-ending") == 1


def test_devices_beyond_the_trial_limit_are_rejected(kept):
    given = {"actor": ACTOR, "tenant_id": kept.tenant_id}
    for number in (1, 2):
        kept.add_device(number)
    with pytest.raises(TrialLimitReached):
        kept.add_device(3)
    with pytest.raises(TrialLimitReached), kept.tenant() as session:
        endpoint_files.import_endpoints(session, **given, text='{"mac": "00:00:5e:00:53:09"}\n')
    with kept.tenant() as session:
        endpoints.delete_endpoint(session, **given, mac="00005e005302")
    kept.add_device(3)


def test_too_many_authentications_warn_then_suspend(kept, mails):
    kept.log(3)
    kept.log(5, nas="admit-self-test")
    kept.process()
    assert "trial-limit" not in mails.templates()
    kept.log(1)
    now = utc_now()
    for hours in (0, 1, 23):
        kept.process(now + timedelta(hours=hours))
    assert mails.templates().count("trial-limit") == 1
    assert kept.status() == "active"
    # The day of the count has moved, as if the traffic had continued.
    with kept.platform() as session:
        service.require_trial(session, tenant_id=kept.tenant_id).over_since = now - _DAY
    kept.process(now)
    assert mails.templates()[-1] == "trial-suspended"
    assert kept.status() == "suspended"


def test_quiet_day_ends_the_warning(kept):
    kept.log(4)
    kept.process()
    assert kept.trial().over_since is not None
    kept.process(utc_now() + 2 * _DAY)
    assert kept.trial().over_since is None


def test_converted_trial_has_no_end_or_limits(kept, mails):
    ends_at = kept.trial().ends_at
    kept.process(ends_at)
    with kept.platform() as session:
        msp_id = msps.create_msp(session, actor=ACTOR, slug="bolt").id
        lifecycle.convert_trial(session, kept.keeper.context, actor=ACTOR, tenant_id=kept.tenant_id, msp="bolt")
        tenant = tenants.require_tenant(session, tenant_id=kept.tenant_id)
        assert (tenant.status, tenant.msp_id) == ("active", msp_id)
    kept.process(ends_at + 100 * _DAY)
    assert kept.status() == "active"
    assert mails.templates()[-1] == "trial-converted"
    for number in range(4):
        kept.add_device(number)


def test_trial_shows_the_slug_of_its_tenant(trial, kept, api, make_token):
    headers, path = {"Authorization": f"Bearer {make_token(Owner())}"}, f"/v1/trials/{kept.tenant_id}"
    (listed,) = api.get("/v1/trials", headers=headers).json()["items"]
    shown = api.get(path, headers=headers)
    assert shown.json() == listed
    assert (listed["tenant_id"], listed["tenant"]) == (str(kept.tenant_id), trial)
    match = headers | {"If-Match": shown.headers["etag"]}
    extended = api.post(f"{path}/extend", json={"days": 3}, headers=match)
    assert (extended.status_code, extended.json()["tenant"]) == (200, trial)
    late = api.post(f"{path}/extend", json={"days": 3}, headers=match)
    assert (late.status_code, late.json()["code"]) == (412, "has-changed")
    match["If-Match"] = extended.headers["etag"]
    # A conversion needs no request body.
    assert api.post(f"{path}/convert", headers=match).json()["state"] == "converted"


def test_killed_conversion_is_done_or_not(kept, mails, database, app_engine):
    """The conversion includes its mail and audit entry. A retry reports or completes it."""
    kept.process(kept.trial().ends_at)
    told = mails.templates()

    def convert(engine: Engine) -> None:
        with session_scope(PlatformScope(), engine=engine) as session:
            lifecycle.convert_trial(session, kept.keeper.context, actor=ACTOR, tenant_id=kept.tenant_id)

    done = ("converted", "active", ["trial-converted"])
    for when, (state, status, more) in ((BEFORE, ("ended", "suspended", [])), (AFTER, done)):
        assert killed_at_commit(lambda: convert(make_engine(database.app_url)), at=1, when=when)
        assert (kept.trial().state, kept.status(), mails.templates()) == (state, status, told + more)
        with kept.tenant() as session:
            audited = select(func.count()).where(AuditEntry.action == "trial.convert")
            assert session.scalar(audited) == len(more)
    with pytest.raises(Conflict, match="already converted"):
        convert(app_engine)


def test_extended_trial_continues(kept):
    ends_at = kept.trial().ends_at
    kept.process(ends_at)
    with kept.platform() as session:
        lifecycle.extend_trial(session, actor=ACTOR, tenant_id=kept.tenant_id, days=30)
    assert (kept.status(), kept.trial().ends_at) == ("active", ends_at + 30 * _DAY)
    kept.process(ends_at + 20 * _DAY)
    assert kept.status() == "active"


def test_sign_ups_are_deleted_after_a_month(kept):
    kept.process(utc_now() + timedelta(days=31))
    with kept.platform() as session:
        assert session.scalars(select(SignUp)).all() == []
