"""Attacks inside a tunnel: no attacker is permitted, and the log names the attempt."""

import os
import ssl

import pytest

from nac.cellformat.methods import DEFAULT_METHODS, METHODS
from nac.cellformat.replica.records import UserRecord
from nac.kit.radius_packet import (
    ACCESS_ACCEPT,
    ACCESS_CHALLENGE,
    ACCESS_REJECT,
    CALLING_STATION_ID,
    NAS_IDENTIFIER,
    USER_NAME,
)
from radius.module.eap_types import eap_name
from tests.radius.devices import Device
from tests.radius.inner_mschap import inner_identifier, mschap_answer, open_mschap, result_tlv, say_eap
from tests.radius.pbkdf2_hashes import earlier_hash
from tests.radius.supplicant import TTLS_PAP, eap_password
from tests.radius.tenants import PASSWORD, PRINTER
from tests.radius.tunnel import (
    CHAP_CHALLENGE,
    CHAP_PASSWORD,
    EAP_AVP,
    GTC,
    IDENTITY,
    MD5,
    MSCHAPV2,
    NAK,
    PEAP,
    RESPONSE,
    TLS,
    TTLS,
    USER_PASSWORD,
    Tunnel,
    avp,
    eap,
    login,
)

RIGHT = PASSWORD.encode()
MICROSOFT = 311
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
both_versions = pytest.mark.parametrize("version", VERSIONS)


pytestmark = pytest.mark.usefixtures("everything_offered")


def assert_rejected(cell, tunnel, reason, *, method, identity):
    assert tunnel.code == ACCESS_REJECT
    record = cell.decision()
    assert (record.permitted, record.reason, record.method, record.identity) == (False, reason, method, identity)
    assert record.mac == tunnel.mac


@both_versions
def test_valid_login_is_permitted(cell, version):
    tunnel = Tunnel(cell.alpha, version=version).open()
    assert tunnel.say(login(b"anna", RIGHT)) == ACCESS_ACCEPT
    assert cell.decision().rule_id == "staff"


class TestNames:
    @pytest.mark.parametrize(
        ("name", "reason", "identity"),
        [
            (b"nobody\xff\xfe", "unknown-user", "nobody=FF=FE"),
            (b"\xff", "unknown-user", "=FF"),
            ("nobödy".encode(), "unknown-user", "nobödy"),
            (b"x" * 253, "unknown-user", "x" * 253),
            # The name is longer than an attribute, so radiusd omits it.
            (b"x" * 300, "unknown-user", "anonymous"),
            (b"%{User-Name}", "unknown-user", "%{User-Name}"),
            (b'back\\slash\n"quoted" `id`', "unknown-user", 'back\\slash\n"quoted" `id`'),
            (b"anna ", "unknown-user", "anna "),
            # The name ends at the NUL, which no name contains. It must match no user.
            (b"\0anna", "unknown-user", "anonymous"),
        ],
    )
    def test_unusual_name_is_unknown(self, cell, name, reason, identity):
        tunnel = Tunnel(cell.alpha).open()
        tunnel.say(login(name, RIGHT))
        assert_rejected(cell, tunnel, reason, method="eap-ttls-pap", identity=identity)

    @pytest.mark.parametrize(
        ("name", "identity"),
        [(b"nobody\xff\xfe", "nobody=FF=FE"), ("nobödy".encode(), "nobödy"), (b"x" * 300, "x" * 253)],
    )
    def test_unusual_name_is_unknown_with_eap_inside(self, cell, name, identity):
        tunnel = Tunnel(cell.alpha).open()
        tunnel.say(avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, name)))
        assert_rejected(cell, tunnel, "unknown-user", method="eap-ttls-mschapv2", identity=identity)

    @pytest.mark.parametrize(
        "name", [b"nobody\xff\xfe", b"anna\0", b"anna\0x", b"\0anna", b"x" * 300, b""], ids=range(6)
    )
    def test_unusual_name_is_rejected_in_peap(self, cell, name):
        tunnel = Tunnel(cell.alpha, PEAP).open_peap(name)
        # radiusd may request the password of a name that ends at its NUL. The password must be correct.
        for _ in range(3):
            if tunnel.code != ACCESS_CHALLENGE:
                break
            tunnel.say(bytes((MSCHAPV2, 2, 1, 0, 60, 49)) + bytes(49) + b"anna\0")
        assert tunnel.code == ACCESS_REJECT
        assert cell.decision().permitted is False

    def test_escaped_password_is_wrong_for_an_invalid_utf8_name(self, cell):
        tunnel = Tunnel(cell.alpha).open()
        tunnel.say(login(b"anna", b"\xff\xfe=3D"))
        assert_rejected(cell, tunnel, "wrong-password", method="eap-ttls-pap", identity="anna")

    def test_name_outside_ascii_is_admitted(self, cell, replica):
        with replica.begin() as batch:
            known = UserRecord("0", "änna=2", False, ("staff",), earlier_hash(PASSWORD), b"", 0)
            batch.put_user(cell.alpha.number, known)
        tunnel = Tunnel(cell.alpha).open()
        assert tunnel.say(login("Änna=2".encode(), RIGHT)) == ACCESS_ACCEPT
        assert cell.decision().request["user.name"] == ("änna=2",)

    @pytest.mark.parametrize("inside", [login(PRINTER.encode(), PRINTER.encode()), login(b"02-A0-C0-00-00-01", b"")])
    def test_mac_address_inside_a_tunnel_is_never_mab(self, cell, inside):
        tunnel = Tunnel(cell.alpha, mac=PRINTER, outer=PRINTER).open()
        tunnel.say(inside)
        assert tunnel.code == ACCESS_REJECT
        assert (cell.decision().reason, cell.decision().method) == ("unknown-user", "eap-ttls-pap")

    def test_user_named_like_a_mac_address_is_unknown(self, cell, replica):
        with replica.begin() as batch:
            named = UserRecord("0", PRINTER, False, ("staff",), earlier_hash(PASSWORD), b"", 0)
            batch.put_user(cell.alpha.number, named)
        tunnel = Tunnel(cell.alpha).open()
        tunnel.say(login(PRINTER.encode(), RIGHT))
        assert_rejected(cell, tunnel, "unknown-user", method="eap-ttls-pap", identity=PRINTER)


class TestBypassOfEnabledMethods:
    @pytest.mark.parametrize("kind", [MD5, GTC, TLS, TTLS, PEAP])
    def test_no_other_eap_type_starts_inside(self, cell, kind):
        tunnel = Tunnel(cell.alpha).open()
        assert tunnel.say(avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, b"anna"))) == ACCESS_CHALLENGE
        tunnel.say(avp(EAP_AVP, eap(RESPONSE, inner_identifier(tunnel), NAK, bytes((kind,)))))
        assert_rejected(cell, tunnel, "method-not-offered", method="eap-ttls", identity="anna")
        assert cell.decision().detail.startswith(f"the device wants {eap_name(kind)} inside EAP-TTLS; offered here: ")

    def test_other_requested_eap_type_inside_peap_is_reported(self, cell):
        assert not eap_password(cell.alpha, ("PEAP", "auth=GTC"), "anna").run().accepted
        record = cell.decision()
        assert (record.reason, record.method, record.identity) == ("method-not-offered", "peap", "anna")
        assert record.detail.startswith("the device wants EAP-GTC inside PEAP; offered here: ")

    @pytest.mark.parametrize("kind", [MD5, TLS, TTLS])
    def test_unrequested_eap_type_is_rejected(self, cell, kind):
        tunnel = Tunnel(cell.alpha).open()
        assert tunnel.say(avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, b"anna"))) == ACCESS_CHALLENGE
        tunnel.say(avp(EAP_AVP, eap(RESPONSE, inner_identifier(tunnel), kind, bytes(17))))
        assert tunnel.code == ACCESS_REJECT
        assert cell.decision().permitted is False

    @pytest.mark.parametrize(
        ("credentials", "named"),
        [
            (avp(CHAP_PASSWORD, b"\x07" + bytes(16)), "CHAP"),
            (avp(1, bytes(50), vendor=MICROSOFT), "MS-CHAPv1"),
        ],
    )
    def test_method_enabled_only_outside_is_rejected_inside(self, cell, credentials, named):
        tunnel = Tunnel(cell.alpha).open()
        tunnel.say(avp(USER_NAME, b"anna") + credentials)
        assert_rejected(cell, tunnel, "method-not-offered", method="eap-ttls", identity="anna")
        assert cell.decision().detail.startswith(f"the device wants {named} inside EAP-TTLS; offered here: ")

    def test_devices_own_challenge_is_not_parsed(self, cell):
        """The server computes the challenge from the tunnel's keys (RFC 5281 11.2.2)."""
        tunnel = Tunnel(cell.alpha).open()
        chap = avp(CHAP_PASSWORD, b"\x07" + bytes(16)) + avp(CHAP_CHALLENGE, bytes(16))
        tunnel.say(avp(USER_NAME, b"anna") + chap)
        assert tunnel.code == ACCESS_REJECT
        assert (cell.decision().permitted, cell.decision().reason) == (False, "eap-failed")

    @pytest.mark.parametrize(
        ("credentials", "method", "detail"),
        [
            (b"", "eap-ttls", "the tunnel has no password, or one that is too long"),
            (
                avp(USER_PASSWORD, b"x" * 300),
                "eap-ttls",
                "the tunnel has no password, or one that is too long",
            ),
            (
                avp(USER_PASSWORD, b"x" * 144),
                "eap-ttls-pap",
                "the password has 144 octets, the maximum of RADIUS is 128",
            ),
        ],
    )
    def test_password_unfit_for_radius_gets_its_own_reason(self, cell, credentials, method, detail):
        tunnel = Tunnel(cell.alpha).open()
        tunnel.say(avp(USER_NAME, b"anna") + credentials)
        assert_rejected(cell, tunnel, "password-not-carried", method=method, identity="anna")
        assert cell.decision().detail == detail

    @both_versions
    def test_empty_tunnel_is_rejected(self, cell, version):
        tunnel = Tunnel(cell.alpha, version=version).open()
        while tunnel.say() == ACCESS_CHALLENGE:
            continue
        assert cell.decision().permitted is False
        assert cell.decision().method == "eap-ttls"

    @pytest.mark.parametrize(
        "data",
        [b"\0" * 9, b"\xff" * 40, avp(USER_NAME, b"anna")[:9], avp(USER_PASSWORD, RIGHT), os.urandom(400)],
        ids=["zeros", "ones", "cut", "no-name", "noise"],
    )
    def test_random_data_inside_is_rejected(self, cell, data):
        tunnel = Tunnel(cell.alpha).open()
        tunnel.say(data)
        assert tunnel.code == ACCESS_REJECT
        assert cell.decision().permitted is False

    @pytest.mark.parametrize("offered", ["eap-ttls-pap", "eap-ttls-mschapv2"])
    def test_disabled_inner_method_is_rejected(self, cell, replica, offered):
        with replica.begin() as batch:
            batch.put_slot(cell.alpha.slot, cell.alpha.slot_record(methods=(offered,)))
        pap, inner_eap = Tunnel(cell.alpha).open(), Tunnel(cell.alpha).open()
        pap.say(login(b"anna", RIGHT))
        inner_eap.say(avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, b"anna")))
        codes = (ACCESS_ACCEPT, ACCESS_REJECT) if offered == "eap-ttls-pap" else (ACCESS_REJECT, ACCESS_CHALLENGE)
        assert (pap.code, inner_eap.code) == codes
        refused = cell.decision(permitted=False)
        wanted = "eap-ttls-mschapv2" if offered == "eap-ttls-pap" else "eap-ttls-pap"
        assert (refused.reason, refused.method) == ("method-not-offered", wanted)
        assert refused.detail == f"the device wants {wanted}; offered here: {offered}"


class TestIdentity:
    def test_name_and_eap_identity_inside_must_agree(self, cell):
        tunnel = Tunnel(cell.alpha).open()
        tunnel.say(avp(USER_NAME, b"guest") + avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, b"anna")))
        assert tunnel.code == ACCESS_REJECT
        assert cell.decision().permitted is False

    def test_name_cannot_change_midway(self, cell):
        tunnel = Tunnel(cell.alpha).open()
        tunnel.say(avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, b"guest")))
        answer = mschap_answer(tunnel, "guest", PASSWORD)
        tunnel.say(avp(USER_NAME, b"anna") + avp(EAP_AVP, answer))
        assert tunnel.code == ACCESS_REJECT
        assert (cell.decision().identity, cell.decision().permitted) == ("guest", False)

    def test_second_identity_cannot_replace_the_first(self, cell):
        """Each of the two users is permitted, and both have the same password."""
        tunnel = Tunnel(cell.alpha).open()
        tunnel.say(avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, b"alpha-user")))
        tunnel.say(avp(USER_NAME, b"anna") + avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, b"anna")))
        assert tunnel.code == ACCESS_REJECT
        assert (cell.decision().identity, cell.decision().permitted) == ("alpha-user", False)

    def test_outer_name_cannot_change_midway(self, cell):
        tunnel = Tunnel(cell.alpha).open()
        tunnel.outer = "another"
        tunnel.say(login(b"anna", RIGHT))
        assert tunnel.code == ACCESS_REJECT
        assert cell.decision().permitted is False

    def test_place_stated_inside_the_tunnel_is_ignored(self, cell):
        tunnel = Tunnel(cell.alpha).open()
        lies = (
            avp(CALLING_STATION_ID, PRINTER.encode()) + avp(NAS_IDENTIFIER, b"switch-1") + avp(6, bytes((0, 0, 0, 10)))
        )
        assert tunnel.say(login(b"anna", RIGHT) + lies) == ACCESS_ACCEPT
        record = cell.decision()
        assert (record.mac, record.nas_id, record.nas_identifier) == (tunnel.mac, "", "")
        assert "radius.Service-Type" not in record.request

    def test_state_of_another_slot_is_useless(self, cell):
        tunnel = Tunnel(cell.alpha).open()
        tunnel.tenant = cell.bravo
        tunnel.say(login(b"anna", RIGHT))
        assert tunnel.code == ACCESS_REJECT
        assert cell.decision().tenant_id == cell.bravo.tenant_id

    def test_state_of_another_inner_conversation_is_useless(self, cell):
        first = Tunnel(cell.alpha).open()
        first.say(avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, b"anna")))
        answer = mschap_answer(first, "anna", PASSWORD)
        second = Tunnel(cell.bravo).open()
        second.say(avp(USER_NAME, b"anna") + avp(24, os.urandom(16)) + avp(EAP_AVP, answer))
        assert second.code == ACCESS_REJECT
        assert cell.decision().permitted is False


class TestPasswords:
    def test_password_ends_at_its_padding(self, cell):
        tunnel = Tunnel(cell.alpha).open()
        assert tunnel.say(login(b"anna", RIGHT + b"\0")) == ACCESS_ACCEPT

    @pytest.mark.parametrize(
        "password", [b"", b"\0", RIGHT[:-1], RIGHT + b"x", RIGHT.upper(), b"\xff" * 20, b"\xff" * 80, b"x" * 128]
    )
    def test_other_password_is_rejected(self, cell, password):
        tunnel = Tunnel(cell.alpha).open()
        tunnel.say(login(b"anna", password))
        assert_rejected(cell, tunnel, "wrong-password", method="eap-ttls-pap", identity="anna")

    @pytest.mark.parametrize("kind", [TTLS, PEAP])
    def test_failure_is_logged_whatever_the_signature(self, cell, kind):
        tunnel = open_mschap(cell.alpha, kind)
        say_eap(tunnel, kind, mschap_answer(tunnel, "anna", "wrong password", written=b"\xff\xfe\0anna"))
        while tunnel.code == ACCESS_CHALLENGE:
            tunnel.say(result_tlv(tunnel) or b"\x1a\x04" if kind == PEAP else b"")
        assert tunnel.code == ACCESS_REJECT
        assert (cell.decision().reason, cell.decision().identity) == ("wrong-password", "anna")

    @pytest.mark.parametrize("kind", [TTLS, PEAP])
    def test_second_attempt_in_a_conversation_is_ignored(self, cell, kind):
        """`rlm_eap_mschapv2` would accept further attempts, and the limiter would count 50 guesses as one failure."""
        tunnel = open_mschap(cell.alpha, kind)
        say_eap(tunnel, kind, mschap_answer(tunnel, "anna", "wrong password"))
        assert tunnel.code == ACCESS_CHALLENGE
        say_eap(tunnel, kind, mschap_answer(tunnel, "anna", PASSWORD))
        assert b"S=" not in tunnel.heard
        while tunnel.code == ACCESS_CHALLENGE:
            tunnel.say(result_tlv(tunnel))
        assert_rejected(
            cell,
            tunnel,
            "wrong-password",
            method="peap-mschapv2" if kind == PEAP else "eap-ttls-mschapv2",
            identity="anna",
        )

    @pytest.mark.parametrize("kind", [TTLS, PEAP])
    def test_first_attempt_is_processed(self, cell, kind):
        tunnel = open_mschap(cell.alpha, kind)
        say_eap(tunnel, kind, mschap_answer(tunnel, "anna", PASSWORD))
        assert tunnel.code == ACCESS_CHALLENGE
        assert b"S=" in tunnel.heard


class TestResumption:
    @both_versions
    def test_tunnel_session_is_never_resumed(self, cell, replica, version):
        first = Tunnel(cell.alpha, version=version).open()
        assert first.say(login(b"anna", RIGHT)) == ACCESS_ACCEPT
        with replica.begin() as batch:
            gone = UserRecord("0", "anna", True, ("staff",), earlier_hash(PASSWORD), b"", 0)
            batch.put_user(cell.alpha.number, gone)
        second = Tunnel(cell.alpha, context=first.context, session=first.tls.session).open()
        assert second.tls.session_reused is False
        assert second.say(login(b"anna", RIGHT)) == ACCESS_REJECT
        assert cell.decision(permitted=False).reason == "user-disabled"

    @both_versions
    @pytest.mark.parametrize("end", ["wrong password", "nothing said"])
    def test_session_without_a_valid_password_admits_nobody(self, cell, version, end):
        """With TLS 1.3, radiusd sends the ticket before it requests the password."""
        first = Tunnel(cell.alpha, version=version).open()
        first.say(login(b"anna", b"wrong") if end == "wrong password" else b"")
        _assert_not_resumed_into(cell, Tunnel(cell.alpha, context=first.context, session=first.tls.session))

    @both_versions
    @pytest.mark.parametrize("kind", [TTLS, PEAP])
    def test_session_of_a_certificate_opens_no_tunnel(self, cell, version, kind):
        """`radiusd` 3.2.7 logs that the type has changed, but resumes the session (cbtls_get_session)."""
        device = Device(cell.alpha.clients["laptop"], version)
        device.visit(cell.alpha)
        cell.forget_records()
        session = device._supplicant.session
        _assert_not_resumed_into(cell, Tunnel(cell.alpha, kind, context=device._context, session=session))

    def test_name_in_a_resumed_session_requires_its_password(self, cell):
        """At the next acknowledgement, radiusd ends a resumed conversation as a success."""
        device = Device(cell.alpha.clients["laptop"], ssl.TLSVersion.TLSv1_3)
        device.visit(cell.alpha)
        cell.forget_records()
        tunnel = Tunnel(cell.alpha, context=device._context, session=device._supplicant.session).open()
        assert tunnel.tls.session_reused
        tunnel.say()
        tunnel.say(avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, b"anna")))
        while tunnel.code == ACCESS_CHALLENGE:
            tunnel.say()
        record = cell.decision()
        assert (record.permitted, record.reason, record.identity) == (False, "eap-failed", "anna")

    @both_versions
    def test_tunnel_session_is_no_certificate_session(self, cell, version):
        first = Tunnel(cell.alpha, version=version).open()
        assert first.say(login(b"anna", RIGHT)) == ACCESS_ACCEPT
        cell.forget_records()
        _assert_not_resumed_into(cell, Tunnel(cell.alpha, TLS, context=first.context, session=first.tls.session))


def _assert_not_resumed_into(cell, tunnel):
    """Assert a full handshake with all credentials, or a reject."""
    try:
        tunnel.open()
    except (AssertionError, ssl.SSLError):
        assert tunnel.code == ACCESS_REJECT
    else:
        for _ in range(5):
            if tunnel.say(result_tlv(tunnel)) != ACCESS_CHALLENGE:
                break
        assert tunnel.code == ACCESS_REJECT or not tunnel.tls.session_reused
    assert [record for record in cell.decisions(permitted=True) if record.mac == tunnel.mac] == []


def test_user_deleted_between_visits_is_rejected(cell, replica):
    assert eap_password(cell.alpha, TTLS_PAP, "anna").run().accepted
    with replica.begin() as batch:
        batch.delete_user(cell.alpha.number, "anna")
    cell.forget_records()
    assert not eap_password(cell.alpha, TTLS_PAP, "anna").run().accepted
    assert cell.decision().reason == "unknown-user"


@pytest.mark.parametrize("kind", [TTLS, PEAP])
def test_user_blocked_midway_is_rejected_at_the_end(cell, replica, kind):
    tunnel = open_mschap(cell.alpha, kind)
    with replica.begin() as batch:
        batch.put_user(cell.alpha.number, UserRecord("0", "anna", True, ("staff",), "", b"", 0))
    say_eap(tunnel, kind, mschap_answer(tunnel, "anna", PASSWORD))
    assert b"S=" in tunnel.heard
    say_eap(tunnel, kind, eap(RESPONSE, tunnel.heard[9] if kind == TTLS else 0, MSCHAPV2, b"\x03"))
    while tunnel.code == ACCESS_CHALLENGE:
        tunnel.say(result_tlv(tunnel))
    assert tunnel.code == ACCESS_REJECT
    assert cell.decision().reason == "user-disabled"


def test_peap_is_off_unless_the_tenant_enables_it():
    assert "peap-mschapv2" not in DEFAULT_METHODS
    assert set(METHODS) - set(DEFAULT_METHODS) == {"peap-mschapv2"}
