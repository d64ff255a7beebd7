"""The connection of commands to the API: tokens, the operator key, and values that HTTP cannot carry."""

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import pytest

from cli import procfs
from cli.layout import var_dir
from cli.remote.local_api import connect
from nac.accounts.operator_tokens import OperatorToken, get_key_file
from nac.kit.errors import InvalidInput
from tests.cli.conftest import Admit
from tests.polling import until

OF = ("-t", "alpha")
NOBODY = 65_534
LISTEN = f"""
import os, socket, sys
os.setuid({NOBODY})
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    if sys.argv[1] == "closes":
        connection, _ = listener.accept()
        listener.close()
        print(connection.recv(10_000).decode(), flush=True)
    sys.stdin.read()
"""


def test_token_is_made_for_each_request(alpha: Admit, monkeypatch: pytest.MonkeyPatch) -> None:
    reveal = OperatorToken.reveal
    api = connect()
    made: list[str] = []
    monkeypatch.setattr(OperatorToken, "reveal", lambda token: made.append(token.mac) or reveal(token))
    assert api.get("/v1/cells")["items"] == api.get("/v1/cells")["items"]
    assert len(made) == 2


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to run a process of another user")
@pytest.mark.parametrize("behaviour", ["listens", "closes"])
def test_port_of_another_user_gets_no_token(alpha: Admit, installation: pytest.MonkeyPatch, behaviour: str) -> None:
    """A listener that closes after it accepted the connection no longer appears as the owner of the port."""
    command = [sys.executable, "-c", LISTEN, behaviour]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdin is not None
        assert stranger.stdout is not None
        port = int(stranger.stdout.readline())
        installation.setenv("ADMIT_API_PORT", str(port))
        if behaviour == "closes":
            installation.setattr(HTTPConnection, "connect", _connect_slowly)
        refused = alpha.run("site", "list", *OF)
        received = stranger.stdout.readline() if behaviour == "closes" else b""
        stranger.stdin.close()
    assert refused.exit_code == 1
    assert f"belongs to a process of user {NOBODY}" in refused.stderr
    assert received.strip() == b""


def _connect_slowly(connection: HTTPConnection) -> None:
    """Connect, and wait until the other end has accepted the connection and listens no more."""
    connection.sock = socket.create_connection((connection.host, connection.port))
    until(lambda: NOBODY in procfs.find_server_users(connection.sock), "accepted connection")
    until(lambda: not _is_listening(connection.port), "closed listener")


def _is_listening(port: int | None) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_server_users_are_found_on_any_address() -> None:
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as listener,
        socket.create_connection(listener.getsockname()[:2]) as client,
    ):
        assert procfs.find_server_users(client) == {os.getuid(), 0}
        with listener.accept()[0]:
            listener.close()
            assert procfs.find_server_users(client) == {os.getuid()}


@pytest.mark.parametrize("content", ["", "not hexadecimal", "ab", "é"])
def test_damaged_operator_key_has_a_remedy(alpha: Admit, installation: pytest.MonkeyPatch, content: str) -> None:
    key = get_key_file(var_dir())
    key.write_text(content)
    assert "is damaged" in (refused := alpha.run("site", "list", *OF)).stderr
    assert (refused.exit_code, "./admit up" in refused.stderr) == (1, True)
    key.unlink()
    assert "operator.key is missing" in alpha.run("site", "list", *OF).stderr


@pytest.mark.parametrize("token", ["", " ", "a\nb", "€"])
def test_invalid_token_is_not_the_operator(alpha: Admit, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("ADMIT_API_TOKEN", token)
    refused = alpha.run("site", "list", *OF)
    assert (refused.exit_code, "empty or has invalid characters" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (("site", "show", "", *OF), "The value is empty"),
        (("site", "show", "\udcff", *OF), "not valid UTF-8"),
        (("site", "list", "-t", "\udcff"), "not valid UTF-8"),
        (("api", "update-site", "alpha", "x", "--if-match", "a\r\nb", "--name", "y"), "printable ASCII"),
    ],
)
def test_value_that_http_cannot_carry_is_rejected(alpha: Admit, arguments: tuple[str, ...], place: str) -> None:
    refused = alpha.run(*arguments)
    assert (refused.exit_code, refused.exception.__class__) == (2, SystemExit)
    assert place in refused.stderr


@pytest.mark.parametrize("url", ["http://[::1", "http://a:b"])
def test_invalid_url_is_rejected(alpha: Admit, url: str) -> None:
    with pytest.raises(InvalidInput, match="Invalid URL"):
        connect(url).get("/v1/cells")


@pytest.mark.parametrize("url", ["ftp://x", "http://[::1", "http://127.0.0.1:1"])
def test_unusable_url_is_reported_at_its_variable(alpha: Admit, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("ADMIT_API_URL", url)
    refused = alpha.run("site", "list", *OF)
    assert "ADMIT_API_URL" in refused.stderr
    assert "--url" not in refused.stderr


def test_server_cannot_control_the_terminal(alpha: Admit, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("ADMIT_API_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(_answer, listener, b"\x1b[2J\r\n\r\n")
            refused = alpha.run("site", "list", *OF)
    assert refused.exit_code == 1
    assert "\\x1b[2J" in refused.stderr
    assert "\x1b" not in refused.stderr


def _answer(listener: socket.socket, content: bytes) -> None:
    with listener.accept()[0] as connection:
        connection.recv(10_000)
        connection.sendall(content)
