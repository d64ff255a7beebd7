"""Wrong passwords are counted and journalled at once, by station and by user name."""

import itertools

import pytest

from nac.cellformat.methods import METHODS
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_CHALLENGE, ACCESS_REJECT
from tests.radius.inner_mschap import finish, mschap_answer, open_mschap, say_eap
from tests.radius.nas import log_in
from tests.radius.supplicant import new_mac
from tests.radius.tenants import PASSWORD
from tests.radius.tunnel import IDENTITY, PEAP, RESPONSE, TTLS, Tunnel, eap, login

tunnels = pytest.mark.parametrize("kind", [PEAP, TTLS])
_numbers = itertools.count(1)


@pytest.fixture
def limits(cell):
    def set_limits(*, station=200, user=200, **more):
        cell.set_slot(methods=METHODS, failure_limit=station, password_failure_limit=user, **more)

    return set_limits


@pytest.fixture
def user(cell):
    """The name of a user of both tenants, still without a wrong password."""
    name = f"user-{next(_numbers)}"
    with cell.changes() as batch:
        for tenant in cell.tenants.values():
            batch.put_user(tenant.number, tenant.user(name, cell.sealer))
    return name


def guess(tenant, user, kind, password="wrong", *, mac=""):
    """One EAP-MSCHAPv2 login. The device leaves when it knows whether the password is correct."""
    tunnel = open_mschap(tenant, kind, name=user, mac=mac)
    say_eap(tunnel, kind, mschap_answer(tunnel, user, password))
    return tunnel


def open_named(tenant, user, kind):
    if kind == PEAP:
        return Tunnel(tenant, kind).open_peap(user.encode())
    tunnel = Tunnel(tenant, kind).open()
    tunnel.say(login(user.encode(), PASSWORD.encode()))
    return tunnel


def assert_locked_out(cell, code):
    assert code == ACCESS_REJECT
    assert cell.decisions()[-1].reason == "too-many-wrong-passwords"


@tunnels
def test_tunnel_failure_is_journalled_once_before_the_end(cell, limits, user, kind):
    limits()
    tunnel = guess(cell.alpha, user, kind)
    assert tunnel.code == ACCESS_CHALLENGE
    record = cell.decision()
    assert (record.reason, record.identity, record.mac) == ("wrong-password", user, tunnel.mac)
    assert record.permitted is False
    assert finish(tunnel) == ACCESS_REJECT
    assert cell.decision() == record


@tunnels
def test_right_password_after_too_many_guesses_is_rejected(cell, limits, user, kind):
    limits(station=3)
    mac = new_mac()
    for _ in range(3):
        assert guess(cell.alpha, user, kind, mac=mac).code == ACCESS_CHALLENGE
    tunnel = Tunnel(cell.alpha, kind, mac=mac)
    tunnel.ask(eap(RESPONSE, 0, IDENTITY, b"anonymous"))
    assert tunnel.code == ACCESS_REJECT
    assert cell.decisions()[-1].reason == "rate-limited"


@tunnels
def test_guesses_from_many_stations_are_limited_per_user(cell, limits, user, kind):
    """A name with the tenant's realm is the same user."""
    limits(user=3, realms=("corp",))
    for name in (user, user, f"CORP\\{user}"):
        assert guess(cell.alpha, name, kind).code == ACCESS_CHALLENGE
    assert {record.identity for record in cell.decisions()} == {user}
    for name in (user, f"CORP\\{user}"):
        assert_locked_out(cell, finish(open_named(cell.alpha, name, kind)))


def test_known_station_of_a_user_is_not_locked_out(cell, limits, user):
    """`radiusd` knows the station after a restart too."""
    limits(user=3)
    own = new_mac()
    assert log_in(cell.alpha, user, PASSWORD, station=own) == ACCESS_ACCEPT
    cell.restart_radiusd()
    for _ in range(4):
        assert log_in(cell.alpha, user, "wrong") == ACCESS_REJECT
    assert_locked_out(cell, log_in(cell.alpha, user, PASSWORD))
    assert log_in(cell.alpha, user, PASSWORD, station=own) == ACCESS_ACCEPT


def test_known_station_of_a_user_is_limited_too(cell, limits, user):
    limits(user=3)
    own = new_mac()
    assert log_in(cell.alpha, user, PASSWORD, station=own) == ACCESS_ACCEPT
    for _ in range(3):
        assert log_in(cell.alpha, user, "wrong", station=own) == ACCESS_REJECT
    assert log_in(cell.alpha, user, PASSWORD, station=own) == ACCESS_REJECT


def test_methods_and_spellings_of_a_name_count_together(cell, limits, user):
    limits(user=4)
    for name in (user, user.upper()):
        log_in(cell.alpha, name, "wrong")
    for kind in (PEAP, TTLS):
        guess(cell.alpha, user, kind)
    assert_locked_out(cell, log_in(cell.alpha, user, PASSWORD))


def test_other_users_and_other_tenants_are_not_affected(cell, limits, user):
    limits(user=2)
    for _ in range(3):
        log_in(cell.alpha, user, "wrong")
    assert log_in(cell.alpha, "alpha-user", PASSWORD) == ACCESS_ACCEPT
    assert log_in(cell.bravo, user, PASSWORD) == ACCESS_ACCEPT


def test_window_ends_despite_further_guessing(cell, limits, user):
    limits(user=2, password_failure_window_seconds=1)
    for _ in range(2):
        log_in(cell.alpha, user, "wrong")
    rejected = 0
    while log_in(cell.alpha, user, PASSWORD) == ACCESS_REJECT:
        rejected += 1
        assert rejected < 10_000
    assert cell.decisions()[-1].permitted


def test_mac_addresses_are_not_counted_as_users(cell, limits):
    limits(user=1)
    mac = new_mac()
    for _ in range(3):
        log_in(cell.alpha, mac, "wrong", station=mac)
    assert {record.reason for record in cell.decisions()} == {"wrong-mab-password"}
