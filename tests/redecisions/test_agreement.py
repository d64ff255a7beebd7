"""A redecision equals the cell's decision: the module itself decides the same request from its replica."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nac.cellformat.session_class import encode_class
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.policies.differences import ComparedAnswer
from nac.redecisions import live_sessions
from nac.redecisions.judgement import Judge
from tests.agent.mirrored_rows import publish
from tests.run_depth import examples

MAC, USER = "00a0c0000001", "anna"
_ATTRIBUTES = {
    "endpoint.group": ("printers", "cameras"),
    "endpoint.name": ("Printer", "Camera"),
    "endpoint.vendor": ("Brother",),
    "endpoint.os": ("linux",),
    "endpoint.attribute.floor": ("1", "2"),
    "mdm.state": ("good", "bad"),
    "user.group": ("staff", "guests"),
    "user.name": (USER,),
    "ssid": ("office", "guest"),
    "method": ("mab", "pap"),
    "identity": (USER, MAC),
    "nas.name": ("Switch",),
    "nas.vendor": ("cisco",),
    "site.name": ("Branch",),
    "radius.Service-Type": ("Call-Check",),
}
_when = st.sampled_from(sorted(_ATTRIBUTES)).flatmap(
    lambda name: st.builds(
        lambda value: {"attribute": name, "operator": "equals", "value": value}, st.sampled_from(_ATTRIBUTES[name])
    )
) | st.sampled_from(
    (
        {"attribute": "endpoint.known", "operator": "equals", "value": True},
        {"attribute": "mac.random", "operator": "equals", "value": False},
        {"attribute": "endpoint.first_seen_age", "operator": "at_least", "value": 2},
    )
)
_then = st.sampled_from(
    (
        {"verdict": "deny"},
        {"verdict": "permit"},
        {"verdict": "permit", "vlan": "20"},
        {"verdict": "permit", "vlan": "20", "acl": "printers"},
        {"verdict": "quarantine", "vlan": "99"},
        {"verdict": "permit", "vlan": "30", "session_timeout": 600},
    )
)
_rules = st.lists(st.tuples(_when, st.booleans(), _then), max_size=5)


@st.composite
def documents(draw):
    rules = []
    for number, (when, negated, then) in enumerate(draw(_rules)):
        rules.append(
            {"id": f"r{number}", "name": f"r{number}", "when": {"not": when} if negated else when, "then": then}
        )
    return {"profiles": {"quarantine": {"vlan": "98"}}, "rules": rules, "fallback": draw(_then)}


_ENDPOINTS = st.none() | st.fixed_dictionaries(
    {
        "status": st.sampled_from(("active", "blocked", "discovered", "ignored")),
        "name": st.sampled_from(("Printer", "Camera")),
        "vendor": st.sampled_from(("", "Brother")),
        "os": st.sampled_from(("", "linux")),
        "attributes": st.sampled_from(({}, {"floor": "1"}, {"floor": 2})),
        "posture": st.sampled_from(
            ({}, {"mdm.state": {"value": "good", "until": 0}}, {"mdm.state": {"value": "bad", "until": 5}})
        ),
        "valid_until": st.sampled_from((None, "2020-01-01", "2090-01-01")),
        "first_seen_at": st.sampled_from((None, "2020-01-01", "2090-01-01")),
        "groups": st.sets(st.sampled_from(("printers", "cameras"))),
    }
)
_USERS = st.none() | st.fixed_dictionaries(
    {
        "disabled": st.booleans(),
        "valid_until": st.sampled_from((None, "2020-01-01", "2090-01-01")),
        "groups": st.sets(st.sampled_from(("staff", "guests"))),
    }
)
_SITES = st.fixed_dictionaries(
    {
        "monitor": st.booleans(),
        "fallback": st.none() | _then.filter(lambda then: then["verdict"] != "quarantine"),
        "has_policy": st.sampled_from((True, True, False)),
    }
)
_OFFERS = st.sampled_from((["mab", "pap"], ["mab"], ["pap"]))


class State:
    """The database state, set for each example."""

    def __init__(self, net):
        self._net = net
        net.decide_by({"fallback": {"verdict": "permit", "vlan": "1"}})
        for kind, names in (("endpoint", ("printers", "cameras")), ("user", ("staff", "guests"))):
            for name in names:
                self._do(f"INSERT INTO {kind}_groups (tenant_id, name) VALUES (%s, %s)", net.id, name)

    def _do(self, statement, *given):
        return self._net.owner.execute(statement, given)

    def set(self, document, endpoint, user, site, methods):
        net = self._net
        self._do("DELETE FROM endpoints")
        self._do("DELETE FROM users")
        self._do("DELETE FROM policy_versions WHERE number > 1")
        publish(net.owner, net.tenant, net.policy_id, 2, document)
        self._do("UPDATE tenants SET methods = %s WHERE id = %s", methods, net.id)
        self._do(
            "UPDATE sites SET monitor = %s, fallback = %s, policy_id = %s WHERE id = %s",
            *(site["monitor"], site["fallback"] and json.dumps(site["fallback"])),
            *(net.policy_id if site["has_policy"] else None, net.site_id),
        )
        if endpoint is not None:
            self._do(
                "INSERT INTO endpoints (tenant_id, mac, status, name, vendor, os, attributes, posture, valid_until, "
                "first_seen_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                *(net.id, MAC, endpoint["status"], endpoint["name"], endpoint["vendor"], endpoint["os"]),
                *(json.dumps(endpoint["attributes"]), json.dumps(endpoint["posture"])),
                *(endpoint["valid_until"], endpoint["first_seen_at"]),
            )
            self._join("endpoint", endpoint["groups"])
        if user is not None:
            self._do(
                "INSERT INTO users (tenant_id, name, password_hash, disabled, valid_until) VALUES (%s, %s, '', %s, %s)",
                *(net.id, USER, user["disabled"], user["valid_until"]),
            )
            self._join("user", user["groups"])

    def _join(self, kind, groups):
        self._do(
            f"INSERT INTO {kind}_group_members (tenant_id, {kind}_id, group_id) SELECT m.tenant_id, m.id, g.id "
            f"FROM {kind}s m, {kind}_groups g WHERE g.name = ANY (%s)",
            list(groups),
        )


@pytest.fixture
def states(net):
    return State(net)


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    documents(),
    _ENDPOINTS,
    _USERS,
    _SITES,
    _OFFERS,
    st.sampled_from(("", USER)),
    st.sampled_from(((), (("Called-Station-Id", "00-11-22-33-44-55:office"),), (("Service-Type", "Call-Check"),))),
    st.sampled_from(("switch", "unknown")),
)
def test_redecision_equals_the_cells_decision(
    net, states, document, endpoint, user, site, methods, name, pairs, identifier
):
    # The state when the device was admitted.
    states.set(
        {"fallback": {"verdict": "permit", "vlan": "1"}},
        None,
        {"disabled": False, "valid_until": None, "groups": ()},
        _PLAIN,
        ["mab", "pap"],
    )
    asked = {"user": name, "pairs": pairs, "identifier": identifier}
    case, outcome = net.answer(MAC, **asked)
    at = net.log(case, outcome)
    assert outcome.permitted
    row = net.begin(MAC, encode_class(at), case.identity)
    states.set(document, endpoint, user, site, methods)
    _, expected = net.answer(MAC, **asked)
    with session_scope(TenantScope(net.id), engine=net.engines.worker) as session:
        [judged] = Judge(session, net.id).judge(
            live_sessions.read_rows(session, net.id, [row]), at=int(utc_now().timestamp())
        )
    assert judged.undecidable is None
    told = ComparedAnswer(expected.verdict, expected.rule_id, expected.vlan, expected.monitored)
    assert judged.after.permitted == expected.permitted
    # A rejection before any rule has no rule name.
    assert judged.after == told, expected
    assert judged.reason == _REASONS.get(expected.reason, expected.reason)
    same = (expected.reply, expected.vlan) == (outcome.reply, outcome.vlan)
    assert judged.action == ("disconnect" if not expected.permitted else "" if same else "reauthenticate")


# For unknown devices, the module words a fallback deny differently.
_REASONS = {"unknown-mac": "fallback-denied", "endpoint-expired": "fallback-denied"}
_PLAIN = {"monitor": False, "fallback": None, "has_policy": True}
