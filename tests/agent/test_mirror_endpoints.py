"""Endpoints in the replica and their changes: profile, rule groups, posture and passphrase."""

import json

import pytest
from sqlalchemy import Engine

from nac.inventory.endpoints import group_rules, passphrases
from nac.inventory.endpoints import service as endpoints
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.db import TenantScope, session_scope
from nac.kit.secrets import MasterKeyFile, SealedForAnotherKey, Sealer
from radius.agent.alarms import Alarms
from radius.module.passphrases import PassphraseOpener
from tests.agent.mirrored_rows import add_endpoint
from tests.factories.tenancy import ACTOR

MAC = "001ba9010203"


def record(replica, tenant, mac=MAC):
    with replica.view as view:
        return view.endpoint(tenant.number, mac)


@pytest.fixture
def change(app_engine: Engine, alpha):
    def change(service, **given):
        with session_scope(TenantScope(alpha.id), engine=app_engine) as session:
            return service(session, actor=ACTOR, tenant_id=alpha.id, **given)

    return change


def test_profile_is_mirrored(owner, alpha, replica):
    add_endpoint(owner, alpha, MAC)
    posture = {"mdm.compliant": {"value": True, "source": "mdm", "at": 7, "until": 99}}
    owner.execute(
        "UPDATE endpoints SET status = 'discovered', vendor = 'Brother', found_profile = 'printer', "
        "found_confidence = 72, os = 'linux', first_seen_at = to_timestamp(7), posture = %s",
        (json.dumps(posture),),
    )
    expected = {"status": "discovered", "vendor": "Brother", "profile": "printer", "confidence": 72, "os": "linux"}
    expected |= {"first_seen": 7, "posture": {"mdm.compliant": (True, 99)}}
    found = record(replica.catch_up(), alpha)
    assert {name: getattr(found, name) for name in expected} == expected
    owner.execute("UPDATE endpoints SET set_profile = 'camera'")
    found = record(replica.catch_up(), alpha)
    assert (found.profile, found.confidence) == ("camera", 100)


def test_rule_groups_are_distinguished(owner, alpha, replica, change):
    add_endpoint(owner, alpha, MAC, groups=("chosen",))
    change(ENDPOINT_GROUPS.create, name="ruled")
    change(group_rules.update_group_rule, name="ruled", rule={"all": []})
    owner.execute(
        "INSERT INTO endpoint_group_members SELECT e.tenant_id, e.id, g.id FROM endpoints e, endpoint_groups g "
        "WHERE g.name = 'ruled'"
    )
    found = record(replica.catch_up(), alpha)
    assert (found.groups, found.rule_groups) == (("chosen",), ("ruled",))


@pytest.fixture
def sealed(sealed_replica, alpha, change):
    """The passphrase of a device as the module decrypts it, with the master key and the alarms."""
    opener = PassphraseOpener(str(sealed_replica.cell_key))

    def passphrase(mac=MAC):
        return opener(record(sealed_replica.catch_up(), alpha, mac))

    change(endpoints.create_endpoint, mac=MAC)
    return sealed_replica.master, passphrase, sealed_replica.alarms


def test_device_passphrase_overrides_its_groups(sealed, change):
    master, passphrase, _ = sealed
    assert passphrase() == ""
    for name in ("a-group", "b-group"):
        change(ENDPOINT_GROUPS.create, name=name)
        change(passphrases.update_group_psk, name=name, passphrase=f"passphrase of {name}", seal=master.seal)
    change(endpoints.update_groups, mac=MAC, groups=["a-group", "b-group"])
    assert passphrase() == "passphrase of a-group"
    change(passphrases.update_endpoint_psk, mac=MAC, passphrase="the device's own", seal=master.seal)
    assert passphrase() == "the device's own"
    change(passphrases.update_endpoint_psk, mac=MAC, passphrase=None, seal=master.seal)
    assert passphrase() == "passphrase of a-group"


def test_new_group_passphrase_reaches_every_member(sealed, change):
    master, passphrase, _ = sealed
    change(ENDPOINT_GROUPS.create, name="sensors")
    change(passphrases.update_group_psk, name="sensors", passphrase="the first one", seal=master.seal)
    macs = [MAC, "001ba9010204"]
    change(endpoints.create_endpoint, mac=macs[1])
    for mac in macs:
        change(endpoints.update_groups, mac=mac, groups=["sensors"])
    assert {passphrase(mac) for mac in macs} == {"the first one"}
    change(passphrases.update_group_psk, name="sensors", passphrase="the second one", seal=master.seal)
    assert {passphrase(mac) for mac in macs} == {"the second one"}
    change(passphrases.update_group_psk, name="sensors", passphrase=None, seal=master.seal)
    assert {passphrase(mac) for mac in macs} == {""}


def test_unreadable_passphrase_raises_an_alarm_only(sealed, change, owner, alpha, tmp_path):
    master, passphrase, alarms = sealed
    stranger = Sealer(MasterKeyFile.create(tmp_path / "stranger.key"))
    change(passphrases.update_endpoint_psk, mac=MAC, passphrase="some passphrase", seal=stranger.seal)
    assert passphrase() == ""
    (alarm,) = _of_endpoints(alarms)
    assert "00:1b:a9:01:02:03" in alarm.detail
    assert owner.execute("SELECT id FROM tenants WHERE number = %s", [alarm.tenant]).fetchone() == (alpha.id,)
    assert "some passphrase" not in alarm.detail
    change(passphrases.update_endpoint_psk, mac=MAC, passphrase="another passphrase", seal=master.seal)
    assert passphrase() == "another passphrase"
    assert _of_endpoints(alarms) == []
    with pytest.raises(SealedForAnotherKey):
        master.open(stranger.seal(b"x", "c"), "c")


def _of_endpoints(alarms: Alarms):
    """Alarms about endpoints only. The slot has an alarm too, because its secret is sealed with another key."""
    return [alarm for alarm in alarms.standing() if not alarm.code.startswith("slot-")]
