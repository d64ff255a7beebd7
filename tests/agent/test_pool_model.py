"""Model test: in any order of events and kills, no address belongs to two devices, and no address is lost."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from nac.kit.errors import AdmitError
from nac.pools.service import release_address, update_pool
from tests.agent.pool_cell import POOL, SECOND

DEVICES = tuple(f"02a0c000000{number}" for number in range(1, 5))
SMALL, LARGE, OTHER = ("10.0.0.1-10.0.0.2",), ("10.0.0.1-10.0.0.4",), ("10.0.0.3-10.0.0.4",)
ADDRESSES = tuple(f"10.0.0.{number}" for number in range(1, 5))
GRACE = QUARANTINE = 60
# The address that a NAS reports: the assigned address, none, 255.255.255.254 (RFC 2865 5.8), or the device's choice.
OWN = "own"
TOLD = (OWN, "", "0.0.0.0", "169.254.3.4")  # noqa: S104  # reported addresses, bound to nothing


class Addresses(RuleBasedStateMachine):
    """Four devices and a pool of two to four addresses. The model holds each connected device's address.

    A device's session begins when it is accepted, and its NAS reports the session at once. The report may reach the
    database later. Late reports free their addresses for others until the reports arrive. Some sessions use addresses
    that were not assigned.
    """

    def __init__(self, world, as_tenant):
        super().__init__()
        self.world, self.as_tenant = world, as_tenant

    @initialize(ranges=st.sampled_from([SMALL, LARGE]), number=st.integers(0, 2), told=st.sampled_from(TOLD))
    def begin(self, ranges, number, told):
        world = self.world
        world.forget_all()
        world.lose_files()
        world.start_agent()
        world.start_radiusd()
        world.conflicts = 0
        world.add_pool(ranges=ranges)
        world.settle()
        # The connected devices.
        self.using = {}
        # Devices whose NAS has not reported them: (address, the pending report).
        self.unheard = {}
        # Whether a device used or reported an address without the cell's knowledge.
        self.may_collide = False
        self.devices_come(DEVICES, number, told)

    @rule(macs=st.permutations(DEVICES), number=st.integers(1, len(DEVICES)), told=st.sampled_from(TOLD))
    def devices_come(self, macs, number, told):
        for mac in macs[:number]:
            self.comes(mac, told)

    def comes(self, mac, told=OWN):
        address = self.request_address(mac)
        if address is None:
            return
        if mac in self.using:
            # The device reauthenticated. A connected device never loses its address.
            assert address == self.using[mac] or self.was_taken_out(self.using[mac])
        self.world.stops(mac)
        self.unheard.pop(mac, None)
        self.begins(mac, address, told)
        self.world.now += SECOND

    def begins(self, mac, address, told):
        self.using[mac] = address
        self.world.starts(mac, address if told == OWN else told or None)

    def request_address(self, mac, **how):
        address = self.world.request_address(mac, **how)
        if address is not None:
            others = {used for other, used in self.using.items() if other != mac}
            assert address not in others, f"{mac} is given {address}: {self.using}"
            for other in [each for each, (used, _) in self.unheard.items() if used == address and each != mac]:
                # The cell could not know of the earlier address, so it picks another address.
                del self.unheard[other]
        return address

    @rule(mac=st.sampled_from(DEVICES))
    def accept_is_lost(self, mac):
        self.request_address(mac)

    @rule(mac=st.sampled_from(DEVICES), told=st.sampled_from(TOLD))
    def device_comes_and_its_nas_is_cut_off(self, mac, told):
        if mac not in self.using and (address := self.request_address(mac)) is not None:
            self.unheard[mac] = address, told

    @rule()
    def nas_tells_of_what_it_kept(self):
        """The NAS sends its stored reports. They reach the cell before the next device."""
        self.may_collide |= bool(self.unheard)
        for mac, (address, told) in self.unheard.items():
            self.world.stops(mac)
            self.begins(mac, address, told)
            self.world.now += SECOND
        self.unheard.clear()
        self.world.ship()
        self.world.sync()

    @rule(mac=st.sampled_from(DEVICES), other=st.sampled_from(DEVICES), address=st.sampled_from(ADDRESSES))
    def session_tells_of_an_address_that_nobody_gave_it(self, mac, other, address):
        if mac not in self.using and mac not in self.unheard:
            self.may_collide = True
            self.world.starts(mac, self.using.get(other, address))
            self.world.now += SECOND

    @rule(what=st.sampled_from(["agent", "radiusd", "machine", "files", "claimed"]), mac=st.sampled_from(DEVICES))
    def something_breaks(self, what, mac):
        world = self.world
        if what == "claimed":
            # radiusd is killed after it assigned an address that it never reported.
            self.request_address(mac, journalled=False)
        {
            "agent": world.start_agent,
            "radiusd": world.start_radiusd,
            "machine": world.boot,
            "files": world.lose_files,
            "claimed": world.start_radiusd,
        }[what]()

    def was_taken_out(self, address):
        """Whether the address was removed from its pool, in the database or as far as the cell knows."""
        leaving = self.world.rows("host(address), leaving")
        return leaving.get(address, True) or address not in self.world.heard

    @rule(macs=st.permutations(DEVICES), number=st.integers(1, len(DEVICES)))
    def devices_go(self, macs, number):
        """Disconnect devices, all at once if their NAS restarts (RFC 2866 5.1)."""
        for mac in macs[:number]:
            self.goes(mac)

    def goes(self, mac):
        self.unheard.pop(mac, None)
        self.using.pop(mac, None)
        self.world.stops(mac)

    @rule(seconds=st.sampled_from([1, 20, GRACE, QUARANTINE + 5, 400]))
    def time_passes(self, seconds):
        self.world.now += seconds * SECOND

    @rule(part=st.sampled_from(["shipper", "half of the shipper", "keeper", "replica", "all"]))
    def part_works(self, part):
        world = self.world
        {
            "shipper": world.ship,
            "half of the shipper": lambda: world.ship(1),
            "keeper": world.step,
            "replica": world.sync,
            "all": world.settle,
        }[part]()

    @rule(shipping=st.booleans(), following=st.booleans(), number=st.integers(0, len(DEVICES)))
    def minutes_pass(self, shipping, following, number):
        """Let minutes pass. Then some disconnected devices request addresses, so that expired addresses are reused."""
        for _ in range(7):
            if shipping:
                self.world.ship()
            self.world.step()
            if following:
                self.world.sync()
            self.world.now += (QUARANTINE + 5) * SECOND
        for mac in DEVICES[:number]:
            if mac not in self.using and mac not in self.unheard:
                self.request_address(mac)

    @rule(ranges=st.sampled_from([SMALL, LARGE, OTHER]), in_time=st.booleans(), told=st.sampled_from(TOLD))
    def pool_is_changed(self, ranges, in_time, told):
        """Change the pool. The cell learns of it at once, or after the pool's devices have returned."""
        self.as_tenant(update_pool, actor="test", name=POOL, ranges=ranges)
        # Only the row records a session without an address, and the row may be deleted first.
        self.unheard = {mac: kept for mac, kept in self.unheard.items() if kept[1] == OWN}
        if not in_time:
            self.minutes_pass(shipping=True, following=False, number=0)
            self.devices_come(DEVICES, 2, told)

    @rule(mac=st.sampled_from(DEVICES), shipped=st.booleans())
    @precondition(lambda self: self.using)
    def address_is_released(self, mac, shipped):
        """Release an address, as a user does who sees only the reports that have arrived."""
        if shipped:
            self.world.ship()
        try:
            self.as_tenant(release_address, actor="test", address=self.using.get(mac) or min(self.using.values()))
        except AdmitError:
            return

    @invariant()
    def nothing_was_given_twice(self):
        assert self.world.conflicts == 0 or self.may_collide

    def teardown(self):
        if not hasattr(self, "using"):
            return
        world = self.world
        self.nas_tells_of_what_it_kept()
        for _ in range(2):
            self.minutes_pass(shipping=True, following=True, number=len(DEVICES))
        for mac, address in self.using.items():
            assert self.request_address(mac) in (address, None) or self.was_taken_out(address)
        self.devices_go(DEVICES, len(DEVICES))
        for _ in range(6):
            world.settle()
            world.now += 400 * SECOND
        world.settle()
        states = world.rows()
        assert set(states.values()) == {"stock"}, states
        assert {world.request_address(mac) for mac in DEVICES[: len(states)]} == set(states)


@pytest.mark.parametrize("examples", [2, pytest.param(60, marks=pytest.mark.long)])
def test_no_address_is_shared_or_lost(bare_world, as_tenant, examples):
    run_state_machine_as_test(
        lambda: Addresses(bare_world, as_tenant),
        settings=settings(
            max_examples=examples, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
