"""The demo's tenants in a real database: created once, and repaired if an item is missing."""

import stat
from datetime import timedelta
from operator import attrgetter
from pathlib import Path

import pytest
from cryptography import x509
from sqlalchemy import func, select

from api.enrolment.server_certificate import ensure_certificate
from cli.command_context import CommandContext
from cli.demo.board import describe_enrolment, describe_tenant
from cli.demo.board_checks import all_checks
from cli.demo.credentials import create_scep_access
from cli.demo.main import remove_tenants
from cli.demo.seed import Demo, DemoTenant, seed
from cli.errors import Refused
from nac.accounts import api_tokens
from nac.certificates import service as certificates
from nac.certificates.enrolment.service import redeem_secret
from nac.core.access.grants import Owner
from nac.inventory.users import service as users
from nac.kit.clock import utc_now
from nac.kit.permissions import permissions_at
from nac.models import AuditEntry
from nac.onboarding.provisioning import provision_tenant
from nac.policies import service as policies
from nac.tenancy import msps
from nac.tenancy.tenants import service as tenants

pytestmark = pytest.mark.early

# Fields that programs use.
FIELDS = {
    *("slug", "radius_host", "auth_port", "acct_port", "radius_secret", "ca_pem", "client_cert", "client_key"),
    *("client_identity", "revoked_cert", "revoked_key", "expired_cert", "expired_key"),
    *("ocsp_url", "crl_url"),
    *("mac_permit", "mac_permit_vlan", "mac_unknown"),
    *("id", "api_token"),
}


def audit_entries(domain: CommandContext) -> int:
    with domain.platform() as session:
        return session.scalar(select(func.count()).select_from(AuditEntry)) or 0


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def status(domain: CommandContext, tenant: DemoTenant, path: Path) -> str:
    with domain.tenant(tenant.slug) as (session, tenant_id):
        serial = f"{certificate(path).serial_number:x}"
        return certificates.require_by_serial(session, tenant_id=tenant_id, serial=serial).status


def test_second_seed_changes_nothing(domain: CommandContext, seeded: Demo) -> None:
    entries = audit_entries(domain)
    written = {path: path.stat().st_mtime_ns for path in domain.settings.var_dir.rglob("demo/*/*")}
    assert seed(domain) == seeded
    assert audit_entries(domain) == entries
    assert {path: path.stat().st_mtime_ns for path in domain.settings.var_dir.rglob("demo/*/*")} == written


def test_tenants_share_no_credentials(domain: CommandContext, seeded: Demo) -> None:
    alpha, bravo = seeded.tenants
    assert (alpha.slug, bravo.slug) == ("alpha", "bravo")
    for name in ("server.secret", "server.auth_port", "devices.printer", "staff_password", "api_token"):
        assert attrgetter(name)(alpha) != attrgetter(name)(bravo), name
    assert certificate(alpha.ca) != certificate(bravo.ca)
    files = list(domain.settings.var_dir.rglob("demo/*/*"))
    assert len(files) > 20
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_certificates_match_their_names(domain: CommandContext, seeded: Demo) -> None:
    now = utc_now()
    for tenant in seeded.tenants:
        assert status(domain, tenant, tenant.device.certificate) == "valid"
        assert status(domain, tenant, tenant.revoked.certificate) == "revoked"
        assert certificate(tenant.expired.certificate).not_valid_after_utc < now
        assert certificate(tenant.early.certificate).not_valid_before_utc > now + timedelta(days=1)
        usages = certificate(tenant.misused.certificate).extensions.get_extension_for_class(x509.ExtendedKeyUsage)
        assert x509.ExtendedKeyUsageOID.CLIENT_AUTH not in usages.value


def test_only_the_certificate_of_a_lost_key_is_replaced(domain: CommandContext, seeded: Demo) -> None:
    before = seeded.tenants[0]
    kept, lost = before.revoked.certificate.read_bytes(), before.device.certificate.read_bytes()
    before.device.key.unlink()
    after = seed(domain).tenants[0]
    assert after.device.key.exists()
    assert after.device.certificate.read_bytes() != lost
    assert after.revoked.certificate.read_bytes() == kept


def test_revoked_certificate_is_replaced(domain: CommandContext, seeded: Demo) -> None:
    tenant = seeded.tenants[0]
    with domain.tenant(tenant.slug) as (session, tenant_id):
        serial = f"{certificate(tenant.device.certificate).serial_number:x}"
        certificates.revoke_certificate(session, actor="test", tenant_id=tenant_id, serial=serial, now=utc_now())
    seed(domain)
    assert status(domain, tenant, tenant.device.certificate) == "valid"


def test_lost_password_replaces_the_user(domain: CommandContext, seeded: Demo) -> None:
    before = seeded.tenants[0]
    (before.folder / "sam.password").unlink()
    after = seed(domain).tenants[0]
    assert after.staff_password != before.staff_password
    assert after.guest_password == before.guest_password
    with domain.tenant("alpha") as (session, tenant_id):
        assert users.require_by_name(session, tenant_id=tenant_id, name="sam").password_sealed is not None


def test_lost_or_invalid_token_is_replaced(domain: CommandContext, seeded: Demo) -> None:
    first = seeded
    (first.tenants[0].folder / "api_token").unlink()
    second = seed(domain)
    assert second.tenants[0].api_token != first.tenants[0].api_token
    assert (second.tenants[1].api_token, second.api_token) == (first.tenants[1].api_token, first.api_token)
    with domain.tenant("bravo") as (session, tenant_id):
        owner = Owner(tenant_id=tenant_id)
        (row,) = api_tokens.list_tokens(session, owner=owner)
        api_tokens.revoke_token(
            session, actor=domain.actor, held=permissions_at(owner.level), owner=owner, token_id=row.id
        )
    assert seed(domain).tenants[1].api_token != second.tenants[1].api_token


def test_policy_published_by_a_user_stays(domain: CommandContext, seeded: Demo) -> None:
    own = {"pinned_denies": [], "rules": [], "fallback": {"verdict": "deny"}}
    with domain.tenant("alpha") as (session, tenant_id):
        scope = {"actor": "test", "tenant_id": tenant_id, "slug": "office"}
        policies.save_draft(session, **scope, document=own, comment="Closed")
        policies.publish_policy(session, **scope)
    seed(domain)
    with domain.tenant("alpha") as (session, tenant_id):
        assert policies.require_version(session, tenant_id=tenant_id, slug="office").document == own


def test_same_named_tenant_elsewhere_is_not_changed(domain: CommandContext) -> None:
    with domain.platform() as session:
        msp_id = msps.create_msp(session, actor="test", slug="other").id
        provision_tenant(session, actor="test", slug="alpha", msp_id=msp_id, signing=domain.signing)
    with pytest.raises(Refused, match="another MSP"):
        seed(domain)
    remove_tenants(domain)
    with domain.platform() as session:
        assert [(tenant.slug, tenant.msp_id) for tenant in tenants.list_tenants(session)] == [("alpha", msp_id)]


def test_removed_tenants_are_recreated_from_any_state(domain: CommandContext, seeded: Demo) -> None:
    first = seeded.tenants
    with domain.tenant("alpha") as (session, tenant_id):
        tenants.suspend_tenant(session, actor=domain.actor, tenant_id=tenant_id)
    remove_tenants(domain)
    assert not first[0].folder.exists()
    second = seed(domain).tenants
    assert not {tenant.tenant_id for tenant in first} & {tenant.tenant_id for tenant in second}
    with domain.tenant("alpha") as (session, _):
        assert tenants.require_by_slug(session, slug="alpha").status == "active"


def test_json_has_every_field_and_every_file_exists(seeded: Demo) -> None:
    for tenant in seeded.tenants:
        told = describe_tenant(tenant)
        assert told.keys() >= FIELDS
        assert all(value not in ("", None) for value in told.values())
        files = {name: value for name, value in told.items() if name.endswith(("_pem", "_cert", "_key", "_conf"))}
        assert all(Path(path).is_file() for path in files.values()), files
        assert b"-----BEGIN CERTIFICATE-----" in Path(files["client_cert"]).read_bytes()


def test_each_run_returns_an_unused_challenge(domain: CommandContext, seeded: Demo) -> None:
    first, second = create_scep_access(domain, "alpha"), create_scep_access(domain, "alpha")
    assert first["scep_url"] == second["scep_url"] == f"{domain.settings.public_url}/scep/alpha"
    assert first["scep_challenge"] != second["scep_challenge"]
    for told in (first, second):
        name, secret = told["scep_challenge"].split("-")
        with domain.tenant("alpha") as (session, tenant_id):
            redeem_secret(session, tenant_id=tenant_id, kind="scep", name=name, secret=secret, now=utc_now())


def test_est_secret_is_new_each_time_with_a_server_ca_file(domain: CommandContext, seeded: Demo) -> None:
    settings = domain.settings
    keys = settings.enrolment_certificate_file.parent
    keys.mkdir(parents=True)
    assert ensure_certificate(keys, settings, owner=None)
    (alpha, _) = seeded.tenants
    first, second = describe_enrolment(domain, alpha), describe_enrolment(domain, alpha)
    assert first["est_secret"] != second["est_secret"]
    assert first["est_url"] == f"{settings.enrolment_url}/.well-known/est/alpha"
    assert first["est_ca_pem"] == second["est_ca_pem"]
    ca = x509.load_pem_x509_certificate(Path(first["est_ca_pem"]).read_bytes())
    server = x509.load_pem_x509_certificate(settings.enrolment_certificate_file.read_bytes())
    server.verify_directly_issued_by(ca)


def test_every_demo_reason_is_tried_for_both_tenants(seeded: Demo) -> None:
    checks = all_checks(seeded)
    for tenant in seeded.tenants:
        reasons = {check.reason for check in checks if check.tenant == tenant.slug}
        assert reasons >= {
            *("rule-permitted", "rule-denied", "fallback-denied", "unknown-mac", "endpoint-blocked", "mac-mismatch"),
            *("certificate-expired", "certificate-not-yet-valid", "certificate-revoked", "wrong-key-usage"),
            *("unknown-ca", "wrong-tenant-ca", "supplicant-alert", "tls-version", "no-common-cipher"),
            *("method-not-offered", "wrong-password", "unknown-user"),
        }
