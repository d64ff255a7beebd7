"""Alarms about NASes that no longer need their exemption from Message-Authenticator: they sign all requests."""

from itertools import groupby

from sqlalchemy import Engine, select

from nac.kit.db import CellScope, session_scope
from nac.kit.ids import CellId
from nac.models import Nas, NasSignature, Slot, Tenant
from nac.tenancy.nases.signatures import SAFE_AFTER, is_safe_to_enforce
from radius.agent.alarms import Alarms

_CODE = "exemption-unneeded:"
_MAX_NAMED = 3


def update_exemption_alarms(engine: Engine, cell_id: CellId, alarms: Alarms) -> None:
    """Raise and clear the alarms. Raises AdmitError if the database does not respond."""
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
    told = set()
    for (slug, number), group in groupby(rows, key=lambda row: (row.slug, row.number)):
        names = [row.name for row in group]
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        code = f"{_CODE}{slug}"
        told.add(code)
        alarms.tell_of_row(
            code,
            f"{', '.join(names[:_MAX_NAMED])}{more} of tenant {slug} no longer need their exemption: they have sent a "
            f"Message-Authenticator with every request for {SAFE_AFTER.days} days. Turn the exemption off: ./admit "
            f"nas set NAS -t {slug} --with-message-authenticator (all NASes: ./admit nas list -t {slug})",
            tenant=number,
        )
    for alarm in alarms.standing():
        if alarm.code.startswith(_CODE) and alarm.code not in told:
            alarms.clear(alarm.code)
