"""Lost responses of enrolment. A repeated request gets the first certificate. Any other use of a secret counts."""

from datetime import timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import select

from nac.certificates import service as certificates
from nac.certificates.enrolment import certificate_enrolment
from nac.certificates.enrolment import service as enrolment
from nac.certificates.enrolment.errors import AnswerUnderWay
from nac.kit.db import TenantScope, session_scope
from nac.models import Certificate
from pki.keys import public_key_digest
from tests.enrolment.conftest import at_once, make_secret, request, signed, user, uses
from tests.enrolment.test_est import certificates_in, encoded, enrolled
from tests.factories.certificates import SIGNING
from tests.factories.tenancy import ACTOR


@pytest.mark.parametrize("most", [1, 2])
def test_repeated_request_and_secret_get_the_same_certificate(est, app_engine, alpha, most):
    token = make_secret(app_engine, alpha, uses=most).token
    body = encoded(common_name="laptop")
    first, second = (est.ask("alpha", "simpleenroll", *user(token), body=body) for _ in range(2))
    assert certificates_in(first) == certificates_in(second)
    assert (signed(app_engine, alpha), uses(app_engine, alpha)) == (2, [1])


def test_used_secret_with_another_key_or_name_is_rejected(est, app_engine, alpha):
    token = make_secret(app_engine, alpha).token
    key = ec.generate_private_key(ec.SECP256R1())
    certificates_in(est.ask("alpha", "simpleenroll", *user(token), body=encoded(common_name="laptop", key=key)))
    for asked in (encoded(common_name="laptop"), encoded(common_name="other", key=key)):
        assert est.ask("alpha", "simpleenroll", *user(token), body=asked).status == 401
    # Neither another secret nor the id without the secret returns the certificate.
    other = make_secret(app_engine, alpha).token
    again = encoded(common_name="laptop", key=key)
    assert est.ask("alpha", "simpleenroll", *user(other), body=again).status == 409
    wrong = f"{token.public_id}:{other.secret}"
    assert est.ask("alpha", "simpleenroll", "-u", wrong, body=again).status == 401
    assert signed(app_engine, alpha) == 2


def test_repetition_minutes_later_is_a_new_request(est, app_engine, alpha, monkeypatch):
    device = enrolled(est, app_engine, alpha)
    token, body, renewal = make_secret(app_engine, alpha).token, encoded(common_name="kiosk"), encoded()
    certificates_in(est.ask("alpha", "simpleenroll", *user(token), body=body))
    certificates_in(est.ask("alpha", "simplereenroll", *device.shown, body=renewal))
    monkeypatch.setattr(certificate_enrolment, "REPEAT_WINDOW", timedelta())
    assert est.ask("alpha", "simpleenroll", *user(token), body=body).status == 401
    assert est.ask("alpha", "simplereenroll", *device.shown, body=renewal).status == 409


@pytest.mark.parametrize("what", ["certificate", "secret"])
def test_certificate_revoked_since_is_not_returned_again(est, app_engine, alpha, what):
    token, body = make_secret(app_engine, alpha).token, encoded(common_name="laptop")
    (issued,) = certificates_in(est.ask("alpha", "simpleenroll", *user(token), body=body))
    given = {"actor": ACTOR, "tenant_id": alpha.tenant_id}
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        if what == "secret":
            enrolment.revoke_secret(session, name=token.public_id, **given)
        else:
            certificates.revoke_certificate(session, serial=f"{issued.serial_number:x}", now=alpha.now, **given)
    assert est.ask("alpha", "simpleenroll", *user(token), body=body).status == 401


def test_repeated_renewal_gets_the_same_certificate(est, app_engine, alpha):
    device = enrolled(est, app_engine, alpha)
    body = encoded(common_name="laptop")
    first, second = (est.ask("alpha", "simplereenroll", *device.shown, body=body) for _ in range(2))
    assert certificates_in(first) == certificates_in(second)
    assert signed(app_engine, alpha) == 3
    # A request with this key to renew another certificate is a new request.
    other = enrolled(est, app_engine, alpha)
    assert est.ask("alpha", "simplereenroll", *other.shown, body=body).status == 409


@pytest.mark.parametrize("renewal", [False, True])
def test_repetition_during_signing_gets_retry_later(app_engine, alpha, renewal):
    made, asked = make_secret(app_engine, alpha), request("laptop")
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        old = session.scalars(select(Certificate).where(Certificate.serial == alpha.issue(session).serial)).one()
        reserved = alpha.reserve(session, common_name="laptop")
        row = session.scalars(select(Certificate).where(Certificate.serial == reserved.serial)).one()
        row.public_key_sha256 = public_key_digest(asked.public_key)
        row.secret_id, row.renews_id = (None, old.id) if renewal else (made.row.id, None)
    known = {"old": old} if renewal else {"secret": made.row}
    find = getattr(certificate_enrolment, f"find_repeated_{'renewal' if renewal else 'enrolment'}")
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session, pytest.raises(AnswerUnderWay):
        find(session, request=asked, now=alpha.now, **known)


def test_concurrent_identical_requests_get_the_same_certificate(app_engine, alpha):
    token, asked = make_secret(app_engine, alpha).token, request("laptop")
    named = {"kind": "est", "name": token.public_id, "secret": token.secret}
    common = {"request": asked, "now": alpha.now}

    def ask() -> bytes:
        with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
            held = enrolment.lock_secret(session, tenant_id=alpha.tenant_id, now=alpha.now, **named)
            issued = certificate_enrolment.find_repeated_enrolment(session, secret=held.row, **common)
            issued = issued or certificate_enrolment.enrol(
                session, actor=ACTOR, secret=held.take(alpha.now), signing=SIGNING, **common
            )
            return issued.serial

    def ask_until_answered() -> bytes:
        while True:
            try:
                return ask()
            except AnswerUnderWay:
                continue

    first, second = at_once(ask_until_answered, ask_until_answered)
    assert first == second
