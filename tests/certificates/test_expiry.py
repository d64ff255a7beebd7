"""Certificates that expire soon are counted, listed and reported in one warning, within their tenant."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from nac.certificates import expiry
from nac.certificates.service import parse_serial, revoke_certificate
from nac.kit.db import TenantScope, session_scope
from nac.models import AuditEntry, ExpiryWarning
from tests.factories.certificates import Certified
from tests.factories.tenancy import ACTOR

_DAY = timedelta(days=1)


@pytest.fixture
def issue(app_engine: Engine, alpha: Certified) -> Any:
    """Function that issues a client certificate of alpha, a year old and with `days` left.

    Returns its serial number.
    """

    def issue(days: float, name: str = "", **changes: Any) -> str:
        with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
            issued = alpha.issue(
                session,
                common_name=name or f"laptop {days}",
                not_before=alpha.now - 365 * _DAY,
                not_after=alpha.now + days * _DAY,
                **changes,
            )
        return issued.serial.hex()

    return issue


def _warn(engine: Engine, tenant: Certified, days: float = 0) -> list[tuple[str, str, int]]:
    """The warnings (kind, serial number, days) after this number of days."""
    with session_scope(TenantScope(tenant.tenant_id), engine=engine) as session:
        now = tenant.now + days * _DAY
        warnings = expiry.record_warnings(session, actor=ACTOR, tenant_id=tenant.tenant_id, now=now)
    return [(warning.subject.kind, warning.subject.serial, warning.days) for warning in warnings]


def test_each_expiry_window_warns_once(app_engine, alpha, issue):
    serial = issue(61)
    seen = [
        (day, _warn(app_engine, alpha, day), _warn(app_engine, alpha, day)) for day in (0, 1, 2, 31, 47, 54, 60, 62)
    ]
    client = lambda days: [("client", serial, days)]  # noqa: E731
    assert seen == [
        (0, [], []),
        (1, client(60), []),
        (2, [], []),
        (31, client(30), []),
        (47, client(14), []),
        (54, client(7), []),
        (60, client(1), []),
        (62, [], []),
    ]


def test_warning_from_a_fast_clock_is_repeated_when_due(app_engine, alpha, issue):
    serial = issue(61)
    given = [(day, [days for _, _, days in _warn(app_engine, alpha, day)]) for day in (40, 1, 31, 32)]
    assert given == [(40, [30]), (1, [60]), (31, [30]), (32, [])], serial


def test_replaced_revoked_and_short_lived_certs_are_not_warned(app_engine, alpha, issue, scoped):
    issue(10, "renewed")
    issue(300, "renewed")
    gone = issue(10, "gone")
    still = issue(10, "still here")
    with scoped() as session:
        revoke_certificate(session, actor=ACTOR, tenant_id=alpha.tenant_id, serial=gone, now=alpha.now)
        alpha.issue(session, common_name="weekly", not_after=alpha.now + 6 * _DAY)
    # Only the nearest window warns.
    assert _warn(app_engine, alpha) == [("client", still, 14)]
    # A certificate that is valid for six days causes a warning one day before its end.
    assert [days for _, _, days in _warn(app_engine, alpha, 5.5)] == [1, 7]


def test_warning_names_authorities_and_counts_clients(app_engine, alpha, bravo, issue, scoped):
    for number in range(3):
        issue(59, f"laptop {number}")
    _warn(app_engine, alpha)
    ends = {"issuing": alpha.authorities.issuing.not_after, "server": alpha.authorities.server.not_after}
    for end in ends.values():
        _warn(app_engine, alpha, (end - alpha.now) / _DAY - 20)
    with scoped() as session:
        entries = session.scalars(
            select(AuditEntry).where(AuditEntry.action == "certificate.expiring").order_by(AuditEntry.id)
        ).all()
        told = {entry.target: entry.after for entry in entries}
    assert told["60 days"]["count"] == 3
    assert len(told["60 days"]["first"]) == 3
    assert told[alpha.authorities.issuing.name]["days"] == 30
    assert told[alpha.authorities.server.serial.hex()]["kind"] == "server"
    with scoped(bravo) as session:
        assert session.scalar(select(func.count()).select_from(ExpiryWarning)) == 0


def test_dashboard_shows_expiry_counts_and_lists(scoped, alpha, bravo, issue):
    serials = [issue(days) for days in (0.5, 6, 13, 29, 59, 61)]
    server = alpha.authorities.server
    with scoped() as session:
        counts = expiry.count_expiring(session, tenant_id=alpha.tenant_id, now=alpha.now)
        assert counts["client"] == {60: 5, 30: 4, 14: 3, 7: 2, 1: 1}
        assert set(counts["server"].values()) == set(counts["authority"].values()) == {0}
        found, page = [], expiry.list_expiring(session, tenant_id=alpha.tenant_id, now=alpha.now, limit=2)
        while page:
            found += [item.serial for item in page]
            page = expiry.list_expiring(session, tenant_id=alpha.tenant_id, now=alpha.now, limit=2, after=page[-1])
        assert found == serials[:5]
        later = server.not_after - 10 * _DAY
        (only,) = expiry.list_expiring(session, tenant_id=alpha.tenant_id, now=later, kinds=["server"])
        assert parse_serial(only.serial) == server.serial
        week = expiry.list_expiring(session, tenant_id=alpha.tenant_id, now=alpha.now, within_days=7)
        assert [item.serial for item in week] == serials[:2]
    with scoped(bravo) as session:
        assert expiry.list_expiring(session, tenant_id=alpha.tenant_id, now=alpha.now) == []
