"""Failures between an issuing intent and its certificate.

A process or PostgreSQL is killed, or the second commit fails.
"""

import hashlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.ocsp import OCSPCertStatus, OCSPRequestBuilder, load_der_ocsp_response
from sqlalchemy import Engine, select, text, update

from nac.certificates import intents, publication, rollover, server_renewal
from nac.certificates.authorities import create_tenant_authorities
from nac.certificates.bulk_revocation import issued_to_clause, revoke_all
from nac.certificates.enrolment.errors import SecretRefused
from nac.certificates.errors import CertificateStatusConflict, DuplicateKey
from nac.certificates.ocsp_responder import OcspResponder
from nac.certificates.service import sign_certificate
from nac.certificates.signing import SigningContext
from nac.inventory.endpoints import service as endpoints
from nac.inventory.holder_certificates import require_no_good_certificates
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import DatabaseUnavailable, InUse
from nac.kit.secrets import SealedValueMalformed
from nac.models import AuditEntry, AuthorityIntent, Certificate, CertificateAuthority, OcspSignerRow
from nac.models import RevocationList as ListRow
from pki.keys import generate_key, key_bits
from tests.certificates.signing_crashes import (
    cut_connections,
    dies_signing,
    durable_engine,
    kill_postgres,
    signing_with_callback,
)
from tests.enrolment.conftest import enrol, make_secret, request, uses
from tests.factories.certificates import SEALER, SIGNING, Certified
from tests.factories.tenancy import ACTOR, make_tenant
from tests.polling import until
from tests.postgres import Engines

_MAC = "00:11:22:33:44:55"


@pytest.fixture
def lasting_engine(app_engine: Engine) -> Iterator[Engine]:
    engine = durable_engine(app_engine)
    yield engine
    engine.dispose()


def statuses(engine: Engine, of: Certified, profile: str = "eap-client-device") -> dict[str, str]:
    with session_scope(TenantScope(of.tenant_id), engine=engine) as session:
        rows = session.scalars(select(Certificate).where(Certificate.profile == profile)).all()
        assert all((row.certificate_der is not None) == (row.status == "valid") for row in rows)
        return {row.serial.hex(): row.status for row in rows}


def actions(engine: Engine, of: Certified, target: str) -> list[tuple[str, str]]:
    with session_scope(TenantScope(of.tenant_id), engine=engine) as session:
        query = select(AuditEntry.actor, AuditEntry.action).where(AuditEntry.target == target).order_by(AuditEntry.id)
        return [(row.actor, row.action) for row in session.execute(query)]


def age(owner_engine: Engine, by: timedelta) -> None:
    """Make every intent older by this duration."""
    with owner_engine.begin() as connection:
        for table in (Certificate, AuthorityIntent):
            connection.execute(update(table).values(created_at=table.created_at - by))


def settle(engine: Engine, of: Certified) -> intents.AbandonedIntents:
    with session_scope(TenantScope(of.tenant_id), engine=engine) as session:
        return intents.abandon_stale_intents(session, actor="worker", tenant_id=of.tenant_id, now=of.now)


def publish(
    engine: Engine, of: Certified, now: Any, signing: SigningContext = SIGNING
) -> publication.PublicationResult:
    with session_scope(TenantScope(of.tenant_id), engine=engine) as session:
        where: dict[str, Any] = {"tenant_id": of.tenant_id, "authority_id": of.authorities.issuing.id}
        return publication.publish_status(session, actor="worker", signing=signing, now=now, **where)


def ocsp(engine: Engine, of: Certified, serial: str) -> OCSPCertStatus:
    issuer = x509.load_der_x509_certificate(of.authorities.issuing.certificate_der)
    hashed = (hashlib.sha256(each).digest() for each in (issuer.subject.public_bytes(), key_bits(issuer.public_key())))
    asked = OCSPRequestBuilder().add_certificate_by_hash(*hashed, int(serial, 16), hashes.SHA256()).build()
    authority_id, der = of.authorities.issuing.id, asked.public_bytes(Encoding.DER)
    responder = OcspResponder(engine, SEALER)
    responder.start()
    try:
        return load_der_ocsp_response(responder.answer(authority_id, der, now=of.now).der).certificate_status
    finally:
        responder.stop()


def listed(engine: Engine, of: Certified) -> tuple[int, list[str]]:
    """The number of the published CRL, and its serial numbers."""
    with session_scope(TenantScope(of.tenant_id), engine=engine) as session:
        der = session.scalars(select(ListRow.crl_der).where(ListRow.authority_id == of.authorities.issuing.id)).one()
    crl = x509.load_der_x509_crl(der)
    number = crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    return number, [entry.serial_number.to_bytes(16).hex() for entry in crl]


def test_certificate_of_a_killed_process_is_never_good(app_engine, worker_engine, owner_engine, database, alpha):
    publish(worker_engine, alpha, alpha.now)
    secret = make_secret(app_engine, alpha)
    dies_signing(database.app_url, lambda engine, signing: enrol(engine, alpha, secret, signing=signing))
    ((serial, status),) = statuses(app_engine, alpha).items()
    assert (status, uses(app_engine, alpha)) == ("intended", [1])
    assert actions(app_engine, alpha, serial) == [(ACTOR, "certificate.intend")]
    assert ocsp(app_engine, alpha, serial) is OCSPCertStatus.UNKNOWN
    assert settle(worker_engine, alpha) == intents.AbandonedIntents(0, 0)

    age(owner_engine, intents.ABANDON_AFTER)
    assert settle(worker_engine, alpha) == intents.AbandonedIntents(1, 0)
    # The secret can be used again.
    assert (statuses(app_engine, alpha), uses(app_engine, alpha)) == ({serial: "abandoned"}, [0])
    assert actions(app_engine, alpha, serial) == [(ACTOR, "certificate.intend"), ("worker", "certificate.abandon")]
    assert ocsp(app_engine, alpha, serial) is OCSPCertStatus.REVOKED
    publish(worker_engine, alpha, alpha.now + timedelta(minutes=1))
    assert listed(app_engine, alpha) == (2, [serial])
    assert settle(worker_engine, alpha) == intents.AbandonedIntents(0, 0)


@pytest.fixture
def left_behind(engines: Engines) -> Iterator[None]:
    """The signature was interrupted a moment ago, so the worker does not complete it yet."""
    yield
    engines.dispose()


@pytest.mark.usefixtures("left_behind")
@pytest.mark.parametrize("fault", [cut_connections, kill_postgres])
def test_failed_second_commit_can_be_retried(lasting_engine, owner_engine, database, alpha, fault):
    secret = make_secret(lasting_engine, alpha)
    with pytest.raises(DatabaseUnavailable):
        enrol(lasting_engine, alpha, secret, signing=signing_with_callback(lambda: fault(database)))
    (lost,) = statuses(lasting_engine, alpha)
    age(owner_engine, intents.STALE_AFTER)
    found = enrol(lasting_engine, alpha, secret).serial.hex()
    assert statuses(lasting_engine, alpha) == {lost: "abandoned", found: "valid"}


def test_secret_of_a_killed_process_is_reusable_once_later(app_engine, owner_engine, database, alpha):
    secret, asked = make_secret(app_engine, alpha), request("laptop")
    dies_signing(database.app_url, lambda engine, signing: enrol(engine, alpha, secret, asked, signing=signing))
    # The signing process may still be running.
    with pytest.raises(SecretRefused) as refused:
        enrol(app_engine, alpha, secret, asked)
    assert (refused.value.why, uses(app_engine, alpha)) == ("used", [1])
    (lost,) = statuses(app_engine, alpha)
    age(owner_engine, intents.STALE_AFTER)
    # The second request uses the key of the first request.
    found = enrol(app_engine, alpha, secret, asked).serial.hex()
    assert statuses(app_engine, alpha) == {lost: "abandoned", found: "valid"}
    assert uses(app_engine, alpha) == [1]
    with pytest.raises(SecretRefused):
        enrol(app_engine, alpha, secret)


def test_secret_reused_during_signing_gets_no_certificate(app_engine, owner_engine, alpha):
    secret, asked = make_secret(app_engine, alpha), request("laptop")
    with ThreadPoolExecutor(1) as pool, owner_engine.connect() as connection:
        others: list[Future[Any]] = []

        def meanwhile() -> None:
            others.append(pool.submit(enrol, app_engine, alpha, secret, asked))
            waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
            until(lambda: others[0].done() or connection.scalar(waiting), "the other waits")
            assert not others[0].done()

        found = enrol(app_engine, alpha, secret, asked, signing=signing_with_callback(meanwhile)).serial.hex()
        with pytest.raises(SecretRefused):
            others[0].result(20)
    assert statuses(app_engine, alpha) == {found: "valid"}


def test_key_of_a_lost_request_is_certified_on_a_later_retry(app_engine, owner_engine, database, alpha):
    secret, asked = make_secret(app_engine, alpha, uses=5), request("laptop")
    dies_signing(database.app_url, lambda engine, signing: enrol(engine, alpha, secret, asked, signing=signing))
    with pytest.raises(DuplicateKey):
        enrol(app_engine, alpha, secret, asked)
    age(owner_engine, intents.STALE_AFTER)
    found = enrol(app_engine, alpha, secret, asked).serial.hex()
    assert sorted(statuses(app_engine, alpha).values()) == ["abandoned", "valid"]
    assert uses(app_engine, alpha) == [1]
    assert statuses(app_engine, alpha)[found] == "valid"


def test_late_signature_is_discarded(app_engine, worker_engine, owner_engine, alpha, scoped):
    key = generate_key().public_key()
    with scoped() as session:
        reserved = alpha.reserve(session)
    age(owner_engine, intents.ABANDON_AFTER)
    settle(worker_engine, alpha)
    with scoped() as session, pytest.raises(CertificateStatusConflict, match="Admit abandoned the unfinished"):
        sign_certificate(session, reserved, actor=ACTOR, public_key=key, signing=SIGNING, now=alpha.now)
    assert statuses(app_engine, alpha) == {reserved.serial.hex(): "abandoned"}


def test_signing_in_progress_is_never_interrupted(app_engine, worker_engine, owner_engine, alpha, scoped):
    settled: list[intents.AbandonedIntents] = []

    def meanwhile() -> None:
        settled.append(settle(worker_engine, alpha))

    key = generate_key().public_key()
    with scoped() as session:
        reserved = alpha.reserve(session, signing=signing_with_callback(meanwhile))
    age(owner_engine, intents.ABANDON_AFTER)
    with scoped() as session:
        sign_certificate(session, reserved, actor=ACTOR, public_key=key, signing=SIGNING, now=alpha.now)
    assert settled == [intents.AbandonedIntents(0, 0)]
    assert statuses(app_engine, alpha) == {reserved.serial.hex(): "valid"}


def test_rejected_request_leaves_no_intent_and_keeps_the_secret(app_engine, alpha, scoped):
    secret = make_secret(app_engine, alpha)
    with scoped() as session:
        session.execute(update(CertificateAuthority).values(key_sealed=b"damaged"))
    with pytest.raises(SealedValueMalformed):
        enrol(app_engine, alpha, secret)
    assert (statuses(app_engine, alpha), uses(app_engine, alpha)) == ({}, [0])


def test_revoking_a_device_cancels_intents_before_deletion(app_engine, alpha, scoped):
    with scoped() as session:
        endpoint = endpoints.create_endpoint(session, actor=ACTOR, tenant_id=alpha.tenant_id, mac=_MAC)
        reserved = alpha.reserve(session, endpoint_id=endpoint.id)
        with pytest.raises(InUse):
            require_no_good_certificates(session, endpoint, remedy="Revoke.")
        which = issued_to_clause(session, tenant_id=alpha.tenant_id, mac=_MAC)
        done = revoke_all(session, actor=ACTOR, tenant_id=alpha.tenant_id, which=which, now=alpha.now)
        assert done.certificates == 0
        require_no_good_certificates(session, endpoint, remedy="Revoke.")
    assert statuses(app_engine, alpha) == {reserved.serial.hex(): "abandoned"}


def test_lost_crl_leaves_a_gap_in_the_numbers(app_engine, worker_engine, database, alpha, scoped):
    # The first signature is for the certificate of the OCSP signer, the second for the CRL.
    dies_signing(database.worker_url, lambda engine, signing: publish(engine, alpha, alpha.now, signing=signing), at=2)
    # PostgreSQL keeps a killed process's lock until it detects the kill.
    made = publication.PublicationResult(True, True)
    until(lambda: publish(worker_engine, alpha, alpha.now) == made, "both are made anew")
    assert listed(app_engine, alpha) == (2, [])
    with scoped() as session:
        query = (
            select(AuditEntry)
            .where(AuditEntry.action.in_(("authority.crl", "authority.abandon-ocsp-signer")))
            .order_by(AuditEntry.id)
        )
        abandoned, crl = session.scalars(query.order_by(AuditEntry.id)).all()
        serials = session.scalars(select(OcspSignerRow.serial)).all()
    assert crl.after == {"number": 2, "entries": 0, "scheduled": True, "last_published": 0}
    # No certificate uses the key.
    assert [serial.hex() for serial in serials] != [abandoned.after["serial"]]
    assert ocsp(app_engine, alpha, abandoned.after["serial"]) is OCSPCertStatus.UNKNOWN


@pytest.mark.parametrize("at", [1, 2, 3])
def test_rollover_completes_an_interrupted_hierarchy(app_engine, worker_engine, owner_engine, database, platform, at):
    """The process is killed at the signature of the root, of the issuing authority or of the server certificate."""
    tenant_id = make_tenant(app_engine, platform, "late").id
    now = utc_now()

    def create(engine: Engine, signing: SigningContext) -> None:
        with session_scope(TenantScope(tenant_id), engine=engine) as session:
            create_tenant_authorities(session, actor=ACTOR, tenant_id=tenant_id, signing=signing, now=now)

    dies_signing(database.app_url, create, at=at)
    if at < 3:
        with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
            assert session.scalars(select(CertificateAuthority)).all() == []
            given: dict[str, Any] = {"tenant_id": tenant_id, "signing": SIGNING}
            plan = rollover.plan_rollover(session, of_root=True, **given)
            done = rollover.execute_rollover(session, plan, actor=ACTOR, signing=SIGNING, now=now)
        server = done.server
    else:
        with session_scope(TenantScope(tenant_id), engine=worker_engine) as session:
            renewing = server_renewal.plan_renewal(session, actor=ACTOR, tenant_id=tenant_id, signing=SIGNING, now=now)
            server = server_renewal.execute_renewal(session, renewing, actor=ACTOR, signing=SIGNING, now=now)
    assert (server.common_name, server.present_from in (None, now)) == ("radius.late.admit.example", True)
    age(owner_engine, intents.ABANDON_AFTER)
    with session_scope(TenantScope(tenant_id), engine=worker_engine) as session:
        settled = intents.abandon_stale_intents(session, actor="worker", tenant_id=tenant_id, now=now)
        open_ = session.scalars(select(AuthorityIntent).where(AuthorityIntent.signed_at.is_(None))).all()
    assert settled == (intents.AbandonedIntents(0, 2) if at < 3 else intents.AbandonedIntents(1, 0))
    assert all(row.abandoned_at is not None for row in open_)


def test_abandoned_authority_is_not_signed(scoped, worker_engine, owner_engine, alpha):
    with scoped() as session:
        plan = rollover.plan_rollover(session, tenant_id=alpha.tenant_id, signing=SIGNING)
    age(owner_engine, intents.ABANDON_AFTER)
    assert settle(worker_engine, alpha) == intents.AbandonedIntents(0, 1)
    with scoped() as session, pytest.raises(CertificateStatusConflict, match="Admit abandoned the unfinished"):
        rollover.execute_rollover(session, plan, actor=ACTOR, signing=SIGNING, now=alpha.now)


@pytest.mark.parametrize("at", [2, 4])
def test_interrupted_root_rollover_recovers(scoped, worker_engine, database, alpha, at):
    """The process is killed at the signature of the cross-certificate or of the server certificate."""
    scope = TenantScope(alpha.tenant_id)

    def roll_over(engine: Engine, signing: SigningContext) -> None:
        with session_scope(scope, engine=engine) as session:
            plan = rollover.plan_rollover(session, tenant_id=alpha.tenant_id, signing=signing, of_root=True)
        with session_scope(scope, engine=engine) as session:
            rollover.execute_rollover(session, plan, actor=ACTOR, signing=signing, now=alpha.now)

    def renew() -> Certificate | None:
        with session_scope(scope, engine=worker_engine) as session:
            arguments: dict[str, Any] = {"actor": ACTOR, "signing": SIGNING, "now": alpha.now}
            plan = server_renewal.plan_renewal(session, tenant_id=alpha.tenant_id, **arguments)
            return plan and server_renewal.execute_renewal(session, plan, **arguments)

    dies_signing(database.app_url, roll_over, at=at)
    with scoped() as session:
        authorities = session.scalars(select(CertificateAuthority)).all()
    if at == 2:
        assert [row.status for row in authorities] == ["active", "active"]
        assert renew() is None
        return
    (issuing,) = (row.id for row in authorities if row.kind == "issuing" and row.status == "active")
    server = renew()
    assert (server.authority_id, server.present_from) == (issuing, alpha.now)
    assert renew() is None
