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


def test_new_issuing_ca_signs_and_the_old_one_retires(scoped, alpha, tmp_path):
    with scoped() as session:
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


def test_new_root_is_cross_certified_by_the_old_one(scoped, alpha, tmp_path):
    with scoped() as session:
        last = session.scalars(select(AuditEntry.id).order_by(AuditEntry.id.desc()).limit(1)).one()
        done = _roll_over(session, alpha, of_root=True)
        actions = session.scalars(select(AuditEntry.action).where(AuditEntry.id > last).order_by(AuditEntry.id)).all()
        intents = session.scalars(select(AuthorityIntent).order_by(AuthorityIntent.created_at)).all()
        files = build_pem_files(alpha.issue(session))
        statuses = {row.id: row.status for row in list_authorities(session, tenant_id=alpha.tenant_id)}
    old = alpha.authorities
    assert statuses == dict.fromkeys((old.root.id, old.issuing.id), "retired") | dict.fromkeys(
        (done.root.id, done.issuing.id), "active"
    )
    assert _verifies(tmp_path, files, done.root)
    assert not _verifies(tmp_path, files, old.root)
    cross = certificates_pem([x509.load_der_x509_certificate(done.root.cross_der)])
    assert _verifies(tmp_path, files | {"chain": files["chain"] + cross}, old.root)
    server = x509.load_der_x509_certificate(done.server.certificate_der)
    assert [str(name) for name in read_sans(server)] == ["dns:radius.alpha.admit.example"]
    # Each signature of an authority has an intent and an entry in the audit log.
    assert actions == [
        *("authority.create", "authority.cross-sign", "authority.create", "authority.retire", "authority.retire"),
        *("certificate.intend", "certificate.issue"),
    ]
    assert sorted(intent.kind for intent in intents) == ["cross", "issuing", "issuing", "root", "root"]
    assert all(intent.signed_at for intent in intents)


def test_concurrent_workers_roll_over_once(scoped, alpha):
    now = alpha.authorities.server.not_after - 10 * _DAY
    with scoped() as session:
        first, second = (_plan_renewal(session, alpha, now) for _ in range(2))
        server_renewal.execute_renewal(session, first, actor=ACTOR, signing=SIGNING, now=now)
        with pytest.raises(CertificateStatusConflict, match="already has a successor"):
            server_renewal.execute_renewal(session, second, actor=ACTOR, signing=SIGNING, now=now)
        plans = [rollover.plan_rollover(session, tenant_id=alpha.tenant_id, signing=SIGNING) for _ in range(2)]
        rollover.execute_rollover(session, plans[0], actor=ACTOR, signing=SIGNING, now=alpha.now)
        with pytest.raises(CertificateStatusConflict, match="already has a successor"):
            rollover.execute_rollover(session, plans[1], actor=ACTOR, signing=SIGNING, now=alpha.now)


def test_expired_root_is_replaced_without_cross_certificate(scoped, alpha):
    with scoped() as session:
        plan = rollover.plan_rollover(session, tenant_id=alpha.tenant_id, signing=SIGNING, of_root=True)
        then = alpha.authorities.root.not_after + _DAY
        done = rollover.execute_rollover(session, plan, actor=ACTOR, signing=SIGNING, now=then)
    assert done.root.cross_der is None
    assert done.root.not_after > then


@pytest.mark.parametrize("which", ["issuing", "root"])
def test_revoked_authority_is_replaced_with_its_server_cert(scoped, alpha, tmp_path, which):
    with scoped() as session:
        revoke_authority(
            session, actor=ACTOR, tenant_id=alpha.tenant_id, which=which, now=alpha.now, reason="keyCompromise"
        )
    if which == "root":
        with scoped() as session, pytest.raises(Conflict, match="no active root"):
            _roll_over(session, alpha)
    with scoped() as session:
        done = _roll_over(session, alpha, of_root=which == "root")
        files = build_pem_files(alpha.issue(session))
    assert done.retired == ()
    # A revoked root signs no cross-certificate.
    assert done.root.cross_der is None
    assert done.server.authority_id == done.issuing.id
    assert done.server.common_name == alpha.authorities.server.common_name
    assert _verifies(tmp_path, files, done.root)


def test_worker_rolls_over_before_lifetimes_are_cut_short(scoped, alpha):
    end = alpha.authorities.issuing.not_after
    with scoped() as session:
        due = lambda now: rollover.is_rollover_due(session, tenant_id=alpha.tenant_id, now=now)  # noqa: E731
        # Of the client profiles, RadSec NASes have the longest lifetime.
        assert (due(end - 820 * _DAY), due(end - 819 * _DAY)) == (False, True)
        # A new issuing authority would expire with the root, so it would not last longer.
        session.execute(update(CertificateAuthority).where(CertificateAuthority.kind == "root").values(not_after=end))
        session.expire_all()
        assert not due(end - _DAY)


def test_rollover_without_the_root_key_needs_a_later_new_root(scoped, alpha):
    given, day = {"tenant_id": alpha.tenant_id, "signing": SIGNING}, alpha.now + 90 * _DAY
    with scoped() as session:
        session.execute(update(CertificateAuthority).where(CertificateAuthority.kind == "root").values(key_sealed=None))
    with scoped() as session, pytest.raises(AuthorityKeyAway, match=r"does not store the key of .*Root CA"):
        rollover.plan_rollover(session, **given)
    with scoped() as session, pytest.raises(AuthorityKeyAway, match="reject the cell"):
        rollover.plan_rollover(session, of_root=True, **given)
    with scoped() as session:
        assert session.scalars(select(AuthorityIntent).where(AuthorityIntent.signed_at.is_(None))).all() == []
        done = _roll_over(session, alpha, of_root=True, server_from=day)
    assert done.root.cross_der is None
    assert done.server.present_from == day


def _plan_renewal(session: Session, tenant: Certified, now: Any) -> server_renewal.ServerRenewalPlan | None:
    return server_renewal.plan_renewal(session, actor=ACTOR, tenant_id=tenant.tenant_id, signing=SIGNING, now=now)


def _renew(session: Session, tenant: Certified, now: Any) -> Certificate | None:
    plan = _plan_renewal(session, tenant, now)
    return plan and server_renewal.execute_renewal(session, plan, actor=ACTOR, signing=SIGNING, now=now)


@pytest.mark.parametrize(("days_left", "present_days"), [(45, 15), (-1, 0)])
def test_server_certificate_is_renewed_45_days_before_expiry(scoped, alpha, days_left, present_days):
    """An expired certificate is replaced at once."""
    old = alpha.authorities.server
    now = old.not_after - days_left * _DAY
    with scoped() as session:
        assert _renew(session, alpha, old.not_after - 45 * _DAY - timedelta(seconds=1)) is None
        new = _renew(session, alpha, now)
        assert _renew(session, alpha, now + _DAY) is None
        entry = session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc()).limit(1)).one()
    assert (new.common_name, new.key_sealed is not None) == (old.common_name, True)
    assert new.present_from == now + present_days * _DAY
    assert new.not_after > old.not_after + 700 * _DAY
    assert (entry.action, entry.after["succeeds"]) == ("certificate.renew", old.serial.hex())


def test_short_lived_server_cert_is_renewed_in_last_third(app_engine, platform):
    tenant_id = make_tenant(app_engine, platform, "short").id
    choice = {"validity_days": 30, "key": "rsa-2048"}
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        profiles.update_profile(session, actor=ACTOR, tenant_id=tenant_id, name="eap-server", choice=choice)
    short = certify(app_engine, tenant_id)
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        assert _renew(session, short, short.now + 19 * _DAY) is None
        new = _renew(session, short, short.now + 21 * _DAY)
    assert x509.load_der_x509_certificate(new.certificate_der).public_key().key_size == 2048


def test_renewal_without_longer_validity_is_skipped(scoped, alpha):
    with scoped() as session:
        session.execute(
            update(CertificateAuthority)
            .where(CertificateAuthority.kind == "issuing")
            .values(not_after=alpha.authorities.server.not_after)
        )
        assert _renew(session, alpha, alpha.authorities.server.not_after - _DAY) is None


def _present(session: Session, tenant: Certified, serial: bytes, now: Any) -> Certificate:
    named = {"actor": ACTOR, "tenant_id": tenant.tenant_id}
    return server_renewal.present_server_certificate(session, serial=serial, now=now, **named)


def test_staged_certificate_can_be_activated_early(scoped, alpha):
    made = {"actor": ACTOR, "tenant_id": alpha.tenant_id, "signing": SIGNING, "now": alpha.now}
    names = ["radius.alpha.admit.example"]
    with scoped() as session:
        staged = issue_server(session, dns_names=names, present_from=alpha.now + 9 * _DAY, **made)
        assert _present(session, alpha, staged.serial, alpha.now).present_from == alpha.now
        client = alpha.issue(session)
        with pytest.raises(CertificateStatusConflict, match="not a valid EAP server certificate"):
            _present(session, alpha, client.serial, alpha.now)


def test_earlier_server_certificate_can_be_reactivated(scoped, alpha):
    old, names = alpha.authorities.server, ["radius.elsewhere.example"]
    made = {"actor": ACTOR, "tenant_id": alpha.tenant_id, "signing": SIGNING, "now": alpha.now}
    with scoped() as session:
        current = lambda: server_renewal.get_presented_server(session, tenant_id=alpha.tenant_id)  # noqa: E731
        new = issue_server(session, dns_names=names, **made)
        staged = issue_server(session, dns_names=names, present_from=alpha.now + 9 * _DAY, **made)
        assert current() == staged
        shown = _present(session, alpha, old.serial, alpha.now + _DAY)
        # The staged certificate remains unused too, because the latest request applies.
        session.refresh(staged)
        assert (staged.present_from, current()) == (None, shown)
        removed = server_renewal.RemovedServerNames(tuple(names), new.serial.hex())
        assert server_renewal.find_removed_names(new, shown) == removed
        renewed = _renew(session, alpha, old.not_after - 45 * _DAY)
        assert (renewed.common_name, server_renewal.find_removed_names(shown, renewed)) == (old.common_name, None)
        with pytest.raises(CertificateStatusConflict, match="expired on"):
            _present(session, alpha, old.serial, old.not_after)


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


def test_profiles_are_validated_on_save_and_used_on_issue(scoped, alpha, bravo):
    named = {"actor": ACTOR, "tenant_id": alpha.tenant_id, "name": "eap-client-device"}
    with scoped() as session:
        profiles.update_profile(session, choice={"validity_days": 90, "key": "rsa-2048"}, **named)
    for wrong in ({"validity_days": 5000}, {"key": "dsa"}, {"authority": True}, {"validity_days": "x"}):
        with scoped() as session, pytest.raises(profiles.ProfileRefused):
            profiles.update_profile(session, choice=wrong, **named)
    with scoped() as session, pytest.raises(profiles.ProfileNotFound):
        profiles.update_profile(session, choice={}, **named | {"name": "nonsense"})
    with scoped() as session:
        files = build_pem_files(alpha.issue(session))
        row = session.scalars(select(Certificate).where(Certificate.profile == "eap-client-device")).one()
    assert row.not_after - alpha.now < 90 * _DAY
    assert b"Public-Key: (2048 bit)" in openssl("x509", "-noout", "-text", data=files["cert"]).stdout
    with scoped(bravo) as session:
        found = {profile.name: profile for profile in profiles.list_profiles(session, tenant_id=bravo.tenant_id)}
    assert found["eap-client-device"].validity == 730 * _DAY
