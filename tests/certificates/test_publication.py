"""CRLs and OCSP signers, created from a real database and verified by openssl."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import AuthorityInformationAccessOID, ExtendedKeyUsageOID
from sqlalchemy import Engine, select, update

from nac.certificates import publication, rollover
from nac.certificates.bulk_revocation import revoke_authority
from nac.certificates.profiles import update_profile
from nac.certificates.service import (
    REVOCATION_REASONS,
    record_status_change,
    reinstate_certificate,
    revoke_certificate,
    suspend_certificate,
)
from nac.kit.clock import utc_now
from nac.kit.db import AuthorityScope, CredentialScope, MspScope, PlatformScope, Scope, TenantScope, session_scope
from nac.kit.errors import AdmitError
from nac.kit.secrets import RawKey, Sealer
from nac.models import AuditEntry, Certificate, CertificateAuthority, OcspSignerRow, RevocationList, RevocationWork
from pki.crl import Revocation
from pki.serials import serial_bytes
from tests.factories.certificates import SIGNING, Certified, certify
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.pki.openssl import answer, openssl
from tests.postgres import Database

_DAY = timedelta(days=1)
_SECONDS = timedelta(seconds=5)


class Publisher:
    """Runs of the worker for one tenant, at chosen times."""

    def __init__(self, engine: Engine, tenant: Certified) -> None:
        self._engine = engine
        self.tenant = tenant

    def turn(self, now: datetime, **changes: Any) -> list[publication.PublicationResult]:
        with session_scope(PlatformScope(), engine=self._engine) as session:
            waiting = [
                work for work in publication.list_due(session, now=now) if work.tenant_id == self.tenant.tenant_id
            ]
        made = []
        for work in waiting:
            with session_scope(TenantScope(self.tenant.tenant_id), engine=self._engine) as session:
                arguments = {"actor": "worker", "tenant_id": self.tenant.tenant_id, "signing": SIGNING} | changes
                made.append(publication.publish_status(session, authority_id=work.authority_id, now=now, **arguments))
        return made

    def row(self, authority: CertificateAuthority) -> RevocationList:
        with session_scope(TenantScope(self.tenant.tenant_id), engine=self._engine) as session:
            query = select(RevocationList).where(RevocationList.authority_id == authority.id)
            return session.scalars(query).one()

    def crl(self, authority: CertificateAuthority) -> x509.CertificateRevocationList:
        der = self.row(authority).crl_der
        assert der is not None
        return x509.load_der_x509_crl(der)

    def signers(self, authority: CertificateAuthority) -> list[OcspSignerRow]:
        with session_scope(TenantScope(self.tenant.tenant_id), engine=self._engine) as session:
            query = select(OcspSignerRow).where(OcspSignerRow.authority_id == authority.id)
            return list(session.scalars(query.order_by(OcspSignerRow.not_after)))


@pytest.fixture
def publisher(worker_engine: Engine, alpha: Certified) -> Publisher:
    return Publisher(worker_engine, alpha)


def _issue(app_engine: Engine, tenant: Certified, **changes: Any) -> str:
    with session_scope(TenantScope(tenant.tenant_id), engine=app_engine) as session:
        return tenant.issue(session, **changes).serial.hex()


def _revoke(app_engine: Engine, tenant: Certified, serial: str, reason: Any = "keyCompromise") -> None:
    with session_scope(TenantScope(tenant.tenant_id), engine=app_engine) as session:
        revoke_certificate(
            session, actor=ACTOR, tenant_id=tenant.tenant_id, serial=serial, now=tenant.now, reason=reason
        )


def _number(crl: x509.CertificateRevocationList) -> int:
    return crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number


def _serials(crl: x509.CertificateRevocationList) -> set[str]:
    return {entry.serial_number.to_bytes(16).hex() for entry in crl}


def test_new_tenant_publishes_crls_for_root_and_issuing_ca(publisher: Publisher, alpha: Certified) -> None:
    assert publisher.turn(alpha.now) == [publication.PublicationResult(True, True)] * 2
    for authority in (alpha.authorities.root, alpha.authorities.issuing):
        crl = publisher.crl(authority)
        certificate = x509.load_der_x509_certificate(authority.certificate_der)
        assert crl.is_signature_valid(certificate.public_key())  # type: ignore[arg-type]
        assert (len(crl), _number(crl)) == (0, 1)
        assert crl.next_update_utc is not None
        assert crl.next_update_utc - crl.last_update_utc == timedelta(days=180 if authority.kind == "root" else 7)
    assert publisher.turn(alpha.now + _SECONDS) == []


def test_signer_is_short_lived_with_ocsp_no_check(publisher: Publisher, alpha: Certified) -> None:
    publisher.turn(alpha.now)
    issuing = alpha.authorities.issuing
    (row,) = publisher.signers(issuing)
    assert row.certificate_der is not None
    signer = x509.load_der_x509_certificate(row.certificate_der)
    signer.verify_directly_issued_by(x509.load_der_x509_certificate(issuing.certificate_der))
    extensions = signer.extensions
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.OCSP_SIGNING]
    extensions.get_extension_for_class(x509.OCSPNoCheck)
    access = extensions.get_extension_for_class(x509.AuthorityInformationAccess).value
    assert [item.access_method for item in access] == [AuthorityInformationAccessOID.CA_ISSUERS]
    assert signer.not_valid_after_utc - alpha.now <= timedelta(days=14)


def test_signer_is_renewed_at_half_life_and_old_one_still_works(publisher: Publisher, alpha: Certified) -> None:
    issuing = alpha.authorities.issuing
    publisher.turn(alpha.now)
    publisher.turn(alpha.now + 6 * _DAY)
    assert len(publisher.signers(issuing)) == 1
    publisher.turn(alpha.now + 8 * _DAY)
    assert len(publisher.signers(issuing)) == 2
    publisher.turn(alpha.now + 16 * _DAY)
    assert [row.not_after > alpha.now + 16 * _DAY for row in publisher.signers(issuing)] == [True, True]


def test_signer_has_the_lifetime_the_tenant_chose(app_engine: Engine, publisher: Publisher, alpha: Certified) -> None:
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        update_profile(
            session, actor=ACTOR, tenant_id=alpha.tenant_id, name="ocsp-signer", choice={"validity_days": 60}
        )
    publisher.turn(alpha.now)
    (row,) = publisher.signers(alpha.authorities.root)
    assert row.not_after == alpha.now.replace(microsecond=0) + 60 * _DAY


def test_signer_of_an_expiring_authority_is_not_renewed(publisher: Publisher, alpha: Certified) -> None:
    issuing = alpha.authorities.issuing
    late = issuing.not_after - 2 * _DAY
    publisher.turn(late)
    assert [row.not_after for row in publisher.signers(issuing)] == [issuing.not_after]
    assert publisher.turn(late + _SECONDS) == []
    publisher.turn(issuing.not_after + _DAY)
    # Only the signer of the root is younger.
    assert publisher.row(issuing).this_update == late.replace(microsecond=0)
    assert publisher.row(alpha.authorities.root).this_update == (issuing.not_after + _DAY).replace(microsecond=0)


@pytest.mark.parametrize("reason", REVOCATION_REASONS)
def test_revoked_certificate_is_on_the_next_crl_with_its_reason(
    app_engine: Engine, publisher: Publisher, alpha: Certified, reason: str
) -> None:
    serial = _issue(app_engine, alpha)
    publisher.turn(alpha.now)
    _revoke(app_engine, alpha, serial, reason)
    assert publisher.turn(alpha.now + _SECONDS) == [publication.PublicationResult(True, False)]
    crl = publisher.crl(alpha.authorities.issuing)
    (entry,) = crl
    assert entry.serial_number.to_bytes(16).hex() == serial
    assert entry.revocation_date_utc == alpha.now.replace(microsecond=0)
    due_publications = [extension.value.reason.value for extension in entry.extensions]  # type: ignore[attr-defined]
    # The reason code of RFC 5280 5.3.1.
    assert due_publications == ([] if reason == "unspecified" else [reason])
    assert _number(crl) == 2


def test_suspended_certificate_is_on_hold_until_reinstated(
    app_engine: Engine, publisher: Publisher, alpha: Certified
) -> None:
    arguments: Any = {"actor": ACTOR, "tenant_id": alpha.tenant_id, "serial": _issue(app_engine, alpha)}
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        suspend_certificate(session, now=alpha.now, **arguments)
    publisher.turn(alpha.now)
    (entry,) = publisher.crl(alpha.authorities.issuing)
    assert entry.extensions.get_extension_for_class(x509.CRLReason).value.reason is x509.ReasonFlags.certificate_hold
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        reinstate_certificate(session, **arguments)
    publisher.turn(alpha.now + _SECONDS)
    crl = publisher.crl(alpha.authorities.issuing)
    assert (len(crl), _number(crl)) == (0, 2)


def test_burst_of_revocations_is_published_in_one_crl(
    app_engine: Engine, publisher: Publisher, alpha: Certified
) -> None:
    serials = [_issue(app_engine, alpha) for _ in range(4)]
    publisher.turn(alpha.now)
    for serial in serials[:3]:
        _revoke(app_engine, alpha, serial)
    assert publisher.turn(alpha.now + timedelta(seconds=1)) == [publication.PublicationResult(False, False)]
    assert publisher.turn(alpha.now + _SECONDS) == [publication.PublicationResult(True, False)]
    _revoke(app_engine, alpha, serials[3])
    assert _serials(publisher.crl(alpha.authorities.issuing)) == set(serials[:3])
    publisher.turn(alpha.now + 2 * _SECONDS)
    crl = publisher.crl(alpha.authorities.issuing)
    assert (_serials(crl), _number(crl)) == (set(serials), 3)


def test_crl_is_published_daily_without_changes(publisher: Publisher, alpha: Certified) -> None:
    for day in range(4):
        publisher.turn(alpha.now + day * _DAY)
        publisher.turn(alpha.now + day * _DAY + timedelta(hours=12))
    crl = publisher.crl(alpha.authorities.root)
    assert _number(crl) == 4
    assert crl.last_update_utc == (alpha.now + 3 * _DAY).replace(microsecond=0)


def test_expired_certificate_leaves_crl_after_one_more_issue(
    app_engine: Engine, publisher: Publisher, alpha: Certified
) -> None:
    serial = _issue(app_engine, alpha, not_after=alpha.now + timedelta(hours=36))
    _revoke(app_engine, alpha, serial)
    lengths = []
    for day in range(5):
        publisher.turn(alpha.now + day * _DAY)
        lengths.append(len(publisher.crl(alpha.authorities.issuing)))
    # The certificate expires between the second CRL and the third.
    assert lengths == [1, 1, 1, 0, 0]


def test_crl_for_a_change_does_not_count_as_the_regular_one(
    app_engine: Engine, publisher: Publisher, alpha: Certified
) -> None:
    short = _issue(app_engine, alpha, not_after=alpha.now + timedelta(hours=1))
    other = _issue(app_engine, alpha)
    publisher.turn(alpha.now)
    _revoke(app_engine, alpha, short)
    publisher.turn(alpha.now + timedelta(hours=2))
    _revoke(app_engine, alpha, other)
    publisher.turn(alpha.now + timedelta(hours=3))
    assert _serials(publisher.crl(alpha.authorities.issuing)) == {short, other}
    publisher.turn(alpha.now + _DAY)
    assert _serials(publisher.crl(alpha.authorities.issuing)) == {short, other}
    publisher.turn(alpha.now + 2 * _DAY)
    assert _serials(publisher.crl(alpha.authorities.issuing)) == {other}


def test_retired_authority_keeps_publishing(app_engine: Engine, publisher: Publisher, alpha: Certified) -> None:
    serial = _issue(app_engine, alpha)
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        session.execute(update(CertificateAuthority).values(status="retired"))
    publisher.turn(alpha.now)
    _revoke(app_engine, alpha, serial)
    publisher.turn(alpha.now + _SECONDS)
    assert _serials(publisher.crl(alpha.authorities.issuing)) == {serial}


def test_revoked_authority_is_on_its_roots_crl(app_engine: Engine, publisher: Publisher, alpha: Certified) -> None:
    publisher.turn(alpha.now)
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        issuing = session.get_one(CertificateAuthority, alpha.authorities.issuing.id)
        issuing.status, issuing.revoked_at, issuing.revocation_reason = "revoked", alpha.now, "cACompromise"
        record_status_change(session, issuing)
    publisher.turn(alpha.now + _SECONDS)
    (entry,) = publisher.crl(alpha.authorities.root)
    certificate = x509.load_der_x509_certificate(alpha.authorities.issuing.certificate_der)
    assert entry.serial_number == certificate.serial_number
    assert entry.extensions.get_extension_for_class(x509.CRLReason).value.reason is x509.ReasonFlags.ca_compromise


def test_cross_certificate_of_a_revoked_root_is_revoked(
    app_engine: Engine, publisher: Publisher, alpha: Certified
) -> None:
    scope, tenant_id = TenantScope(alpha.tenant_id), alpha.tenant_id
    with session_scope(scope, engine=app_engine) as session:
        plan = rollover.plan_rollover(session, tenant_id=tenant_id, signing=SIGNING, of_root=True)
        new = rollover.execute_rollover(session, plan, actor=ACTOR, signing=SIGNING, now=alpha.now).root
    assert new.cross_der is not None
    cross = x509.load_der_x509_certificate(new.cross_der)
    with session_scope(AuthorityScope(alpha.authorities.root.id), engine=app_engine) as session:
        assert (
            publication.list_subordinate_revocations(session, alpha.authorities.root.id)[
                serial_bytes(cross.serial_number)
            ]
            is None
        )
    publisher.turn(alpha.now)
    with session_scope(scope, engine=app_engine) as session:
        revoke_authority(
            session, actor=ACTOR, tenant_id=tenant_id, which=str(new.id), now=alpha.now, reason="cACompromise"
        )
    with session_scope(AuthorityScope(alpha.authorities.root.id), engine=app_engine) as session:
        due_publications = publication.list_subordinate_revocations(session, alpha.authorities.root.id)[
            serial_bytes(cross.serial_number)
        ]
    assert due_publications == Revocation(alpha.now, "cACompromise")
    publisher.turn(alpha.now + _SECONDS)
    (entry,) = publisher.crl(alpha.authorities.root)
    assert entry.serial_number == cross.serial_number
    assert entry.extensions.get_extension_for_class(x509.CRLReason).value.reason is x509.ReasonFlags.ca_compromise


def test_many_changes_leave_one_publication_due(app_engine: Engine, alpha: Certified) -> None:
    serials = [_issue(app_engine, alpha) for _ in range(3)]
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        rows = session.scalars(select(Certificate).where(Certificate.serial.in_(map(bytes.fromhex, serials)))).all()
        record_status_change(session, *rows)
        assert len(session.scalars(select(RevocationWork)).all()) == 1


def test_root_with_an_offline_key_catches_up_later(app_engine: Engine, publisher: Publisher, alpha: Certified) -> None:
    root, later = alpha.authorities.root, alpha.now + 3 * _DAY
    publisher.turn(alpha.now)
    key = root.key_sealed
    for sealed, number in ((None, 1), (key, 2)):
        with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
            session.get_one(CertificateAuthority, root.id).key_sealed = sealed
        publisher.turn(later)
        assert _number(publisher.crl(root)) == number
    assert _number(publisher.crl(alpha.authorities.issuing)) == 2


def test_every_signature_is_in_the_audit_log(app_engine: Engine, publisher: Publisher, alpha: Certified) -> None:
    publisher.turn(alpha.now)
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        entries = session.scalars(select(AuditEntry).where(AuditEntry.actor == "worker").order_by(AuditEntry.id)).all()
    names = {alpha.authorities.root.name, alpha.authorities.issuing.name}
    for action in ("authority.crl", "authority.ocsp-signer"):
        assert {entry.target for entry in entries if entry.action == action} == names


@pytest.mark.long
def test_fifty_thousand_revoked_certificates_are_published(
    database: Database, publisher: Publisher, alpha: Certified
) -> None:
    with psycopg.connect(database.superuser_url) as connection:
        # This test does not read the change feed.
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "INSERT INTO certificates (tenant_id, authority_id, serial, profile, common_name, subject, certificate_der,"
            " status, revoked_at, revocation_reason, not_before, not_after) "
            "SELECT %s, %s, decode('01' || lpad(to_hex(n), 30, '0'), 'hex'), 'eap-client-device', 'x', '/CN=x', 'x',"
            " 'revoked', now(), 'superseded', now(), now() + interval '1 year' FROM generate_series(1, 50000) n",
            (alpha.tenant_id, alpha.authorities.issuing.id),
        )
    publisher.turn(alpha.now)
    crl = publisher.crl(alpha.authorities.issuing)
    assert len(crl) == 50_000
    assert crl.get_revoked_certificate_by_serial_number((1 << 120) + 50_000) is not None


def test_unreadable_authority_key_keeps_the_crl_number(
    worker_engine: Engine, publisher: Publisher, alpha: Certified
) -> None:
    publisher.turn(alpha.now)
    issuing, later = alpha.authorities.issuing, alpha.now + _DAY
    wrong = type(SIGNING)(Sealer(RawKey(bytes(32))), SIGNING.public_url)
    with pytest.raises(AdmitError):
        publisher.turn(later, signing=wrong)
    assert publisher.row(issuing).number == 1
    for authority in (issuing, alpha.authorities.root):
        with session_scope(TenantScope(alpha.tenant_id), engine=worker_engine) as session:
            publication.postpone_publication(session, tenant_id=alpha.tenant_id, authority_id=authority.id, now=later)
    assert publisher.turn(later + _SECONDS) == []
    assert len(publisher.turn(later + timedelta(minutes=2))) == 2
    assert publisher.row(issuing).number == 2


def test_publication_stays_within_its_tenant_scope(worker_engine: Engine, alpha: Certified, bravo: Certified) -> None:
    authority_id = alpha.authorities.issuing.id
    with session_scope(TenantScope(bravo.tenant_id), engine=worker_engine) as session:
        made = publication.publish_status(
            session, actor="x", tenant_id=bravo.tenant_id, authority_id=authority_id, signing=SIGNING, now=bravo.now
        )
    assert made == publication.PublicationResult(revocation_list=False, signer=False)


def test_openssl_rejects_certificates_on_the_crls(
    app_engine: Engine, publisher: Publisher, alpha: Certified, tmp_path: Path
) -> None:
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        good, bad = alpha.issue(session), alpha.issue(session)
    _revoke(app_engine, alpha, bad.serial.hex())
    publisher.turn(alpha.now)
    lists = []
    for authority in (alpha.authorities.root, alpha.authorities.issuing):
        certificate = x509.load_der_x509_certificate(authority.certificate_der).public_bytes(Encoding.PEM)
        (tmp_path / f"{authority.kind}.pem").write_bytes(certificate)
        file = tmp_path / f"{authority.kind}.crl"
        file.write_bytes(publisher.crl(authority).public_bytes(Encoding.PEM))
        lists += ["-CRLfile", str(file)]
    command = ["verify", "-x509_strict", "-crl_check_all", "-CAfile", str(tmp_path / "root.pem")]
    command += ["-untrusted", str(tmp_path / "issuing.pem"), *lists]
    for issued in (good, bad):
        (tmp_path / "cert.pem").write_bytes(issued.certificate.public_bytes(Encoding.PEM))
        verdict = openssl(*command, str(tmp_path / "cert.pem"))
        assert ("certificate revoked" in verdict.stderr.decode()) == (issued is bad), verdict.stderr
        assert (verdict.returncode == 0) == (issued is good)
    text = answer("crl", "-in", str(tmp_path / "issuing.crl"), "-noout", "-text")
    assert "X509v3 CRL Number" in text
    assert "Key Compromise" in text


def test_clock_jump_of_years_does_not_delay_publication(
    publisher: Publisher, alpha: Certified, app_engine: Engine
) -> None:
    issuing, serial = alpha.authorities.issuing, _issue(app_engine, alpha)
    for moment in (alpha.now, alpha.now + 1000 * _DAY):
        publisher.turn(moment)
    _revoke(app_engine, alpha, serial)
    now = alpha.now + timedelta(minutes=1)
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        publication.postpone_publication(
            session, tenant_id=alpha.tenant_id, authority_id=issuing.id, now=alpha.now + 1000 * _DAY
        )
    publisher.turn(now)
    crl = publisher.crl(issuing)
    assert (_number(crl), _serials(crl)) == (3, {serial})
    assert crl.last_update_utc <= now
    assert [row for row in publisher.signers(issuing) if row.not_before <= now < row.not_after]
    # No publication is due.
    assert publisher.turn(now + _SECONDS) == []


def test_due_publication_is_visible_to_tenant_and_platform(app_engine: Engine, platform: Platform) -> None:
    one, other = (certify(app_engine, make_tenant(app_engine, platform, slug).id) for slug in ("one", "other"))

    def due_publications(scope: Scope) -> set[UUID]:
        with session_scope(scope, engine=app_engine) as session:
            return {work.tenant_id for work in publication.list_due(session, now=utc_now())}

    assert due_publications(PlatformScope()) >= {one.tenant_id, other.tenant_id}
    assert due_publications(TenantScope(one.tenant_id)) == {one.tenant_id}
    assert due_publications(MspScope(platform.msp_id)) == due_publications(CredentialScope("")) == set()
