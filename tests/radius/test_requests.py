"""Attributes of a packet as the module reads them, and the device's method of authentication."""

from base64 import b64encode
from uuid import UUID

import msgspec
import pytest

from loadtest.micro.radius_module import CODES
from nac.cellformat.packet_values import packet_value, packet_values, visible_pairs
from nac.cellformat.replica import keys
from nac.cellformat.replica.records import NasRecord, PolicyRecord, SiteRecord, SlotRecord, UserRecord
from nac.cellformat.replica.store import ReplicaReader, ReplicaWriter
from nac.kit.secrets import MasterKeyFile, SealedValueRefused, Sealer
from radius.module import radiusd_api
from radius.module.credentials import PasswordOpener, examine_first_packet
from radius.module.decision import LocationCache
from radius.module.request import AccessRequest, group_by_name
from tests.radius.pbkdf2_hashes import earlier_hash

OWN = (("Admit-Slot", "slot_0"), ("Admit-Source", "198.51.100.7"))
SITE, POLICY = (str(UUID(int=number)) for number in (1, 2))
SLOT = SlotRecord(1, "", "alpha", "active", SITE, "", 200, 60)
MAC = "02a0c0000001"
NOW = 1_700_000_000
HASH = earlier_hash("password")
COSTLY = HASH.replace(HASH.split(":")[1], b64encode((10_001).to_bytes(4, "big")).decode())

# Attributes that no rule, log or feed may contain.
HIDDEN = """
    User-Password CHAP-Password CHAP-Challenge EAP-Message EAP-Type Message-Authenticator State Proxy-State
    Module-Failure-Message MS-CHAP-Response MS-CHAP2-Response MS-MPPE-Send-Key ARAP-Password
    ARAP-Challenge-Response Tunnel-Password Ascend-Send-Secret Huawei-User-Password Digest-Response
    TLS-Client-Cert-Serial Tmp-String-0
"""


def request(*pairs):
    return AccessRequest((*pairs, *OWN))


def nas(name):
    return NasRecord(name, name, SITE, "")


@pytest.fixture(scope="module")
def key_file(tmp_path_factory):
    return tmp_path_factory.mktemp("key") / "cell.key"


@pytest.fixture(scope="module")
def sealer(key_file):
    return Sealer(MasterKeyFile.create(key_file))


@pytest.fixture(scope="module")
def reader(tmp_path_factory, sealer):
    directory = tmp_path_factory.mktemp("replica")
    writer = ReplicaWriter(directory, fresh=True)
    with writer.begin() as batch:
        batch.put_slot(0, SLOT)
        batch.put_site(1, SiteRecord(SITE, "main", POLICY))
        batch.put_policy(1, PolicyRecord(POLICY, "main", 1, b"{}"))
        batch.put_nas(keys.by_identifier(1, "switch"), nas("by identifier"))
        batch.put_nas(keys.by_address(1, bytes((192, 0, 2, 1))), nas("by address"))
        batch.put_nas(keys.by_address(1, bytes((198, 51, 100, 7))), nas("by source"))
        batch.put_nas(keys.by_identifier(2, "of another"), nas("of another tenant"))
        for name, changes in (
            ("anna", {"sealed_password": sealer.seal(b"pass\\word", "user:1")}),
            ("hashed", {}),
            ("disabled", {"disabled": True}),
            ("until now", {"valid_until": NOW}),
            ("until later", {"valid_until": NOW + 1}),
            ("moved", {"sealed_password": sealer.seal(b"x", "user:2")}),
            # Invalid rows that Admit never writes.
            ("costly", {"password_hash": COSTLY}),
            ("no hash", {"password_hash": "HASH"}),
        ):
            batch.put_user(1, msgspec.structs.replace(UserRecord("1", name, False, (), HASH, b"", 0), **changes))
    writer.close()
    reader = ReplicaReader(directory)
    yield reader
    reader.close()


@pytest.fixture
def view(reader):
    with reader.begin() as view:
        yield view


def test_callback_codes_equal_those_of_radiusd():
    assert CODES["REJECT"] == radiusd_api.REJECT
    assert CODES["UPDATED"] == radiusd_api.UPDATED


class TestRequest:
    def test_repeated_attribute_keeps_both_values_in_order(self):
        pairs = (("Class", "a"), ("User-Name", "x"), ("Class", "b"))
        assert group_by_name(pairs) == {"Class": ("a", "b"), "User-Name": ("x",)}
        assert group_by_name(None) == group_by_name(()) == {}

    @pytest.mark.parametrize(
        ("pairs", "address", "port"),
        [
            ((), "198.51.100.7", ""),
            ((("NAS-IP-Address", "192.0.2.1"), ("NAS-IPv6-Address", "2001:db8::1")), "192.0.2.1", ""),
            ((("NAS-IPv6-Address", "2001:db8::1"),), "2001:db8::1", ""),
            ((("NAS-Port", "7"), ("NAS-Port-Id", "Gi1/0/7")), "198.51.100.7", "Gi1/0/7"),
            ((("NAS-Port", "7"),), "198.51.100.7", "7"),
            ((("NAS-Port", "7"), ("NAS-Port-Id", "")), "198.51.100.7", "7"),
        ],
    )
    def test_nas_address_and_port_are_the_stated_ones(self, pairs, address, port):
        found = request(*pairs)
        assert (found.nas_address, found.nas_port) == (address, port)
        assert (found.user_name, found.mac, found.nas_identifier) == ("",) * 3

    def test_rules_cannot_see_credentials_or_internal_attributes(self):
        hidden = HIDDEN.split()
        packet = request(*((name, "x") for name in hidden), ("Filter-Id", "a"), ("Filter-Id", "b"))
        assert packet_values(packet) == {"radius.Filter-Id": ("a", "b"), "nas.address": ("198.51.100.7",)}
        assert visible_pairs(packet.pairs) == (("Filter-Id", "a"), ("Filter-Id", "b"))
        assert [name for name in hidden if packet_value(packet, f"radius.{name}")] == []

    def test_rules_see_derived_facts(self):
        packet = request(
            ("Calling-Station-Id", "02-A0-C0-00-00-01"),
            ("Called-Station-Id", "00-10-A4-23-19-C0:corp"),
            ("NAS-Identifier", "switch"),
            ("NAS-Port-Type", "Ethernet"),
        )
        values = packet_values(packet)
        names = ("mac", "mac.random", "ssid", "nas.identifier", "nas.port_type")
        assert [values[name] for name in names] == [(MAC,), (True,), ("corp",), ("switch",), ("Ethernet",)]
        assert {name: packet_value(packet, name) for name in values} == values

    @pytest.mark.parametrize(
        ("pairs", "found"),
        [
            ((("NAS-Identifier", "switch"), ("NAS-IP-Address", "192.0.2.1")), "by identifier"),
            ((("NAS-Identifier", "other"), ("NAS-IP-Address", "192.0.2.1")), "by address"),
            ((("NAS-Identifier", "SWITCH"),), "by source"),
            ((("NAS-IP-Address", "192.0.2.1"),), "by address"),
            ((("NAS-IP-Address", "192.0.2.2"),), "by source"),
            ((), "by source"),
        ],
    )
    def test_nas_is_found_by_identifier_then_address_then_source(self, view, pairs, found):
        assert request(*pairs).find_nas(view, 1).name == found

    def test_places_of_one_policy_share_its_document(self, view):
        places = LocationCache()
        found = [places.find(request(("NAS-Identifier", name)), view) for name in ("switch", "made up", "of another")]
        assert len({id(place) for place in found}) == 3
        assert found[0].policy is not None
        assert len({id(place.policy) for place in found}) == 1

    @pytest.mark.parametrize(
        "pairs", [(("NAS-Identifier", "of another"),), (("NAS-Identifier", "x" * 600),), (("NAS-Identifier", "\0"),)]
    )
    def test_nas_of_another_tenant_or_without_name_is_not_found(self, view, pairs):
        elsewhere = AccessRequest((*pairs, ("Admit-Slot", "slot_0"), ("Admit-Source", "203.0.113.9")))
        assert elsewhere.find_nas(view, 1) is None


PAP, CHAP, EAP = ("User-Password", MAC), ("CHAP-Password", "0x07"), ("EAP-Message", "0x02")
CALL_CHECK = ("Service-Type", "Call-Check")
SAME, OTHER = ("Calling-Station-Id", MAC), ("Calling-Station-Id", "02a0c0000002")


class TestCredential:
    @pytest.fixture
    def ask(self, view, sealer, key_file):
        open_password = PasswordOpener(str(key_file))

        def ask(name, *pairs):
            named = (("User-Name", name), *pairs) if name else pairs
            return examine_first_packet(request(*named), view, SLOT, None, now_seconds=NOW, open_password=open_password)

        return ask

    @pytest.mark.parametrize(
        ("name", "pairs", "method", "reason"),
        [
            (MAC, (PAP, SAME), "mab", ""),
            (MAC, (PAP, OTHER), "mab", "mac-mismatch"),
            (MAC, (PAP,), "mab", ""),
            (MAC, (("User-Password", "02-A0-C0-00-00-01"),), "mab", ""),
            (MAC, (("User-Password", "02a0c0000002"),), "mab", "wrong-mab-password"),
            (MAC, (CALL_CHECK,), "mab", ""),
            (MAC, (("User-Password", ""), CALL_CHECK), "mab", ""),
            (MAC, (("User-Password", "x"), CALL_CHECK), "mab", "wrong-mab-password"),
            (MAC, (("Service-Type", "Framed-User"),), "mab", "wrong-mab-password"),
            (MAC, (CHAP, SAME), "mab", ""),
            (MAC, (CHAP, OTHER), "mab", "mac-mismatch"),
            (MAC, (EAP, SAME), "eap", ""),
            ("laptop", (EAP, OTHER), "eap", ""),
            ("laptop", (EAP, PAP), "eap", ""),
            ("", (EAP,), "eap", ""),
            ("anna", (PAP,), "pap", ""),
            ("ANNA", (PAP,), "pap", ""),
            ("anna", (CHAP,), "chap", ""),
            ("anna", (), "unknown", "no-credentials"),
            ("", (), "unknown", "no-credentials"),
            ("anna", (CALL_CHECK,), "unknown", "no-credentials"),
            ("", (PAP,), "pap", "unknown-user"),
            ("nobody", (PAP,), "pap", "unknown-user"),
            ("x" * 600, (PAP,), "pap", "unknown-user"),
            ("hashed", (CHAP,), "chap", "chap-not-allowed"),
            ("hashed", (PAP,), "pap", ""),
            ("disabled", (PAP,), "pap", "user-disabled"),
            ("until now", (PAP,), "pap", "user-disabled"),
            ("until later", (PAP,), "pap", ""),
        ],
    )
    def test_method_and_refusal(self, ask, name, pairs, method, reason):
        found = ask(name, *pairs)
        assert (found.method, found.reason) == (method, reason)

    def test_only_locally_compared_credentials_count(self, ask):
        verified = {(name, each): ask(name, each).verified for name in (MAC, "anna") for each in (PAP, CHAP, EAP)}
        assert {key for key, value in verified.items() if value} == {(MAC, PAP)}
        assert ask(MAC, CALL_CHECK).verified

    def test_chap_gets_the_password_as_radiusd_reads_it(self, ask):
        """A backslash begins an escape in the values that rlm_python3 receives."""
        assert {name: value for name, _, value in ask("anna", CHAP).control} == {
            "Cleartext-Password": r"pass\\word",
            "Auth-Type": "CHAP",
        }

    def test_only_pap_gets_a_hash_of_bounded_cost(self, ask):
        assert ("PBKDF2-Password", ":=", HASH) in ask("hashed", PAP).control
        assert ask("anna", EAP).control == ()
        for name in ("costly", "no hash"):
            answer = ask(name, PAP)
            assert (answer.control, answer.reason) == ((), "wrong-password")

    def test_password_of_another_row_is_not_decrypted(self, ask):
        with pytest.raises(SealedValueRefused):
            ask("moved", CHAP)
