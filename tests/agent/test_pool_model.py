"""Whatever comes in which order, and whoever is killed: no address is two devices' at a time, and none is lost."""

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

from nac.db import TenantScope, session_scope
from nac.errors import AdmitError
from nac.pools.service import release, set_pool
from tests.agent.pool_world import POOL, SECOND, World

DEVICES = tuple(f"02a0c000000{number}" for number in range(1, 5))
SMALL, LARGE = ("10.0.0.1-10.0.0.2",), ("10.0.0.1-10.0.0.4",)
GRACE = QUARANTINE = 60


class Addresses(RuleBasedStateMachine):
    """Four devices and a pool of two to four addresses.

    The model is what the devices know: who is on the network with which address. A device begins its session as soon as
    it is accepted, and the NAS tells of it at once; when that arrives in the database is another matter.
    """

    def __init__(self, world, as_tenant):
        super().__init__()
        self.world, self.as_tenant = world, as_tenant

    @initialize()
    def begin(self):
        world = self.world
        world.forget_all()
        world.lose_files()
        world.start_agent()
        world.start_radiusd()
        world.conflicts = 0
        world.add_pool(ranges=SMALL)
        world.settle()
        # Who is on the network.
        self.using = {}

    @rule(macs=st.permutations(DEVICES), number=st.integers(1, len(DEVICES)))
    def devices_come(self, macs, number):
        for mac in macs[:number]:
            self.comes(mac)

    def comes(self, mac):
        address = self.world.asks(mac)
        if address is None:
            return
        self.is_apart(mac, address)
        if mac in self.using:
            # Authenticated again, and as long as it is there nothing takes its address away.
            assert address == self.using[mac] or self.was_taken_out(self.using[mac])
            self.world.stops(mac)
        self.using[mac] = address
        self.world.starts(mac, address)
        self.world.now += SECOND

    @rule(mac=st.sampled_from(DEVICES))
    def accept_is_lost(self, mac):
        address = self.world.asks(mac)
        if address is not None:
            self.is_apart(mac, address)

    @rule(what=st.sampled_from(["agent", "radiusd", "machine", "files", "claimed"]), mac=st.sampled_from(DEVICES))
    def something_breaks(self, what, mac):
        world = self.world
        if what == "claimed":
            # radiusd, with an address taken of which it tells nobody any more.
            address = world.asks(mac, journalled=False)
            if address is not None:
                self.is_apart(mac, address)
        {
            "agent": world.start_agent,
            "radiusd": world.start_radiusd,
            "machine": world.boot,
            "files": world.lose_files,
            "claimed": world.start_radiusd,
        }[what]()

    def is_apart(self, mac, address):
        others = {used for other, used in self.using.items() if other != mac}
        assert address not in others, f"{mac} is given {address}: {self.using}"

    def was_taken_out(self, address):
        return address not in self.world.rows() or self.world.rows("host(address), leaving")[address]

    @rule(mac=st.sampled_from(DEVICES))
    def device_goes(self, mac):
        self.goes(mac)

    def goes(self, mac):
        if self.using.pop(mac, None):
            self.world.stops(mac)

    @rule()
    def nas_restarts(self):
        """RFC 2866 5.1: none of its sessions goes on."""
        for mac in tuple(self.using):
            self.goes(mac)

    @rule(seconds=st.sampled_from([1, 20, GRACE, QUARANTINE + 5, 400]))
    def time_passes(self, seconds):
        self.world.now += seconds * SECOND

    @rule(most=st.sampled_from([1, 2, None]))
    def journal_is_shipped(self, most):
        self.world.ship(most)

    @rule(shipping=st.booleans(), following=st.booleans())
    def minutes_pass(self, shipping, following):
        for _ in range(7):
            if shipping:
                self.world.ship()
            self.world.step()
            if following:
                self.world.sync()
            self.world.now += (QUARANTINE + 5) * SECOND

    @rule()
    def keeper_works(self):
        self.world.step()

    @rule()
    def replica_follows(self):
        self.world.sync()

    @rule()
    def all_is_quiet(self):
        self.world.settle()

    @rule(ranges=st.sampled_from([SMALL, LARGE]))
    def pool_is_changed(self, ranges):
        self.as_tenant(set_pool, actor="test", name=POOL, ranges=ranges)

    @rule(address=st.sampled_from([f"10.0.0.{number}" for number in range(1, 5)]))
    @precondition(lambda self: not self.world.journal)
    def address_is_released(self, address):
        """By a person, who looks at what has arrived."""
        try:
            self.as_tenant(release, actor="test", address=address)
        except AdmitError:
            return

    @invariant()
    def nothing_was_given_twice(self):
        assert self.world.conflicts == 0

    def teardown(self):
        if not hasattr(self, "using"):
            return
        world = self.world
        world.settle()
        for mac, address in self.using.items():
            assert world.asks(mac) in (address, None) or self.was_taken_out(address)
        self.nas_restarts()
        for _ in range(6):
            world.settle()
            world.now += 400 * SECOND
        world.settle()
        states = world.rows()
        assert set(states.values()) == {"stock"}, states
        assert {world.asks(mac) for mac in DEVICES[: len(states)]} == set(states)


def test_addresses_are_one_devices_at_a_time_and_none_is_lost(
    owner, app_engine, cell_engine, replica, alpha, platform, tmp_path
):
    def as_tenant(function, **arguments):
        with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
            return function(session, tenant_id=alpha.id, **arguments)

    world = World(
        owner=owner,
        engine=cell_engine,
        replica=replica,
        tenant=alpha,
        cell_id=platform.cell_id,
        directory=tmp_path,
        as_tenant=as_tenant,
    )
    run_state_machine_as_test(
        lambda: Addresses(world, as_tenant),
        settings=settings(
            max_examples=10, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
