"""Logins with a real slapd: accepted users, their groups, and the reasons for rejections."""

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from nac.cellformat.identity_names import name_for_realms
from nac.inventory.identity_sources.verification import build_source_client, verify_password
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit.outbound.reach import DEFAULT_REACH
from tests.identities.conftest import ANNA, ANNAS_PASSWORD, HERE
from tests.identities.slapd import BASE, SERVICE_PASSWORD
from tests.outbound.listener import has_connected, listening

T = TypeVar("T")


async def verify(source: Any, name: str = ANNA, password: str | bytes = ANNAS_PASSWORD, **more: Any):
    addressed = name_for_realms(name, source.settings.realms)
    assert addressed is not None
    raw = password if isinstance(password, bytes) else password.encode()
    return await verify_password(source, addressed, raw, source_name="corp", **more)


def with_source(
    document: dict[str, object],
    use: Callable[[Any], Awaitable[T]],
    *,
    kind: str = "ldap",
    secret: str = SERVICE_PASSWORD,
    reach=HERE,
) -> T:
    """The result of `use`, which gets a source with these settings."""

    async def run() -> T:
        source = build_source_client("corp", kind, document, secret.encode(), reach)
        try:
            return await use(source)
        finally:
            await source.close()

    return asyncio.run(run())


def response_of(document, name=ANNA, password=ANNAS_PASSWORD, **options) -> VerificationResult:
    return with_source(document, lambda source: verify(source, name, password), **options)


class TestRightPassword:
    def test_user_is_returned_with_name_and_groups(self, document):
        answer = response_of(document, "ANNA")
        assert answer.verified
        assert (answer.source, answer.name) == ("corp", ANNA)
        assert set(answer.groups) == {"staff", "B, C+D"}

    @pytest.mark.parametrize(
        ("changed", "groups"),
        [
            ({"groups": "search"}, {"staff", "B, C+D"}),
            ({"groups": "none"}, set()),
            ({"only_groups": ["st*"]}, {"staff"}),
        ],
    )
    def test_groups_are_found_as_configured(self, document, changed, groups):
        assert set(response_of(document | changed).groups) == groups

    def test_missing_nested_group_support_is_reported(self, document):
        steps = []
        answer = with_source(document | {"groups": "nested"}, lambda source: verify(source, report=steps.append))
        assert (answer.verified, answer.groups) == (True, ())
        assert "set groups to memberof or search" in steps[-1]

    def test_attributes_are_named_by_the_source_settings(self, document):
        mapped = document | {"attributes": {"department": "departmentNumber", "floor": "roomNumber"}}
        assert response_of(mapped).attributes == {"department": ("IT",)}

    @pytest.mark.parametrize(("name", "password"), [("zoë", "pässwörd ☕"), ("odd*name)(uid=anna", "odd password")])
    def test_name_with_special_characters_is_found(self, document, name, password):
        answer = response_of(document, name, password)
        assert (answer.verified, answer.name) == (True, name)

    def test_start_tls_works(self, document, directory):
        assert response_of(document | {"urls": [directory.ldap], "start_tls": True}).verified

    def test_own_realm_is_stripped_from_the_name(self, document):
        mine = document | {"realms": ["corp.example", "CORP"]}
        assert response_of(mine, "anna@CORP.example").verified
        assert response_of(mine, "corp\\anna").verified
        assert response_of(document, "anna@corp.example").reason == "unknown-user"

    def test_connections_are_reused_and_replaced_after_a_restart(self, document, directory):
        async def use(source):
            first = await verify(source)
            directory.stop()
            directory.start()
            return [first, await verify(source)]

        assert [answer.reason for answer in with_source(document, use)] == ["", ""]

    @pytest.mark.parametrize("first", ["ldaps://127.0.0.1:1", "ldaps://169.254.169.254"], ids=["down", "blocked"])
    def test_second_server_is_used_after_the_first(self, document, directory, first):
        assert response_of(document | {"urls": [first, directory.ldaps]}).verified


class TestWrongCredentials:
    @pytest.mark.parametrize("password", ["wrong", "", "\0", "\0" + ANNAS_PASSWORD, ANNAS_PASSWORD + "\0", b"\xff\xfe"])
    def test_wrong_password_is_rejected(self, document, password):
        assert response_of(document, ANNA, password).reason == "wrong-password"

    @pytest.mark.parametrize(
        "name", ["nobody", "*", "anna*", "*)(uid=*", "anna)(|(uid=*", "\\2a", "a\0", "{user}", "admit"]
    )
    def test_unknown_name_is_rejected(self, document, name):
        assert response_of(document, name).reason == "unknown-user"


class TestFailingDirectory:
    def test_wrong_service_account_is_an_error(self, document):
        answer = response_of(document, secret="not the password")
        assert answer.reason == "directory-refused"
        assert "invalidCredentials" in answer.detail
        assert "not the password" not in answer.detail

    @pytest.mark.parametrize(
        ("changed", "reason", "detail"),
        [
            ({"base_dn": f"ou=nowhere,{BASE}"}, "directory-refused", "noSuchObject"),
            ({"user_filter": "(|(uid={user})(uid=bert))"}, "directory-refused", "more than one"),
            # The certificate of another authority.
            ({"ca_certificate": ""}, "directory-unavailable", "certificate"),
            ({"urls": ["ldaps://127.0.0.1:1"]}, "directory-unavailable", "refused"),
        ],
    )
    def test_unusable_directory_is_an_error(self, document, changed, reason, detail):
        answer = response_of(document | changed)
        assert (answer.reason, detail in answer.detail) == (reason, True)

    def test_certificate_for_another_name_is_rejected(self, document, directory):
        urls = [f"ldaps://127.0.0.2:{directory.ldaps_port}"]
        assert response_of(document | {"urls": urls}).reason == "directory-unavailable"

    def test_unresolvable_host_is_unavailable(self, document):
        answer = response_of(document | {"urls": ["ldaps://no-such-host.invalid"], "time_limit_seconds": 8})
        assert answer.reason in ("directory-unavailable", "directory-slow")

    def test_frozen_server_times_out_and_recovers(self, document, directory):
        async def use(source):
            os.kill(directory.pid, signal.SIGSTOP)
            try:
                stopped = await verify(source)
            finally:
                os.kill(directory.pid, signal.SIGCONT)
            return stopped, await verify(source)

        stopped, later = with_source(document | {"time_limit_seconds": 0.5}, use)
        assert (stopped.reason, stopped.detail) == ("directory-slow", "no answer within 0.5 s")
        assert later.verified


class TestBlockedAddresses:
    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "[::ffff:127.0.0.1]"])
    def test_blocked_directory_address_is_never_contacted(self, host):
        with listening() as listener:
            url = f"ldap://{host}:{listener.getsockname()[1]}"
            document = {"urls": [url], "allow_unencrypted": True, "base_dn": "dc=corp"}
            answer = response_of(document, secret="", reach=DEFAULT_REACH)
            assert not has_connected(listener)
        assert answer.reason == "directory-refused"
        assert "a loopback address; Admit does not connect to this address" in answer.detail
        assert "ADMIT_OUTBOUND_NETWORKS" in answer.detail

    def test_blocked_provider_address_is_never_contacted(self):
        with listening() as listener:
            here = f"https://localhost:{listener.getsockname()[1]}/"
            settings = {"issuer": "https://login.example", "client_id": "admit"}
            settings |= {"token_endpoint": here, "jwks_uri": here}
            answer = response_of(settings, kind="oidc", reach=DEFAULT_REACH)
            assert not has_connected(listener)
        assert answer.reason == "directory-refused"
        assert "a loopback address" in answer.detail

    def test_server_without_tls_is_reported(self):
        with listening() as listener:

            def answer():
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

            listener.settimeout(5)
            thread = threading.Thread(target=answer)
            thread.start()
            told = response_of({"urls": [f"ldaps://127.0.0.1:{listener.getsockname()[1]}"], "base_dn": "dc=corp"})
            thread.join()
        assert told.reason == "directory-unavailable"
        assert "WRONG_VERSION_NUMBER" in told.detail
