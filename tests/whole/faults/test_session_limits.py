"""Limits of sessions per device: a policy rule that counts the live sessions from accounting."""

import os

import pytest

from loadtest.bench_tenants import ACTOR
from loadtest.workloads import BENCH_NAS, START, STOP, calling_station
from nac.kit import radius_packet as packet
from nac.kit.db import TenantScope, session_scope
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, encode_attribute
from nac.policies import service as policies
from nac.tenancy.cells import service as cells
from tests.polling import until
from tests.whole.conftest import make_tenants
from tests.whole.faults.test_changes import remove
from tests.whole.nas_packets import NasPackets

pytestmark = pytest.mark.faults

ACCOUNTING_ON = 7
_ONE_AT_A_TIME = {
    "rules": [
        {
            "id": "many",
            "name": "One session at a time",
            "when": {"attribute": "session.count.endpoint", "operator": "at_least", "value": 1},
            "then": {"verdict": "deny"},
        },
        {"id": "all", "name": "Everybody else", "when": {"all": []}, "then": {"verdict": "permit"}},
    ]
}


@pytest.fixture
def limited(instance):
    """A tenant with one session per device."""
    made = make_tenants(instance)("fault-limited", 4)
    engine, tenant_id = instance.installation.engine, made.tenant_id
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        given = {"actor": ACTOR, "tenant_id": tenant_id, "slug": "bench"}
        policies.save_draft(session, **given, document=_ONE_AT_A_TIME)
        policies.publish_policy(session, **given)
        xact = cells.get_current_xact(session)
    scope = TenantScope(tenant_id)
    cells.wait_until_live(scope, tenant_id=tenant_id, xact=xact, timeout_seconds=30, engine=engine)
    yield made
    remove(instance, made)


def test_second_session_is_rejected_until_the_first_ends(instance, limited):
    with NasPackets(limited) as wire:

        def account(status: int, session_id: str = "") -> None:
            said = encode_attribute(packet.ACCT_STATUS_TYPE, status) + BENCH_NAS.attributes()
            if session_id:
                said += calling_station(wire.device.mac) + encode_attribute(packet.USER_NAME, wire.device.mac)
                said += encode_attribute(packet.ACCT_SESSION_ID, session_id)
            assert wire.exchange(packet.make_accounting_request(os.urandom(1)[0], said, wire.secret), acct=True)

        def is_answered(code: int) -> None:
            until(lambda: wire.verdict() == code, f"the device is answered {code}")

        assert wire.verdict() == ACCESS_ACCEPT
        account(START, "first")
        is_answered(ACCESS_REJECT)
        account(STOP, "first")
        is_answered(ACCESS_ACCEPT)
        account(START, "second")
        is_answered(ACCESS_REJECT)
        account(ACCOUNTING_ON)
        is_answered(ACCESS_ACCEPT)
    instance.wait_until_shipped()
    refused = "SELECT DISTINCT reason, rule_name FROM auth_log WHERE tenant_id = %s AND NOT permitted"
    assert instance.query(refused, limited.tenant_id) == [("rule-denied", "One session at a time")]
