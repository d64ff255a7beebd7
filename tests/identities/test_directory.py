"""Logins with a real slapd: accepted users, their groups, and the reasons for rejections."""

import asyncio
import os
import signal

import pytest

from nac.cellformat.identity_names import name_for_realms
from nac.inventory.identity_sources.verification import build_source_client, verify_password
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from tests.identities.conftest import ANNA, ANNAS_PASSWORD, HERE
from tests.identities.slapd import BASE, SERVICE_PASSWORD


def responses_of(make, name, password, *, times=1) -> list[VerificationResult]:
    """Responses of one source to sequential logins."""

    async def run():
        source = make()
        try:
            addressed = name_for_realms(name, source.settings.realms)
            assert addressed is not None
            raw = password if isinstance(password, bytes) else password.encode()
            return [await verify_password(source, addressed, raw, source_name="corp") for _ in range(times)]
        finally:
            await source.close()

    return asyncio.run(run())


def response_of(document, name, password, *, secret=SERVICE_PASSWORD) -> VerificationResult:
    return responses_of(lambda: build_source_client("corp", "ldap", document, secret.encode(), HERE), name, password)[0]


def reason(document, name, password, **options) -> str:
    return response_of(document, name, password, **options).reason


class TestRightPassword:
    def test_user_is_returned_with_name_and_groups(self, document):
        answer = response_of(document, "ANNA", ANNAS_PASSWORD)
        assert answer.verified
        assert (answer.source, answer.name) == ("corp", ANNA)
        assert set(answer.groups) == {"staff", "B, C+D"}

    def test_groups_by_search_are_the_same(self, document):
        answer = response_of(document | {"groups": "search"}, ANNA, ANNAS_PASSWORD)
        assert set(answer.groups) == {"staff", "B, C+D"}

    def test_groups_can_be_disabled_or_filtered(self, document):
        assert response_of(document | {"groups": "none"}, ANNA, ANNAS_PASSWORD).groups == ()
        assert response_of(document | {"only_groups": ["st*"]}, ANNA, ANNAS_PASSWORD).groups == ("staff",)

    def test_missing_nested_group_support_is_reported(self, document):
        steps = []

        async def run():
            source = build_source_client(
                "corp", "ldap", document | {"groups": "nested"}, SERVICE_PASSWORD.encode(), HERE
            )
            try:
                name = name_for_realms(ANNA, source.settings.realms)
                return await verify_password(
                    source, name, ANNAS_PASSWORD.encode(), source_name="corp", tell=steps.append
                )
            finally:
                await source.close()

        answer = asyncio.run(run())
        assert (answer.verified, answer.groups) == (True, ())
        assert "set groups to memberof or search" in steps[-1]

    def test_attributes_are_named_by_the_source_settings(self, document):
        mapped = document | {"attributes": {"department": "departmentNumber", "floor": "roomNumber"}}
        assert response_of(mapped, ANNA, ANNAS_PASSWORD).attributes == {"department": ("IT",)}

    @pytest.mark.parametrize(("name", "password"), [("zoë", "pässwörd ☕"), ("odd*name)(uid=anna", "odd password")])
    def test_name_with_special_characters_is_found(self, document, name, password):
        answer = response_of(document, name, password)
        assert (answer.verified, answer.name) == (True, name)

    def test_start_tls_works(self, document, directory):
        assert response_of(document | {"urls": [directory.ldap], "start_tls": True}, ANNA, ANNAS_PASSWORD).verified

    def test_own_realm_is_stripped_from_the_name(self, document):
        mine = document | {"realms": ["corp.example", "CORP"]}
        assert response_of(mine, "anna@CORP.example", ANNAS_PASSWORD).verified
        assert response_of(mine, "corp\\anna", ANNAS_PASSWORD).verified
        assert reason(document, "anna@corp.example", ANNAS_PASSWORD) == "unknown-user"

    def test_connections_are_reused_and_replaced_after_a_restart(self, document, directory):
        async def run():
            source = build_source_client("corp", "ldap", document, SERVICE_PASSWORD.encode(), HERE)
            name = name_for_realms(ANNA, ())
            answers = [await verify_password(source, name, ANNAS_PASSWORD.encode(), source_name="corp")]
            directory.stop()
            directory.start()
            answers.append(await verify_password(source, name, ANNAS_PASSWORD.encode(), source_name="corp"))
            await source.close()
            return answers

        assert [answer.reason for answer in asyncio.run(run())] == ["", ""]

    def test_second_server_is_used_if_the_first_is_down(self, document, directory):
        urls = ["ldaps://127.0.0.1:1", directory.ldaps]
        assert response_of(document | {"urls": urls}, ANNA, ANNAS_PASSWORD).verified


class TestWrongCredentials:
    @pytest.mark.parametrize("password", ["wrong", "", "\0", "\0" + ANNAS_PASSWORD, ANNAS_PASSWORD + "\0", b"\xff\xfe"])
    def test_wrong_password_is_rejected(self, document, password):
        assert reason(document, ANNA, password) == "wrong-password"

    @pytest.mark.parametrize(
        "name", ["nobody", "*", "anna*", "*)(uid=*", "anna)(|(uid=*", "\\2a", "a\0", "{user}", "admit"]
    )
    def test_unknown_name_is_rejected(self, document, name):
        assert reason(document, name, ANNAS_PASSWORD) == "unknown-user"


class TestFailingDirectory:
    def test_wrong_service_account_is_an_error(self, document):
        answer = response_of(document, ANNA, ANNAS_PASSWORD, secret="not the password")
        assert answer.reason == "directory-refused"
        assert "invalidCredentials" in answer.detail
        assert "not the password" not in answer.detail

    def test_missing_base_dn_is_an_error(self, document):
        answer = response_of(document | {"base_dn": f"ou=nowhere,{BASE}"}, ANNA, ANNAS_PASSWORD)
        assert (answer.reason, "noSuchObject" in answer.detail) == ("directory-refused", True)

    def test_filter_with_two_matches_is_an_error(self, document):
        answer = response_of(document | {"user_filter": "(|(uid={user})(uid=bert))"}, ANNA, ANNAS_PASSWORD)
        assert (answer.reason, "more than one" in answer.detail) == ("directory-refused", True)

    def test_certificate_of_another_ca_is_rejected(self, document):
        answer = response_of(document | {"ca_certificate": ""}, ANNA, ANNAS_PASSWORD)
        assert (answer.reason, "certificate" in answer.detail) == ("directory-unavailable", True)

    def test_certificate_for_another_name_is_rejected(self, document, directory):
        urls = [f"ldaps://127.0.0.2:{directory.ldaps_port}"]
        assert reason(document | {"urls": urls}, ANNA, ANNAS_PASSWORD) == "directory-unavailable"

    def test_closed_port_is_unavailable(self, document):
        answer = response_of(document | {"urls": ["ldaps://127.0.0.1:1"]}, ANNA, ANNAS_PASSWORD)
        assert (answer.reason, "refused" in answer.detail) == ("directory-unavailable", True)

    def test_unresolvable_host_is_unavailable(self, document):
        answer = response_of(document | {"urls": ["ldaps://no-such-host.invalid"], "time_limit_seconds": 8}, ANNA, "x")
        assert answer.reason in ("directory-unavailable", "directory-slow")

    def test_frozen_server_times_out_and_recovers(self, document, directory):
        hurried = document | {"time_limit_seconds": 0.5}

        async def run():
            source = build_source_client("corp", "ldap", hurried, SERVICE_PASSWORD.encode(), HERE)
            name = name_for_realms(ANNA, ())
            os.kill(directory.pid, signal.SIGSTOP)
            try:
                stopped = await verify_password(source, name, ANNAS_PASSWORD.encode(), source_name="corp")
            finally:
                os.kill(directory.pid, signal.SIGCONT)
            later = await verify_password(source, name, ANNAS_PASSWORD.encode(), source_name="corp")
            await source.close()
            return stopped, later

        stopped, later = asyncio.run(run())
        assert (stopped.reason, stopped.detail) == ("directory-slow", "no answer within 0.5 s")
        assert later.verified
