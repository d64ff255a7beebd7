"""Tests, simulation and replay make the decision of `decide`, for any policy and request."""

import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.orm import Session

from nac.engine import PolicyErrors, compile_policy, decide, parse_request
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.models import AuthLog
from nac.policies import service as policies
from nac.policies.replays import replay_policy
from nac.policies.simulation import simulate
from tests.engine.builders import DENY, policy_of, rule
from tests.engine.strategies import TEXTS, comparisons, nested, texts
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR
from tests.run_depth import examples

conditions = nested(comparisons(st.sampled_from(("ssid", "identity", "endpoint.group", "user.name", "radius.Foo"))))
requests = st.fixed_dictionaries(
    {"method": st.just(["mab"])},
    optional={
        "ssid": st.lists(texts, min_size=1, max_size=1),
        "identity": st.lists(texts, min_size=1, max_size=1),
        "endpoint.group": st.lists(texts, max_size=3),
        "radius.Filter-Id": st.lists(texts, max_size=3),
    },
)
outcomes = st.sampled_from((DENY, {"verdict": "permit"}, {"verdict": "permit", "vlan": "20"}))


@pytest.fixture
def groups(as_tenant):
    for name in TEXTS:
        as_tenant(ENDPOINT_GROUPS.create, actor=ACTOR, name=name)


@settings(
    deadline=None,
    max_examples=examples(30),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(st.tuples(conditions, outcomes), min_size=1, max_size=4),
    outcomes,
    st.lists(requests, min_size=1, max_size=6),
)
def test_tests_simulation_and_replay_agree_with_the_engine(
    groups, main_site, owner_engine, app_engine, tenant, parts, fallback, asked
):
    # An attribute in radiusd's dictionary.
    known = [(json.loads(json.dumps(when).replace("radius.Foo", "radius.Filter-Id")), then) for when, then in parts]
    rules = [rule(f"r{number}", when, then) for number, (when, then) in enumerate(known)]
    document = policy_of(*rules, fallback=fallback)
    try:
        policy = compile_policy(document)
    except PolicyErrors:
        return
    at = int(utc_now().timestamp()) - 60
    expected = [decide(policy, parse_request(request, at=at)) for request in asked]
    with Session(owner_engine) as session, session.begin():
        session.execute(text("DELETE FROM auth_log"))
        for request in asked:
            values = {"site_id": main_site, "policy_version": 1, "rule_id": "recorded", "request": request}
            make_row(session, AuthLog.__table__, tenant.id, at=utc_now(), vlan="1", permitted=True, **values)
    tests = [
        {"name": str(number), "request": request, "expect": expectation(decision)}
        for number, (request, decision) in enumerate(zip(asked, expected, strict=True))
    ]
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        tenant_of = {"session": session, "tenant_id": tenant.id}
        for result in policies.run_document_tests(**tenant_of, document=document | {"tests": tests}):
            assert result.passed, str(result)
        for request, decision in zip(asked, expected, strict=True):
            found = simulate(**tenant_of, request=request, document=document, at=at, fill=False).decision
            assert (found.verdict, found.rule_id, found.reply) == (decision.verdict, decision.rule_id, decision.reply)
        replay = replay_policy(**tenant_of, document=document, policy_id=None, days=1)
    assert replay.total == len(asked)
    assert Counter({difference.after[:4]: difference.requests for difference in replay.differences}) == Counter(
        (decision.verdict, decision.rule_id, decision.vlan, decision.monitored) for decision in expected
    )


def expectation(decision):
    return {"verdict": decision.verdict, "rule": decision.rule_id, "reason": decision.reason, "vlan": decision.vlan}
