"""Addresses of identity sources that Admit may contact."""

import threading

import pytest

from nac.kit.outbound.reach import DEFAULT_REACH
from tests.identities.conftest import ANNA, ANNAS_PASSWORD
from tests.identities.test_directory import build_source_client, response_of, responses_of
from tests.outbound.listener import has_connected, listening


@pytest.fixture
def listener():
    with listening() as listener:
        yield listener


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "[::ffff:127.0.0.1]"])
def test_blocked_directory_address_is_never_contacted(listener, host):
    url = f"ldap://{host}:{listener.getsockname()[1]}"
    document = {"urls": [url], "allow_unencrypted": True, "base_dn": "dc=corp"}
    (answer,) = responses_of(
        lambda: build_source_client("corp", "ldap", document, b"", DEFAULT_REACH), "anna", "secret"
    )
    assert answer.reason == "directory-refused"
    assert "a loopback address; Admit does not connect to this address" in answer.detail
    assert "ADMIT_OUTBOUND_NETWORKS" in answer.detail
    assert not has_connected(listener)


def test_server_without_tls_is_reported(listener):
    def answer():
        connection, _ = listener.accept()
        with connection:
            connection.recv(1)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    listener.settimeout(5)
    thread = threading.Thread(target=answer)
    thread.start()
    told = response_of({"urls": [f"ldaps://127.0.0.1:{listener.getsockname()[1]}"], "base_dn": "dc=corp"}, "anna", "x")
    thread.join()
    assert told.reason == "directory-unavailable"
    assert "WRONG_VERSION_NUMBER" in told.detail


def test_second_server_is_used_if_the_first_is_blocked(document, directory):
    urls = ["ldaps://169.254.169.254", directory.ldaps]
    assert response_of(document | {"urls": urls}, ANNA, ANNAS_PASSWORD).verified


def test_blocked_provider_address_is_never_contacted(listener):
    here = f"https://localhost:{listener.getsockname()[1]}/"
    settings = {"issuer": "https://login.example", "client_id": "admit", "token_endpoint": here, "jwks_uri": here}
    (answer,) = responses_of(
        lambda: build_source_client("idp", "oidc", settings, b"x", DEFAULT_REACH), "anna", "secret"
    )
    assert answer.reason == "directory-refused"
    assert "a loopback address" in answer.detail
    assert not has_connected(listener)
