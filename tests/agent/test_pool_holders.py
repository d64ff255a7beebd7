"""Who holds an address of a pool, by what is given, told, released and heard late (`pool_address_holders`)."""

import pytest

from nac.errors import InUse
from nac.pools import extent
from nac.pools.service import release_address
from radius.agent.pool_leases import LOOK_SECONDS
from tests.agent.journal import accounting
from tests.agent.pool_world import ANNA, BEN, CLEO, DORA, EVE, later


def test_released_address_goes_through_its_quarantine_unless_a_session_holds_it(world, as_tenant):
    address = world.asks(ANNA)
    world.starts(ANNA, address)
    world.settle()
    with pytest.raises(InUse, match="A live session has"):
        as_tenant(release_address, actor="test", address=address)
    other = world.asks(BEN)
    world.settle()
    row = as_tenant(release_address, actor="test", address=other)
    assert (row.state, row.released) == ("quarantined", True)
    world.settle()
    assert world.asks(BEN) not in (other, None)


def test_address_is_not_released_under_a_session_that_tells_none(world, as_tenant):
    address = world.asks(ANNA)
    world.starts(ANNA, None)
    world.settle()
    with pytest.raises(InUse, match="A live session has"):
        as_tenant(release_address, actor="test", address=address)


@pytest.mark.parametrize("told", ["own", None])
def test_released_address_of_which_a_start_was_on_its_way_stays_its_devices(world, as_tenant, told):
    address = world.asks(ANNA)
    world.settle()
    as_tenant(release_address, actor="test", address=address)
    world.sync()
    assert world.asks(ANNA) == "10.0.0.2"
    world.start_radiusd()
    world.journal.clear()
    world.starts(ANNA, address if told else None)
    for _ in range(3):
        later(world, 60)
    assert world.rows()[address] == "leased"
    assert address not in [world.asks(mac) for mac in (BEN, CLEO, DORA, EVE)]


def test_addresses_that_no_device_can_have_are_the_same_for_pools_and_for_accounting(owner, platform):
    tells = "SELECT network FROM unnest(%s::inet[]) network WHERE tells_address(network)"
    unusable = list(map(str, extent._UNUSABLE))
    assert owner.execute(tells, (unusable,)).fetchall() == []
    assert owner.execute(tells, ([str(network[1]) for network in extent._UNUSABLE],)).fetchall() == []
    usable = ["10.0.0.1", "223.255.255.254", "1.0.0.0", "2001:db8::/64", "fc00::/7"]
    assert len(owner.execute(tells, (usable,)).fetchall()) == len(usable)


@pytest.mark.parametrize("told", ["0.0.0.0", "255.255.255.254", "169.254.3.4"])  # noqa: S104
def test_session_that_tells_no_address_that_can_be_holds_its_own(world, told):
    address = world.asks(ANNA)
    world.starts(ANNA, told)
    for _ in range(4):
        later(world, 60)
    assert world.rows()[address] == "leased"
    assert address not in [world.asks(mac) for mac in (BEN, CLEO, DORA, EVE)]


@pytest.mark.parametrize("told", ["own", None])
def test_start_that_comes_after_its_address_was_made_ready_takes_it_back(world, told):
    address = world.asks(ANNA)
    for _ in range(4):
        later(world, 60)
    assert world.rows()[address] == "stock"
    world.starts(ANNA, address if told else None)
    world.ship()
    assert world.rows()[address] == "leased"
    world.sync()
    assert [world.asks(mac) for mac in (BEN, CLEO, DORA, EVE)] == ["10.0.0.2", "10.0.0.3", "10.0.0.4", None]
    assert world.asks(ANNA) == address
    assert world.conflicts == 0


def test_shipped_accounting_takes_back_what_was_ready_and_a_session_that_ended_does_not(world, alpha, journal):
    ended = [accounting(alpha, status, session="s2", Framed_IP_Address="10.0.0.2") for status in ("Start", "Stop")]
    journal.ship(*ended, accounting(alpha, "Start", station=ANNA, Framed_IP_Address="10.0.0.1"))
    journal.ship(accounting(alpha, "Interim-Update", session="s2", seconds=0, Framed_IP_Address="10.0.0.2"))
    assert (world.rows()["10.0.0.1"], world.rows()["10.0.0.2"]) == ("leased", "stock")


def test_device_that_took_what_another_turns_out_to_have_keeps_it_too_and_it_is_told(world):
    """Its NAS told after an hour; meanwhile the other was given it, and then nobody else is, as long as one of them is
    there."""
    world.add_pool("one", ["10.8.0.1"])
    world.settle()
    assert world.asks(ANNA, pool="one") == "10.8.0.1"
    for _ in range(4):
        later(world, 60)
    assert world.asks(BEN, pool="one") == "10.8.0.1"
    world.starts(BEN, None)
    kept, world.journal = world.journal, []
    world.starts(ANNA, "10.8.0.1")
    world.ship()
    world.journal = kept
    world.settle()
    assert world.conflicts == 1
    world.stops(ANNA)
    later(world, LOOK_SECONDS)
    later(world, LOOK_SECONDS)
    assert world.rows()["10.8.0.1"] == "leased"
    assert world.asks(CLEO, pool="one") is None


def test_lease_stays_its_devices_whoever_else_tells_of_the_address(world):
    address = world.asks(ANNA)
    world.starts(ANNA, None)
    world.settle()
    world.starts(BEN, address)
    for _ in range(3):
        later(world, LOOK_SECONDS)
    assert world.asks(BEN) not in (address, None)
    assert world.asks(ANNA) == address
