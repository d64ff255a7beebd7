"""Self-tests against a real cell."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine, func, select

from nac.cellformat.self_test_ticket import SELF_TEST_PROFILE
from nac.certificates import service as certificates
from nac.kit.clock import epoch_seconds, utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import Conflict
from nac.kit.radius_packet import ACCESS_REJECT, CALLING_STATION_ID, USER_NAME, read_vlan
from nac.models import AuthLog, Certificate, Endpoint, EndpointSighting, EventNote, PolicyHits, RadiusSession, SelfTest
from nac.onboarding.self_tests import actions, identities, runner, service
from nac.onboarding.self_tests.actions import PlayedDevice, RadiusTarget
from nac.onboarding.self_tests.radius_client import encode_attributes
from nac.onboarding.self_tests.runner import SelfTestPlatform
from nac.onboarding.self_tests.supplicant import Supplicant, device_context, run_conversation
from nac.policies import service as policies
from nac.tenancy.tenants import service as tenants
from tests.agent.cell_process import RunningCell, RunningTenant
from tests.factories.certificates import SIGNING
from tests.factories.tenancy import ACTOR

pytestmark = pytest.mark.early


def _run(acme: RunningTenant, platform: SelfTestPlatform, engine: Engine) -> SelfTest:
    with session_scope(TenantScope(acme.id), engine=acme.engine) as session:
        test_id = service.start_self_test(session, actor=ACTOR, tenant_id=acme.id).id
    assert runner.run_waiting(platform, engine=engine) == 1
    with session_scope(TenantScope(acme.id), engine=acme.engine) as session:
        return service.require_self_test(session, tenant_id=acme.id, test_id=test_id)


def test_self_test_reports_results_and_leaves_no_log_rows(
    cell: RunningCell, acme: RunningTenant, self_tester: SelfTestPlatform, worker_engine: Engine
):
    found = _run(acme, self_tester, worker_engine)
    assert (found.state, found.error, found.passed) == ("done", "", True), found.board
    assert {(row["sent"], row["got"], row["reason"]) for row in found.board} >= {
        ("unknown device", "reject", "unknown-mac"),
        ("known device", "reject", "fallback-denied"),
        ("known device of group printers", "permit VLAN 20", "rule-permitted"),
        ("good certificate", "permit VLAN 30", "rule-permitted"),
        ("revoked certificate", "reject", "certificate-revoked"),
        ("known device, forged ticket", "reject", "self-test-refused"),
        ("wrong secret", "silence", ""),
    }
    _nothing_follows(acme)
    _assert_others_are_rejected(cell, acme)
    _assert_inactive_policy_is_reported(acme, self_tester, worker_engine)
    _assert_dead_port_is_reported(acme, self_tester, worker_engine)


def _nothing_follows(acme: RunningTenant) -> None:
    with session_scope(TenantScope(acme.id), engine=acme.engine) as session:
        for table in (Endpoint, EndpointSighting, PolicyHits, RadiusSession):
            assert session.scalar(select(func.count()).select_from(table)) == 0, table
        assert session.scalar(select(func.count()).select_from(AuthLog)) == 9 - 1
        told = session.scalars(select(EventNote.said).where(EventNote.kind == "certificate")).all()
        assert not [said for said in told if said["profile"] == "eap-client-self-test"]
        listed = certificates.list_certificates(session, tenant_id=acme.id)
        assert not [row for row in listed if "self-test" in row.common_name]
        left = session.scalars(select(Certificate.status).where(Certificate.profile == "eap-client-self-test")).all()
        assert left == ["revoked", "revoked"]


def _assert_others_are_rejected(cell: RunningCell, acme: RunningTenant) -> None:
    """Reject other devices with the certificate of a running self-test, or with the address of its known device."""
    with session_scope(TenantScope(acme.id), engine=acme.engine) as session:
        own = identities.issue_identity(
            session, actor=ACTOR, tenant_id=acme.id, name="self-test-x", signing=cell.signing, now=utc_now()
        )
        key = tenants.require_tenant(session, tenant_id=acme.id).cui_key.bytes
    acme.wait_live()
    server = acme.server
    target = RadiusTarget(
        server.host, server.auth_port, server.acct_port, server.secret.encode(), key, 0, own.root, own.server_name
    )
    thief = {CALLING_STATION_ID: "02-00-00-00-00-01", USER_NAME: "self-test-x"}
    context = device_context(own.identity, root=own.root, server_name=own.server_name)
    supplicant = Supplicant(context, "self-test-x", server_name=own.server_name)
    with target.server() as asked:
        assert run_conversation(asked, supplicant, encode_attributes(thief)).reply.code == ACCESS_REJECT
    played = PlayedDevice("00005e0053f1", "00000000-1", known=True, group="printers")
    stale = actions.build_mab_action(played)(target, epoch_seconds() - 300)
    other_device = actions.build_mab_action(replace(played, mac="020000000001"))(target, epoch_seconds())
    for seen in (stale, other_device):
        assert seen.reply.code == ACCESS_REJECT
    assert read_vlan(actions.build_mab_action(played)(target, epoch_seconds()).reply.octets) == "20"


def _assert_inactive_policy_is_reported(acme: RunningTenant, self_tester: SelfTestPlatform, engine: Engine) -> None:
    """The database and the cell differ, which a self-test must report."""
    with session_scope(TenantScope(acme.id), engine=acme.engine) as session:
        named = {"actor": ACTOR, "tenant_id": acme.id, "slug": "certificates"}
        document = policies.require_version(session, tenant_id=acme.id, slug="certificates").document
        document = {"rules": [rule | {"then": {"verdict": "permit", "vlan": "99"}} for rule in document["rules"]]}
        policies.save_draft(session, document=document, **named)
        policies.publish_policy(session, **named)
    found = _run(acme, self_tester, engine)
    assert found.passed, "the board follows the policy"
    assert {row["got"] for row in found.board if row["rule"]} == {"permit VLAN 99"}


def _assert_dead_port_is_reported(acme: RunningTenant, self_tester: SelfTestPlatform, engine: Engine) -> None:
    found = _run(acme, replace(self_tester, radius_host="127.0.0.9"), engine)
    assert (found.state, found.passed) == ("done", False)
    wrong = {row["sent"]: row["why"] for row in found.board if not row["ok"]}
    assert "wrong secret" not in wrong
    assert "Check that the cell" in wrong["good certificate"]


def test_suspended_tenant_is_not_tested(app_engine: Engine, alpha):
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        tenants.suspend_tenant(session, actor=ACTOR, tenant_id=alpha.tenant_id)
        with pytest.raises(Conflict):
            service.start_self_test(session, actor=ACTOR, tenant_id=alpha.tenant_id)


def test_third_self_test_waits_for_the_first(app_engine: Engine, alpha):
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        for _ in range(service.MAX_OPEN):
            service.start_self_test(session, actor=ACTOR, tenant_id=alpha.tenant_id)
        with pytest.raises(Conflict):
            service.start_self_test(session, actor=ACTOR, tenant_id=alpha.tenant_id)


def test_failed_start_leaves_no_valid_certificate(
    app_engine: Engine, worker_engine: Engine, alpha, monkeypatch: pytest.MonkeyPatch
):
    issue_own = identities.issue_identity

    def fail(session, **given):
        if given["name"].endswith("revoked"):
            raise Conflict("on purpose")
        return issue_own(session, **given)

    monkeypatch.setattr(identities, "issue_identity", fail)
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        test_id = service.start_self_test(session, actor=ACTOR, tenant_id=alpha.tenant_id).id
    assert runner.run_waiting(SelfTestPlatform(SIGNING, "127.0.0.1", 1.0), engine=worker_engine) == 1
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        found = service.require_self_test(session, tenant_id=alpha.tenant_id, test_id=test_id)
        assert (found.state, found.error) == ("failed", "on purpose")
        own = select(Certificate.status).where(Certificate.profile == SELF_TEST_PROFILE)
        assert session.scalars(own).all() == ["revoked"]
