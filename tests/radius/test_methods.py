"""EAP methods of a tenant. Only enabled methods start, changes apply without a restart, and devices soon use theirs."""

import ssl
from dataclasses import replace

import pytest

from nac.cellformat.methods import DEFAULT_METHODS, METHODS
from nac.kit.radius_packet import ACCESS_CHALLENGE, ACCESS_REJECT
from tests.radius.devices import Device
from tests.radius.nas import plain_login
from tests.radius.standalone import Plan, running_cell
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
def offer(cell):
    def offer(*methods, tls_versions=("1.2", "1.3")):
        cell.set_slot(methods=methods, tls_versions=tls_versions)

    return offer


def without(method):
    return tuple(name for name in METHODS if name != method)


def assert_refused(cell, reason, method):
    record = cell.decision()
    assert (record.permitted, record.reason, record.method) == (False, reason, method)
    return record


WAYS = {"eap-ttls-pap": TTLS_PAP, "eap-ttls-mschapv2": TTLS_MSCHAPV2, "peap-mschapv2": PEAP}


def log_in(cell, method, version=TLS_1_3):
    """Whether a login by the method is accepted."""
    tenant = cell.alpha
    if method == "eap-tls":
        return eap_tls(tenant, tenant.clients["laptop"], version).run().accepted
    if method in WAYS:
        return eap_password(tenant, WAYS[method], "anna", version=version).run().accepted
    if method == "mab":
        return plain_login(tenant, "pap", PRINTER, PRINTER, station=PRINTER).code == "Access-Accept"
    return plain_login(tenant, method, "anna", PASSWORD).code == "Access-Accept"


@pytest.mark.parametrize("method", [*METHODS])
def test_method_is_accepted_only_while_it_is_enabled(cell, offer, method):
    """A change applies to the next request."""
    offer(method)
    assert log_in(cell, method)
    assert cell.decision().method == method
    cell.forget_records()
    offer(*without(method))
    assert not log_in(cell, method)
    # Of these methods, the log knows only that the device speaks EAP.
    known_as = "eap" if method in ("eap-tls", "peap-mschapv2") else method
    record = assert_refused(cell, "method-not-offered", known_as)
    assert record.detail.endswith(f"offered here: {', '.join(without(method))}")


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


@pytest.mark.parametrize(
    ("offered", "name", "password", "mac"),
    [(METHODS, "anna", PASSWORD, "02a0c0000098"), (without("mab"), PRINTER, PRINTER, PRINTER)],
)
def test_eap_md5_is_only_for_mac_authentication(cell, offer, offered, name, password, mac):
    offer(*offered)
    assert not eap_md5(cell.alpha, name, password, mac=mac).run().accepted
    record = assert_refused(cell, "method-not-offered", "eap")
    assert record.detail.startswith("the device wants EAP-MD5; ")


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

    @pytest.mark.parametrize(
        ("proposed", "named"),
        [
            *((proposed, "") for proposed in ((), (1,), (3,), (25,), (4,), (255,), (254, 25), (25,) * 250)),
            ((6,), "the device wants EAP-GTC; offered here: "),
            ((43, 55), "the device wants EAP-FAST, TEAP; offered here: "),
            ((17, 18, 23, 50), "the device wants LEAP, EAP-SIM, EAP-AKA, EAP-AKA'; offered here: "),
            ((26, 29), "the device wants EAP-MSCHAPv2; offered here: "),
            ((99, 52), "the device wants EAP type 99, EAP-PWD; offered here: "),
            ((0,), "the device wants no other method; offered here: "),
        ],
    )
    def test_no_enabled_method_is_a_reject(self, cell, proposed, named):
        tunnel, _, _ = self.begin(cell, proposed)
        assert tunnel.code == ACCESS_REJECT
        assert assert_refused(cell, "method-not-offered", "eap").detail.startswith(named)

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

    def test_requested_type_is_proposed_at_the_next_visit(self, cell, offer):
        mac = new_mac()
        assert [self.begin(cell, (wanted,), mac=mac)[1] for wanted in (21, 13, 21)] == [13, 21, 13]
        # The cell proposes the default type to another device, and after the requested type was disabled.
        assert self.begin(cell, (21,))[1] == 13
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
        assert not log_in(cell, method, spoken)
        # The reject comes inside the tunnel, before a credential is compared.
        known_as = {"eap-tls": "eap-tls", "peap-mschapv2": "peap"}.get(method, "eap-ttls")
        record = assert_refused(cell, "tls-version", known_as)
        assert record.tls_version == spoken
        assert record.detail.endswith(f"offered here: {offered}")

    @pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
    @pytest.mark.parametrize("method", ["eap-tls", "eap-ttls-pap", "peap-mschapv2"])
    def test_only_enabled_version_is_accepted(self, cell, offer, method, version):
        offer(*METHODS, tls_versions=(version,))
        assert log_in(cell, method, version)

    def test_resumed_session_of_a_disabled_version_is_rejected(self, cell, offer):
        device = Device(cell.alpha.clients["laptop"], ssl.TLSVersion.TLSv1_2)
        device.visit(cell.alpha)
        cell.forget_records()
        offer(*METHODS, tls_versions=("1.3",))
        device.visit(cell.alpha, expected=ACCESS_REJECT)
        assert_refused(cell, "tls-version", "eap-tls")


@pytest.fixture(scope="module", params=[TLS_1_2, TLS_1_3])
def narrow(request):
    """A cell whose radiusd has only one TLS version, and this version."""
    with running_cell(Plan(slugs=("alpha",), tls_versions=(request.param,))) as cell:
        yield cell, request.param


class TestNegotiation:
    def test_highest_common_tls_version_is_used(self, narrow):
        cell, version = narrow
        cell.forget_records()
        assert log_in(cell, "eap-tls")
        assert log_in(cell, "eap-ttls-pap")
        assert [record.tls_version for record in cell.decisions()] == [version, version]

    @pytest.mark.parametrize("method", ["eap-tls", "eap-ttls"])
    def test_device_without_a_common_tls_version_is_rejected(self, narrow, method):
        cell, version = narrow
        cell.forget_records()
        if method == "eap-tls":
            eap = eap_tls(cell.alpha, cell.alpha.clients["laptop"])
        else:
            eap = eap_password(cell.alpha, TTLS_PAP, "anna")
        flags = " ".join(f"tls_disable_tlsv1_{minor}={int(version == f'1.{minor}' or minor < 2)}" for minor in range(4))
        assert not replace(eap, network={**eap.network, "phase1": f'"{flags}"'}).run().accepted
        assert (cell.decision().reason, cell.decision().method) == ("tls-version", method)
        assert cell.certificates_sent() == []
