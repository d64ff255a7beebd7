"""Revocation of one certificate or of ten thousand: status, audit log, CRLs and sessions."""

from uuid import uuid4

import pytest
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from nac.certificates import bulk_revocation, service
from nac.certificates.errors import CertificateStatusConflict
from nac.inventory.endpoints.service import create_endpoint
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.models import AuditEntry, Certificate, CertificateAuthority, CoaRequest, RevocationWork, Tenant, User
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR

NOW = utc_now()
ENDPOINT = "02aabbccdd01"


def queued(session: Session) -> dict[str, str]:
    return {row.session_id: row.reason for row in session.scalars(select(CoaRequest)) if row.state == "queued"}


def test_revocation_disconnects_only_its_own_sessions(scoped, lives, alpha, bravo):
    with scoped() as session:
        one, other = (alpha.issue(session).serial.hex() for _ in range(2))
    theirs, again = lives(one), lives(one)
    lives(other)
    lives(one, stopped=True)
    lives(one, of=bravo)
    # The device has since authenticated with another certificate.
    lives(one, mac="02bb00000001", minutes_ago=90, stopped=True)
    lives(other, mac="02bb00000001", minutes_ago=30)
    with scoped() as session:
        service.revoke_certificate(session, actor=ACTOR, tenant_id=alpha.tenant_id, serial=one, now=NOW)
        assert queued(session) == {theirs: "certificate-revoked", again: "certificate-revoked"}
        row = session.scalars(select(CoaRequest).where(CoaRequest.session_id == theirs)).one()
        assert (row.state, row.nas_address, row.certificate_serial) == ("queued", "192.0.2.1", one)


def test_suspension_disconnects_and_reinstatement_cancels(scoped, lives, alpha):
    with scoped() as session:
        serial = alpha.issue(session).serial.hex()
    live = lives(serial)
    with scoped() as session:
        service.suspend_certificate(session, actor=ACTOR, tenant_id=alpha.tenant_id, serial=serial, now=NOW)
        assert queued(session) == {live: "certificate-suspended"}
    with scoped() as session:
        # Each reason has its own request. When one request is cancelled, the other remains.
        service.revoke_certificate(session, actor=ACTOR, tenant_id=alpha.tenant_id, serial=serial, now=NOW)
        reasons = session.scalars(select(CoaRequest.reason).where(CoaRequest.state == "queued")).all()
        assert sorted(reasons) == ["certificate-revoked", "certificate-suspended"]
    with scoped() as session:
        other = alpha.issue(session).serial.hex()
    lives(other)
    with scoped() as session:
        service.suspend_certificate(session, actor=ACTOR, tenant_id=alpha.tenant_id, serial=other, now=NOW)
        service.reinstate_certificate(session, actor=ACTOR, tenant_id=alpha.tenant_id, serial=other)
        assert set(queued(session)) == {live}


def test_all_certificates_of_an_endpoint_or_user_are_revoked(scoped, lives, alpha):
    with scoped() as session:
        endpoint = create_endpoint(session, actor=ACTOR, tenant_id=alpha.tenant_id, mac=ENDPOINT, allow_random=True)
        user_id = make_row(session, User.__table__, alpha.tenant_id, id=uuid4(), name="anna")["id"]
        of_endpoint = [alpha.issue(session, endpoint_id=endpoint.id).serial for _ in range(2)]
        of_user = [alpha.issue(session, user_id=user_id).serial for _ in range(2)]
        nobodys = alpha.issue(session).serial
    live = lives(of_endpoint[0].hex())
    given = {"actor": ACTOR, "tenant_id": alpha.tenant_id, "now": NOW}
    with scoped() as session:
        service.suspend_certificate(session, serial=of_endpoint[1].hex(), **given)
        which = bulk_revocation.issued_to_clause(session, tenant_id=alpha.tenant_id, mac=ENDPOINT)
        done = bulk_revocation.revoke_all(session, which=which, reason="keyCompromise", **given)
        assert (done.certificates, done.disconnects, set(queued(session))) == (2, 1, {live})
        assert statuses(session, of_endpoint) == {("revoked", "keyCompromise")}
        assert statuses(session, [*of_user, nobodys]) == {("valid", "")}
    with scoped() as session:
        which = bulk_revocation.issued_to_clause(session, tenant_id=alpha.tenant_id, user_name="anna")
        assert bulk_revocation.revoke_all(session, which=which, **given).certificates == 2
        assert bulk_revocation.revoke_all(session, which=which, **given).certificates == 0
        assert statuses(session, [nobodys]) == {("valid", "")}
        targets = session.scalars(
            select(AuditEntry.target).where(AuditEntry.action == "certificate.revoke").order_by(AuditEntry.id)
        ).all()
        assert sorted(targets) == sorted(serial.hex() for serial in (*of_endpoint, *of_user))
        with pytest.raises(InvalidInput, match="Unknown reason"):
            bulk_revocation.revoke_all(session, which=which, reason="cACompromise", **given)


def test_suspending_a_user_skips_revoked_certificates(scoped, lives, alpha):
    with scoped() as session:
        user_id = make_row(session, User.__table__, alpha.tenant_id, id=uuid4(), name="anna")["id"]
        first, second, revoked = (alpha.issue(session, user_id=user_id).serial for _ in range(3))
        nobodys = alpha.issue(session).serial
    live = lives(second.hex())
    given = {"actor": ACTOR, "tenant_id": alpha.tenant_id}
    with scoped() as session:
        service.revoke_certificate(session, serial=revoked.hex(), now=NOW, **given)
        session.execute(delete(RevocationWork))
        which = bulk_revocation.issued_to_clause(session, tenant_id=alpha.tenant_id, user_name="anna")
        assert bulk_revocation.suspend_all(session, which=which, now=NOW, **given).certificates == 2
        assert bulk_revocation.suspend_all(session, which=which, now=NOW, **given).certificates == 0
        assert queued(session) == {live: "certificate-suspended"}
        assert statuses(session, [first, second]) == {("suspended", "certificateHold")}
        assert statuses(session, [revoked]) == {("revoked", "unspecified")}
        assert statuses(session, [nobodys]) == {("valid", "")}
        assert session.scalars(select(RevocationWork)).all()
    with scoped() as session:
        which = bulk_revocation.issued_to_clause(session, tenant_id=alpha.tenant_id, user_name="anna")
        assert bulk_revocation.reinstate_all(session, which=which, **given).certificates == 2
        assert queued(session) == {}
        assert statuses(session, [first, second]) == {("valid", "")}
        assert statuses(session, [revoked]) == {("revoked", "unspecified")}
        actions = select(AuditEntry.action).where(AuditEntry.target == first.hex()).order_by(AuditEntry.id)
        assert session.scalars(actions).all()[-2:] == ["certificate.suspend", "certificate.reinstate"]


def statuses(session: Session, serials: list[bytes]) -> set[tuple[str, str]]:
    found = session.execute(
        select(Certificate.status, Certificate.revocation_reason).where(Certificate.serial.in_(serials))
    )
    return {(row.status, row.revocation_reason) for row in found}


def test_revoked_root_revokes_everything_below(scoped, alpha, bravo, app_engine):
    with scoped() as session:
        alpha.issue(session)
    given = {"actor": ACTOR, "tenant_id": alpha.tenant_id, "now": NOW}
    with scoped() as session:
        done = bulk_revocation.revoke_authority(session, which="root", reason="cACompromise", **given)
        # The server certificate is one of these certificates.
        assert (done.authorities, done.certificates) == (2, 2)
    with scoped() as session:
        assert set(session.scalars(select(CertificateAuthority.status))) == {"revoked"}
        assert set(session.scalars(select(Certificate.status))) == {"revoked"}
        assert session.get_one(Tenant, alpha.tenant_id).trust_generation == 1
        # The CRLs of root and issuing authority are published again.
        assert set(session.scalars(select(RevocationWork.authority_id))) == {
            alpha.authorities.root.id,
            alpha.authorities.issuing.id,
        }
        with pytest.raises(CertificateStatusConflict, match="already revoked"):
            bulk_revocation.revoke_authority(session, which=str(alpha.authorities.root.id), **given)
    with scoped(bravo) as session:
        assert set(session.scalars(select(CertificateAuthority.status))) == {"active"}


def test_batches_are_revoked_atomically_with_one_audit_row_each(scoped, lives, alpha, monkeypatch):
    monkeypatch.setattr(bulk_revocation, "BATCH_SIZE", 2)
    with scoped() as session:
        serials = [alpha.issue(session).serial.hex() for _ in range(5)]
    live = {lives(serial) for serial in serials[::2]}
    with scoped() as session:
        issuing = str(alpha.authorities.issuing.id)
        done = bulk_revocation.revoke_authority(session, actor=ACTOR, tenant_id=alpha.tenant_id, which=issuing, now=NOW)
        # The server certificate is one of them.
        assert (done.certificates, done.disconnects) == (6, 3)
        assert set(queued(session)) == live
        assert session.scalar(select(func.count()).where(AuditEntry.action == "certificate.revoke")) == 6
