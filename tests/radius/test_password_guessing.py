"""Wrong passwords are counted and journalled at once, by station and by user name."""

import itertools

import msgspec
import pytest

from nac.cellformat.methods import METHODS
from nac.kit.radius_packet import (
    ACCESS_ACCEPT,
    ACCESS_CHALLENGE,
    ACCESS_REJECT,
    CALLING_STATION_ID,
    USER_NAME,
    encode_attribute,
)
from radius.agent.radiusd import probe, process
from tests.radius.inner_mschap import mschap_answer, open_mschap, result_tlv, say_eap
from tests.radius.nas import Nas
from tests.radius.standalone import LOOPBACK, STATUS_SECRET
from tests.radius.supplicant import new_mac
from tests.radius.tenants import PASSWORD
from tests.radius.tunnel import IDENTITY, PEAP, RESPONSE, TTLS, Tunnel, eap, login

tunnels = pytest.mark.parametrize("kind", [PEAP, TTLS])


_numbers = itertools.count(1)


@pytest.fixture
def limits(cell, replica):
    def set_limits(*, station=200, user=200, window_seconds=60):
        record = cell.alpha.slot_record(
            methods=METHODS,
            failure_limit=station,
            password_failure_limit=user,
            password_window_seconds=window_seconds,
        )
        with replica.begin() as batch:
            batch.put_slot(cell.alpha.slot, record)

    return set_limits


@pytest.fixture
def user(cell, replica):
    """The name of a user of both tenants, still without a wrong password."""
    name = f"user-{next(_numbers)}"
    with replica.begin() as batch:
        for tenant in cell.tenants.values():
            batch.put_user(tenant.number, tenant.user(name, cell.sealer))
    return name


def guess(tenant, user, kind, password, *, mac=""):
    """One EAP-MSCHAPv2 login. The device leaves when it knows whether the password is correct."""
    tunnel = open_mschap(tenant, kind, name=user, mac=mac)
    say_eap(tunnel, kind, mschap_answer(tunnel, user, password))
    return tunnel


def pap(tenant, name, password, *, mac=""):
    attributes = encode_attribute(USER_NAME, name) + encode_attribute(CALLING_STATION_ID, mac or new_mac())
    return Nas(tenant).ask(attributes, password=password.encode())[0]


@tunnels
def test_tunnel_failure_is_journalled_before_the_device_leaves(cell, limits, user, kind):
    limits()
    tunnel = guess(cell.alpha, user, kind, "wrong")
    assert tunnel.code == ACCESS_CHALLENGE
    record = cell.decision()
    assert (record.reason, record.identity, record.mac) == ("wrong-password", user, tunnel.mac)
    assert record.permitted is False


@tunnels
def test_tunnel_failure_is_journalled_once(cell, limits, user, kind):
    limits()
    tunnel = guess(cell.alpha, user, kind, "wrong")
    while tunnel.code == ACCESS_CHALLENGE:
        tunnel.say(result_tlv(tunnel))
    assert tunnel.code == ACCESS_REJECT
    assert cell.decision().reason == "wrong-password"


@tunnels
def test_right_password_after_too_many_guesses_is_rejected(cell, limits, user, kind):
    limits(station=3)
    mac = new_mac()
    for _ in range(3):
        assert guess(cell.alpha, user, kind, "wrong", mac=mac).code == ACCESS_CHALLENGE
    tunnel = Tunnel(cell.alpha, kind, mac=mac)
    tunnel.ask(eap(RESPONSE, 0, IDENTITY, b"anonymous"))
    assert tunnel.code == ACCESS_REJECT
    assert cell.decisions()[-1].reason == "rate-limited"


@tunnels
def test_guesses_from_many_stations_are_limited_per_user(cell, limits, user, kind):
    limits(user=3)
    for _ in range(3):
        assert guess(cell.alpha, user, kind, "wrong").code == ACCESS_CHALLENGE
    tunnel = open_named(cell.alpha, user, kind)
    while tunnel.code == ACCESS_CHALLENGE:
        tunnel.say(result_tlv(tunnel))
    assert tunnel.code == ACCESS_REJECT
    assert cell.decisions()[-1].reason == "too-many-wrong-passwords"


def test_known_station_of_a_user_survives_a_restart(cell, limits, user):
    limits(user=2)
    known = new_mac()
    assert pap(cell.alpha, user, PASSWORD, mac=known) == ACCESS_ACCEPT
    process.stop(cell.running)
    cell.running = process.start(cell.running.config_directory, cell.paths.radiusd_log)
    assert probe.is_serving(LOOPBACK, cell.config.status_port, STATUS_SECRET, seconds=20)
    for _ in range(2):
        assert pap(cell.alpha, user, "wrong") == ACCESS_REJECT
    assert pap(cell.alpha, user, PASSWORD) == ACCESS_REJECT
    assert cell.decisions()[-1].reason == "too-many-wrong-passwords"
    assert pap(cell.alpha, user, PASSWORD, mac=known) == ACCESS_ACCEPT


def open_named(tenant, user, kind):
    if kind == PEAP:
        return Tunnel(tenant, kind).open_peap(user.encode())
    tunnel = Tunnel(tenant, kind).open()
    tunnel.say(login(user.encode(), PASSWORD.encode()))
    return tunnel


def test_all_spellings_of_a_name_count_together(cell, limits, user):
    limits(user=2)
    for name in (user, user.upper()):
        pap(cell.alpha, name, "wrong")
    assert pap(cell.alpha, user, PASSWORD) == ACCESS_REJECT


@tunnels
def test_realms_of_the_tenant_count_together(cell, replica, user, kind):
    record = cell.alpha.slot_record(methods=METHODS, password_failure_limit=2)
    with replica.begin() as batch:
        batch.put_slot(cell.alpha.slot, msgspec.structs.replace(record, realms=("corp",)))
    for name in (user, f"CORP\\{user}"):
        guess(cell.alpha, name, kind, "wrong")
    assert {record.identity for record in cell.decisions()} == {user}
    tunnel = open_named(cell.alpha, f"CORP\\{user}", kind)
    while tunnel.code == ACCESS_CHALLENGE:
        tunnel.say(result_tlv(tunnel))
    assert cell.decisions()[-1].reason == "too-many-wrong-passwords"


def test_methods_count_together(cell, limits, user):
    limits(user=3)
    pap(cell.alpha, user, "wrong")
    guess(cell.alpha, user, PEAP, "wrong")
    guess(cell.alpha, user, TTLS, "wrong")
    assert pap(cell.alpha, user, PASSWORD) == ACCESS_REJECT
    assert cell.decisions()[-1].reason == "too-many-wrong-passwords"


def test_known_station_of_a_user_is_not_locked_out(cell, limits, user):
    limits(user=3)
    own = new_mac()
    assert pap(cell.alpha, user, PASSWORD, mac=own) == ACCESS_ACCEPT
    for _ in range(4):
        assert pap(cell.alpha, user, "wrong") == ACCESS_REJECT
    assert pap(cell.alpha, user, PASSWORD) == ACCESS_REJECT
    assert pap(cell.alpha, user, PASSWORD, mac=own) == ACCESS_ACCEPT


def test_known_station_of_a_user_is_limited_too(cell, limits, user):
    limits(user=3)
    own = new_mac()
    assert pap(cell.alpha, user, PASSWORD, mac=own) == ACCESS_ACCEPT
    for _ in range(3):
        assert pap(cell.alpha, user, "wrong", mac=own) == ACCESS_REJECT
    assert pap(cell.alpha, user, PASSWORD, mac=own) == ACCESS_REJECT


def test_other_users_and_other_tenants_are_not_affected(cell, limits, user):
    limits(user=2)
    for _ in range(3):
        pap(cell.alpha, user, "wrong")
    assert pap(cell.alpha, "alpha-user", PASSWORD) == ACCESS_ACCEPT
    assert pap(cell.bravo, user, PASSWORD) == ACCESS_ACCEPT


def test_window_ends_despite_further_guessing(cell, limits, user):
    limits(user=2, window_seconds=1)
    for _ in range(2):
        pap(cell.alpha, user, "wrong")
    rejected = 0
    while pap(cell.alpha, user, PASSWORD) == ACCESS_REJECT:
        rejected += 1
        assert rejected < 10_000
    assert cell.decisions()[-1].permitted


def test_mac_addresses_are_not_counted_as_users(cell, limits):
    limits(user=1)
    mac = new_mac()
    for _ in range(3):
        pap(cell.alpha, mac, "wrong", mac=mac)
    assert {record.reason for record in cell.decisions()} == {"wrong-mab-password"}
