import json
import random
import threading
from datetime import UTC, datetime

import psycopg
import pytest

from nac.cellformat.replica.change_feed import prune_changes
from nac.cellformat.replica.records import AuthorityRecord
from nac.kit.db import PlatformScope, session_scope
from tests.agent.conftest import Replica
from tests.agent.mirrored_rows import (
    BAD,
    GOOD,
    add_authority,
    add_certificate,
    add_endpoint,
    add_nas,
    add_policy,
    add_site,
    add_user,
    publish,
)
from tests.factories.tenancy import make_cell
from tests.polling import until
from tests.postgres import Database

DENY = {"verdict": "deny"}


def endpoint(replica, tenant, mac):
    with replica.view as view:
        return view.endpoint(tenant.number, mac)


def site(replica, tenant, site_id):
    with replica.view as view:
        return view.site(tenant.number, str(site_id))


def policy_version(replica, tenant, policy_id):
    with replica.view as view:
        policy = view.policy(tenant.number, str(policy_id))
        return policy and policy.version


def leave_cell(owner, tenant):
    owner.execute("UPDATE slots SET tenant_id = NULL, status = 'retired' WHERE tenant_id = %s", (tenant.id,))


def reload_everything(owner, replica):
    owner.execute("UPDATE cells SET replica_position = NULL")
    return replica.catch_up()


def test_empty_replica_loads_everything_of_its_tenants(owner, alpha, replica):
    policy_id = add_policy(owner, alpha)
    site_id = add_site(owner, alpha, policy_id=policy_id, fallback={"verdict": "permit"})
    nas_id = add_nas(owner, alpha, site_id, identifier="switch-1", address="192.0.2.7")
    until = datetime(2030, 1, 1, tzinfo=UTC)
    add_endpoint(
        owner, alpha, "aabbccddeeff", groups=("b", "a"), attributes={"owner": "IT", "floor": 3}, valid_until=until
    )
    user_id = add_user(owner, alpha, "anna", sealed=b"secret", sealed_nt_hash=b"hash")
    ca = add_authority(owner, alpha)
    add_certificate(owner, alpha, ca, b"\x0f\xff")
    add_certificate(owner, alpha, ca, b"\x01", profile="eap-server")
    # This certificate is newer, but the cell cannot present it yet.
    add_certificate(owner, alpha, ca, b"\x07", profile="eap-server", has_key=False)
    replica.catch_up()
    with replica.view as view:
        slot = view.slot(alpha.slot)
        assert (slot.tenant, slot.tenant_id, slot.slug, slot.status) == (alpha.number, str(alpha.id), "alpha", "active")
        assert slot.server_certificate == "01"
        assert view.policy(alpha.number, str(policy_id)).version == 1
        assert view.site(alpha.number, str(site_id)).fallback == b'{"verdict": "permit"}'
        assert view.nas_by_identifier(alpha.number, "switch-1").nas_id == str(nas_id)
        assert view.nas_by_address(alpha.number, bytes([192, 0, 2, 7])).site_id == str(site_id)
        endpoint = view.endpoint(alpha.number, "aabbccddeeff")
        assert endpoint.groups == ("a", "b")
        assert endpoint.attributes == {"owner": "IT", "floor": "3"}
        assert endpoint.valid_until == int(until.timestamp())
        assert view.user(alpha.number, "anna").sealed_password == f"resealed user:{user_id} secret".encode()
        assert view.user(alpha.number, "anna").sealed_nt_hash == f"resealed user-nt-hash:{user_id} hash".encode()
        assert view.certificate(alpha.number, "0fff").status == "valid"
        assert view.authority("/O=Alpha/CN=CA") == AuthorityRecord(((alpha.number, True),))
        assert view.meta("complete") == "1"


def test_latest_valid_server_certificate_is_presented(owner, alpha, replica):
    ca = add_authority(owner, alpha)
    for serial, since in ((b"\x01", "-9 days"), (b"\x02", "-9 hours"), (b"\x03", None), (b"\x04", "9 days")):
        add_certificate(owner, alpha, ca, serial, profile="eap-server", present_since=since)

    def presented_serial() -> str:
        replica.catch_up()
        with replica.view as view:
            return view.slot(alpha.slot).server_certificate

    assert presented_serial() == "02"
    for serial, then in (("02", "03"), ("03", "01"), ("01", "04")):
        owner.execute("UPDATE certificates SET status = 'revoked' WHERE serial = decode(%s, 'hex')", (serial,))
        assert presented_serial() == then


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (
            "methods = '{mab,eap-tls}', tls_versions = '{1.3}'",
            {"methods": ("mab", "eap-tls"), "tls_versions": ("1.3",)},
        ),
        ("realms = '{corp,corp.example}'", {"realms": ("corp", "corp.example")}),
        (
            "trusts_external = true, status_failure = 'hard'",
            {"own_authorities_only": False, "status_required": True},
        ),
        ("status = 'suspended'", {"status": "suspended"}),
        ("status = 'deleting'", {"status": "suspended"}),
    ],
)
def test_settings_of_the_tenant_are_in_its_slot(owner, alpha, replica, change, fields):
    before = replica.catch_up().slots()[alpha.slot]
    assert not {name: getattr(before, name) for name in fields}.items() & fields.items()
    told = []
    replica.sync.on_configuration = lambda: told.append(True)
    owner.execute(f"UPDATE tenants SET {change} WHERE id = %s", (alpha.id,))
    found = replica.catch_up().slots()[alpha.slot]
    assert {name: getattr(found, name) for name in fields} == fields
    assert told == [True]
    owner.execute("UPDATE tenants SET status = 'active' WHERE id = %s", (alpha.id,))
    assert replica.catch_up().slots()[alpha.slot].status == "active"


def test_caught_up_replica_reports_its_position(owner, alpha, replica, platform):
    replica.catch_up()
    owner.execute("UPDATE tenants SET name = 'Other' WHERE id = %s", (alpha.id,))
    (xact,) = owner.execute("SELECT max(xact)::text FROM replica_changes").fetchone()
    query = "SELECT pg_visible_in_snapshot(%s::xid8, replica_position::pg_snapshot) FROM cells WHERE id = %s"
    assert owner.execute(query, (xact, platform.cell_id)).fetchone() == (False,)
    replica.catch_up()
    assert owner.execute(query, (xact, platform.cell_id)).fetchone() == (True,)


def test_commits_out_of_start_order_are_all_applied(owner, database: Database, alpha, replica):
    macs = [f"00000000000{number}" for number in (1, 2, 3)]
    replica.catch_up()
    with psycopg.connect(database.owner_url) as slow:
        add_endpoint(slow, alpha, macs[0])
        add_endpoint(owner, alpha, macs[1])
        replica.catch_up()
        assert [bool(endpoint(replica, alpha, mac)) for mac in macs[:2]] == [False, True]
        add_endpoint(owner, alpha, macs[2])
        replica.catch_up()
        slow.commit()
    replica.catch_up()
    assert all(endpoint(replica, alpha, mac) for mac in macs)
    assert replica.sync.counters["full_loads"] == 1


def test_rolled_back_change_is_never_applied(owner, alpha, replica):
    replica.catch_up()
    with owner.transaction() as transaction:
        add_endpoint(owner, alpha, "000000000001")
        raise psycopg.Rollback(transaction)
    assert not replica.sync.catch_up()


def test_incremental_sync_equals_a_full_load(owner, make, replica, fresh_replica):
    """Change rows of every noun at random, in batches. After each batch, a newly loaded replica must be equal."""
    dice = random.Random(20)
    tenants = [make("alpha"), make("bravo")]
    sites = {tenant.number: add_site(owner, tenant) for tenant in tenants}
    authorities = {tenant.number: add_authority(owner, tenant) for tenant in tenants}
    policies = {tenant.number: add_policy(owner, tenant) for tenant in tenants}
    replica.catch_up()

    def change_rows(statement, tenant, column="tenant_id", value=None):
        owner.execute(f"{statement} WHERE tenant_id = %s AND {column} = %s", (tenant.id, value or tenant.id))

    def change(step):
        tenant = dice.choice(tenants)
        mac, number = f"{dice.randrange(30):012x}", tenant.number
        serial = bytes([dice.randrange(1, 20)])
        match dice.randrange(12):
            case 0 | 1:
                change_rows("DELETE FROM endpoints", tenant, "mac", mac)
                add_endpoint(owner, tenant, mac, name=f"n{step}", groups=dice.sample(["a", "b", "c"], 2))
            case 2:
                change_rows("DELETE FROM endpoints", tenant, "mac", mac)
            case 3:
                change_rows("UPDATE endpoints SET status = 'blocked'", tenant, "mac", mac)
            case 4:
                change_rows("UPDATE endpoints SET mac = mac | '100000000000'::macaddr", tenant, "mac", mac)
            case 5:
                change_rows("DELETE FROM nases", tenant, "identifier", mac)
                add_nas(owner, tenant, sites[number], identifier=mac)
            case 6:
                change_rows(f"UPDATE nases SET identifier = identifier || 'x{step}'", tenant)
            case 7:
                change_rows("DELETE FROM certificates", tenant, "serial", serial)
                profile = dice.choice(["eap-server", "eap-client-user"])
                add_certificate(owner, tenant, authorities[number], serial, profile=profile)
            case 8:
                change_rows("UPDATE certificates SET status = 'revoked'", tenant)
            case 9:
                publish(owner, tenant, policies[number], step + 2, GOOD)
            case 10:
                change_rows("DELETE FROM endpoint_groups", tenant, "name", "a")
            case 11:
                change_rows("DELETE FROM users", tenant, "name", "anna")
                add_user(owner, tenant, "anna")

    for step in range(150):
        change(step)
        if step % 7 == 0:
            replica.catch_up()
    replica.catch_up()
    assert replica.sync.counters["full_loads"] == 1
    assert replica.everything == fresh_replica().everything


def test_existing_rows_of_a_new_tenant_are_loaded(owner, alpha, replica):
    replica.catch_up()
    owner.execute("UPDATE slots SET tenant_id = NULL, status = 'free' WHERE tenant_id = %s", (alpha.id,))
    add_endpoint(owner, alpha, "000000000001")
    replica.catch_up()
    assert (replica.slots(), replica.everything["endpoints"]) == ({}, {})
    owner.execute("UPDATE slots SET tenant_id = %s, status = 'assigned' WHERE number = 3", (alpha.id,))
    replica.catch_up()
    assert set(replica.slots()) == {3}
    assert endpoint(replica, alpha, "000000000001") is not None
    assert replica.sync.counters["full_loads"] == 1


def test_all_rows_of_a_tenant_that_left_are_removed(owner, make, replica):
    alpha, bravo = make("alpha"), make("bravo")
    for tenant in (alpha, bravo):
        add_endpoint(owner, tenant, "000000000001")
        add_authority(owner, tenant, subject="/CN=Shared", kind="external")
    replica.catch_up()
    leave_cell(owner, alpha)
    replica.catch_up()
    assert set(replica.slots()) == {bravo.slot}
    assert endpoint(replica, alpha, "000000000001") is None
    assert endpoint(replica, bravo, "000000000001") is not None
    with replica.view as view:
        assert view.authority("/CN=Shared") == AuthorityRecord(((bravo.number, False),))


@pytest.mark.parametrize("bad", [BAD, "none"])
def test_invalid_policy_keeps_the_previous_one_with_an_alarm(owner, alpha, replica, fresh_replica, bad):
    policy_id = add_policy(owner, alpha)
    replica.catch_up()
    publish(owner, alpha, policy_id, 2, bad)
    for catch_up in (replica.catch_up, lambda: reload_everything(owner, replica)):
        catch_up()
        assert policy_version(replica, alpha, policy_id) == 1
        assert replica.alarm_codes == {f"policy-refused-{policy_id}"}
    assert replica.sync.counters["full_loads"] == 2
    publish(owner, alpha, policy_id, 3, GOOD)
    replica.catch_up()
    assert policy_version(replica, alpha, policy_id) == 3
    assert replica.alarm_codes == set()
    publish(owner, alpha, policy_id, 4, bad)
    assert policy_version(fresh_replica(), alpha, policy_id) is None


def test_policy_tests_are_not_mirrored(owner, alpha, replica):
    test = {"name": "t", "request": {}, "expect": {"verdict": "permit"}}
    policy_id = add_policy(owner, alpha, GOOD | {"tests": [test]})
    with replica.catch_up().view as view:
        assert json.loads(view.policy(alpha.number, str(policy_id)).document) == GOOD


def test_published_version_with_a_dead_rule_still_decides(owner, alpha, replica):
    """A release without that check may have published the version."""
    rules = [
        {"id": how, "name": how, "when": {"attribute": "ssid", "operator": how, "value": "x"}, "then": DENY}
        for how in ("starts_with", "equals")
    ]
    policy_id = add_policy(owner, alpha)
    publish(owner, alpha, policy_id, 2, {"rules": rules})
    replica.catch_up()
    assert policy_version(replica, alpha, policy_id) == 2
    assert replica.alarm_codes == set()


def test_site_mode_is_mirrored_and_updated(owner, alpha, replica):
    site_id = add_site(owner, alpha, monitor=True)
    found = site(replica.catch_up(), alpha, site_id)
    assert (found.monitor, found.fallback) == (True, b"")
    owner.execute("UPDATE sites SET monitor = false WHERE id = %s", (site_id,))
    assert site(replica.catch_up(), alpha, site_id).monitor is False


@pytest.mark.parametrize(
    ("column", "good", "bad"),
    [("fallback", '{"verdict": "permit"}', '{"verdict": "maybe"}'), ("time_zone", "Europe/Berlin", "Mars/Base")],
)
def test_invalid_setting_keeps_the_site_unchanged(owner, alpha, replica, column, good, bad):
    site_id = add_site(owner, alpha)
    owner.execute(f"UPDATE sites SET {column} = %s WHERE id = %s", (good, site_id))
    before = site(replica.catch_up(), alpha, site_id)
    assert good in (before.fallback.decode(), before.time_zone)
    owner.execute(f"UPDATE sites SET name = 'New', {column} = %s WHERE id = %s", (bad, site_id))
    assert site(replica.catch_up(), alpha, site_id) == before
    assert replica.alarm_codes == {f"site-refused-{site_id}"}
    owner.execute("DELETE FROM sites WHERE id = %s", (site_id,))
    assert replica.catch_up().alarm_codes == set()


def test_row_alarms_are_cleared_with_their_tenant(owner, alpha, make, replica):
    bravo = make("bravo")
    sites = {tenant.number: add_site(owner, tenant) for tenant in (alpha, bravo)}
    owner.execute('UPDATE sites SET fallback = \'{"verdict": "maybe"}\'')
    replica.catch_up()
    assert len([code for code in replica.alarm_codes if code.startswith("site-refused-")]) == 4
    leave_cell(owner, alpha)
    replica.catch_up()
    assert f"site-refused-{sites[alpha.number]}" not in replica.alarm_codes
    assert f"site-refused-{sites[bravo.number]}" in replica.alarm_codes
    # The replica reloads everything and reports existing errors again, once.
    assert len(reload_everything(owner, replica).alarm_codes) == 2


def test_restart_continues_at_its_position(owner, alpha, platform, cell_engine, tmp_path):
    first = Replica(platform.cell_id, cell_engine, tmp_path / "replica").catch_up()
    first.writer.close()
    add_endpoint(owner, alpha, "000000000001")
    second = Replica(platform.cell_id, cell_engine, tmp_path / "replica")
    assert second.sync.complete
    second.catch_up()
    assert second.sync.counters == {"changes": 1}
    assert endpoint(second, alpha, "000000000001") is not None
    second.writer.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE cells SET replica_position = NULL",
        "UPDATE cells SET replica_position = '3:3:'",
        "UPDATE cells SET replica_position_at = now() - interval '30 days'",
    ],
)
def test_database_with_another_history_is_reloaded(statement, owner, alpha, replica):
    replica.catch_up()
    owner.execute(statement)
    replica.catch_up()
    assert replica.sync.counters["full_loads"] == 2


def test_lost_report_does_not_reload_everything(owner, alpha, replica, monkeypatch):
    replica.catch_up()
    add_endpoint(owner, alpha, "000000000001")
    with monkeypatch.context() as patched:
        patched.setattr(replica.sync, "_report", lambda: (_ for _ in ()).throw(OSError("gone")))
        with pytest.raises(OSError, match="gone"):
            replica.sync.catch_up()
    add_endpoint(owner, alpha, "000000000002")
    replica.catch_up()
    assert replica.sync.counters["full_loads"] == 1


def test_too_many_changes_reload_everything(owner, alpha, replica, monkeypatch):
    monkeypatch.setattr("radius.agent.replica.sync.MAX_CHANGES", 3)
    replica.catch_up()
    for number in range(5):
        add_endpoint(owner, alpha, f"{number:012x}")
    replica.catch_up()
    assert replica.sync.counters["full_loads"] == 2
    assert len(replica.everything["endpoints"]) == 5


def test_hook_runs_before_new_slots_take_effect(owner, alpha, platform, cell_engine, tmp_path):
    seen = []

    def before_commit(session, slots):
        seen.append({number: slot.server_certificate for number, slot in slots.items()})

    replica = Replica(platform.cell_id, cell_engine, tmp_path / "replica", before_commit=before_commit).catch_up()
    ca = add_authority(owner, alpha)
    add_certificate(owner, alpha, ca, b"\x05")
    add_certificate(owner, alpha, ca, b"\x06", profile="eap-server")
    replica.catch_up()
    assert seen == [{alpha.slot: ""}, {alpha.slot: "06"}]
    add_certificate(owner, alpha, ca, b"\x07")
    replica.catch_up()
    assert len(seen) == 2
    replica.writer.close()


def test_configuration_is_notified_after_slot_and_nas_changes(owner, alpha, replica):
    replica.catch_up()
    told = []
    replica.sync.on_configuration = lambda: told.append(1)
    add_endpoint(owner, alpha, "000000000001")
    replica.catch_up()
    assert told == []
    add_nas(owner, alpha, add_site(owner, alpha), address="192.0.2.1")
    replica.catch_up()
    assert told == [1]


def test_tenants_of_other_cells_are_excluded(owner, alpha, app_engine, cell_engine, tmp_path):
    other = make_cell(cell_engine, name="cell-2", first_port=19120)
    add_endpoint(owner, alpha, "000000000001")
    replica = Replica(other, cell_engine, tmp_path / "other").catch_up()
    add_endpoint(owner, alpha, "000000000002")
    assert not replica.sync.catch_up()
    assert replica.slots() == {}
    assert all(not records for records in replica.everything.values())
    replica.writer.close()


def test_running_sync_survives_a_database_outage(owner, database: Database, alpha, platform, cell_engine, tmp_path):
    stop = threading.Event()
    replicas = []

    def work():
        replicas.append(Replica(platform.cell_id, cell_engine, tmp_path / "replica"))
        replicas[0].sync.run(stop)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        until(lambda: replicas and replicas[0].sync.complete, "all is there")

        add_endpoint(owner, alpha, "000000000001")
        until(lambda: endpoint(replicas[0], alpha, "000000000001"), "the endpoint")
        with psycopg.connect(database.superuser_url, autocommit=True) as superuser:
            superuser.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'admit_cell'")
        until(lambda: "replica-sync" in replicas[0].alarm_codes, "an alarm")
        add_endpoint(owner, alpha, "000000000002")
        until(lambda: endpoint(replicas[0], alpha, "000000000002"), "another endpoint")
        until(lambda: replicas[0].alarm_codes == set(), "no alarm")
    finally:
        stop.set()
        thread.join()
        replicas[0].writer.close()
    assert replicas[0].sync.counters["full_loads"] == 1


def test_position_advances_if_no_row_changed(owner, alpha, replica, platform, monkeypatch):
    replica.catch_up()
    (before,) = owner.execute("SELECT replica_position FROM cells").fetchone()
    owner.execute("UPDATE tenants SET name = name WHERE id = %s", (alpha.id,))
    monkeypatch.setattr("radius.agent.replica.sync.ADVANCE_SECONDS", 0.0)
    assert not replica.sync.catch_up()
    assert owner.execute("SELECT replica_position <> %s FROM cells", (before,)).fetchone() == (True,)


def test_pruning_keeps_changes_not_yet_applied_by_a_cell(owner, alpha, replica, worker_engine):
    def prune():
        with session_scope(PlatformScope(), engine=worker_engine) as session:
            return prune_changes(session)

    replica.catch_up()
    add_endpoint(owner, alpha, "000000000001")
    owner.execute("UPDATE replica_changes SET at = now() - interval '2 days'")
    (total,) = owner.execute("SELECT count(*) FROM replica_changes").fetchone()
    assert prune() == total - 1
    replica.catch_up()
    assert prune() == 1
    add_endpoint(owner, alpha, "000000000002")
    assert prune() == 0
    owner.execute("UPDATE replica_changes SET at = now() - interval '2 days'")
    owner.execute("UPDATE cells SET replica_position_at = now() - interval '8 days'")
    assert prune() == 1
