"""CRLs and OCSP signers, created from a real database and verified by openssl."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import AuthorityInformationAccessOID
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
from pki.serials import serial_bytes
from tests.factories.certificates import SIGNING, Certified, certify
from tests.factories.tenancy import ACTOR, make_tenant
from tests.pki.openssl import answer, openssl

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


def test_new_tenant_publishes_crls_for_root_and_issuing_ca(publisher, alpha, scoped):
    assert publisher.turn(alpha.now) == [publication.PublicationResult(True, True)] * 2
    for authority in (alpha.authorities.root, alpha.authorities.issuing):
        crl = publisher.crl(authority)
        certificate = x509.load_der_x509_certificate(authority.certificate_der)
        assert crl.is_signature_valid(certificate.public_key())
        assert (len(crl), _number(crl)) == (0, 1)
        assert crl.next_update_utc - crl.last_update_utc == timedelta(days=180 if authority.kind == "root" else 7)
    assert publisher.turn(alpha.now + _SECONDS) == []
    with scoped() as session:
        entries = session.scalars(select(AuditEntry).where(AuditEntry.actor == "worker").order_by(AuditEntry.id)).all()
    names = {alpha.authorities.root.name, alpha.authorities.issuing.name}
    for action in ("authority.crl", "authority.ocsp-signer"):
        assert {entry.target for entry in entries if entry.action == action} == names


def test_signer_is_short_lived_and_names_no_responder(publisher, alpha):
    publisher.turn(alpha.now)
    issuing = alpha.authorities.issuing
    (row,) = publisher.signers(issuing)
    signer = x509.load_der_x509_certificate(row.certificate_der)
    signer.verify_directly_issued_by(x509.load_der_x509_certificate(issuing.certificate_der))
    access = signer.extensions.get_extension_for_class(x509.AuthorityInformationAccess).value
    assert [item.access_method for item in access] == [AuthorityInformationAccessOID.CA_ISSUERS]
    assert signer.not_valid_after_utc - alpha.now <= timedelta(days=14)


def test_signer_is_renewed_at_half_life_and_old_one_still_works(publisher, alpha):
    issuing = alpha.authorities.issuing
    publisher.turn(alpha.now)
    publisher.turn(alpha.now + 6 * _DAY)
    assert len(publisher.signers(issuing)) == 1
    publisher.turn(alpha.now + 8 * _DAY)
    assert len(publisher.signers(issuing)) == 2
    publisher.turn(alpha.now + 16 * _DAY)
    assert [row.not_after > alpha.now + 16 * _DAY for row in publisher.signers(issuing)] == [True, True]


def test_signer_has_the_lifetime_the_tenant_chose(scoped, publisher, alpha):
    with scoped() as session:
        choice = {"validity_days": 60}
        update_profile(session, actor=ACTOR, tenant_id=alpha.tenant_id, name="ocsp-signer", choice=choice)
    publisher.turn(alpha.now)
    (row,) = publisher.signers(alpha.authorities.root)
    assert row.not_after == alpha.now.replace(microsecond=0) + 60 * _DAY


def test_signer_of_an_expiring_authority_is_not_renewed(publisher, alpha):
    issuing = alpha.authorities.issuing
    late = issuing.not_after - 2 * _DAY
    publisher.turn(late)
    assert [row.not_after for row in publisher.signers(issuing)] == [issuing.not_after]
    assert publisher.turn(late + _SECONDS) == []
    publisher.turn(issuing.not_after + _DAY)
    # Only the signer of the root is younger.
    assert publisher.row(issuing).this_update == late.replace(microsecond=0)
    assert publisher.row(alpha.authorities.root).this_update == (issuing.not_after + _DAY).replace(microsecond=0)


def test_revoked_certificates_are_on_the_next_crl_with_reasons(app_engine, publisher, alpha):
    serials = {_issue(app_engine, alpha): reason for reason in REVOCATION_REASONS}
    publisher.turn(alpha.now)
    for serial, reason in serials.items():
        _revoke(app_engine, alpha, serial, reason)
    assert publisher.turn(alpha.now + _SECONDS) == [publication.PublicationResult(True, False)]
    crl = publisher.crl(alpha.authorities.issuing)
    assert (_serials(crl), _number(crl)) == (set(serials), 2)
    for entry in crl:
        assert entry.revocation_date_utc == alpha.now.replace(microsecond=0)
        # RFC 5280 5.3.1: The reason code "unspecified" is omitted.
        reason = serials[entry.serial_number.to_bytes(16).hex()]
        found = [extension.value.reason.value for extension in entry.extensions]
        assert found == ([] if reason == "unspecified" else [reason])


def test_suspended_certificate_is_on_hold_until_reinstated(app_engine, publisher, alpha, scoped):
    arguments: Any = {"actor": ACTOR, "tenant_id": alpha.tenant_id, "serial": _issue(app_engine, alpha)}
    with scoped() as session:
        suspend_certificate(session, now=alpha.now, **arguments)
    publisher.turn(alpha.now)
    (entry,) = publisher.crl(alpha.authorities.issuing)
    assert entry.extensions.get_extension_for_class(x509.CRLReason).value.reason is x509.ReasonFlags.certificate_hold
    with scoped() as session:
        reinstate_certificate(session, **arguments)
    publisher.turn(alpha.now + _SECONDS)
    crl = publisher.crl(alpha.authorities.issuing)
    assert (len(crl), _number(crl)) == (0, 2)


def test_burst_of_revocations_is_published_in_one_crl(app_engine, publisher, alpha):
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


def test_crl_is_published_daily_without_changes(publisher, alpha):
    for day in range(4):
        publisher.turn(alpha.now + day * _DAY)
        publisher.turn(alpha.now + day * _DAY + timedelta(hours=12))
    crl = publisher.crl(alpha.authorities.root)
    assert _number(crl) == 4
    assert crl.last_update_utc == (alpha.now + 3 * _DAY).replace(microsecond=0)


def test_expired_certificate_leaves_crl_after_one_more_issue(app_engine, publisher, alpha):
    serial = _issue(app_engine, alpha, not_after=alpha.now + timedelta(hours=36))
    _revoke(app_engine, alpha, serial)
    lengths = []
    for day in range(5):
        publisher.turn(alpha.now + day * _DAY)
        lengths.append(len(publisher.crl(alpha.authorities.issuing)))
    # The certificate expires between the second CRL and the third.
    assert lengths == [1, 1, 1, 0, 0]


def test_crl_for_a_change_does_not_count_as_the_regular_one(app_engine, publisher, alpha):
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


def test_retired_authority_keeps_publishing(app_engine, publisher, alpha, scoped):
    serial = _issue(app_engine, alpha)
    with scoped() as session:
        session.execute(update(CertificateAuthority).values(status="retired"))
    publisher.turn(alpha.now)
    _revoke(app_engine, alpha, serial)
    publisher.turn(alpha.now + _SECONDS)
    assert _serials(publisher.crl(alpha.authorities.issuing)) == {serial}


def test_revoked_authority_is_on_its_roots_crl(scoped, publisher, alpha):
    publisher.turn(alpha.now)
    with scoped() as session:
        issuing = session.get_one(CertificateAuthority, alpha.authorities.issuing.id)
        issuing.status, issuing.revoked_at, issuing.revocation_reason = "revoked", alpha.now, "cACompromise"
        record_status_change(session, issuing)
    publisher.turn(alpha.now + _SECONDS)
    (entry,) = publisher.crl(alpha.authorities.root)
    certificate = x509.load_der_x509_certificate(alpha.authorities.issuing.certificate_der)
    assert entry.serial_number == certificate.serial_number
    assert entry.extensions.get_extension_for_class(x509.CRLReason).value.reason is x509.ReasonFlags.ca_compromise


def test_cross_certificate_of_a_revoked_root_is_revoked(app_engine, publisher, alpha, scoped):
    root, named = alpha.authorities.root, {"actor": ACTOR, "now": alpha.now}
    with scoped() as session:
        plan = rollover.plan_rollover(session, tenant_id=alpha.tenant_id, signing=SIGNING, of_root=True)
        new = rollover.execute_rollover(session, plan, signing=SIGNING, **named).root
    cross = x509.load_der_x509_certificate(new.cross_der).serial_number
    with session_scope(AuthorityScope(root.id), engine=app_engine) as session:
        # The OCSP responder reports the cross-certificate as good.
        below = publication.list_subordinate_revocations(session, root.id)
    assert below[serial_bytes(cross)] is None
    publisher.turn(alpha.now)
    assert len(publisher.crl(root)) == 0
    with scoped() as session:
        revoke_authority(session, tenant_id=alpha.tenant_id, which=str(new.id), reason="cACompromise", **named)
    publisher.turn(alpha.now + _SECONDS)
    (entry,) = publisher.crl(root)
    assert entry.serial_number == cross
    assert entry.extensions.get_extension_for_class(x509.CRLReason).value.reason is x509.ReasonFlags.ca_compromise


def test_many_changes_leave_one_publication_due(app_engine, alpha, scoped):
    serials = [_issue(app_engine, alpha) for _ in range(3)]
    with scoped() as session:
        rows = session.scalars(select(Certificate).where(Certificate.serial.in_(map(bytes.fromhex, serials)))).all()
        record_status_change(session, *rows)
        assert len(session.scalars(select(RevocationWork)).all()) == 1


def test_root_with_an_offline_key_catches_up_later(scoped, publisher, alpha):
    root, later = alpha.authorities.root, alpha.now + 3 * _DAY
    publisher.turn(alpha.now)
    key = root.key_sealed
    for sealed, number in ((None, 1), (key, 2)):
        with scoped() as session:
            session.get_one(CertificateAuthority, root.id).key_sealed = sealed
        publisher.turn(later)
        assert _number(publisher.crl(root)) == number
    assert _number(publisher.crl(alpha.authorities.issuing)) == 2


@pytest.mark.long
def test_fifty_thousand_revoked_certificates_are_published(database, publisher, alpha):
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


def test_unreadable_authority_key_keeps_the_crl_number(worker_engine, publisher, alpha):
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


def test_publication_stays_within_its_tenant_scope(worker_engine, alpha, bravo):
    authority_id = alpha.authorities.issuing.id
    with session_scope(TenantScope(bravo.tenant_id), engine=worker_engine) as session:
        made = publication.publish_status(
            session, actor="x", tenant_id=bravo.tenant_id, authority_id=authority_id, signing=SIGNING, now=bravo.now
        )
    assert made == publication.PublicationResult(revocation_list=False, signer=False)


def test_openssl_rejects_certificates_on_the_crls(app_engine, publisher, alpha, tmp_path, scoped):
    with scoped() as session:
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


def test_clock_jump_of_years_does_not_delay_publication(publisher, alpha, app_engine, scoped):
    issuing, serial = alpha.authorities.issuing, _issue(app_engine, alpha)
    for moment in (alpha.now, alpha.now + 1000 * _DAY):
        publisher.turn(moment)
    _revoke(app_engine, alpha, serial)
    now = alpha.now + timedelta(minutes=1)
    with scoped() as session:
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


def test_due_publication_is_visible_to_tenant_and_platform(app_engine, platform):
    one, other = (certify(app_engine, make_tenant(app_engine, platform, slug).id) for slug in ("one", "other"))

    def due_publications(scope: Scope) -> set[UUID]:
        with session_scope(scope, engine=app_engine) as session:
            return {work.tenant_id for work in publication.list_due(session, now=utc_now())}

    assert due_publications(PlatformScope()) >= {one.tenant_id, other.tenant_id}
    assert due_publications(TenantScope(one.tenant_id)) == {one.tenant_id}
    assert due_publications(MspScope(platform.msp_id)) == due_publications(CredentialScope("")) == set()
