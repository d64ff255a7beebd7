"""Attacks inside a tunnel: no attacker is permitted, and the log names the attempt."""

import os
import ssl

import pytest

from nac.kit.radius_packet import (
    ACCESS_ACCEPT,
    ACCESS_CHALLENGE,
    ACCESS_REJECT,
    CALLING_STATION_ID,
    NAS_IDENTIFIER,
    USER_NAME,
)
from radius.module.eap_types import eap_name
from tests.radius.devices import VERSIONS, Device
from tests.radius.inner_mschap import finish, inner_identifier, mschap_answer, open_mschap, result_tlv, say_eap
from tests.radius.supplicant import eap_password
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
both_versions = pytest.mark.parametrize("version", VERSIONS)


tunnels = pytest.mark.parametrize("kind", [TTLS, PEAP])
METHOD = {TTLS: "eap-ttls-mschapv2", PEAP: "peap-mschapv2"}
CHAP = avp(CHAP_PASSWORD, b"\x07" + bytes(16))

pytestmark = pytest.mark.usefixtures("everything_offered")


def assert_rejected(cell, tunnel, reason, *, method, identity):
    assert tunnel.code == ACCESS_REJECT
    record = cell.decision()
    assert (record.permitted, record.reason, record.method, record.identity) == (False, reason, method, identity)
    assert record.mac == tunnel.mac


def assert_nothing_permitted(cell, tunnel, **wanted):
    assert tunnel.code == ACCESS_REJECT
    assert cell.decision(**wanted).permitted is False


@both_versions
@pytest.mark.parametrize("padding", [b"", b"\0"])
def test_valid_login_is_permitted(cell, version, padding):
    """The password ends at its padding."""
    assert log_in_inside(cell.alpha, b"anna", RIGHT + padding, version=version).code == ACCESS_ACCEPT
    assert cell.decision().rule_id == "staff"


def say_identity(cell, name, *more):
    """Open EAP-TTLS and send the name inside by EAP, after other AVPs."""
    tunnel = Tunnel(cell.alpha).open()
    tunnel.say(b"".join(more) + avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, name)))
    return tunnel


def log_in_inside(tenant, name, password, *more, **options):
    """Open EAP-TTLS and log in by PAP."""
    tunnel = Tunnel(tenant, **options).open()
    tunnel.say(login(name, password) + b"".join(more))
    return tunnel


class TestNames:
    @pytest.mark.parametrize(
        ("name", "identity"),
        [
            (b"nobody\xff\xfe", "nobody=FF=FE"),
            (b"\xff", "=FF"),
            ("nobödy".encode(), "nobödy"),
            (b"x" * 253, "x" * 253),
            # The name is longer than an attribute, so radiusd omits it.
            (b"x" * 300, "anonymous"),
            (b"%{User-Name}", "%{User-Name}"),
            (b'back\\slash\n"quoted" `id`', 'back\\slash\n"quoted" `id`'),
            (b"anna ", "anna "),
            # The name ends at the NUL, which no name contains. It must match no user.
            (b"\0anna", "anonymous"),
        ],
    )
    def test_unusual_name_is_unknown(self, cell, name, identity):
        tunnel = log_in_inside(cell.alpha, name, RIGHT)
        assert_rejected(cell, tunnel, "unknown-user", method="eap-ttls-pap", identity=identity)

    @pytest.mark.parametrize(
        ("name", "identity"),
        [(b"nobody\xff\xfe", "nobody=FF=FE"), ("nobödy".encode(), "nobödy"), (b"x" * 300, "x" * 253)],
    )
    def test_unusual_name_is_unknown_with_eap_inside(self, cell, name, identity):
        tunnel = say_identity(cell, name)
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
        assert_nothing_permitted(cell, tunnel)

    def test_name_outside_ascii_is_admitted(self, cell):
        cell.put_user("änna=2")
        assert log_in_inside(cell.alpha, "Änna=2".encode(), RIGHT).code == ACCESS_ACCEPT
        assert cell.decision().request["user.name"] == ("änna=2",)

    @pytest.mark.parametrize(("name", "password"), [(PRINTER, PRINTER), ("02-A0-C0-00-00-01", ""), (PRINTER, PASSWORD)])
    def test_mac_address_inside_is_neither_device_nor_user(self, cell, name, password):
        cell.put_user(PRINTER)
        tunnel = log_in_inside(cell.alpha, name.encode(), password.encode(), mac=PRINTER, outer=PRINTER)
        assert_rejected(cell, tunnel, "unknown-user", method="eap-ttls-pap", identity=name)


class TestBypassOfEnabledMethods:
    @pytest.mark.parametrize("kind", [MD5, GTC, TLS, TTLS, PEAP])
    def test_no_other_eap_type_starts_inside(self, cell, kind):
        tunnel = say_identity(cell, b"anna")
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
        tunnel = say_identity(cell, b"anna")
        tunnel.say(avp(EAP_AVP, eap(RESPONSE, inner_identifier(tunnel), kind, bytes(17))))
        assert_nothing_permitted(cell, tunnel)

    @pytest.mark.parametrize(
        ("credentials", "method", "reason", "detail"),
        [
            (CHAP, "eap-ttls", "method-not-offered", "the device wants CHAP inside EAP-TTLS; offered here: "),
            (
                avp(1, bytes(50), vendor=MICROSOFT),
                "eap-ttls",
                "method-not-offered",
                "the device wants MS-CHAPv1 inside EAP-TTLS; offered here: ",
            ),
            (b"", "eap-ttls", "password-not-carried", "the tunnel has no password, or a password that is too long"),
            (
                avp(USER_PASSWORD, b"x" * 300),
                "eap-ttls",
                "password-not-carried",
                "the tunnel has no password, or a password that is too long",
            ),
            (
                avp(USER_PASSWORD, b"x" * 144),
                "eap-ttls-pap",
                "password-not-carried",
                "the password has 144 octets, the maximum of RADIUS is 128",
            ),
        ],
        ids=["CHAP", "MS-CHAPv1", "none", "300 octets", "144 octets"],
    )
    def test_unusable_credential_inside_gets_its_own_reason(self, cell, credentials, method, reason, detail):
        tunnel = Tunnel(cell.alpha).open()
        tunnel.say(avp(USER_NAME, b"anna") + credentials)
        assert_rejected(cell, tunnel, reason, method=method, identity="anna")
        assert cell.decision().detail.startswith(detail)

    @both_versions
    def test_empty_tunnel_is_rejected(self, cell, version):
        tunnel = Tunnel(cell.alpha, version=version).open()
        while tunnel.say() == ACCESS_CHALLENGE:
            continue
        assert_nothing_permitted(cell, tunnel)
        assert cell.decision().method == "eap-ttls"

    @pytest.mark.parametrize(
        "data",
        [
            *(b"\0" * 9, b"\xff" * 40, avp(USER_NAME, b"anna")[:9], avp(USER_PASSWORD, RIGHT), os.urandom(400)),
            # The server computes the challenge from the tunnel's keys (RFC 5281 11.2.2).
            avp(USER_NAME, b"anna") + CHAP + avp(CHAP_CHALLENGE, bytes(16)),
        ],
        ids=["zeros", "ones", "cut", "no-name", "noise", "own challenge"],
    )
    def test_random_data_inside_is_rejected(self, cell, data):
        tunnel = Tunnel(cell.alpha).open()
        tunnel.say(data)
        assert_nothing_permitted(cell, tunnel)

    @pytest.mark.parametrize("offered", ["eap-ttls-pap", "eap-ttls-mschapv2"])
    def test_disabled_inner_method_is_rejected(self, cell, offered):
        cell.set_slot(methods=(offered,))
        codes = (log_in_inside(cell.alpha, b"anna", RIGHT).code, say_identity(cell, b"anna").code)
        is_pap = offered == "eap-ttls-pap"
        assert codes == ((ACCESS_ACCEPT, ACCESS_REJECT) if is_pap else (ACCESS_REJECT, ACCESS_CHALLENGE))
        refused = cell.decision(permitted=False)
        wanted = "eap-ttls-mschapv2" if is_pap else "eap-ttls-pap"
        assert (refused.reason, refused.method) == ("method-not-offered", wanted)
        assert refused.detail == f"the device wants {wanted}; offered here: {offered}"


class TestIdentity:
    def test_name_and_eap_identity_inside_must_agree(self, cell):
        assert_nothing_permitted(cell, say_identity(cell, b"anna", avp(USER_NAME, b"guest")))

    def test_name_cannot_change_midway(self, cell):
        tunnel = say_identity(cell, b"guest")
        tunnel.say(avp(USER_NAME, b"anna") + avp(EAP_AVP, mschap_answer(tunnel, "guest", PASSWORD)))
        assert_nothing_permitted(cell, tunnel, identity="guest")

    def test_second_identity_cannot_replace_the_first(self, cell):
        """Each of the two users is permitted, and both have the same password."""
        tunnel = say_identity(cell, b"alpha-user")
        tunnel.say(avp(USER_NAME, b"anna") + avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, b"anna")))
        assert_nothing_permitted(cell, tunnel, identity="alpha-user")

    def test_outer_name_cannot_change_midway(self, cell):
        tunnel = Tunnel(cell.alpha).open()
        tunnel.outer = "another"
        tunnel.say(login(b"anna", RIGHT))
        assert_nothing_permitted(cell, tunnel)

    def test_place_stated_inside_the_tunnel_is_ignored(self, cell):
        lies = avp(CALLING_STATION_ID, PRINTER.encode()), avp(NAS_IDENTIFIER, b"switch-1"), avp(6, bytes((0, 0, 0, 10)))
        tunnel = log_in_inside(cell.alpha, b"anna", RIGHT, *lies)
        assert tunnel.code == ACCESS_ACCEPT
        record = cell.decision()
        assert (record.mac, record.nas_id, record.nas_identifier) == (tunnel.mac, "", "")
        assert "radius.Service-Type" not in record.request

    def test_state_of_another_inner_conversation_is_useless(self, cell):
        answer = mschap_answer(say_identity(cell, b"anna"), "anna", PASSWORD)
        second = Tunnel(cell.bravo).open()
        second.say(avp(USER_NAME, b"anna") + avp(24, os.urandom(16)) + avp(EAP_AVP, answer))
        assert_nothing_permitted(cell, second)


class TestPasswords:
    @pytest.mark.parametrize(
        "password",
        [
            *(b"", b"\0", RIGHT[:-1], RIGHT + b"x", RIGHT.upper(), b"\xff" * 20, b"\xff" * 80, b"x" * 128),
            b"\xff\xfe=3D",
        ],
    )
    def test_other_password_is_rejected(self, cell, password):
        tunnel = log_in_inside(cell.alpha, b"anna", password)
        assert_rejected(cell, tunnel, "wrong-password", method="eap-ttls-pap", identity="anna")

    @tunnels
    def test_failure_is_logged_whatever_the_signature(self, cell, kind):
        tunnel = open_mschap(cell.alpha, kind)
        say_eap(tunnel, kind, mschap_answer(tunnel, "anna", "wrong password", written=b"\xff\xfe\0anna"))
        while tunnel.code == ACCESS_CHALLENGE:
            tunnel.say(result_tlv(tunnel) or b"\x1a\x04" if kind == PEAP else b"")
        assert_rejected(cell, tunnel, "wrong-password", method=METHOD[kind], identity="anna")

    @tunnels
    def test_second_attempt_in_a_conversation_is_ignored(self, cell, kind):
        """`rlm_eap_mschapv2` would accept further attempts, and the limiter would count 50 guesses as one failure."""
        tunnel = open_mschap(cell.alpha, kind)
        say_eap(tunnel, kind, mschap_answer(tunnel, "anna", "wrong password"))
        assert tunnel.code == ACCESS_CHALLENGE
        say_eap(tunnel, kind, mschap_answer(tunnel, "anna", PASSWORD))
        assert b"S=" not in tunnel.heard
        finish(tunnel)
        assert_rejected(cell, tunnel, "wrong-password", method=METHOD[kind], identity="anna")


class TestResumption:
    @both_versions
    def test_tunnel_session_is_never_resumed(self, cell, version):
        first = log_in_inside(cell.alpha, b"anna", RIGHT, version=version)
        assert first.code == ACCESS_ACCEPT
        cell.put_user("anna", disabled=True)
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
    @tunnels
    def test_session_of_a_certificate_opens_no_tunnel(self, cell, version, kind):
        """`radiusd` 3.2.7 logs that the type has changed, but resumes the session (cbtls_get_session)."""
        device = Device(cell.alpha.clients["laptop"], version)
        device.visit(cell.alpha)
        _assert_not_resumed_into(cell, device.resume_in_tunnel(cell.alpha, kind))

    def test_name_in_a_resumed_session_requires_its_password(self, cell):
        """At the next acknowledgement, radiusd ends a resumed conversation as a success."""
        device = Device(cell.alpha.clients["laptop"], ssl.TLSVersion.TLSv1_3)
        device.visit(cell.alpha)
        cell.forget_records()
        tunnel = device.resume_in_tunnel(cell.alpha, TTLS).open()
        assert tunnel.tls.session_reused
        tunnel.say()
        tunnel.say(avp(EAP_AVP, eap(RESPONSE, 0, IDENTITY, b"anna")))
        while tunnel.code == ACCESS_CHALLENGE:
            tunnel.say()
        record = cell.decision()
        assert (record.permitted, record.reason, record.identity) == (False, "eap-failed", "anna")

    @both_versions
    def test_tunnel_session_is_no_certificate_session(self, cell, version):
        first = log_in_inside(cell.alpha, b"anna", RIGHT, version=version)
        assert first.code == ACCESS_ACCEPT
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
    assert cell.decisions(permitted=True, mac=tunnel.mac) == []


@tunnels
def test_user_blocked_midway_is_rejected_at_the_end(cell, kind):
    tunnel = open_mschap(cell.alpha, kind)
    cell.put_user("anna", disabled=True)
    say_eap(tunnel, kind, mschap_answer(tunnel, "anna", PASSWORD))
    assert b"S=" in tunnel.heard
    say_eap(tunnel, kind, eap(RESPONSE, tunnel.heard[9] if kind == TTLS else 0, MSCHAPV2, b"\x03"))
    assert finish(tunnel) == ACCESS_REJECT
    assert cell.decision().reason == "user-disabled"
