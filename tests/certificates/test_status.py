from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Engine, select

from nac.certificates.errors import CertificateStatusConflict
from nac.certificates.service import (
    ORDERS,
    REVOCATION_REASONS,
    list_certificates,
    parse_serial,
    reinstate_certificate,
    revoke_certificate,
    suspend_certificate,
)
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import InvalidInput
from nac.models import AuditEntry, Certificate, ReplicaChange
from tests.factories.certificates import Certified
from tests.factories.tenancy import ACTOR

Act = Callable[[str], Certificate]


@pytest.fixture
def serial(app_engine: Engine, alpha: Certified) -> str:
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        return alpha.issue(session).serial.hex()


def _act(app_engine: Engine, tenant: Certified, verb: str, serial: str, **more: object) -> Certificate:
    verbs = {"revoke": revoke_certificate, "suspend": suspend_certificate, "reinstate": reinstate_certificate}
    moment = {} if verb == "reinstate" else {"now": tenant.now}
    with session_scope(TenantScope(tenant.tenant_id), engine=app_engine) as session:
        return verbs[verb](session, actor=ACTOR, tenant_id=tenant.tenant_id, serial=serial, **(moment | more))


@pytest.mark.parametrize(
    ("verbs", "status", "reason"),
    [
        (["revoke"], "revoked", "unspecified"),
        (["suspend"], "suspended", "certificateHold"),
        (["suspend", "suspend"], "suspended", "certificateHold"),
        (["suspend", "reinstate"], "valid", ""),
        (["reinstate"], "valid", ""),
        (["suspend", "revoke"], "revoked", "unspecified"),
    ],
)
def test_status_follows_each_action(app_engine, alpha, serial, verbs, status, reason):
    for verb in verbs:
        row = _act(app_engine, alpha, verb, serial)
    assert (row.status, row.revocation_reason) == (status, reason)
    assert row.revoked_at == (None if status == "valid" else alpha.now)


@pytest.mark.parametrize("verb", ["suspend", "reinstate"])
def test_revoked_certificate_cannot_be_reinstated(app_engine, alpha, serial, verb):
    _act(app_engine, alpha, "revoke", serial, reason="keyCompromise")
    with pytest.raises(CertificateStatusConflict, match="permanently revoked"):
        _act(app_engine, alpha, verb, serial)


def test_second_revocation_keeps_first_reason_without_audit_row(app_engine, alpha, serial, scoped):
    _act(app_engine, alpha, "revoke", serial, reason="keyCompromise")
    row = _act(app_engine, alpha, "revoke", serial, now=alpha.now + timedelta(days=1), reason="superseded")
    assert (row.revocation_reason, row.revoked_at) == ("keyCompromise", alpha.now)
    with scoped() as session:
        entries = session.scalars(
            select(AuditEntry).where(AuditEntry.action == "certificate.revoke").order_by(AuditEntry.id)
        ).all()
    assert [(entry.before, entry.target) for entry in entries] == [({"status": "valid", "reason": ""}, serial)]


def test_unknown_reason_is_rejected_with_the_valid_ones(app_engine, alpha, serial):
    with pytest.raises(InvalidInput, match="Unknown reason") as caught:
        _act(app_engine, alpha, "revoke", serial, reason="certificateHold")
    assert all(reason in caught.value.remedy for reason in REVOCATION_REASONS)


def test_unsigned_certificate_has_no_status_to_change(app_engine, alpha, scoped):
    with scoped() as session:
        reserved = alpha.reserve(session)
    for verb in ("revoke", "suspend", "reinstate"):
        with pytest.raises(CertificateStatusConflict, match="never issued"):
            _act(app_engine, alpha, verb, reserved.serial.hex())


def test_revocation_is_in_the_change_feed(app_engine, owner_engine, alpha, serial):
    _act(app_engine, alpha, "revoke", serial)
    with owner_engine.connect() as connection:
        changes = connection.execute(
            select(ReplicaChange.noun, ReplicaChange.key).order_by(ReplicaChange.id.desc()).limit(1)
        ).all()
    assert [tuple(change) for change in changes] == [("certificate", serial)]


def test_list_pages_by_serial_and_filters_by_status(app_engine, alpha, scoped):
    with scoped() as session:
        issued = sorted(alpha.issue(session).serial.hex() for _ in range(4))
    _act(app_engine, alpha, "suspend", issued[1])
    with scoped() as session:
        first = list_certificates(session, tenant_id=alpha.tenant_id, span=ORDERS.first(2))
        rest = list_certificates(session, tenant_id=alpha.tenant_id, span=ORDERS.behind(first[-1].serial))
        serials = [row.serial.hex() for row in (*first, *rest)]
        assert serials == sorted([*issued, alpha.authorities.server.serial.hex()])
        suspended = list_certificates(session, tenant_id=alpha.tenant_id, status="suspended")
        assert [row.serial.hex() for row in suspended] == [issued[1]]


@pytest.mark.parametrize(
    ("text", "serial"), [("0A:ff", b"\x0a\xff"), ("aff", b"\x0a\xff"), (" 000aFF ", b"\x0a\xff"), ("1", b"\x01")]
)
def test_serial_is_accepted_in_other_tools_formats(text, serial):
    assert parse_serial(text) == serial


@pytest.mark.parametrize("text", ["", "0", "xyz", "-1", "f" * 41, "0x0a"])
def test_invalid_serial_is_rejected(text):
    with pytest.raises(InvalidInput, match="Invalid serial number"):
        parse_serial(text)
