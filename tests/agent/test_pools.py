"""The life of a pool's addresses in one cell: given ahead, taken without a database, and never to two at a time."""

from sqlalchemy import event

from nac.pools.service import delete_pool, release_address, rename_pool, update_pool
from radius.agent.pool_leases import LOOK_SECONDS
from tests.agent.pool_world import ANNA, BEN, CLEO, DORA, EVE, POOL, SECOND, later


def test_pool_is_ready_in_the_cell_before_anybody_asks(world):
    assert set(world.rows().values()) == {"stock"}
    assert [world.asks(mac) for mac in (ANNA, BEN)] == ["10.0.0.1", "10.0.0.2"]


def test_device_gets_the_same_address_while_the_database_is_away_and_after(world):
    addresses = [world.asks(mac) for mac in (ANNA, BEN, ANNA, BEN)]
    assert addresses[:2] == addresses[2:]
    world.settle()
    assert [world.asks(mac) for mac in (ANNA, BEN)] == addresses[:2]
    assert world.rows() == {"10.0.0.1": "leased", "10.0.0.2": "leased", "10.0.0.3": "stock", "10.0.0.4": "stock"}


def test_pool_that_is_exhausted_gives_none_but_to_those_who_have_one(world):
    given = [world.asks(mac) for mac in (ANNA, BEN, CLEO, DORA, EVE)]
    assert given == ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", None]
    assert world.asks(CLEO) == "10.0.0.3"
    world.keeper.look_at_stock()
    [alarm] = [alarm for alarm in world.alarms.standing() if alarm.code.startswith("pool-low")]
    assert "Pool guests of tenant alpha has 0 addresses left in this cell." in alarm.detail
    assert alarm.tenant == world.keeper._pools[alarm.code.removeprefix("pool-low-")].tenant_number > 0


def test_accept_that_no_start_follows_is_over_after_its_grace_and_quarantine(world):
    world.asks(ANNA)
    world.settle()
    later(world, 60)
    assert world.rows()["10.0.0.1"] == "quarantined"
    later(world, 60)
    assert world.rows()["10.0.0.1"] == "stock"


def test_session_holds_its_address_until_its_stop_and_nobody_gets_it_in_quarantine(world):
    address = world.asks(ANNA)
    world.starts(ANNA, address)
    for _ in range(3):
        later(world, LOOK_SECONDS)
    assert world.rows()[address] == "leased"
    world.stops(ANNA)
    world.settle()
    assert world.rows()[address] == "quarantined"
    assert [world.asks(mac) for mac in (BEN, CLEO, DORA, EVE)] == ["10.0.0.2", "10.0.0.3", "10.0.0.4", None]
    assert world.asks(ANNA) == address


def test_session_of_a_nas_that_tells_no_address_holds_it_too(world):
    world.starts(ANNA, world.asks(ANNA) and None)
    later(world, 3 * LOOK_SECONDS)
    assert world.rows()["10.0.0.1"] == "leased"


def test_address_comes_back_to_its_device_while_others_take_those_that_nobody_had(world):
    assert world.asks(ANNA) == "10.0.0.1"
    world.settle()
    later(world, 60)
    later(world, 60)
    assert [world.asks(mac) for mac in (BEN, CLEO)] == ["10.0.0.2", "10.0.0.3"]
    assert world.asks(ANNA) == "10.0.0.1"


def test_address_that_another_took_is_not_given_back(world):
    for mac in (ANNA, BEN, CLEO, DORA):
        world.asks(mac)
    world.settle()
    later(world, 60)
    later(world, 60)
    taken = world.asks(EVE)
    # The replica still says whose it was.
    owner = {"10.0.0.1": ANNA, "10.0.0.2": BEN, "10.0.0.3": CLEO, "10.0.0.4": DORA}[taken]
    assert world.asks(owner) not in (taken, None)
    world.settle()
    assert world.conflicts == 0


def test_radiusd_that_is_killed_before_it_answers_leaves_no_address_behind(world):
    address = world.asks(ANNA, journalled=False)
    world.start_radiusd()
    assert world.asks(BEN) != address
    world.settle()
    assert world.rows()[address] == "leased"
    later(world, 60)
    later(world, 60)
    assert world.rows()[address] == "stock"


def test_radiusd_that_comes_back_knows_what_it_gave(world):
    address = world.asks(ANNA)
    world.start_radiusd()
    assert world.asks(BEN) != address
    assert world.asks(ANNA) == address


def test_after_a_boot_nothing_is_given_that_may_have_been_before(world):
    address = world.asks(ANNA)
    world.starts(ANNA, address)
    held = world.journal
    world.journal = []
    world.boot()
    # The database is away still: of what was ready nothing is known.
    assert world.asks(BEN) is None
    world.settle()
    assert world.rows()[address] == "quarantined"
    world.journal = held
    later(world, 60)
    assert world.rows()[address] == "leased"
    assert world.asks(BEN) not in (address, None)


def test_files_that_are_lost_under_radiusd_are_made_anew_without_giving_anything_twice(world):
    first = world.asks(ANNA)
    world.lose_files()
    world.step()
    second = world.asks(BEN)
    world.settle()
    assert world.rows() == {first: "leased", second: "leased", "10.0.0.3": "quarantined", "10.0.0.4": "quarantined"}
    later(world, 60)
    assert [world.asks(mac) for mac in (CLEO, DORA, ANNA)] == ["10.0.0.3", "10.0.0.4", first]


def test_backlog_of_the_journal_ends_no_lease(world):
    """The Start was in time; it is the database that was away."""
    address = world.asks(ANNA)
    world.starts(ANNA, address)
    world.now += 3600 * SECOND
    world.ship(1)
    world.step()
    world.step()
    assert world.rows()[address] == "leased"
    later(world, LOOK_SECONDS)
    assert world.rows()[address] == "leased"


def test_device_that_came_back_by_what_the_cell_knew_before_keeps_its_address_from_others(world):
    """Its address was made ready, of which the replica has not heard; then the database goes away."""
    for mac in (ANNA, BEN, CLEO, DORA):
        world.asks(mac)
    world.settle()
    world.now += 60 * SECOND
    world.step()
    world.now += 60 * SECOND
    world.step()
    assert set(world.rows().values()) == {"stock"}
    address = world.asks(ANNA)
    world.now += 7200 * SECOND
    world.sync()
    assert address not in [world.asks(mac) for mac in (EVE, BEN, CLEO)]
    world.settle()
    # Of which no Start has come in two hours.
    assert world.rows()[address] == "quarantined"
    assert world.rows("host(address), replace(mac::text, ':', '')")[address] == ANNA
    assert world.conflicts == 0


def test_device_that_came_back_so_and_of_which_nothing_was_told_keeps_its_address_for_a_while_alone(world):
    for mac in (ANNA, BEN, CLEO, DORA):
        world.asks(mac)
    world.settle()
    for _ in range(2):
        world.now += 60 * SECOND
        world.step()
    address = world.asks(ANNA, journalled=False)
    world.start_radiusd()
    world.settle()
    assert world.rows()[address] == "leased"
    for _ in range(2):
        later(world, 60)
    taken = [world.asks(mac) for mac in (BEN, CLEO, DORA, EVE)]
    assert (None in taken, address in taken) == (False, True)


def test_address_that_somebody_took_as_the_machine_went_down_is_not_even_its_last_devices(world):
    world.add_pool("one", ["10.8.0.1"])
    world.settle()
    assert world.asks(ANNA, pool="one") == "10.8.0.1"
    world.settle()
    for _ in range(2):
        later(world, 60)
    assert world.asks(BEN, pool="one") == "10.8.0.1"
    world.boot()
    world.step()
    world.sync()
    assert world.asks(ANNA, pool="one") is None
    world.settle()
    assert world.asks(BEN, pool="one") == "10.8.0.1"
    assert world.conflicts == 0


def test_start_that_comes_late_takes_its_address_out_of_quarantine(world):
    address = world.asks(ANNA)
    world.settle()
    later(world, 60)
    assert world.rows()[address] == "quarantined"
    world.starts(ANNA, address)
    later(world, 60)
    assert world.rows()[address] == "leased"


def test_reserved_address_is_its_devices_alone(world, as_tenant):
    as_tenant(update_pool, actor="test", name=POOL, reserved={EVE: "10.0.0.1", BEN: "10.0.0.2"})
    world.settle()
    assert world.asks(ANNA) == "10.0.0.3"
    later(world, 60)
    assert [world.asks(mac) for mac in (EVE, BEN, CLEO, DORA)] == ["10.0.0.1", "10.0.0.2", "10.0.0.4", None]
    world.settle()
    later(world, 60)
    later(world, 60)
    assert [world.asks(mac) for mac in (EVE, BEN)] == ["10.0.0.1", "10.0.0.2"]
    as_tenant(update_pool, actor="test", name=POOL, reserved={EVE: ""})
    for _ in range(4):
        later(world, 60)
    assert world.rows()["10.0.0.1"] == "stock"


def test_pool_that_shrinks_keeps_addresses_until_their_devices_leave(world, as_tenant):
    address = world.asks(ANNA)
    world.starts(ANNA, address)
    world.settle()
    as_tenant(update_pool, actor="test", name=POOL, ranges=["10.0.0.3-10.0.0.6"])
    world.settle()
    assert world.rows()[address] == "leased"
    assert [world.asks(mac) for mac in (BEN, CLEO, DORA, EVE)] == ["10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]
    world.stops(ANNA)
    for _ in range(3):
        later(world, 60)
    assert sorted(world.rows()) == ["10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]


def test_pool_that_is_renamed_goes_on_as_it_was_by_its_new_name_alone(world, as_tenant):
    given = world.asks(ANNA)
    as_tenant(rename_pool, actor="test", name=POOL, new_name="visitors")
    world.settle()
    assert world.asks(ANNA, pool="visitors") == given
    assert world.asks(BEN, pool="visitors") == "10.0.0.2"
    assert world.asks(CLEO) is None
    # Another may be called so at once.
    world.add_pool(ranges=("10.0.1.1-10.0.1.4",))
    world.settle()
    assert world.asks(CLEO) == "10.0.1.1"
    assert world.asks(DORA, pool="visitors") == "10.0.0.3"


def test_pool_that_is_removed_goes_with_its_last_device(world, as_tenant):
    address = world.asks(ANNA)
    world.starts(ANNA, address)
    world.settle()
    assert as_tenant(delete_pool, actor="test", name=POOL) is False
    world.settle()
    assert world.asks(BEN) is None
    for _ in range(3):
        later(world, 60)
    assert list(world.rows()) == [address]
    world.stops(ANNA)
    for _ in range(4):
        later(world, 60)
    assert world.owner.execute("SELECT count(*) FROM pools").fetchone() == (0,)
    assert [path for path in world._directory.iterdir() if path.suffix == ".claims"] == []


def test_address_that_has_left_its_pool_goes_only_once_the_cell_has_heard_of_it(world, as_tenant):
    """Its last device may have come back to it until then; and its number is not another's."""
    address = world.asks(ANNA)
    for _ in range(4):
        later(world, 60)
    as_tenant(update_pool, actor="test", name=POOL, ranges=["10.0.0.2-10.0.0.4"])
    for _ in range(8):
        world.ship()
        world.step()
        world.now += 60 * SECOND
    assert world.asks(ANNA) == address
    world.starts(ANNA, None)
    world.settle()
    as_tenant(update_pool, actor="test", name=POOL, ranges=["10.0.0.1-10.0.0.4"])
    for _ in range(4):
        later(world, 60)
    assert world.rows()[address] == "leased"
    assert address not in [world.asks(mac) for mac in (BEN, CLEO, DORA, EVE)]


def test_idle_pools_cost_one_transaction(world):
    """However many there are, and also where one is smaller than half of what a cell would keep ready."""
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


def test_clock_that_is_set_back_keeps_no_address_from_being_given(world, as_tenant):
    """The quarantine goes by another clock, an hour behind, and is over at once."""
    later(world, 3600)
    given = [world.asks(mac) for mac in (ANNA, BEN, CLEO, DORA)]
    world.ship()
    world.step()
    as_tenant(release_address, actor="test", address=given[0])
    world.settle()
    assert world.asks(EVE) == given[0]


def test_addresses_of_a_cell_that_the_tenant_has_left_are_taken_over(world):
    address = world.asks(ANNA)
    world.starts(ANNA, address)
    world.settle()
    world.owner.execute("INSERT INTO cells (name, host) VALUES ('cell-2', '')")
    world.owner.execute("UPDATE pool_addresses SET cell_id = (SELECT id FROM cells WHERE name = 'cell-2')")
    world.settle()
    assert world.rows() == {address: "leased"} | dict.fromkeys(["10.0.0.2", "10.0.0.3", "10.0.0.4"], "quarantined")
    assert world.asks(ANNA) == address
    later(world, 60)
    assert world.asks(BEN) == "10.0.0.2"


def test_prefixes_are_given_and_held_by_what_the_nas_tells(world):
    world.add_pool("wan", ["2001:db8::/62"], kind="delegated", prefix_length=64)
    world.settle()
    prefix = world.asks(ANNA, pool="wan")
    assert prefix == "2001:db8::/64"
    world.starts(ANNA, None)
    world.settle()
    world.owner.execute("UPDATE sessions SET delegated_prefix = %s", (prefix,))
    later(world, LOOK_SECONDS)
    assert world.rows("address::text, state")[prefix] == "leased"
    world.owner.execute("UPDATE sessions SET delegated_prefix = '2001:db8:ffff::/64'")
    later(world, LOOK_SECONDS)
    assert world.rows("address::text, state")[prefix] == "quarantined"


def test_released_prefix_that_a_session_turns_out_to_hold_is_its_devices_again(world, as_tenant):
    """Its Start came after somebody released it."""
    world.add_pool("wan", ["2001:db8::/62"], kind="delegated", prefix_length=64)
    world.settle()
    prefix = world.asks(ANNA, pool="wan")
    world.settle()
    as_tenant(release_address, actor="test", address=prefix)
    world.starts(ANNA, None)
    world.settle()
    world.owner.execute("UPDATE sessions SET delegated_prefix = %s", (prefix,))
    later(world, 60)
    assert world.rows("address::text, state")[prefix] == "leased"
    assert world.asks(ANNA, pool="wan") == prefix


def test_pool_that_grows_gives_its_new_addresses_at_once(world, as_tenant):
    for mac in (ANNA, BEN, CLEO, DORA):
        world.asks(mac)
    world.settle()
    as_tenant(update_pool, actor="test", name=POOL, ranges=["10.0.0.1-10.0.0.4", "10.7.0.0/24"])
    world.settle()
    assert world.asks(EVE) == "10.7.0.1"


def test_pools_that_are_made_without_end_hold_up_no_other_pool(world, as_tenant):
    world.asks(ANNA)
    world.settle()
    for number in range(31):
        world.add_pool(f"more-{number}", ranges=[f"10.1.0.{number + 1}"])
        if number:
            as_tenant(delete_pool, actor="test", name=f"more-{number - 1}")
        world.step()
        world.now += 2 * SECOND
    # Its grace is over, and nobody came.
    assert world.rows()["10.0.0.1"] == "quarantined"


def test_address_that_a_session_has_from_elsewhere_is_not_made_ready(world, as_tenant):
    world.starts(ANNA, "10.7.0.1")
    world.settle()
    as_tenant(update_pool, actor="test", name=POOL, ranges=["10.0.0.1-10.0.0.4", "10.7.0.0/30"])
    later(world, 1)
    world.asks(ANNA), world.asks(BEN), world.asks(CLEO)
    later(world, 1)
    assert world.rows()["10.7.0.1"] == "free"
    assert world.rows()["10.7.0.2"] == "stock"
