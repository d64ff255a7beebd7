"""Holders of pool addresses: assigned, reported, released and reported late (`pool_address_holders`)."""

import pytest

from nac.kit.errors import InUse
from nac.pools import extent
from nac.pools.service import release_address
from radius.agent.pools.leases import RECHECK_SECONDS
from tests.agent.journal_records import accounting
from tests.agent.pool_cell import ANNA, BEN, CLEO, DORA, EVE, later


@pytest.mark.parametrize("told", ["own", None])
def test_address_of_a_live_session_is_not_released(world, as_tenant, told):
    address = world.request_address(ANNA)
    world.starts(ANNA, address if told else None)
    world.settle()
    with pytest.raises(InUse, match="A live session has"):
        as_tenant(release_address, actor="test", address=address)


def test_released_address_is_quarantined(world, as_tenant):
    address = world.request_address(ANNA)
    world.settle()
    row = as_tenant(release_address, actor="test", address=address)
    assert (row.state, row.released) == ("quarantined", True)
    world.settle()
    assert world.request_address(ANNA) not in (address, None)


@pytest.mark.parametrize("told", ["own", None])
def test_released_address_with_a_pending_start_is_kept(world, as_tenant, told):
    address = world.request_address(ANNA)
    world.settle()
    as_tenant(release_address, actor="test", address=address)
    world.sync()
    assert world.request_address(ANNA) == "10.0.0.2"
    world.start_radiusd()
    world.journal.clear()
    world.starts(ANNA, address if told else None)
    later(world, 60, times=3)
    assert world.rows()[address] == "leased"
    assert address not in world.request_addresses(BEN, CLEO, DORA, EVE)


def test_pools_and_accounting_agree_on_unusable_addresses(owner, platform):
    tells = "SELECT network FROM unnest(%s::inet[]) network WHERE tells_address(network)"
    unusable = list(map(str, extent._UNUSABLE))
    assert owner.execute(tells, (unusable,)).fetchall() == []
    assert owner.execute(tells, ([str(network[1]) for network in extent._UNUSABLE],)).fetchall() == []
    usable = ["10.0.0.1", "223.255.255.254", "1.0.0.0", "2001:db8::/64", "fc00::/7"]
    assert len(owner.execute(tells, (usable,)).fetchall()) == len(usable)


@pytest.mark.parametrize("told", ["0.0.0.0", "255.255.255.254", "169.254.3.4"])  # noqa: S104
def test_session_with_an_unusable_address_holds_its_own(world, told):
    address = world.request_address(ANNA)
    world.starts(ANNA, told)
    later(world, 60, times=4)
    assert world.rows()[address] == "leased"
    assert address not in world.request_addresses(BEN, CLEO, DORA, EVE)


@pytest.mark.parametrize("told", ["own", None])
@pytest.mark.parametrize(("minutes", "state"), [(1, "quarantined"), (4, "stock")])
def test_late_start_reclaims_its_address(world, told, minutes, state):
    address = world.request_address(ANNA)
    world.settle()
    later(world, 60, times=minutes)
    assert world.rows()[address] == state
    world.starts(ANNA, address if told else None)
    world.ship()
    assert world.rows()[address] == "leased"
    world.sync()
    assert world.request_addresses(BEN, CLEO, DORA, EVE) == ["10.0.0.2", "10.0.0.3", "10.0.0.4", None]
    assert world.request_address(ANNA) == address
    assert world.conflicts == 0


def test_shipped_session_reclaims_address_unless_it_ended(world, alpha, journal):
    ended = [accounting(alpha, status, session="s2", Framed_IP_Address="10.0.0.2") for status in ("Start", "Stop")]
    journal.ship(*ended, accounting(alpha, "Start", station=ANNA, Framed_IP_Address="10.0.0.1"))
    journal.ship(accounting(alpha, "Interim-Update", session="s2", seconds=0, Framed_IP_Address="10.0.0.2"))
    assert (world.rows()["10.0.0.1"], world.rows()["10.0.0.2"]) == ("leased", "stock")


def test_address_used_twice_is_reported_and_then_reserved(world):
    """The NAS reported after an hour, and another device had the address by then.

    No third device gets the address while one of the two devices is connected.
    """
    world.add_pool("one", ["10.8.0.1"])
    world.settle()
    assert world.request_address(ANNA, pool="one") == "10.8.0.1"
    later(world, 60, times=4)
    assert world.request_address(BEN, pool="one") == "10.8.0.1"
    world.starts(BEN, None)
    kept, world.journal = world.journal, []
    world.starts(ANNA, "10.8.0.1")
    world.ship()
    world.journal = kept
    world.settle()
    assert world.conflicts == 1
    world.stops(ANNA)
    later(world, RECHECK_SECONDS, times=2)
    assert world.rows()["10.8.0.1"] == "leased"
    assert world.request_address(CLEO, pool="one") is None


def test_lease_stays_with_its_device_for_any_reporter(world):
    address = world.request_address(ANNA)
    world.starts(ANNA, None)
    world.settle()
    world.starts(BEN, address)
    later(world, RECHECK_SECONDS, times=3)
    assert world.request_address(BEN) not in (address, None)
    assert world.request_address(ANNA) == address
