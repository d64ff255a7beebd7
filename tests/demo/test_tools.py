"""The tools of the demo, run against sockets that the test opens."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from cli.demo.tools import (
    RadiusServer,
    ToolFailed,
    ask_without_message_authenticator,
    demo_source_attributes,
    md5_supplicant,
    run_eapol_test,
    run_radclient,
    tls_supplicant,
)
from nac.kit import radius_packet as packet
from nac.kit.request_sources import DEMO_ADDRESS

SECRET = "a secret of the test"


@dataclass
class Listener:
    """Records received datagrams and responds with `reply`, if any."""

    server: RadiusServer
    reply: bytes = b""
    requests: list[bytes] = field(default_factory=list)
    senders: set[str] = field(default_factory=set)


@pytest.fixture
def listener() -> Iterator[Listener]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.settimeout(0.05)
        port = bound.getsockname()[1]
        found = Listener(RadiusServer("127.0.0.1", port, port, SECRET))
        stop = threading.Event()

        def listen() -> None:
            while not stop.is_set():
                try:
                    request, sender = bound.recvfrom(4096)
                except TimeoutError:
                    continue
                found.requests.append(request)
                found.senders.add(sender[0])
                if found.reply:
                    bound.sendto(found.reply, sender)

        thread = threading.Thread(target=listen)
        thread.start()
        yield found
        stop.set()
        thread.join()


def test_radclient_without_response_is_a_timeout(listener: Listener) -> None:
    assert run_radclient(listener.server, "auth", [("User-Name", "a")], timeout_seconds=1) is None
    assert packet.MESSAGE_AUTHENTICATOR in dict(packet.parse_attributes(listener.requests[0]))


def test_wrong_secret_is_tried_from_an_own_address(listener: Listener) -> None:
    request = {"User-Name": "x", "User-Password": "y"} | demo_source_attributes(listener.server)
    assert run_radclient(listener.server, "auth", request.items(), timeout_seconds=1) is None
    assert listener.senders == {str(DEMO_ADDRESS)}
    # No response returns to this address.
    for host in ("::1", "192.0.2.1"):
        assert demo_source_attributes(replace(listener.server, host=host)) == {}


def test_radclient_with_an_invalid_value_is_an_error(listener: Listener) -> None:
    with pytest.raises(ToolFailed, match="Session-Timeout"):
        run_radclient(listener.server, "auth", [("Session-Timeout", "an hour")], timeout_seconds=1)
    assert listener.requests == []


def test_radclient_sends_values_unchanged(listener: Listener) -> None:
    name = 'DOMAIN\\o"hara'
    run_radclient(listener.server, "auth", [("User-Name", name)], timeout_seconds=1)
    assert dict(packet.parse_attributes(listener.requests[0]))[packet.USER_NAME] == name.encode()


def test_eapol_without_response_is_no_success(listener: Listener) -> None:
    given = {"mac": "00:00:5e:00:53:01", "port_id": "port-7"}
    result = run_eapol_test(listener.server, md5_supplicant("00005e005301"), **given, timeout_seconds=1)
    assert (result.success, result.answers) == (False, ())
    sent = dict(packet.parse_attributes(listener.requests[0]))
    assert sent[packet.NAS_PORT_ID] == b"port-7"
    assert sent[packet.CALLING_STATION_ID] == b"00-00-5E-00-53-01"


def test_old_nas_request_lacks_only_message_authenticator(listener: Listener) -> None:
    def ask() -> bool:
        given = {"user_name": "printer", "password": "of the printer", "port_id": "p"}
        return ask_without_message_authenticator(listener.server, **given, timeout_seconds=0.3)

    assert not ask()
    assert listener.senders == {str(DEMO_ADDRESS)}
    (request,) = listener.requests
    sent = dict(packet.parse_attributes(request))
    assert int.from_bytes(request[2:4]) == len(request)
    assert packet.MESSAGE_AUTHENTICATOR not in sent
    assert sent[packet.USER_NAME] == b"printer"
    hidden = packet.hide_password(b"of the printer", request[4:20], SECRET.encode())
    assert sent[packet.USER_PASSWORD] == hidden[2:]
    listener.reply = b"anything"
    assert ask()


def test_old_nas_separates_a_closed_port_from_a_timeout() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    server, given = RadiusServer("127.0.0.1", port, port, SECRET), {"user_name": "a", "password": "b", "port_id": "c"}
    with pytest.raises(ToolFailed, match="No server listens"):
        ask_without_message_authenticator(server, **given, timeout_seconds=1)


def test_supplicant_file_with_a_quoted_value_is_rejected() -> None:
    with pytest.raises(ValueError, match="cannot hold"):
        tls_supplicant(identity='a" b', trusted=Path("ca"), certificate=Path("c"), key=Path("k"))
