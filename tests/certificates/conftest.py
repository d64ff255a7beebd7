import itertools
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.models import AuthLog, RadiusSession
from tests.factories.certificates import Certified
from tests.factories.rows import make_row

NOW = utc_now()
_numbers = itertools.count(1)


@pytest.fixture
def lives(owner_engine: Engine, alpha: Certified):
    """Function that adds a device with a live session that used a certificate. Returns the session's id on the NAS."""

    def lives(
        serial: str, *, mac: str = "", minutes_ago: int = 60, stopped: bool = False, of: Certified = alpha
    ) -> str:
        number = next(_numbers)
        mac, session_id = mac or f"02aa{number:08x}", f"s{number}"
        began = NOW - timedelta(minutes=minutes_ago)
        decision = {"cell_id": 1, "mac": mac, "method": "eap-tls", "permitted": True, "certificate_serial": serial}
        live = {"nas_key": "nas", "session_id": session_id, "mac_key": mac, "mac": mac, "nas_address": "192.0.2.1"}
        live |= {"started_at": began, "updated_at": began, "stopped_at": NOW if stopped else None}
        with Session(owner_engine) as session, session.begin():
            make_row(session, AuthLog.__table__, of.tenant_id, at=began, **decision)
            make_row(session, RadiusSession.__table__, of.tenant_id, **live)
        return session_id

    return lives


@pytest.fixture
def scoped(app_engine: Engine, alpha: Certified):
    """Function that opens a session of a tenant, by default alpha."""

    def scoped(of: Certified = alpha) -> AbstractContextManager[Session]:
        return session_scope(TenantScope(of.tenant_id), engine=app_engine)

    return scoped
