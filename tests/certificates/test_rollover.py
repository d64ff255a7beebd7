"""Rollover of authorities, renewal of server certificates, and storage of keys."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from nac.certificates import profiles, rollover, server_renewal
from nac.certificates.bulk_revocation import revoke_authority
from nac.certificates.errors import AuthorityKeyAway, CertificateStatusConflict, KeyStoreRefused
from nac.certificates.issuance import issue_server
from nac.certificates.service import build_pem_files, list_authorities
from nac.certificates.signing import SigningContext
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import Conflict
from nac.models import AuditEntry, AuthorityIntent, Certificate, CertificateAuthority
from pki.bundles import certificates_pem
from pki.names import read_sans
from tests.factories.certificates import SEALER, SIGNING, Certified, certify
from tests.factories.tenancy import ACTOR, make_tenant
from tests.pki.openssl import openssl, verify
from tests.pki.softhsm import make_softhsm

_DAY = timedelta(days=1)


def _roll_over(
    session: Session, tenant: Certified, *, signing: SigningContext = SIGNING, **options: Any
) -> rollover.RolloverResult:
    plan = rollover.plan_rollover(session, tenant_id=tenant.tenant_id, signing=signing, **options)
    return rollover.execute_rollover(session, plan, actor=ACTOR, signing=signing, now=tenant.now)


def _verifies(folder: Path, files: dict[str, bytes], root: CertificateAuthority) -> bool:
    for kind, content in files.items():
        (folder / kind).write_bytes(content)
    (folder / "trusted").write_bytes(certificates_pem([x509.load_der_x509_certificate(root.certificate_der)]))
    return verify("sslclient", folder / "trusted", folder / "chain", folder / "cert").returncode == 0


def test_new_issuing_ca_signs_and_the_old_one_retires(app_engine, alpha, tmp_path):
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        before = build_pem_files(alpha.issue(session, common_name="before"))
        done = _roll_over(session, alpha)
        after = build_pem_files(alpha.issue(session, common_name="after"))
        statuses = {row.id: row.status for row in list_authorities(session, tenant_id=alpha.tenant_id)}
    old, root = alpha.authorities.issuing, alpha.authorities.root
    assert statuses == {root.id: "active", old.id: "retired", done.issuing.id: "active"}
    assert done.issuing.subject != old.subject
    assert done.issuing.issuer_id == root.id
    assert [row.id for row in done.retired] == [old.id]
    assert done.server is None
    assert before["chain"] != after["chain"]
    assert _verifies(tmp_path, before, root)
    assert _verifies(tmp_path, after, root)


def test_new_root_is_cross_certified_by_the_old_one(app_engine, alpha, tmp_path):
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        done = _roll_over(session, alpha, of_root=True)
        files = build_pem_files(alpha.issue(session))
        statuses = {row.id: row.status for row in list_authorities(session, tenant_id=alpha.tenant_id)}
    old = alpha.authorities
    assert statuses == {
        old.root.id: "retired",
        old.issuing.id: "retired",
        done.root.id: "active",
        done.issuing.id: "active",
    }
    assert _verifies(tmp_path, files, done.root)
    assert not _verifies(tmp_path, files, old.root)
    with_cross = files | {
        "chain": files["chain"] + certificates_pem([x509.load_der_x509_certificate(done.root.cross_der)])
    }
    assert _verifies(tmp_path, with_cross, old.root)
    assert [str(name) for name in read_sans(x509.load_der_x509_certificate(done.server.certificate_der))] == [
        "dns:radius.alpha.admit.example"
    ]


def test_every_signature_of_an_authority_has_intent_and_audit(app_engine, alpha):
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        last = session.scalars(select(AuditEntry.id).order_by(AuditEntry.id.desc()).limit(1)).one()
        _roll_over(session, alpha, of_root=True)
        actions = session.scalars(select(AuditEntry.action).where(AuditEntry.id > last).order_by(AuditEntry.id)).all()
        intents = session.scalars(select(AuthorityIntent).order_by(AuthorityIntent.created_at)).all()
    assert actions == [
        *("authority.create", "authority.cross-sign", "authority.create", "authority.retire", "authority.retire"),
        *("certificate.intend", "certificate.issue"),
    ]
    assert sorted(intent.kind for intent in intents) == ["cross", "issuing", "issuing", "root", "root"]
    assert all(intent.signed_at for intent in intents)


def test_intent_survives_a_lost_signature_and_signs_once(app_engine, alpha):
    scope = TenantScope(alpha.tenant_id)
    with session_scope(scope, engine=app_engine) as session:
        plan = rollover.plan_rollover(session, tenant_id=alpha.tenant_id, signing=SIGNING)
    with session_scope(scope, engine=app_engine) as session:
        intent = session.scalars(select(AuthorityIntent).where(AuthorityIntent.signed_at.is_(None))).one()
        assert (intent.id, intent.kind) == (plan.issuing.authority_id, "issuing")
        rollover.execute_rollover(session, plan, actor=ACTOR, signing=SIGNING, now=alpha.now)
    with (
        session_scope(scope, engine=app_engine) as session,
        pytest.raises(CertificateStatusConflict, match="already has a successor"),
    ):
        rollover.execute_rollover(session, plan, actor=ACTOR, signing=SIGNING, now=alpha.now)


def test_concurrent_workers_roll_over_once(app_engine, alpha):
    now = alpha.authorities.server.not_after - 10 * _DAY
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        first, second = (_plan_renewal(session, alpha, now) for _ in range(2))
        server_renewal.execute_renewal(session, first, actor=ACTOR, signing=SIGNING, now=now)
        with pytest.raises(CertificateStatusConflict, match="already has a successor"):
            server_renewal.execute_renewal(session, second, actor=ACTOR, signing=SIGNING, now=now)
        plans = [rollover.plan_rollover(session, tenant_id=alpha.tenant_id, signing=SIGNING) for _ in range(2)]
        rollover.execute_rollover(session, plans[0], actor=ACTOR, signing=SIGNING, now=alpha.now)
        with pytest.raises(CertificateStatusConflict, match="already has a successor"):
            rollover.execute_rollover(session, plans[1], actor=ACTOR, signing=SIGNING, now=alpha.now)


def test_expired_root_is_replaced_without_cross_certificate(app_engine, alpha):
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        plan = rollover.plan_rollover(session, tenant_id=alpha.tenant_id, signing=SIGNING, of_root=True)
        then = alpha.authorities.root.not_after + _DAY
        done = rollover.execute_rollover(session, plan, actor=ACTOR, signing=SIGNING, now=then)
    assert done.root.cross_der is None
    assert done.root.not_after > then


@pytest.mark.parametrize("which", ["issuing", "root"])
def test_revoked_authority_is_replaced_with_its_server_cert(app_engine, alpha, tmp_path, which):
    scope = TenantScope(alpha.tenant_id)
    with session_scope(scope, engine=app_engine) as session:
        revoke_authority(
            session, actor=ACTOR, tenant_id=alpha.tenant_id, which=which, now=alpha.now, reason="keyCompromise"
        )
    if which == "root":
        with session_scope(scope, engine=app_engine) as session, pytest.raises(Conflict, match="no active root"):
            _roll_over(session, alpha)
    with session_scope(scope, engine=app_engine) as session:
        done = _roll_over(session, alpha, of_root=which == "root")
        files = build_pem_files(alpha.issue(session))
    assert done.retired == ()
    # A revoked root signs no cross-certificate.
    assert done.root.cross_der is None
    assert done.server.authority_id == done.issuing.id
    assert done.server.common_name == alpha.authorities.server.common_name
    assert _verifies(tmp_path, files, done.root)


def test_worker_rolls_over_before_lifetimes_are_cut_short(app_engine, alpha):
    end = alpha.authorities.issuing.not_after
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        due = lambda now: rollover.is_rollover_due(session, tenant_id=alpha.tenant_id, now=now)  # noqa: E731
        # Of the client profiles, RadSec NASes have the longest lifetime.
        assert (due(end - 820 * _DAY), due(end - 819 * _DAY)) == (False, True)
        # A new issuing authority would expire with the root, so it would not last longer.
        session.execute(update(CertificateAuthority).where(CertificateAuthority.kind == "root").values(not_after=end))
        session.expire_all()
        assert not due(end - _DAY)


def test_rollover_without_the_root_key_is_rejected(app_engine, alpha):
    scope = TenantScope(alpha.tenant_id)
    with session_scope(scope, engine=app_engine) as session:
        session.execute(update(CertificateAuthority).where(CertificateAuthority.kind == "root").values(key_sealed=None))
    with (
        session_scope(scope, engine=app_engine) as session,
        pytest.raises(AuthorityKeyAway, match=r"does not store the key of .*Root CA"),
    ):
        rollover.plan_rollover(session, tenant_id=alpha.tenant_id, signing=SIGNING)
    with session_scope(scope, engine=app_engine) as session:
        assert session.scalars(select(AuthorityIntent).where(AuthorityIntent.signed_at.is_(None))).all() == []


def test_new_root_without_cross_certificate_starts_later(app_engine, alpha):
    scope, day = TenantScope(alpha.tenant_id), alpha.now + 90 * _DAY
    with session_scope(scope, engine=app_engine) as session:
        session.execute(update(CertificateAuthority).where(CertificateAuthority.kind == "root").values(key_sealed=None))
    with session_scope(scope, engine=app_engine) as session, pytest.raises(AuthorityKeyAway, match="reject the cell"):
        rollover.plan_rollover(session, tenant_id=alpha.tenant_id, signing=SIGNING, of_root=True)
    with session_scope(scope, engine=app_engine) as session:
        assert session.scalars(select(AuthorityIntent).where(AuthorityIntent.signed_at.is_(None))).all() == []
        done = _roll_over(session, alpha, of_root=True, server_from=day)
    assert done.root.cross_der is None
    assert done.server.present_from == day


def test_tenant_without_authorities_cannot_roll_over(app_engine, platform):
    bare = make_tenant(app_engine, platform, "bare")
    with (
        session_scope(TenantScope(bare.id), engine=app_engine) as session,
        pytest.raises(Conflict, match="no active root"),
    ):
        rollover.plan_rollover(session, tenant_id=bare.id, signing=SIGNING)


def _plan_renewal(session: Session, tenant: Certified, now: Any) -> server_renewal.ServerRenewalPlan | None:
    return server_renewal.plan_renewal(session, actor=ACTOR, tenant_id=tenant.tenant_id, signing=SIGNING, now=now)


def _renew(session: Session, tenant: Certified, now: Any) -> Certificate | None:
    plan = _plan_renewal(session, tenant, now)
    return plan and server_renewal.execute_renewal(session, plan, actor=ACTOR, signing=SIGNING, now=now)


def test_server_certificate_is_renewed_45_days_before_expiry(app_engine, alpha):
    old = alpha.authorities.server
    due = old.not_after - 45 * _DAY
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        assert _renew(session, alpha, due - timedelta(seconds=1)) is None
        new = _renew(session, alpha, due)
        assert _renew(session, alpha, due + _DAY) is None
        entry = session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc()).limit(1)).one()
    assert (new.common_name, new.key_sealed is not None) == (old.common_name, True)
    assert new.present_from == due + 15 * _DAY
    assert new.not_after > old.not_after + 700 * _DAY
    assert (entry.action, entry.after and entry.after["succeeds"]) == ("certificate.renew", old.serial.hex())


def test_expired_server_certificate_is_renewed_and_used_at_once(app_engine, alpha):
    now = alpha.authorities.server.not_after + _DAY
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        new = _renew(session, alpha, now)
    assert new.present_from == now


def test_short_lived_server_cert_is_renewed_in_last_third(app_engine, platform):
    tenant_id = make_tenant(app_engine, platform, "short").id
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        profiles.update_profile(
            session,
            actor=ACTOR,
            tenant_id=tenant_id,
            name="eap-server",
            choice={"validity_days": 30, "key": "rsa-2048"},
        )
    short = certify(app_engine, tenant_id)
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        assert _renew(session, short, short.now + 19 * _DAY) is None
        new = _renew(session, short, short.now + 21 * _DAY)
    assert x509.load_der_x509_certificate(new.certificate_der).public_key().key_size == 2048


def test_renewal_without_longer_validity_is_skipped(app_engine, alpha):
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        session.execute(
            update(CertificateAuthority)
            .where(CertificateAuthority.kind == "issuing")
            .values(not_after=alpha.authorities.server.not_after)
        )
        assert _renew(session, alpha, alpha.authorities.server.not_after - _DAY) is None


def test_staged_certificate_can_be_activated_early(app_engine, alpha):
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        staged = issue_server(
            session,
            actor=ACTOR,
            tenant_id=alpha.tenant_id,
            dns_names=["radius.alpha.admit.example"],
            signing=SIGNING,
            now=alpha.now,
            present_from=alpha.now + 9 * _DAY,
        )
        shown = server_renewal.present_server_certificate(
            session, actor=ACTOR, tenant_id=alpha.tenant_id, serial=staged.serial, now=alpha.now
        )
        assert shown.present_from == alpha.now
        client = alpha.issue(session)
        with pytest.raises(CertificateStatusConflict, match="not a valid EAP server certificate"):
            server_renewal.present_server_certificate(
                session, actor=ACTOR, tenant_id=alpha.tenant_id, serial=client.serial, now=alpha.now
            )


def test_earlier_server_certificate_can_be_reactivated(app_engine, alpha):
    old, names = alpha.authorities.server, ["radius.elsewhere.example"]
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        made = {"actor": ACTOR, "tenant_id": alpha.tenant_id, "signing": SIGNING, "now": alpha.now}
        new = issue_server(session, dns_names=names, **made)
        staged = issue_server(session, dns_names=names, present_from=alpha.now + 9 * _DAY, **made)
        assert server_renewal.get_presented_server(session, tenant_id=alpha.tenant_id) == staged
        shown = server_renewal.present_server_certificate(
            session, actor=ACTOR, tenant_id=alpha.tenant_id, serial=old.serial, now=alpha.now + _DAY
        )
        # The staged certificate remains unused too, because the latest request applies.
        session.refresh(staged)
        assert (staged.present_from, server_renewal.get_presented_server(session, tenant_id=alpha.tenant_id)) == (
            None,
            shown,
        )
        assert server_renewal.find_removed_names(new, shown) == server_renewal.RemovedServerNames(
            tuple(names), new.serial.hex()
        )
        renewed = _renew(session, alpha, old.not_after - 45 * _DAY)
        assert (renewed.common_name, server_renewal.find_removed_names(shown, renewed)) == (old.common_name, None)
        with pytest.raises(CertificateStatusConflict, match="expired on"):
            server_renewal.present_server_certificate(
                session, actor=ACTOR, tenant_id=alpha.tenant_id, serial=old.serial, now=old.not_after
            )


@pytest.fixture
def token_signing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SigningContext]:
    hsm = make_softhsm(tmp_path)
    monkeypatch.setenv("SOFTHSM2_CONF", str(hsm.configuration))
    return SigningContext(SEALER, "http://status.admit.example", token=hsm.token())


def test_tenant_with_token_keys_issues_and_rolls_over(app_engine, platform, token_signing, tmp_path):
    tenant_id = make_tenant(app_engine, platform, "vault").id
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        profiles.update_key_store(session, actor=ACTOR, tenant_id=tenant_id, store="pkcs11")
    with pytest.raises(KeyStoreRefused, match="no token is configured"):
        certify(app_engine, tenant_id)
    vault = certify(app_engine, tenant_id, signing=token_signing)
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        first = build_pem_files(vault.issue(session, signing=token_signing))
        done = _roll_over(session, vault, signing=token_signing)
        second = build_pem_files(vault.issue(session, signing=token_signing))
        stores = {(row.kind, row.key_store) for row in list_authorities(session, tenant_id=tenant_id)}
    assert stores == {("root", "pkcs11"), ("issuing", "pkcs11")}
    for files in (first, second):
        assert _verifies(tmp_path, files, vault.authorities.root)
    opened = SEALER.open(done.issuing.key_sealed or b"", f"authority:{done.issuing.id}")
    assert opened.startswith(b"pkcs11:id=")
    assert b"PRIVATE" not in opened
    with pytest.raises(KeyStoreRefused, match="no token is configured"):
        SIGNING.authority_key(done.issuing)


def test_profiles_are_validated_on_save_and_used_on_issue(app_engine, alpha, bravo):
    scope = TenantScope(alpha.tenant_id)
    named = {"actor": ACTOR, "tenant_id": alpha.tenant_id, "name": "eap-client-device"}
    with session_scope(scope, engine=app_engine) as session:
        profiles.update_profile(session, choice={"validity_days": 90, "key": "rsa-2048"}, **named)
    for wrong in ({"validity_days": 5000}, {"key": "dsa"}, {"authority": True}, {"validity_days": "x"}):
        with session_scope(scope, engine=app_engine) as session, pytest.raises(profiles.ProfileRefused):
            profiles.update_profile(session, choice=wrong, **named)
    with session_scope(scope, engine=app_engine) as session, pytest.raises(profiles.ProfileNotFound):
        profiles.update_profile(session, choice={}, **named | {"name": "nonsense"})
    with session_scope(scope, engine=app_engine) as session:
        files = build_pem_files(alpha.issue(session))
        row = session.scalars(select(Certificate).where(Certificate.profile == "eap-client-device")).one()
    assert row.not_after - alpha.now < 90 * _DAY
    assert b"Public-Key: (2048 bit)" in openssl("x509", "-noout", "-text", data=files["cert"]).stdout
    with session_scope(TenantScope(bravo.tenant_id), engine=app_engine) as session:
        found = {profile.name: profile for profile in profiles.list_profiles(session, tenant_id=bravo.tenant_id)}
    assert found["eap-client-device"].validity == 730 * _DAY
