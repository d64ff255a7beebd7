"""Alarms about NASes that still use the old secret, from a day before its end."""

import shlex
from datetime import timedelta

from sqlalchemy import Engine, case, func, or_, select

from nac.kit.clock import utc_now
from nac.kit.db import CellScope, session_scope
from nac.kit.ids import CellId
from nac.models import Nas, SecretRotation, SecretSighting, Tenant
from radius.agent.alarms import Alarms

# Or half of the window, if shorter.
NOTICE_PERIOD = timedelta(days=1)
_CODE = "secret-rotation-ends:"


def update_rotation_alarms(engine: Engine, cell_id: CellId, alarms: Alarms) -> None:
    """Raise and clear the alarms. Raises AdmitError if the database does not respond."""
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
    told = set()
    for rotation_id, slug, nas, number, ends_at, at_end, began, count in rows:
        is_over = ends_at <= now
        is_near = ends_at - now <= min(NOTICE_PERIOD, (ends_at - began) / 2)
        if not (is_near and count) and not (is_over and at_end == "wait"):
            continue
        code = f"{_CODE}{rotation_id}"
        whose = f"NAS {nas} of tenant {slug}" if nas else f"tenant {slug}"
        named = f"-t {slug}" + (f" --nas {shlex.quote(nas)}" if nas else "")
        told.add(code)
        ends = "was due to end at" if is_over else "ends at"
        alarms.tell_of_row(
            code,
            f"The old RADIUS secret of {whose} {ends} {ends_at:%Y-%m-%d %H:%M} UTC, and {count} NASes still use it. "
            f"List them: ./admit secret-rotation nases {named}. Enter the new secret there (./admit secret-rotation "
            f"reveal {named}), then run: ./admit secret-rotation finish {named}",
            tenant=number,
        )
    for alarm in alarms.standing():
        if alarm.code.startswith(_CODE) and alarm.code not in told:
            alarms.clear(alarm.code)
