"""Alarms about tenants of the cell whose re-decisions fail in the worker."""

from sqlalchemy import Engine, select

from nac.kit.db import CellScope, session_scope
from nac.kit.ids import CellId
from nac.models import RedecisionFailure, Tenant
from radius.agent.alarms import Alarms

# Ignore single failures: the worker retries after a second.
MIN_FAILURES = 3
_CODE = "redecision-fails:"


def update_redecision_alarms(engine: Engine, cell_id: CellId, alarms: Alarms) -> None:
    """Raise and clear the alarms. Raises AdmitError if the database does not respond."""
    failing = (
        select(Tenant.slug, Tenant.number, RedecisionFailure.since, RedecisionFailure.detail)
        .join(Tenant, Tenant.id == RedecisionFailure.tenant_id)
        .where(RedecisionFailure.times >= MIN_FAILURES)
        .order_by(Tenant.slug)
    )
    with session_scope(CellScope(cell_id), engine=engine) as session:
        rows = session.execute(failing).all()
    told = {f"{_CODE}{slug}" for slug, _, _, _ in rows}
    for alarm in alarms.standing():
        if alarm.code.startswith(_CODE) and alarm.code not in told:
            alarms.clear(alarm.code)
    for slug, number, since, detail in rows:
        alarms.tell_of_row(
            f"{_CODE}{slug}",
            f"Re-decisions of tenant {slug} fail since {since:%Y-%m-%d %H:%M} UTC: {detail} Changes, such as of a "
            "policy, reach live sessions only when they authenticate again. See: ./admit logs worker",
            tenant=number,
        )
