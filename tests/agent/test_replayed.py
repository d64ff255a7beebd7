"""Recorded requests: a replay with another policy uses the packet and facts that the cell recorded."""

import pytest

from nac.kit.clock import epoch_microseconds
from nac.kit.db import TenantScope, session_scope
from nac.policies.replays import replay_policy
from nac.tenancy import sites
from tests.agent.journal_records import auth
from tests.factories.dictionary import give_dictionary


@pytest.fixture
def replay(app_engine, cell_engine, platform, alpha):
    give_dictionary(cell_engine, platform.cell_id)

    def replay(*conditions):
        rules = [
            {"id": f"r{number}", "name": "R", "when": when, "then": {"verdict": "permit"}}
            for number, when in enumerate(conditions)
        ]
        with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
            return replay_policy(session, tenant_id=alpha.id, document={"rules": rules}, policy_id=None, days=1)

    return replay


def test_replay_uses_the_original_packet_and_facts(replay, journal, alpha, app_engine):
    with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
        site = sites.require_by_slug(session, tenant_id=alpha.id, slug="main")
    there = {"at": epoch_microseconds() - 60_000_000, "site_id": str(site.id)}
    ssid = 'Corp \\ "Wi-Fi"'
    pairs = (("Called-Station-Id", f"00-10-A4-23-19-C0:{ssid}"), ("NAS-Port", "7"), ("Class", "a"), ("Class", "b"))
    facts = {"method": ("mab",), "endpoint.known": (True,), "endpoint.group": ("printers", "floor 1")}
    record = auth(alpha, **there, policy_id=str(site.id), rule_id="printers", pairs=pairs, facts=facts)
    refused = auth(alpha, **there, policy_version=0, permitted=False, reason="wrong-password")
    journal.ship(record, refused)
    conditions = [
        {"attribute": "ssid", "operator": "equals", "value": ssid},
        {"attribute": "radius.NAS-Port", "operator": "greater_than", "value": 6},
        {"attribute": "radius.Class", "operator": "equals", "value": "b"},
        {"attribute": "mac", "operator": "starts_with", "value": "AA:BB:CC"},
        {"attribute": "mac.random", "operator": "equals", "value": True},
        {"attribute": "endpoint.known", "operator": "equals", "value": True},
    ]
    for condition in conditions:
        found = replay(condition)
        assert [(each.before[:4], each.after[:4]) for each in found.differences] == [
            (("permit", "printers", "20", ""), ("permit", "r0", "", ""))
        ], condition
        assert found.not_replayable == {"wrong-password": 1}
