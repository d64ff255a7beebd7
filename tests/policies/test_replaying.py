"""Replay with every kind of row that a cell records."""

from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import text

from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.errors import InvalidInput, NotFound
from nac.policies import comparison, replays, site_settings
from nac.policies.comparison import OLDER_FORMAT
from nac.policies.document_checks import InvalidPolicy
from nac.policies.replays import replay_policy
from nac.sessions.decisions import recorded_requests
from nac.tenancy import sites
from tests.factories.tenancy import make_site, make_tenant
from tests.policies.documents import good, group_rule

PRINTERS_MOVED = good("30")


@pytest.fixture
def replay(as_tenant, publish):
    """Publish the recorded policy and replay other policies at its sites."""
    policy = publish(good())

    def replay(document=PRINTERS_MOVED, *, days=7, **options):
        return as_tenant(replay_policy, document=document, days=days, **({"policy_id": policy.id} | options))

    return replay


def changes(found):
    """The differences without the pools, which only the last test covers."""
    return [(each.before[:4], each.after[:4], each.requests) for each in found.differences]


def test_differences_are_grouped_with_counts_and_examples(replay, record):
    for device in range(5):
        record(mac=f"0011223344{device:02}", times=device + 1, minutes_ago=100 - device, nas_identifier="switch-1")
    record(request={"endpoint.group": ["phones"]}, permitted=False, rule_id="", vlan="", reason="fallback-denied")
    found = replay()
    assert (found.total, found.unchanged, found.changed, found.groups) == (16, 1, 15, 1)
    (difference,) = found.differences
    assert difference.before == ("permit", "r", "20", "", ())
    assert difference.after == ("permit", "r", "30", "", ())
    assert (difference.requests, difference.devices) == (15, 5)
    assert [example.mac[-2:] for example in difference.examples] == ["04", "03", "02"]
    example = difference.examples[0]
    assert (example.mac, example.nas, example.site) == ("00:11:22:33:44:04", "switch-1", "main")
    assert example.why == "Rule 'By group' (r) matched: endpoint.group equals 'printers' holds, seen 'printers'."
    assert found.sites == ("main",)


def test_replay_of_the_recorded_policy_has_no_differences(replay, record):
    record(times=3)
    record(request={"endpoint.group": None}, permitted=False, rule_id="", vlan="", reason="unknown-mac")
    found = replay(good())
    assert (found.total, found.unchanged, found.changed, found.differences) == (4, 4, 0, ())


def test_credential_rejects_and_old_rows_are_not_replayed(replay, record):
    none = {"method": None, "endpoint.known": None, "endpoint.group": None}
    refused = {"permitted": False, "rule_id": "", "vlan": "", "policy_version": 0, "request": none}
    record(**refused, reason="wrong-password", times=2)
    record(**refused, reason="no-policy")
    record(**refused, reason="rate-limited", suppressed=40)
    # Rows without a recorded request, and a row of another writer.
    record(request=none)
    record(request={"endpoint.group": "printers"})
    record()
    found = replay()
    assert found.not_replayable == {"wrong-password": 2, "no-policy": 1, "rate-limited": 1, OLDER_FORMAT: 2}
    assert (found.total, found.changed, found.suppressed) == (7, 1, 40)


def test_window_tenant_and_sites_limit_the_replay(replay, record, as_tenant, app_engine, platform, main_site):
    record()
    record(at=utc_now() - timedelta(days=7, minutes=1))
    record(at=utc_now() + timedelta(minutes=1))
    record(site_id=uuid4())
    record(site_id=None)
    other = make_tenant(app_engine, platform, "bravo")
    record(tenant_id=other.id)
    assert replay().total == 1
    assert replay(days=8).total == 2
    with session_scope(TenantScope(other.id), engine=app_engine) as session:
        nothing = replay_policy(session, tenant_id=other.id, document={}, policy_id=uuid4(), days=7)
    assert (nothing.total, nothing.sites) == (0, ())


def test_site_can_be_chosen_and_its_fallback_applies(replay, record, as_tenant, app_engine, tenant):
    make_site(app_engine, tenant.id, "branch")
    branch = as_tenant(sites.require_by_slug, slug="branch").id
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        sites.require_by_slug(session, tenant_id=tenant.id, slug="branch").fallback = {"verdict": "permit", "vlan": "9"}
    record(site_id=branch, request={"endpoint.group": ["phones"]})
    assert replay().total == 0
    found = replay(site="branch")
    assert changes(found) == [(("permit", "r", "20", ""), ("permit", "", "9", ""), 1)]
    # Without a policy, every site is replayed.
    assert replay(policy_id=None).sites == ("branch", "main")
    with pytest.raises(NotFound):
        replay(site="nowhere")


def test_comparison_with_the_published_version_ignores_history(replay, record):
    record(vlan="7", rule_id="gone")
    assert changes(replay(good())) == [(("permit", "gone", "7", ""), ("permit", "r", "20", ""), 1)]
    assert changes(replay(good(), against="published")) == []
    assert changes(replay(against="published")) == [(("permit", "r", "20", ""), ("permit", "r", "30", ""), 1)]


def test_site_without_a_published_version_denies(replay, record, do):
    do(site_settings.assign_policy, slug="main", policy_id=None)
    record()
    found = replay(policy_id=None, against="published")
    assert changes(found) == [(("deny", "", "", ""), ("permit", "r", "30", ""), 1)]


def test_names_with_any_characters_are_replayed_as_recorded(replay, record):
    odd = 'tab\t line\n back\\slash \\n "quote" ü €'
    record(vlan=odd, rule_id=odd, identity=odd, mac=None, request={"endpoint.group": [odd]})
    record(vlan="\\N", rule_id="\\\\t", request={"endpoint.group": [odd]})
    rule = group_rule() | {"when": {"attribute": "endpoint.group", "operator": "starts_with", "value": odd}}
    found = replay({"rules": [rule]})
    assert sorted(before for before, _, _ in changes(found)) == sorted(
        [("permit", odd, odd, ""), ("permit", "\\\\t", "\\N", "")]
    )
    assert all(after == ("permit", "r", "20", "") for _, after, _ in changes(found))
    assert {example.identity for difference in found.differences for example in difference.examples} >= {odd}


def test_attribute_missing_from_old_requests_is_reported(replay, record):
    certificate = {"certificate.profile": ["laptop"], "certificate.eku": ["1.2.3"]}
    record(at=utc_now() - timedelta(days=3))
    record(at=utc_now() - timedelta(days=1), request=certificate, times=2)
    asks = [
        {"attribute": "certificate.profile", "operator": "equals", "value": "laptop"},
        {"attribute": "certificate.common_name", "operator": "exists"},
        {"attribute": "endpoint.group", "operator": "equals", "value": "printers"},
        {"attribute": "ssid", "operator": "exists"},
        {"attribute": "radius.Class", "operator": "exists"},
    ]
    rules = [
        group_rule(identifier=f"r{number}") | {"when": {"all": [ask, {"not": {"all": asks[:2]}}]}}
        for number, ask in enumerate(asks[1:])
    ]
    found = {each.attribute: each for each in replay({"rules": rules}).unrecorded}
    # The whole packet is recorded, so an absent attribute was not sent.
    assert found.keys() == {"certificate.profile", "certificate.common_name"}
    assert found["certificate.common_name"].first_held is None
    assert found["certificate.profile"].held_by == 2
    assert "rules r0, r1, r2, r3 use certificate.profile, which is not recorded before" in str(
        found["certificate.profile"]
    )
    assert "no replayed request has" in str(found["certificate.common_name"])


def test_cache_is_bounded_and_sums_stay_correct(replay, record, monkeypatch):
    for number in range(10):
        record(request={"endpoint.group": ["printers", f"g{number}"]}, mac=f"0011223344{number:02}")
    whole = replay()
    monkeypatch.setattr(comparison, "MAX_DISTINCT_REQUESTS", 2)
    small = replay()
    assert changes(small) == changes(whole)
    assert (small.total, small.differences[0].devices) == (10, 10)


def test_largest_groups_are_listed_and_all_are_counted(replay, record, monkeypatch):
    monkeypatch.setattr(replays, "MAX_LISTED_DIFFERENCES", 2)
    for times in (1, 2, 3):
        record(vlan=str(times), times=times)
    found = replay()
    assert [difference.requests for difference in found.differences] == [3, 2]
    assert (found.groups, found.changed) == (3, 6)


def test_digest_covers_draft_and_groups_but_not_counts(replay, record):
    record()
    first = replay().digest
    record(times=3, mac="001122334466")
    assert replay().digest == first
    assert replay(against="published").digest == first
    assert replay(good("31")).digest != first
    record(vlan="7")
    assert replay().digest != first


def test_invalid_draft_and_days_are_rejected(replay):
    with pytest.raises(InvalidPolicy, match="unknown endpoint group 'plotters'"):
        replay({"rules": [group_rule("plotters")]})
    for days in (0, 367):
        with pytest.raises(InvalidInput, match="Invalid number of days"):
            replay(days=days)


def test_broken_published_version_does_not_block_a_new_one(replay, record, owner_engine):
    record()
    with owner_engine.begin() as connection:
        connection.execute(text("""UPDATE policy_versions SET document = '{"of": "the past"}'"""))
    found = replay(good(), against="published")
    assert changes(found) == [(("deny", "", "", ""), ("permit", "r", "20", ""), 1)]


def test_monitor_mode_is_a_difference_because_it_admits(replay, record):
    denying = {"rules": [group_rule() | {"then": {"verdict": "deny"}}]}
    monitored = {"rules": [group_rule() | {"then": {"verdict": "deny"}, "monitor": True}]}
    denied = {"permitted": False, "verdict": "deny", "reason": "rule-denied", "vlan": ""}
    record(**denied)
    assert replay(denying).changed == 0
    (difference,) = replay(monitored).differences
    assert (difference.before[:4], difference.after[:4]) == (("deny", "r", "", ""), ("deny", "r", "", "rule"))
    assert (difference.before.permitted, difference.after.permitted) == (False, True)
    assert str(difference.after) == "admitted because the rule is in monitor mode (would be: deny by r)"


def test_rows_recorded_in_monitor_mode_are_compared_as_such(replay, record, do):
    record(monitored="site", vlan="")
    assert changes(replay(good())) == [(("permit", "r", "", "site"), ("permit", "r", "20", ""), 1)]
    do(site_settings.update_site, slug="main", monitor=True)
    assert replay(good()).changed == 0


def test_monitor_mode_site_without_a_policy_admits(replay, record, do):
    record()
    do(site_settings.assign_policy, slug="main", policy_id=None)
    do(site_settings.update_site, slug="main", monitor=True)
    found = replay(good(), against="published", site="main", policy_id=None)
    assert changes(found) == [(("deny", "", "", "site"), ("permit", "r", "", "site"), 1)]


def test_replay_has_its_own_statement_timeout(replay, record, owner_engine, app_engine, tenant, monkeypatch):
    record()
    with owner_engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO auth_log "
                "(at, tenant_id, cell_id, site_id, method, permitted, reason, policy_version, request) "
                "SELECT at - n * interval '1 ms', tenant_id, cell_id, site_id, method, permitted, reason, "
                "policy_version, request FROM auth_log, generate_series(1, 5000) n"
            )
        )
    assert replay().total == 5001
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        session.execute(text("SET LOCAL statement_timeout = '20s'"))
        replay_policy(session, tenant_id=tenant.id, document=good(), policy_id=None, days=7)
        assert session.scalar(text("SHOW statement_timeout")) == "20s"
    monkeypatch.setattr(recorded_requests, "MAX_SECONDS", 0.001)
    with pytest.raises(psycopg.errors.QueryCanceled):
        replay()
