"""Limits of connections to the enrolment port, per client address. A load balancer may send the client's address."""

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from api.enrolment import tls_listener
from api.enrolment.__main__ import create_server
from api.enrolment.main import create_app
from cli import health
from nac.kit.db import TenantScope, session_scope
from nac.kit.settings import Settings
from nac.models import AuditEntry
from tests.api.test_proxy_protocol import binary
from tests.enrolment.enrolment_server import EstServer, make_settings, serving
from tests.polling import until
from tests.ports import free_row
from tests.postgres import Database


@pytest.fixture
def limited(database: Database, tmp_path: Path) -> Settings:
    return replace(make_settings(database, tmp_path), connections_per_source=3)


def connect(est: EstServer, stack: ExitStack, *, source: str = "127.0.0.1", first: bytes = b"") -> socket.socket:
    sock = stack.enter_context(socket.create_connection(("127.0.0.1", est.port), 10, source_address=(source, 0)))
    sock.sendall(first)
    return sock


def trusting(est: EstServer) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=est.ca)


def is_served(est: EstServer, sock: socket.socket, *, slug: str = "alpha") -> bool:
    """Whether TLS and a request succeed. The connection remains open."""
    try:
        wrapped = trusting(est).wrap_socket(sock, server_hostname="127.0.0.1")
        wrapped.sendall(f"GET /.well-known/est/{slug}/cacerts HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        served = wrapped.recv(12) == b"HTTP/1.1 200"
    except OSError:
        return False
    sock.detach()
    _open.append(wrapped)
    return served


_open: list[ssl.SSLSocket] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    for wrapped in _open:
        wrapped.close()
    _open.clear()


def test_idle_connections_do_not_block_other_clients(limited, tmp_path, alpha):
    with serving(limited, tmp_path) as est, ExitStack() as stack:
        for _ in range(3):
            connect(est, stack)
        assert not is_served(est, connect(est, stack))
        assert is_served(est, connect(est, stack, source="127.0.0.2"))


def test_connections_over_the_rate_limit_get_no_handshake(limited, tmp_path, alpha):
    settings = replace(limited, connections_per_source=0, public_requests_per_second=1)
    with serving(settings, tmp_path) as est, ExitStack() as stack:
        for _ in range(2):
            connect(est, stack)
        assert not is_served(est, connect(est, stack))
        assert is_served(est, connect(est, stack, source="127.0.0.2"))


def test_stalled_handshake_times_out_and_frees_its_slot(limited, tmp_path, alpha, monkeypatch):
    monkeypatch.setattr(tls_listener, "HANDSHAKE_TIMEOUT_SECONDS", 0.3)
    with serving(limited, tmp_path) as est, ExitStack() as stack:
        silent = [connect(est, stack) for _ in range(3)]
        for sock in silent:
            assert sock.recv(1) == b""
        # A connection with other data than TLS ends sooner.
        noisy = connect(est, stack, first=b"GET / HTTP/1.0\r\n\r\n")
        while noisy.recv(100):
            pass
        monkeypatch.setattr(tls_listener, "HANDSHAKE_TIMEOUT_SECONDS", 10.0)
        for _ in range(10):
            # The slot of the previous client is free shortly after this client disconnects.
            until(lambda: is_served(est, connect(est, stack)), "another is served")
            _open.pop().close()


def test_clients_behind_a_balancer_have_separate_limits(limited, tmp_path, alpha, app_engine):
    settings = replace(limited, enrolment_proxies="127.0.0.9")
    with serving(settings, tmp_path) as est, ExitStack() as stack:

        def by_balancer(header: bytes) -> bool:
            return is_served(est, connect(est, stack, source="127.0.0.9", first=header))

        assert [by_balancer(binary("192.0.2.7")) for _ in range(4)] == [True] * 3 + [False]
        assert by_balancer(b"PROXY TCP4 192.0.2.8 198.51.100.1 56324 443\r\n")
        # The health check of the load balancer. Connections without a header are not from the load balancer.
        assert by_balancer(b"PROXY UNKNOWN\r\n")
        assert not by_balancer(b"")
        # Other hosts cannot set the client address.
        assert not is_served(est, connect(est, stack, first=binary("192.0.2.9")))
        assert is_served(est, connect(est, stack))
        _refused_enrolment(est, connect(est, stack, source="127.0.0.9", first=binary("192.0.2.10")))
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        actors = session.scalars(
            select(AuditEntry.actor).where(AuditEntry.action == "enrolment-secret.refuse").order_by(AuditEntry.id)
        ).all()
    assert actors == ["est:192.0.2.10"]


def _refused_enrolment(est: EstServer, sock: socket.socket) -> None:
    connection = http.client.HTTPSConnection("127.0.0.1", est.port)
    connection.sock = trusting(est).wrap_socket(sock, server_hostname="127.0.0.1")
    headers = {"Authorization": "Basic eDp5", "Content-Type": "application/pkcs10"}
    connection.request("POST", "/.well-known/est/alpha/simpleenroll", body=b"", headers=headers)
    assert connection.getresponse().status == 401
    connection.close()


def test_port_in_use_is_reported(limited, caplog):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = replace(limited, api_port=port - 2)
        server = create_server(create_app(settings), settings, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        with pytest.raises(SystemExit):
            server.run()
    assert f"cannot listen on 127.0.0.1, port {port}: " in caplog.text


def test_enrolment_listens_on_both_families(limited, tmp_path):
    settings = replace(limited, api_port=free_row(udp=0, tcp=4), listen_address="::")
    with serving(settings, tmp_path, port=settings.enrolment_port):
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, settings.enrolment_port), 10) as connection:
                assert connection.getpeername()[0] == host
        assert health._enrolment(settings) == ""


@pytest.mark.parametrize("proxies", ["", "127.0.0.0/8"])
def test_health_check_works_where_the_host_is_the_balancer(limited, tmp_path, proxies):
    settings = replace(limited, enrolment_proxies=proxies)
    with serving(settings, tmp_path) as est:
        # This port is the third of three ports.
        assert health._enrolment(replace(settings, api_port=est.port - 2)) == ""
