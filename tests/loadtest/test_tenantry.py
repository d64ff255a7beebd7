from loadtest.tenants import GROUPS, RULES, make_tenants, policy_document
from nac.engine import PolicyRequest, compile_policy, decide


def test_policy_puts_each_device_on_the_expected_vlan():
    policy = compile_policy(policy_document())
    assert len(policy_document()["rules"]) == RULES
    for endpoint in make_tenants((len(GROUPS),))[0].endpoints:
        request = PolicyRequest({"method": ("mab",), "mac": (endpoint.mac,), "endpoint.group": (endpoint.group,)}, 0)
        decision = decide(policy, request)
        assert (str(decision.verdict), decision.vlan) == ("permit", endpoint.vlan)
