"""The lifecycle of a trial: reminders, limits, end, deletion and conversion to a paid tenant."""

from datetime import datetime, timedelta

import httpx
import pytest
from sqlalchemy import Engine, func, select

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
from tests.api.v1.conftest import MakeToken, make_token
from tests.commit_kills import AFTER, BEFORE, killed_at_commit
from tests.factories.certificates import SEALER
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR
from tests.trials.conftest import Mails

__all__ = ["make_token"]
_DAY = timedelta(days=1)
_CONVERTED = ["trial-converted"]


@pytest.fixture
def tenant_id(trial: str, app_engine: Engine) -> TenantId:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        return tenants.require_by_slug(session, slug=trial).id


def _ends_at(tenant_id: TenantId, engine: Engine) -> datetime:
    with session_scope(PlatformScope(), engine=engine) as session:
        return service.require_trial(session, tenant_id=tenant_id).ends_at


def _status(tenant_id: TenantId, engine: Engine) -> str:
    with session_scope(PlatformScope(), engine=engine) as session:
        return tenants.require_tenant(session, tenant_id=tenant_id).status


def _add(engine: Engine, tenant_id: TenantId, number: int) -> None:
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        endpoints.create_endpoint(session, actor=ACTOR, tenant_id=tenant_id, mac=f"00005e00530{number}")


def test_trial_is_reminded_ended_and_deleted(tenant_id, keeper, mails, app_engine, worker_engine, tmp_path):
    ends_at = _ends_at(tenant_id, app_engine)
    told = len(mails.all())
    seen = []
    for days in (14, 7, 6.9, 3, 2, 0.5, 0.4, 0, -1):
        lifecycle.process_trials(keeper, now=ends_at - days * _DAY, engine=worker_engine)
        seen.append((days, [values.get("days") for _, _, values in mails.all()[told:]]))
    assert seen == [
        (14, []),
        (7, [7]),
        (6.9, [7]),
        (3, [7, 3]),
        (2, [7, 3]),
        (0.5, [7, 3, 1]),
        (0.4, [7, 3, 1]),
        (0, [7, 3, 1, None]),
        (-1, [7, 3, 1, None]),
    ]
    assert mails.templates()[-1] == "trial-ended"
    assert _status(tenant_id, app_engine) == "suspended"
    over = ends_at + 14 * _DAY
    lifecycle.process_trials(keeper, now=over, engine=worker_engine)
    lifecycle.process_trials(keeper, now=over + _DAY, engine=worker_engine)
    with session_scope(PlatformScope(), engine=app_engine) as session:
        row = tenants.require_tenant(session, tenant_id=tenant_id)
        assert (row.status, row.purge_at) == ("deleting", over)
        row.purge_at = utc_now()
        enter_tenant(session, tenant_id)
        slot = cells.require_slot(session, tenant_id=tenant_id)
        slot.secret_sealed = SEALER.seal(b"a-radius-secret-of-the-slot", cells.slot_secret_context(slot))
        session.flush()
    assert purge_due(folder=tmp_path / "files", sealer=SEALER, now=utc_now(), engine=worker_engine)
    assert [path.suffix for path in sorted((tmp_path / "files").iterdir())] == [".key", ".zip"]
    with session_scope(PlatformScope(), engine=app_engine) as session:
        assert session.scalars(select(Tenant)).all() == []
        assert session.scalars(select(Trial)).all() == []


def test_missed_reminders_are_sent_as_one_mail(
    tenant_id: TenantId, keeper: TrialEnvironment, mails: Mails, app_engine: Engine, worker_engine: Engine
):
    """The worker was down for a week."""
    lifecycle.process_trials(keeper, now=_ends_at(tenant_id, app_engine) - timedelta(hours=5), engine=worker_engine)
    assert [values.get("days") for _, _, values in mails.all()][-1] == 1
    assert mails.templates().count("trial-ending") == 1


def test_devices_beyond_the_trial_limit_are_rejected(tenant_id: TenantId, app_engine: Engine):
    for number in (1, 2):
        _add(app_engine, tenant_id, number)
    with pytest.raises(TrialLimitReached):
        _add(app_engine, tenant_id, 3)
    lines = '{"mac": "00:00:5e:00:53:09"}\n'
    with pytest.raises(TrialLimitReached), session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        endpoint_files.import_endpoints(session, actor=ACTOR, tenant_id=tenant_id, text=lines)
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        endpoints.delete_endpoint(session, actor=ACTOR, tenant_id=tenant_id, mac="00005e005302")
    _add(app_engine, tenant_id, 3)


def _log(engine: Engine, owner: Engine, tenant_id: TenantId, number: int, nas: str = "") -> None:
    with session_scope(PlatformScope(), engine=owner) as session:
        for _ in range(number):
            make_row(session, AuthLog.__table__, tenant_id, at=utc_now(), nas_identifier=nas)


def test_too_many_authentications_warn_then_suspend(tenant_id, keeper, mails, app_engine, worker_engine, owner_engine):
    _log(app_engine, owner_engine, tenant_id, 3)
    _log(app_engine, owner_engine, tenant_id, 5, nas="admit-self-test")
    lifecycle.process_trials(keeper, engine=worker_engine)
    assert "trial-limit" not in mails.templates()
    _log(app_engine, owner_engine, tenant_id, 1)
    now = utc_now()
    for hours in (0, 1, 23):
        lifecycle.process_trials(keeper, now=now + timedelta(hours=hours), engine=worker_engine)
    assert mails.templates().count("trial-limit") == 1
    assert _status(tenant_id, app_engine) == "active"
    # The day of the count has moved, as if the traffic had continued.
    with session_scope(PlatformScope(), engine=app_engine) as session:
        service.require_trial(session, tenant_id=tenant_id).over_since = now - _DAY
    lifecycle.process_trials(keeper, now=now, engine=worker_engine)
    assert mails.templates()[-1] == "trial-suspended"
    assert _status(tenant_id, app_engine) == "suspended"


def test_quiet_day_ends_the_warning(
    tenant_id: TenantId, keeper: TrialEnvironment, app_engine: Engine, worker_engine: Engine, owner_engine: Engine
):
    _log(app_engine, owner_engine, tenant_id, 4)
    lifecycle.process_trials(keeper, engine=worker_engine)
    lifecycle.process_trials(keeper, now=utc_now() + 2 * _DAY, engine=worker_engine)
    with session_scope(PlatformScope(), engine=app_engine) as session:
        assert service.require_trial(session, tenant_id=tenant_id).over_since is None


def test_converted_trial_has_no_end_or_limits(tenant_id, keeper, mails, app_engine, worker_engine, tmp_path):
    ends_at = _ends_at(tenant_id, app_engine)
    lifecycle.process_trials(keeper, now=ends_at, engine=worker_engine)
    with session_scope(PlatformScope(), engine=app_engine) as session:
        msp_id = msps.create_msp(session, actor=ACTOR, slug="bolt").id
        lifecycle.convert_trial(session, keeper.context, actor=ACTOR, tenant_id=tenant_id, msp="bolt")
        tenant = tenants.require_tenant(session, tenant_id=tenant_id)
        assert (tenant.status, tenant.msp_id) == ("active", msp_id)
    lifecycle.process_trials(keeper, now=ends_at + 100 * _DAY, engine=worker_engine)
    assert _status(tenant_id, app_engine) == "active"
    assert mails.templates()[-1] == "trial-converted"
    for number in range(4):
        _add(app_engine, tenant_id, number)


def test_trial_shows_the_slug_of_its_tenant(trial: str, tenant_id: TenantId, api: httpx.Client, make_token: MakeToken):
    headers = {"Authorization": f"Bearer {make_token(Owner())}"}
    (listed,) = api.get("/v1/trials", headers=headers).json()["items"]
    shown = api.get(f"/v1/trials/{tenant_id}", headers=headers)
    assert shown.json() == listed
    assert (listed["tenant_id"], listed["tenant"]) == (str(tenant_id), trial)
    match = headers | {"If-Match": shown.headers["etag"]}
    extended = api.post(f"/v1/trials/{tenant_id}/extend", json={"days": 3}, headers=match)
    assert (extended.status_code, extended.json()["tenant"]) == (200, trial)
    late = api.post(f"/v1/trials/{tenant_id}/extend", json={"days": 3}, headers=match)
    assert (late.status_code, late.json()["code"]) == (412, "has-changed")
    match["If-Match"] = extended.headers["etag"]
    # A conversion needs no request body.
    assert api.post(f"/v1/trials/{tenant_id}/convert", headers=match).json()["state"] == "converted"


def test_killed_conversion_is_done_or_not(tenant_id, keeper, mails, database, app_engine, worker_engine):
    """The conversion includes its mail and audit entry. A retry reports or completes it."""
    lifecycle.process_trials(keeper, now=_ends_at(tenant_id, app_engine), engine=worker_engine)
    told = mails.templates()

    def convert(engine: Engine) -> None:
        with session_scope(PlatformScope(), engine=engine) as session:
            lifecycle.convert_trial(session, keeper.context, actor=ACTOR, tenant_id=tenant_id)

    for when, state, status, more in ((BEFORE, "ended", "suspended", []), (AFTER, "converted", "active", _CONVERTED)):
        assert killed_at_commit(lambda: convert(make_engine(database.app_url)), at=1, when=when)
        with session_scope(PlatformScope(), engine=app_engine) as session:
            assert service.require_trial(session, tenant_id=tenant_id).state == state
            enter_tenant(session, tenant_id)
            audited = select(func.count()).where(AuditEntry.action == "trial.convert")
            assert session.scalar(audited) == len(more)
        assert (_status(tenant_id, app_engine), mails.templates()) == (status, told + more)
    with pytest.raises(Conflict, match="already converted"):
        convert(app_engine)


def test_extended_trial_continues(tenant_id, keeper, mails, app_engine, worker_engine, tmp_path):
    ends_at = _ends_at(tenant_id, app_engine)
    lifecycle.process_trials(keeper, now=ends_at, engine=worker_engine)
    with session_scope(PlatformScope(), engine=app_engine) as session:
        lifecycle.extend_trial(session, actor=ACTOR, tenant_id=tenant_id, days=30)
    assert _status(tenant_id, app_engine) == "active"
    assert _ends_at(tenant_id, app_engine) == ends_at + 30 * _DAY
    lifecycle.process_trials(keeper, now=ends_at + 20 * _DAY, engine=worker_engine)
    assert _status(tenant_id, app_engine) == "active"


def test_sign_ups_are_deleted_after_a_month(
    trial: str, keeper: TrialEnvironment, app_engine: Engine, worker_engine: Engine
):
    lifecycle.process_trials(keeper, now=utc_now() + timedelta(days=31), engine=worker_engine)
    with session_scope(PlatformScope(), engine=app_engine) as session:
        assert session.scalars(select(SignUp)).all() == []
