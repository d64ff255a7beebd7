"""One-time secrets: their holder, uses and lifetime, and the audit of rejected secrets."""

from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select

from nac.certificates.enrolment import service as enrolment
from nac.certificates.enrolment.errors import InvalidEnrolmentSecret, SecretRefused, TooManyGuesses
from nac.certificates.enrolment.limiter import GuessLimiter
from nac.certificates.enrolment.service import EnrolmentSecretText
from nac.certificates.errors import CertificateRefused
from nac.certificates.profiles import ProfileRefused
from nac.inventory.endpoints import service as endpoints
from nac.kit.db import EnrolmentScope, PlatformScope, TenantScope, session_scope
from nac.kit.errors import AlreadyExists
from nac.kit.ids import TenantId
from nac.models import AuditEntry, CertificateSettings, EnrolmentSecret
from nac.tenancy.tenants import service as tenants
from tests.enrolment.conftest import at_once, make_secret
from tests.factories.certificates import Certified
from tests.factories.tenancy import ACTOR


def redeem(app_engine: Engine, of: Certified, name: str, secret: str, **changes: Any) -> EnrolmentSecret:
    arguments: dict[str, Any] = {"kind": "est", "now": of.now} | changes
    with session_scope(TenantScope(of.tenant_id), engine=app_engine) as session:
        return enrolment.redeem_secret(session, tenant_id=of.tenant_id, name=name, secret=secret, **arguments)


def rejection_reason(app_engine: Engine, of: Certified, name: str, secret: str, **changes: Any) -> str:
    with pytest.raises(SecretRefused) as caught:
        redeem(app_engine, of, name, secret, **changes)
    # The response is equal for all reasons.
    assert str(caught.value) == "The secret is not accepted. Ask your administrator for a new secret."
    return caught.value.why


def test_secret_works_once_by_its_id_or_name(app_engine, alpha):
    token = make_secret(app_engine, alpha, name="kiosk", uses=2).token
    assert redeem(app_engine, alpha, token.public_id, token.secret).uses == 1
    assert redeem(app_engine, alpha, "kiosk", token.secret).uses == 2
    assert rejection_reason(app_engine, alpha, "kiosk", token.secret) == "used"


def test_secret_for_a_disallowed_choice_is_not_created(app_engine, alpha):
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        choice = {"eap-client-device": {"validity_days": 10_000}}
        session.add(CertificateSettings(tenant_id=alpha.tenant_id, profiles=choice))
    with pytest.raises(ProfileRefused):
        make_secret(app_engine, alpha)


def test_rejection_reason_is_only_in_the_log(app_engine, alpha, bravo):
    token = make_secret(app_engine, alpha).token
    named = token.public_id, token.secret
    assert rejection_reason(app_engine, alpha, "nobody", token.secret) == "unknown"
    assert rejection_reason(app_engine, alpha, "\0", token.secret) == "unknown"
    assert rejection_reason(app_engine, alpha, token.public_id, EnrolmentSecretText.make().secret) == "wrong-secret"
    assert rejection_reason(app_engine, alpha, *named, kind="scep") == "wrong-kind"
    assert rejection_reason(app_engine, alpha, *named, now=alpha.now + enrolment.DEFAULT_LIFETIME) == "expired"
    assert rejection_reason(app_engine, bravo, *named) == "unknown"
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        enrolment.revoke_secret(session, actor=ACTOR, tenant_id=alpha.tenant_id, name=token.public_id)
    assert rejection_reason(app_engine, alpha, *named) == "revoked"


def test_suspended_blocked_or_disabled_holder_is_rejected(app_engine, alpha):
    scope = TenantScope(alpha.tenant_id)
    with session_scope(scope, engine=app_engine) as session:
        endpoints.create_endpoint(session, actor=ACTOR, tenant_id=alpha.tenant_id, mac="00005e005301", name="Printer")
    bound = make_secret(app_engine, alpha, endpoint_mac="00005e005301")
    assert bound.row.common_name == "00005e005301"
    with session_scope(scope, engine=app_engine) as session:
        endpoints.block_endpoint(session, actor=ACTOR, tenant_id=alpha.tenant_id, mac="00005e005301")
    assert rejection_reason(app_engine, alpha, bound.token.public_id, bound.token.secret) == "holder-barred"
    free = make_secret(app_engine, alpha).token
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenants.suspend_tenant(session, actor=ACTOR, tenant_id=alpha.tenant_id)
    assert rejection_reason(app_engine, alpha, free.public_id, free.secret) == "tenant-inactive"


def test_concurrent_redemption_succeeds_once(app_engine, alpha):
    token = make_secret(app_engine, alpha).token
    outcomes = at_once(*[partial(redeem, app_engine, alpha, token.public_id, token.secret)] * 4)
    assert sorted(getattr(each, "why", "redeemed") for each in outcomes) == ["redeemed", "used", "used", "used"]


def test_secret_is_not_stored_in_plain_text(app_engine, owner_engine, alpha):
    token = make_secret(app_engine, alpha, name="kiosk").token
    with owner_engine.connect() as connection:
        for table in ("enrolment_secrets", "audit_log"):
            rows = connection.exec_driver_sql(f"SELECT t::text FROM {table} t").scalars().all()
            assert rows
            assert token.secret not in "".join(rows)
    assert token.secret not in f"{token} {token!r}"


def test_rejection_is_audited_without_the_secret(app_engine, alpha):
    claimed = {"actor": "est:192.0.2.1", "tenant_id": alpha.tenant_id, "name": "\x1b[2J" + "n" * 200}
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        enrolment.record_refusal(session, refused=SecretRefused("used"), **claimed)
        entry = session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc()).limit(1)).one()
    assert (entry.action, entry.actor, entry.after) == ("enrolment-secret.refuse", "est:192.0.2.1", {"why": "used"})
    assert entry.target == ("[2J" + "n" * 200)[:64]


def test_link_is_valid_only_for_its_tenant(app_engine, alpha, bravo):
    token = make_secret(app_engine, alpha, kind="link", common_name="phone").token
    make_secret(app_engine, bravo)
    with session_scope(EnrolmentScope(token.public_id), engine=app_engine) as session:
        assert enrolment.find_tenant_id(session, token.public_id) == alpha.tenant_id
        assert len(session.scalars(select(EnrolmentSecret)).all()) == 1
    with session_scope(EnrolmentScope("a" * 16), engine=app_engine) as session:
        assert enrolment.find_tenant_id(session, "a" * 16) is None


def test_invalid_secret_settings_are_rejected(app_engine, alpha):
    for changes, complaint in (
        ({"kind": "fax"}, "kind: Unknown kind 'fax'. Use one of: est, scep, link."),
        ({"profile": "eap-server"}, "profile: Unknown profile 'eap-server'."),
        ({"uses": 0}, "uses: Invalid number of uses: 0"),
        ({"life": timedelta(0)}, "life: Invalid lifetime"),
        ({"life": timedelta(days=366)}, "life: Invalid lifetime"),
        ({"kind": "link"}, "common_name: An enrolment link needs a name"),
    ):
        with pytest.raises(InvalidEnrolmentSecret) as caught:
            make_secret(app_engine, alpha, **changes)
        assert str(caught.value).startswith(complaint)
    make_secret(app_engine, alpha, name="kiosk")
    with pytest.raises(AlreadyExists):
        make_secret(app_engine, alpha, name="kiosk")
    with pytest.raises(CertificateRefused, match="allows these kinds: dns, uri"):
        make_secret(app_engine, alpha, sans=["email:eve@alpha.example"])


def test_guesses_are_limited_per_source_and_tenant():
    now = [0.0]
    limiter = GuessLimiter(most=3, clock=lambda: now[0])
    alpha, bravo = TenantId(uuid4()), TenantId(uuid4())
    for _ in range(3):
        limiter.require(alpha, "2001:db8::1")
        limiter.note(alpha, "2001:db8::1")
    with pytest.raises(TooManyGuesses) as caught:
        limiter.require(alpha, "2001:db8::ffff")
    assert caught.value.retry_after_seconds == 600
    limiter.require(bravo, "2001:db8::1")
    limiter.require(alpha, "2001:db8:0:1::1")
    now[0] = 601
    limiter.require(alpha, "2001:db8::1")


@given(st.text() | st.from_regex(r"[a-z0-9]{15,17}-[a-z0-9]{25,27}"))
def test_any_text_is_a_token_or_none(text):
    token = EnrolmentSecretText.parse(text)
    assert token is None or token.reveal() == text
