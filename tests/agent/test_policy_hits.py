"""Hits of policy rules, counted exactly once with their log rows, and replays of recorded requests."""

from nac.kit.clock import epoch_microseconds
from nac.kit.db import TenantScope, session_scope
from nac.policies.replays import replay_policy
from nac.tenancy import sites
from radius.agent.shipping.streams import AuthStream
from tests.agent.journal_records import AT, SECOND, auth, drain
from tests.factories.dictionary import give_dictionary

POLICY = "00000000-0000-4000-8000-000000000001"
DAY = 86_400 * SECOND


def hits(owner):
    rows = owner.execute(
        "SELECT rule_id, version, day::text, hits, (extract(epoch FROM last_at) * 1000000)::bigint FROM policy_hits "
        "ORDER BY version, rule_id, day"
    )
    return rows.fetchall()


def decided(tenant, **values):
    return auth(tenant, **({"policy_id": POLICY, "policy_version": 1} | values))


def test_hits_are_counted_by_rule_version_and_day(owner, alpha, journal):
    journal.ship(
        decided(alpha),
        decided(alpha, at=AT + 5),
        decided(alpha, at=AT + DAY),
        decided(alpha, policy_version=2),
        decided(alpha, rule_id="", permitted=False, reason="fallback-denied"),
        decided(alpha, rule_id="stolen", permitted=False, reason="pinned-deny"),
        # Rejected before any policy.
        auth(alpha, policy_id="", policy_version=0, rule_id="", permitted=False, reason="wrong-password"),
    )
    assert hits(owner) == [
        ("", 1, "2096-10-02", 1, AT),
        ("r1", 1, "2096-10-02", 2, AT + 5),
        ("r1", 1, "2096-10-03", 1, AT + DAY),
        ("stolen", 1, "2096-10-02", 1, AT),
        ("r1", 2, "2096-10-02", 1, AT),
    ]


def test_batches_add_up_and_the_last_hit_never_goes_back(owner, alpha, journal):
    journal.ship(decided(alpha, at=AT + 9)).ship(decided(alpha)).ship(decided(alpha, at=AT + 3))
    assert hits(owner) == [("r1", 1, "2096-10-02", 3, AT + 9)]


def test_shipped_rows_are_not_counted_again(owner, alpha, journal):
    journal.ship(*(decided(alpha, at=AT + n) for n in range(10)))
    journal.ship()
    again = journal.shipper(AuthStream())
    drain(again)
    again.close()
    assert hits(owner) == [("r1", 1, "2096-10-02", 10, AT + 9)]


def test_rejected_batch_is_split_and_the_rest_counts_once(owner, alpha, journal):
    """PostgreSQL rejects a site that is no UUID. The shipper halves the batch until it sets only that row aside."""
    journal.ship(*(decided(alpha, at=AT + n, site_id="mars" if n == 3 else "") for n in range(8)))
    assert hits(owner) == [("r1", 1, "2096-10-02", 7, AT + 7)]
    assert owner.execute("SELECT count(*) FROM auth_log").fetchone() == (7,)


def test_replay_uses_the_original_packet_and_facts(journal, alpha, app_engine, cell_engine, platform):
    give_dictionary(cell_engine, platform.cell_id)
    with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
        site = sites.require_by_slug(session, tenant_id=alpha.id, slug="main")
    there = {"at": epoch_microseconds() - 60_000_000, "site_id": str(site.id)}
    ssid = 'Corp \\ "Wi-Fi"'
    pairs = (("Called-Station-Id", f"00-10-A4-23-19-C0:{ssid}"), ("NAS-Port", "7"), ("Class", "a"), ("Class", "b"))
    facts = {"method": ("mab",), "endpoint.known": (True,), "endpoint.group": ("printers", "floor 1")}
    journal.ship(
        auth(alpha, **there, policy_id=str(site.id), rule_id="printers", pairs=pairs, facts=facts),
        auth(alpha, **there, policy_version=0, permitted=False, reason="wrong-password"),
    )
    for attribute, operator, value in (
        ("ssid", "equals", ssid),
        ("radius.NAS-Port", "greater_than", 6),
        ("radius.Class", "equals", "b"),
        ("mac", "starts_with", "AA:BB:CC"),
        ("mac.random", "equals", True),
        ("endpoint.known", "equals", True),
    ):
        when = {"attribute": attribute, "operator": operator, "value": value}
        document = {"rules": [{"id": "r0", "name": "R", "when": when, "then": {"verdict": "permit"}}]}
        with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
            found = replay_policy(session, tenant_id=alpha.id, document=document, policy_id=None, days=1)
        assert [(each.before[:4], each.after[:4]) for each in found.differences] == [
            (("permit", "printers", "20", ""), ("permit", "r0", "", ""))
        ], attribute
        assert found.not_replayable == {"wrong-password": 1}
