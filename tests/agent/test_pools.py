"""Addresses of a pool in one cell: assigned in advance, used without a database, and never shared."""

import pytest
from sqlalchemy import event

from nac.pools.service import delete_pool, release_address, rename_pool, update_pool
from radius.agent.pools.leases import RECHECK_SECONDS
from radius.agent.pools.maintenance import MAX_REST_SECONDS, STEP_SECONDS, ClaimsDirectory, step_pause_seconds
from tests.agent.pool_cell import ANNA, BEN, CLEO, DORA, EVE, POOL, SECOND, later


def test_device_keeps_its_address_during_a_database_outage(world):
    assert set(world.rows().values()) == {"stock"}
    addresses = ["10.0.0.1", "10.0.0.2"]
    assert world.request_addresses(ANNA, BEN, ANNA, BEN) == addresses * 2
    world.settle()
    assert world.request_addresses(ANNA, BEN) == addresses
    assert world.rows() == {"10.0.0.1": "leased", "10.0.0.2": "leased", "10.0.0.3": "stock", "10.0.0.4": "stock"}


def test_exhausted_pool_serves_only_existing_holders(world):
    given = world.request_addresses(ANNA, BEN, CLEO, DORA, EVE)
    assert given == ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", None]
    assert world.request_address(CLEO) == "10.0.0.3"
    world.keeper.check_stock()
    [alarm] = [alarm for alarm in world.alarms.standing() if alarm.code.startswith("pool-low")]
    assert "Pool guests of tenant alpha has 0 addresses left in this cell." in alarm.detail
    assert alarm.tenant == world.keeper._pools[alarm.code.removeprefix("pool-low-")].tenant_number > 0


def test_session_holds_its_address_until_stop_and_quarantine(world):
    address = world.request_address(ANNA)
    world.starts(ANNA, address)
    later(world, RECHECK_SECONDS, times=3)
    assert world.rows()[address] == "leased"
    world.stops(ANNA)
    world.settle()
    assert world.rows()[address] == "quarantined"
    assert world.request_addresses(BEN, CLEO, DORA, EVE) == ["10.0.0.2", "10.0.0.3", "10.0.0.4", None]
    assert world.request_address(ANNA) == address


def test_session_without_a_reported_address_holds_it_too(world):
    world.starts(ANNA, world.request_address(ANNA) and None)
    later(world, 3 * RECHECK_SECONDS)
    assert world.rows()["10.0.0.1"] == "leased"


def test_accept_without_a_start_expires_and_is_preferred_later(world):
    assert world.request_address(ANNA) == "10.0.0.1"
    world.settle()
    for state in ("quarantined", "stock"):
        later(world, 60)
        assert world.rows()["10.0.0.1"] == state
    assert world.request_addresses(BEN, CLEO, ANNA) == ["10.0.0.2", "10.0.0.3", "10.0.0.1"]


def test_radiusd_killed_before_its_answer_leaks_no_address(world):
    address = world.request_address(ANNA, journalled=False)
    world.start_radiusd()
    assert world.request_address(BEN) != address
    world.settle()
    assert world.rows()[address] == "leased"
    later(world, 60, times=2)
    assert world.rows()[address] == "stock"


def test_reboot_reassigns_no_possibly_used_address(world):
    address = world.request_address(ANNA)
    world.starts(ANNA, address)
    held = world.journal
    world.journal = []
    world.boot()
    # The database is still down, so the cell knows of no ready address.
    assert world.request_address(BEN) is None
    world.settle()
    assert world.rows()[address] == "quarantined"
    world.journal = held
    later(world, 60)
    assert world.rows()[address] == "leased"
    assert world.request_address(BEN) not in (address, None)


def test_lost_files_are_recreated_without_double_assignment(world):
    first = world.request_address(ANNA)
    world.lose_files()
    world.step()
    second = world.request_address(BEN)
    world.settle()
    assert world.rows() == {first: "leased", second: "leased", "10.0.0.3": "quarantined", "10.0.0.4": "quarantined"}
    later(world, 60)
    assert world.request_addresses(CLEO, DORA, ANNA) == ["10.0.0.3", "10.0.0.4", first]


def test_journal_backlog_ends_no_lease(world):
    """The Start arrived in time, but the database was down."""
    address = world.request_address(ANNA)
    world.starts(ANNA, address)
    world.now += 3600 * SECOND
    world.ship(1)
    world.step()
    world.step()
    assert world.rows()[address] == "leased"
    later(world, RECHECK_SECONDS)
    assert world.rows()[address] == "leased"


def expire_unseen(world):
    """End the grace period and the quarantine. The replica does not receive the changes."""
    for _ in range(2):
        world.now += 60 * SECOND
        world.step()


def test_device_returning_by_old_data_keeps_its_address(world):
    """The address became ready without the replica's knowledge. Then the database goes down."""
    world.request_addresses(ANNA, BEN, CLEO, DORA)
    world.settle()
    expire_unseen(world)
    assert set(world.rows().values()) == {"stock"}
    address = world.request_address(ANNA)
    world.now += 7200 * SECOND
    world.sync()
    assert address not in world.request_addresses(EVE, BEN, CLEO)
    world.settle()
    # No Start of the device has arrived in two hours.
    assert world.rows()[address] == "quarantined"
    assert world.rows("host(address), replace(mac::text, ':', '')")[address] == ANNA
    assert world.conflicts == 0


def test_unreported_returning_device_keeps_address_for_a_while(world):
    world.request_addresses(ANNA, BEN, CLEO, DORA)
    world.settle()
    expire_unseen(world)
    address = world.request_address(ANNA, journalled=False)
    world.start_radiusd()
    world.settle()
    assert world.rows()[address] == "leased"
    later(world, 60, times=2)
    taken = world.request_addresses(BEN, CLEO, DORA, EVE)
    assert (None in taken, address in taken) == (False, True)


def test_address_assigned_at_a_crash_is_not_reused(world):
    world.add_pool("one", ["10.8.0.1"])
    world.settle()
    assert world.request_address(ANNA, pool="one") == "10.8.0.1"
    world.settle()
    later(world, 60, times=2)
    assert world.request_address(BEN, pool="one") == "10.8.0.1"
    world.boot()
    world.step()
    world.sync()
    assert world.request_address(ANNA, pool="one") is None
    world.settle()
    assert world.request_address(BEN, pool="one") == "10.8.0.1"
    assert world.conflicts == 0


def test_reserved_address_is_only_for_its_device(world, as_tenant):
    as_tenant(update_pool, actor="test", name=POOL, reserved={EVE: "10.0.0.1", BEN: "10.0.0.2"})
    world.settle()
    assert world.request_address(ANNA) == "10.0.0.3"
    later(world, 60)
    assert world.request_addresses(EVE, BEN, CLEO, DORA) == ["10.0.0.1", "10.0.0.2", "10.0.0.4", None]
    world.settle()
    later(world, 60, times=2)
    assert world.request_addresses(EVE, BEN) == ["10.0.0.1", "10.0.0.2"]
    as_tenant(update_pool, actor="test", name=POOL, reserved={EVE: ""})
    later(world, 60, times=4)
    assert world.rows()["10.0.0.1"] == "stock"


def test_shrunk_pool_keeps_addresses_until_devices_leave(world, as_tenant):
    address = world.request_address(ANNA)
    world.starts(ANNA, address)
    world.settle()
    as_tenant(update_pool, actor="test", name=POOL, ranges=["10.0.0.3-10.0.0.6"])
    world.settle()
    assert world.rows()[address] == "leased"
    assert world.request_addresses(BEN, CLEO, DORA, EVE) == [f"10.0.0.{last}" for last in range(3, 7)]
    world.stops(ANNA)
    later(world, 60, times=3)
    assert sorted(world.rows()) == ["10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]


def test_renamed_pool_continues_under_its_new_name_only(world, as_tenant):
    given = world.request_address(ANNA)
    as_tenant(rename_pool, actor="test", name=POOL, new_name="visitors")
    world.settle()
    assert world.request_address(ANNA, pool="visitors") == given
    assert world.request_address(BEN, pool="visitors") == "10.0.0.2"
    assert world.request_address(CLEO) is None
    # Another pool may use the old name at once.
    world.add_pool(ranges=("10.0.1.1-10.0.1.4",))
    world.settle()
    assert world.request_address(CLEO) == "10.0.1.1"
    assert world.request_address(DORA, pool="visitors") == "10.0.0.3"


def test_deleted_pool_is_removed_with_its_last_device(world, as_tenant):
    address = world.request_address(ANNA)
    world.starts(ANNA, address)
    world.settle()
    assert as_tenant(delete_pool, actor="test", name=POOL) is False
    world.settle()
    assert world.request_address(BEN) is None
    later(world, 60, times=3)
    assert list(world.rows()) == [address]
    world.stops(ANNA)
    later(world, 60, times=4)
    assert world.owner.execute("SELECT count(*) FROM pools").fetchone() == (0,)
    assert [path for path in world._directory.iterdir() if path.suffix == ".claims"] == []


def test_removed_address_waits_until_the_cell_knows(world, as_tenant):
    """Until the cell knows, the last device may return to the address, and no other device may get its number."""
    address = world.request_address(ANNA)
    later(world, 60, times=4)
    as_tenant(update_pool, actor="test", name=POOL, ranges=["10.0.0.2-10.0.0.4"])
    pass_minutes_unheard(world)
    assert world.request_address(ANNA) == address
    world.starts(ANNA, None)
    world.settle()
    as_tenant(update_pool, actor="test", name=POOL, ranges=["10.0.0.1-10.0.0.4"])
    later(world, 60, times=4)
    assert world.rows()[address] == "leased"
    assert address not in world.request_addresses(BEN, CLEO, DORA, EVE)


def test_idle_pools_cost_one_transaction(world):
    """This holds for any number of pools, even of pools smaller than half of a cell's reserve."""
    for name in ("second", "third"):
        world.add_pool(name, [f"10.{len(name)}.0.1-10.{len(name)}.0.4"])
    world.settle()
    began = []

    def note(*_):
        began.append(1)

    event.listen(world.engine, "begin", note)
    world.step()
    event.remove(world.engine, "begin", note)
    assert len(began) == 1


def test_clock_set_back_blocks_no_address(world, as_tenant):
    """The quarantine uses another clock, one hour behind, and ends at once."""
    later(world, 3600)
    given = world.request_addresses(ANNA, BEN, CLEO, DORA)
    world.ship()
    world.step()
    as_tenant(release_address, actor="test", address=given[0])
    world.settle()
    assert world.request_address(EVE) == given[0]


def test_addresses_of_the_tenants_former_cell_are_taken_over(world):
    address = world.request_address(ANNA)
    world.starts(ANNA, address)
    world.settle()
    world.owner.execute("INSERT INTO cells (name, host) VALUES ('cell-2', '')")
    world.owner.execute("UPDATE pool_addresses SET cell_id = (SELECT id FROM cells WHERE name = 'cell-2')")
    world.settle()
    assert world.rows() == {address: "leased"} | dict.fromkeys(["10.0.0.2", "10.0.0.3", "10.0.0.4"], "quarantined")
    assert world.request_address(ANNA) == address
    later(world, 60)
    assert world.request_address(BEN) == "10.0.0.2"


def test_prefixes_are_assigned_and_held_as_reported(world):
    world.add_pool("wan", ["2001:db8::/62"], kind="delegated", prefix_length=64)
    world.settle()
    prefix = world.request_address(ANNA, pool="wan")
    assert prefix == "2001:db8::/64"
    world.starts(ANNA, None)
    world.settle()
    world.owner.execute("UPDATE sessions SET delegated_prefix = %s", (prefix,))
    later(world, RECHECK_SECONDS)
    assert world.rows("address::text, state")[prefix] == "leased"
    world.owner.execute("UPDATE sessions SET delegated_prefix = '2001:db8:ffff::/64'")
    later(world, RECHECK_SECONDS)
    assert world.rows("address::text, state")[prefix] == "quarantined"


def test_released_prefix_in_use_is_its_devices_again(world, as_tenant):
    """The Start of the device arrived after the release."""
    world.add_pool("wan", ["2001:db8::/62"], kind="delegated", prefix_length=64)
    world.settle()
    prefix = world.request_address(ANNA, pool="wan")
    world.settle()
    as_tenant(release_address, actor="test", address=prefix)
    world.starts(ANNA, None)
    world.settle()
    world.owner.execute("UPDATE sessions SET delegated_prefix = %s", (prefix,))
    later(world, 60)
    assert world.rows("address::text, state")[prefix] == "leased"
    assert world.request_address(ANNA, pool="wan") == prefix


def test_grown_pool_assigns_its_new_addresses_at_once(world, as_tenant):
    world.request_addresses(ANNA, BEN, CLEO, DORA)
    world.settle()
    as_tenant(update_pool, actor="test", name=POOL, ranges=["10.0.0.1-10.0.0.4", "10.7.0.0/24"])
    world.settle()
    assert world.request_address(EVE) == "10.7.0.1"


def test_endless_pool_creation_delays_no_other_pool(world, as_tenant):
    world.request_address(ANNA)
    world.settle()
    for number in range(31):
        world.add_pool(f"more-{number}", ranges=[f"10.1.0.{number + 1}"])
        if number:
            as_tenant(delete_pool, actor="test", name=f"more-{number - 1}")
        world.step()
        world.now += 2 * SECOND
    # The grace period has passed without a device.
    assert world.rows()["10.0.0.1"] == "quarantined"


def test_address_used_by_an_unassigned_session_is_not_ready(world, as_tenant):
    world.starts(ANNA, "10.7.0.1")
    world.settle()
    as_tenant(update_pool, actor="test", name=POOL, ranges=["10.0.0.1-10.0.0.4", "10.7.0.0/30"])
    later(world, 1)
    world.request_addresses(ANNA, BEN, CLEO)
    later(world, 1)
    assert world.rows()["10.7.0.1"] == "free"
    assert world.rows()["10.7.0.2"] == "stock"


def pass_minutes_unheard(world):
    """Let minutes pass without an update of the replica."""
    for _ in range(7):
        world.ship()
        world.step()
        world.now += 65 * SECOND


def test_replaced_file_waits_until_the_cell_knows(world):
    """Until then radiusd writes claims to the deleted file, and the new file does not have them."""
    assert world.request_address(ANNA) == "10.0.0.1"
    world.lose_files()
    pass_minutes_unheard(world)
    assert world.request_address(BEN) == "10.0.0.2"
    world.starts(BEN, "10.0.0.2")
    for _ in range(4):
        # The database does not have this accept yet.
        world.step()
        world.sync()
        assert world.request_address(CLEO) is None
        world.now += 65 * SECOND
    later(world, 60, times=3)
    assert world.rows()["10.0.0.2"] == "leased"
    assert {world.request_address(mac) for mac in (CLEO, DORA, EVE)} == {"10.0.0.1", "10.0.0.3", "10.0.0.4"}
    assert world.conflicts == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_shrunk_pool_with_a_replaced_file_shares_no_address(world, as_tenant, restarts):
    """The cell knows neither the new file nor the change. An address that stays in the pool is taken meanwhile."""
    assert world.request_address(ANNA) == "10.0.0.1"
    world.lose_files()
    world.step()
    as_tenant(update_pool, actor="test", name=POOL, ranges=["10.0.0.3-10.0.0.4"])
    pass_minutes_unheard(world)
    if restarts:
        world.start_agent()
    given = world.request_addresses(ANNA, BEN, CLEO)
    for _ in range(7):
        world.step()
        world.sync()
        world.now += 65 * SECOND
    assert world.request_address(DORA) not in given
    world.ship()
    assert world.conflicts == 0


def test_lost_notification_of_a_file_is_sent_after_restart(world, monkeypatch):
    """The agent is killed between the creation of the file and the notification."""
    assert world.request_address(ANNA) == "10.0.0.1"
    world.ship()
    world.lose_files()
    make = ClaimsDirectory.make

    def make_and_end(*arguments):
        world.sync()
        make(*arguments)
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(ClaimsDirectory, "make", make_and_end)
        with pytest.raises(InterruptedError):
            world.step()
    world.start_agent()
    world.step()
    world.sync()
    with world.replica.view as view:
        record = view.pool(world.tenant.number, "", POOL)
    assert record.claims == world.claims.name(record.pool_id)


@pytest.mark.parametrize(
    ("took", "pause"), [(0.0, STEP_SECONDS), (0.4, STEP_SECONDS), (2.0, 4.0), (60.0, MAX_REST_SECONDS)]
)
def test_keeper_with_very_many_pools_yields_to_others(took, pause):
    assert step_pause_seconds(took) == pause
