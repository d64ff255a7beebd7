"""Changes while something fails or the cell is busy: live within seconds, and nobody else notices."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest

from loadtest.packet import ACCESS_ACCEPT, ACCESS_REJECT
from loadtest.product_tenants import ACTOR
from nac.db import PlatformScope, TenantScope, session_scope
from nac.endpoints import service as endpoints
from nac.nases import service as nases
from nac.sites import service as sites
from nac.tenants import service as tenants_service
from tests.faults.conftest import make_tenants
from tests.faults.waiting import seconds_until, until
from tests.faults.wire import Wire

pytestmark = pytest.mark.faults

# Promise 5: under a second, a new tenant under five. What a fault may add on a busy machine.
LIVE_SECONDS, TENANT_SECONDS, AFTER_FAULT_SECONDS = 1.0, 5.0, 10.0
_NAS_SECRET = b"secret-of-one-switch-alone"
_NAS_ADDRESS = "127.0.0.77"


def change(instance, tenant, function, **arguments):
    """Calls a service in a transaction of its own."""
    with session_scope(TenantScope(tenant.tenant_id), engine=instance.installation.engine) as session:
        return function(session, actor=ACTOR, tenant_id=tenant.tenant_id, **arguments)


def kill_backends(instance, application):
    """Connections of this kind are broken by the server, as an administrator or a failover does it."""
    instance.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s", application)


@pytest.mark.parametrize("application", ["admit-listen", "admit-%"])
def test_change_is_live_although_its_connections_break(instance, tenants, note, application):
    """A device is blocked just when PostgreSQL ends the connection on which the agent hears of changes, or all of them:
    the change decides within seconds, and so does taking it back."""
    with Wire(tenants[0]) as wire:
        mac = tenants[0].tenant.endpoints[3].mac
        for function, verdict in (
            (endpoints.block_endpoint, ACCESS_REJECT),
            (endpoints.unblock_endpoint, ACCESS_ACCEPT),
        ):
            kill_backends(instance, application)
            change(instance, tenants[0], function, mac=mac)
            kill_backends(instance, application)
            seconds = seconds_until(
                lambda verdict=verdict: wire.verdict(mac) == verdict, f"{function.__name__} is live"
            )
            note(f"{function.__name__} while {application} connections break: live", seconds)
            assert seconds < AFTER_FAULT_SECONDS
    instance.wait_until_well()


def test_change_made_while_the_agent_is_away_is_live_with_it(instance, tenants, note):
    """The agent is killed and a device blocked before the next one listens: it decides by what was missed."""
    with Wire(tenants[1]) as wire:
        mac = tenants[1].tenant.endpoints[4].mac
        instance.kill("agent")
        change(instance, tenants[1], endpoints.block_endpoint, mac=mac)
        note(
            "block while the agent is dead: live",
            seconds_until(lambda: wire.verdict(mac) == ACCESS_REJECT, "the block is live"),
        )
        change(instance, tenants[1], endpoints.unblock_endpoint, mac=mac)
        until(lambda: wire.is_admitted(mac), "the device is admitted again")
    instance.wait_until_well()


@contextmanager
def suspended(instance, tenant) -> Iterator[None]:
    def call(function):
        with session_scope(PlatformScope(), engine=instance.installation.engine) as session:
            function(session, actor=ACTOR, tenant_id=tenant.tenant_id)

    call(tenants_service.suspend_tenant)
    try:
        yield
    finally:
        call(tenants_service.resume_tenant)


def test_new_and_suspended_tenant_under_load_are_live_and_nobody_else_notices(instance, load, note):
    """While two tenants are busy a third is made: its devices are answered within five seconds. It is suspended: they
    are rejected, with that reason. It is resumed and goes. Not one request of the others is lost or late."""
    radiusd = instance.pid("radiusd")
    with load() as work:
        started = time.perf_counter()
        made = make_tenants(instance)("fault-new", 2)
        with Wire(made) as wire:
            until(wire.is_admitted, "the new tenant is answered")
            seconds = time.perf_counter() - started
            note("new tenant under load: answered", seconds)
            with suspended(instance, made):
                note(
                    "suspension under load: live",
                    seconds_until(lambda: wire.verdict() == ACCESS_REJECT, "the suspension is live"),
                )
            until(wire.is_admitted, "the resumption is live")
    instance.wait_until_shipped()
    work.assert_undisturbed()
    work.assert_decisions_stored()
    work.assert_accounting_stored_once()
    assert seconds < TENANT_SECONDS
    assert instance.pid("radiusd") == radiusd
    reasons = instance.query(
        "SELECT DISTINCT reason FROM auth_log WHERE tenant_id = %s AND NOT permitted", made.tenant_id
    )
    assert reasons == [("tenant-suspended",)]
    remove(instance, made)


def remove(instance, made):
    for function in (tenants_service.delete_tenant, tenants_service.purge_tenant):
        with session_scope(PlatformScope(), engine=instance.installation.engine) as session:
            function(session, actor=ACTOR, tenant_id=made.tenant_id)


@pytest.fixture
def own_secret_nas(instance, tenants):
    """Makes a NAS with a secret of its own, and removes it at the end."""
    made: list[str] = []

    def make(name: str, address: str, secret: str) -> UUID:
        def add(session, **arguments):
            site = sites.require_by_slug(session, tenant_id=tenants[0].tenant_id, slug="main")
            return nases.add_nas(
                session,
                site_id=site.id,
                name=name,
                address=address,
                secret=secret,
                seal=instance.installation.sealer.seal,
                **arguments,
            )

        nas = change(instance, tenants[0], add)
        made.append(name)
        return nas.id

    yield make
    for name in made:
        change(instance, tenants[0], nases.remove_nas, reference=name)
    until(lambda: not instance.alarm("exchange"), "the configuration is in force")


def test_new_configuration_is_swapped_in_under_load(instance, tenants, load, own_secret_nas, note):
    """A NAS with a secret of its own makes the agent exchange radiusd: tried as a shadow, then swapped. What is sent in
    the moment of the swap NASes send again: every request is answered, every acknowledged record stored once."""
    radiusd = instance.pid("radiusd")
    with load(with_eap=False) as work, Wire(tenants[0], secret=_NAS_SECRET, address=_NAS_ADDRESS) as wire:
        started = time.perf_counter()
        own_secret_nas("switch with its own secret", _NAS_ADDRESS, _NAS_SECRET.decode())
        until(wire.is_admitted, "the NAS is answered under its own secret")
        note("NAS with its own secret under load: answered", time.perf_counter() - started)
        moment = time.perf_counter()
        until(lambda: work.answered_since(moment) > 100, "answers of the new radiusd")
    note("swap of radiusd: silence on the wire", work.longest_silence_seconds)
    note("swap of radiusd: requests sent again", work.run.retransmissions)
    instance.wait_until_shipped()
    work.assert_served()
    work.assert_decisions_stored_at_least()
    work.assert_accounting_stored_once()
    assert instance.pid("radiusd") != radiusd


def test_broken_configuration_never_replaces_a_good_one(instance, tenants, load, own_secret_nas):
    """What radiusd's configuration cannot carry comes into the database past every check. The cell says so and serves
    on with what it has, the same radiusd, without one request late; once it is mended the change comes into force."""
    sealer = instance.installation.sealer
    with load() as work:
        nas_id = own_secret_nas("broken switch", "192.0.2.66", "a-secret-that-is-replaced")
        until(lambda: "192.0.2.66" in _configuration(instance), "the NAS is in force")
    work.assert_served()
    radiusd = instance.pid("radiusd")
    with load() as work:
        broken = sealer.seal(b'quote" } brace \\ $INCLUDE', f"nas:{nas_id}")
        instance.query("UPDATE nases SET secret_sealed = %s WHERE id = %s", broken, nas_id)
        until(lambda: instance.alarm("exchange"), "an alarm")
        moment = time.perf_counter()
        until(lambda: work.answered_since(moment) > 50, "answers")
    instance.wait_until_shipped()
    work.assert_undisturbed()
    work.assert_decisions_stored()
    assert "broken switch" in instance.alarm("exchange")
    assert instance.pid("radiusd") == radiusd


def _configuration(instance) -> str:
    """Of the radiusd that runs."""
    newest = max(path for path in instance.cell.generations.iterdir() if path.name.isdigit())
    return (newest / "slots" / "servers").read_text()
