"""Alarms about tenants of a cell: rotations of secrets, failing re-decisions, and queued changes of devices. Also about
NASes that no longer need their exemption from Message-Authenticator.
"""

import time
from collections.abc import Callable, Collection
from datetime import timedelta
from itertools import groupby

from sqlalchemy import Engine, case, func, or_, select

from nac.kit.advice import Advice, NextStep
from nac.kit.clock import utc_now
from nac.kit.db import CellScope, session_scope
from nac.kit.ids import CellId
from nac.models import EndpointWork, Nas, NasSignature, RedecisionFailure, SecretRotation, SecretSighting, Slot, Tenant
from nac.tenancy.nases.signatures import SAFE_AFTER, is_safe_to_enforce
from radius.agent.alarms import Alarms

# Time before the end of a rotation when the alarm begins, at most half of the rotation's length.
NOTICE_PERIOD = timedelta(days=1)
_ROTATION_CODE = "secret-rotation-ends:"


def update_rotation_alarms(engine: Engine, cell_id: CellId, alarms: Alarms) -> None:
    """Raise and clear the alarms about secret rotations. Raises AdmitError if the database does not respond."""
    rotation, seen = SecretRotation, SecretSighting
    now = utc_now()
    has_old = or_(seen.new_at.is_(None), seen.old_at > seen.new_at)
    left = func.count(case((has_old, seen.nas_key)))
    query = (
        select(
            *(rotation.id, Tenant.slug, Nas.name, Tenant.number),
            *(rotation.ends_at, rotation.at_end, rotation.created_at, left),
        )
        .join(Tenant, Tenant.id == rotation.tenant_id)
        .outerjoin(Nas, Nas.id == rotation.nas_id)
        .outerjoin(seen, seen.rotation_id == rotation.id)
        .where(rotation.state == "running", rotation.ends_at <= now + NOTICE_PERIOD)
        .group_by(rotation.id, Tenant.slug, Tenant.number, Nas.name)
        .order_by(Tenant.slug)
    )
    with session_scope(CellScope(cell_id), engine=engine) as session:
        rows = session.execute(query).all()
    raised = set()
    for rotation_id, slug, nas, number, ends_at, at_end, began, count in rows:
        is_over = ends_at <= now
        is_near = ends_at - now <= min(NOTICE_PERIOD, (ends_at - began) / 2)
        if not (is_near and count) and not (is_over and at_end == "wait"):
            continue
        code = f"{_ROTATION_CODE}{rotation_id}"
        whose = f"NAS {nas} of tenant {slug}" if nas else f"tenant {slug}"
        of = {"tenant": slug, "nas": nas} if nas else {"tenant": slug}
        raised.add(code)
        ends = "was due to end at" if is_over else "ends at"
        alarms.report_row(
            code,
            Advice(
                f"The old RADIUS secret of {whose} {ends} {ends_at:%Y-%m-%d %H:%M} UTC, and {count} NASes still use"
                " this secret. List these NASes, enter the new secret in each NAS, then finish the rotation",
                NextStep("listSecretRotationNases", of),
                NextStep("revealRadiusSecret", {**of, "next": "true"}),
                NextStep("finishSecretRotation", of),
            ),
            tenant=number,
        )
    _clear_others(alarms, _ROTATION_CODE, raised)


# Number of failures in a row that raises the alarm: the worker retries after a second.
MIN_FAILURES = 3
_REDECISION_CODE = "redecision-fails:"


def update_redecision_alarms(engine: Engine, cell_id: CellId, alarms: Alarms) -> None:
    """Raise and clear the alarms about re-decisions. Raises AdmitError if the database does not respond."""
    failing = (
        select(Tenant.slug, Tenant.number, RedecisionFailure.since, RedecisionFailure.detail)
        .join(Tenant, Tenant.id == RedecisionFailure.tenant_id)
        .where(RedecisionFailure.times >= MIN_FAILURES)
        .order_by(Tenant.slug)
    )
    with session_scope(CellScope(cell_id), engine=engine) as session:
        rows = session.execute(failing).all()
    raised = {f"{_REDECISION_CODE}{slug}" for slug, _, _, _ in rows}
    _clear_others(alarms, _REDECISION_CODE, raised)
    for slug, number, since, detail in rows:
        alarms.report_row(
            f"{_REDECISION_CODE}{slug}",
            f"Re-decisions of tenant {slug} fail since {since:%Y-%m-%d %H:%M} UTC: {detail} A change, for "
            "example of a policy, affects a live session only after its device authenticates again. See the log of the "
            "worker.",
            tenant=number,
        )


_EXEMPTION_CODE = "exemption-unneeded:"
_MAX_NAMED = 3


def update_exemption_alarms(engine: Engine, cell_id: CellId, alarms: Alarms) -> None:
    """Raise and clear the alarms about NASes that are exempt from Message-Authenticator, but send it in all requests.

    Raises AdmitError if the database does not respond.
    """
    query = (
        select(Tenant.slug, Tenant.number, Nas.name)
        .join(Slot, Slot.tenant_id == Tenant.id)
        .join(Nas, Nas.tenant_id == Tenant.id)
        .join(NasSignature, NasSignature.nas_id == Nas.id)
        .where(Slot.cell_id == cell_id, Nas.require_message_authenticator.is_(False), is_safe_to_enforce())
        .order_by(Tenant.slug, Nas.name)
    )
    with session_scope(CellScope(cell_id), engine=engine) as session:
        rows = session.execute(query).all()
    raised = set()
    for (slug, number), group in groupby(rows, key=lambda row: (row.slug, row.number)):
        names = [row.name for row in group]
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        code = f"{_EXEMPTION_CODE}{slug}"
        raised.add(code)
        alarms.report_row(
            code,
            Advice(
                f"{', '.join(names[:_MAX_NAMED])}{more} of tenant {slug} no longer need their exemption: the NASes"
                f" have sent a Message-Authenticator with every request for {SAFE_AFTER.days} days. List all such"
                " NASes, and turn off their exemption",
                NextStep("listNases", {"tenant": slug}),
                NextStep("updateNas", {"tenant": slug, "require_message_authenticator": "true"}),
            ),
            tenant=number,
        )
    _clear_others(alarms, _EXEMPTION_CODE, raised)


# Age of the oldest queued change that raises the alarm. The worker looks every second. A large import or a new rule
# takes longer, but then the age of the oldest change does not grow.
ALARM_AFTER_SECONDS = 60.0
# The agent counts at most this many queued changes.
MAX_COUNTED = 100_000
_ALARM = "endpoints-waiting"


class EndpointBacklog:
    def __init__(
        self, engine: Engine, cell_id: CellId, alarms: Alarms, clock: Callable[[], float] = time.monotonic
    ) -> None:
        # Number of device changes of this cell's tenants that wait for the worker.
        self.count = 0
        self._engine = engine
        self._cell_id = cell_id
        self._alarms = alarms
        self._clock = clock
        self._oldest: int | None = None
        self._since = 0.0

    def look(self) -> None:
        """Raise or clear the alarm about device changes that the worker has not processed.

        Raises AdmitError if the database does not respond.
        """
        some = select(EndpointWork.id).order_by(EndpointWork.id).limit(MAX_COUNTED).subquery()
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            oldest, self.count = session.execute(select(func.min(some.c.id), func.count())).one()
        if oldest != self._oldest:
            self._oldest, self._since = oldest, self._clock()
        waits = self._clock() - self._since if oldest is not None else 0.0
        if waits < ALARM_AFTER_SECONDS and self.count < MAX_COUNTED:
            self._alarms.clear(_ALARM)
            return
        many = "or more " if self.count == MAX_COUNTED else ""
        self._alarms.report(
            _ALARM,
            f"Changes of devices are not processed: {self.count} {many}changes wait, "
            f"the first for {waits:.0f} s. Groups by rule, vendors and profiles are out of date. "
            "See the log of the worker.",
        )


def _clear_others(alarms: Alarms, prefix: str, raised: Collection[str]) -> None:
    """Clear alarms whose code begins with `prefix`, except those in `raised`."""
    for alarm in alarms.standing():
        if alarm.code.startswith(prefix) and alarm.code not in raised:
            alarms.clear(alarm.code)
