"""EAP methods of a tenant. Only enabled methods start, changes apply without a restart, and devices soon use theirs."""

import ssl

import pytest

from nac.cellformat.methods import DEFAULT_METHODS, METHODS
from nac.kit.radius_packet import ACCESS_CHALLENGE, ACCESS_REJECT
from tests.radius.devices import Device
from tests.radius.nas import radclient
from tests.radius.supplicant import (
    PEAP,
    TLS_1_2,
    TLS_1_3,
    TTLS_EAP,
    TTLS_MSCHAPV2,
    TTLS_PAP,
    EapolTestRun,
    eap_md5,
    eap_password,
    eap_tls,
    new_mac,
)
from tests.radius.tenants import PASSWORD, PRINTER
from tests.radius.tunnel import IDENTITY, NAK, RESPONSE, Tunnel, eap


@pytest.fixture
def offer(cell, replica):
    def offer(*methods, tls_versions=("1.2", "1.3")):
        with replica.begin() as batch:
            record = cell.alpha.slot_record(methods=methods, tls_versions=tls_versions)
            batch.put_slot(cell.alpha.slot, record)

    return offer


def without(method):
    return tuple(name for name in METHODS if name != method)


def assert_refused(cell, reason, method):
    record = cell.decision()
    assert (record.permitted, record.reason, record.method) == (False, reason, method)
    return record


def log_in(cell, method):
    """Log in by the method. Returns whether the device was admitted, and the method in the log of a reject."""
    tenant, mac = cell.alpha, new_mac()
    station = f'Calling-Station-Id="{mac}"'
    match method:
        case "mab":
            reply = radclient(
                tenant, f'User-Name="{PRINTER}"', f'User-Password="{PRINTER}"', f'Calling-Station-Id="{PRINTER}"'
            )
            return reply.code == "Access-Accept", "mab"
        case "eap-tls":
            return eap_tls(tenant, tenant.clients["laptop"]).run().accepted, "eap"
        case "eap-ttls-pap":
            return eap_password(tenant, TTLS_PAP, "anna").run().accepted, "eap-ttls-pap"
        case "eap-ttls-mschapv2":
            return eap_password(tenant, TTLS_MSCHAPV2, "anna").run().accepted, "eap-ttls-mschapv2"
        case "peap-mschapv2":
            return eap_password(tenant, PEAP, "anna").run().accepted, "eap"
        case "pap" | "chap":
            attribute = {"pap": "User-Password", "chap": "CHAP-Password"}[method]
            reply = radclient(tenant, 'User-Name="anna"', f'{attribute}="{PASSWORD}"', station)
            return reply.code == "Access-Accept", method
    return None


LOGINS = ("mab", "eap-tls", "eap-ttls-pap", "eap-ttls-mschapv2", "peap-mschapv2", "pap", "chap")


@pytest.mark.parametrize("method", LOGINS)
def test_method_is_rejected_if_disabled(cell, offer, method):
    offer(*without(method))
    accepted, known_as = log_in(cell, method)
    assert not accepted
    record = assert_refused(cell, "method-not-offered", known_as)
    assert record.detail.endswith(f"offered here: {', '.join(without(method))}")


@pytest.mark.parametrize("method", LOGINS)
def test_method_is_accepted_if_it_is_the_only_one(cell, offer, method):
    offer(method)
    assert log_in(cell, method)[0]
    assert cell.decision().method == method


@pytest.mark.parametrize("method", ["eap-tls", "pap"])
def test_change_applies_to_the_next_request(cell, offer, method):
    offer(method)
    assert log_in(cell, method)[0]
    offer(*without(method))
    assert not log_in(cell, method)[0]


@pytest.mark.parametrize("way", [PEAP, TTLS_PAP, TTLS_MSCHAPV2, TTLS_EAP])
def test_disabled_tunnel_is_never_started(cell, offer, way):
    """The device does not receive the server's certificate, so no server can request its password."""
    offer("eap-tls", "mab", "pap")
    seen = eap_password(cell.alpha, way, "anna").run()
    assert seen.codes == ["Access-Challenge", "Access-Reject"]
    assert seen.eap_failure
    assert cell.certificates_sent() == []
    record = assert_refused(cell, "method-not-offered", "eap")
    wanted = {"PEAP": "PEAP", "TTLS": "EAP-TTLS"}[way[0]]
    assert record.detail == f"the device wants {wanted}; offered here: eap-tls, mab, pap"


def test_device_that_requests_eap_pwd_gets_that_reason(cell):
    network = {"key_mgmt": "IEEE8021X", "eap": "PWD", "identity": '"anna"', "password": f'"{PASSWORD}"'}
    assert not EapolTestRun(cell.alpha, network).run().accepted
    record = assert_refused(cell, "method-not-offered", "eap")
    assert record.detail == f"the device wants EAP-PWD; offered here: {', '.join(DEFAULT_METHODS)}"


def test_setting_affects_only_its_tenant(cell, offer):
    offer(*METHODS)
    assert eap_password(cell.alpha, PEAP, "anna").run().accepted
    assert not eap_password(cell.bravo, PEAP, "anna").run().accepted


def test_without_eap_methods_the_identity_is_rejected(cell, offer):
    offer("pap", "chap")
    tunnel = Tunnel(cell.alpha)
    tunnel.ask(eap(RESPONSE, 0, IDENTITY, b"anonymous"))
    assert tunnel.code == ACCESS_REJECT
    assert assert_refused(cell, "method-not-offered", "eap").detail == "offered here: pap, chap"


def test_eap_md5_is_only_for_mac_addresses(cell, offer):
    offer(*METHODS)
    assert not eap_md5(cell.alpha, "anna", PASSWORD, mac=new_mac()).run().accepted
    record = assert_refused(cell, "method-not-offered", "eap")
    assert record.detail.startswith("the device wants EAP-MD5; ")


def test_eap_md5_follows_the_mab_setting(cell, offer):
    offer(*without("mab"))
    assert not eap_md5(cell.alpha, PRINTER, PRINTER, mac=PRINTER).run().accepted
    assert_refused(cell, "method-not-offered", "eap")


class TestNak:
    """A NAK may list several types in the device's order of preference (RFC 3748 5.3.1)."""

    def begin(self, cell, proposed, *, outer="anonymous", mac=""):
        tunnel = Tunnel(cell.alpha, outer=outer, mac=mac)
        first = tunnel.ask(eap(RESPONSE, 0, IDENTITY, outer.encode()))
        assert tunnel.code == ACCESS_CHALLENGE
        return tunnel, first[4], tunnel.ask(eap(RESPONSE, first[1], NAK, bytes(proposed)))

    @pytest.mark.parametrize(
        ("offered", "proposed", "begun"),
        [
            (DEFAULT_METHODS, (21,), 21),
            (DEFAULT_METHODS, (25, 21), 21),
            (DEFAULT_METHODS, (43, 52, 21), 21),
            (METHODS, (25, 21), 25),
            (METHODS, (21, 25), 21),
            (("eap-tls", "peap-mschapv2"), (21, 25), 25),
            (("eap-ttls-pap",), (13, 21, 25), None),
        ],
    )
    def test_first_enabled_method_begins(self, cell, offer, offered, proposed, begun):
        offer(*offered)
        tunnel, _, answer = self.begin(cell, proposed)
        if begun is None:
            # The device rejected TTLS, the only enabled type, and requests it in the NAK.
            assert tunnel.code == ACCESS_REJECT
        else:
            assert (tunnel.code, answer[4]) == (ACCESS_CHALLENGE, begun)

    @pytest.mark.parametrize("proposed", [(), (0,), (1,), (3,), (25,), (4,), (6,), (255,), (254, 25), (25,) * 250])
    def test_no_enabled_method_is_a_reject(self, cell, proposed):
        tunnel, _, _ = self.begin(cell, proposed)
        assert tunnel.code == ACCESS_REJECT
        assert_refused(cell, "method-not-offered", "eap")

    @pytest.mark.parametrize(
        ("proposed", "named"),
        [
            ((6,), "EAP-GTC"),
            ((43, 55), "EAP-FAST, TEAP"),
            ((17, 18, 23, 50), "LEAP, EAP-SIM, EAP-AKA, EAP-AKA'"),
            ((26, 29), "EAP-MSCHAPv2"),
            ((99, 52), "EAP type 99, EAP-PWD"),
            ((0,), "no other method"),
        ],
    )
    def test_requested_method_is_reported(self, cell, proposed, named):
        self.begin(cell, proposed)
        record = assert_refused(cell, "method-not-offered", "eap")
        assert record.detail.startswith(f"the device wants {named}; offered here: ")

    def test_second_nak_starts_another_type_or_none(self, cell, offer):
        offer(*METHODS)
        tunnel, _, answer = self.begin(cell, (21,))
        answer = tunnel.ask(eap(RESPONSE, answer[1], NAK, b"\x19"))
        assert (tunnel.code, answer[4]) == (ACCESS_CHALLENGE, 25)

    def test_unrequested_type_is_rejected(self, cell, offer):
        offer(*METHODS)
        tunnel = Tunnel(cell.alpha)
        first = tunnel.ask(eap(RESPONSE, 0, IDENTITY, b"anonymous"))
        tunnel.ask(eap(RESPONSE, first[1], 25, bytes(20)))
        assert tunnel.code == ACCESS_REJECT

    @pytest.mark.parametrize(
        ("offered", "first"),
        [
            (METHODS, 13),
            (DEFAULT_METHODS, 13),
            (("eap-ttls-pap", "peap-mschapv2"), 21),
            (("eap-ttls-mschapv2",), 21),
            (("peap-mschapv2", "pap"), 25),
        ],
    )
    def test_first_enabled_method_in_order_is_proposed_first(self, cell, offer, offered, first):
        offer(*offered)
        assert self.begin(cell, (0,))[1] == first

    def test_requested_type_is_proposed_at_the_next_visit(self, cell):
        mac = new_mac()
        assert self.begin(cell, (21,), mac=mac)[1] == 13
        assert self.begin(cell, (13,), mac=mac)[1] == 21
        assert self.begin(cell, (21,), mac=mac)[1] == 13
        # The cell proposes the default type to another device.
        assert self.begin(cell, (21,))[1] == 13

    def test_disabled_type_is_forgotten(self, cell, offer):
        mac = new_mac()
        self.begin(cell, (21,), mac=mac)
        offer("eap-tls", "peap-mschapv2")
        assert self.begin(cell, (0,), mac=mac)[1] == 13

    def test_mac_address_is_offered_md5_first(self, cell):
        mac = new_mac()
        assert self.begin(cell, (21,), outer=mac, mac=mac)[1] == 4

    def test_second_visit_saves_two_packets(self, cell):
        mac = new_mac()
        rounds = [len(eap_password(cell.alpha, TTLS_PAP, "anna", mac=mac).run().codes) for _ in range(2)]
        assert rounds[0] - rounds[1] == 1


@pytest.mark.parametrize("name", ["odd\xff", "office"])
def test_nak_from_a_switch_without_utf8_is_parsed(cell, name):
    attributes = (f"30:x:{name.encode('latin-1').hex()}", "32:s:switch-1")
    seen = eap_password(cell.alpha, TTLS_PAP, "anna", attributes=attributes).run()
    assert seen.accepted
    assert cell.decision().nas_id == cell.alpha.nas_id


class TestTlsVersions:
    """A restarted radiusd negotiates only enabled versions. Before the restart, the module rejects the others."""

    @pytest.mark.parametrize(("offered", "spoken"), [("1.3", TLS_1_2), ("1.2", TLS_1_3)])
    @pytest.mark.parametrize("method", ["eap-tls", "eap-ttls-pap", "peap-mschapv2"])
    def test_disabled_version_is_rejected(self, cell, offer, method, offered, spoken):
        offer(*METHODS, tls_versions=(offered,))
        assert not self.run(cell, method, spoken).accepted
        # The reject comes inside the tunnel, before a credential is compared.
        known_as = {"eap-tls": "eap-tls", "peap-mschapv2": "peap"}.get(method, "eap-ttls")
        record = assert_refused(cell, "tls-version", known_as)
        assert record.tls_version == spoken
        assert record.detail.endswith(f"offered here: {offered}")

    @pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
    @pytest.mark.parametrize("method", ["eap-tls", "eap-ttls-pap", "peap-mschapv2"])
    def test_only_enabled_version_is_accepted(self, cell, offer, method, version):
        offer(*METHODS, tls_versions=(version,))
        assert self.run(cell, method, version).accepted

    def test_resumed_session_of_a_disabled_version_is_rejected(self, cell, offer):
        device = Device(cell.alpha.clients["laptop"], ssl.TLSVersion.TLSv1_2)
        device.visit(cell.alpha)
        cell.forget_records()
        offer(*METHODS, tls_versions=("1.3",))
        device.visit(cell.alpha, expected=ACCESS_REJECT)
        assert_refused(cell, "tls-version", "eap-tls")

    @staticmethod
    def run(cell, method, version):
        if method == "eap-tls":
            return eap_tls(cell.alpha, cell.alpha.clients["laptop"], version).run()
        way = {"eap-ttls-pap": TTLS_PAP, "peap-mschapv2": PEAP}[method]
        return eap_password(cell.alpha, way, "anna", version=version).run()
