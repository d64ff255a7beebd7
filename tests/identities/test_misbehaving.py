"""Directories that send false, slow, invalid or too large responses, and the error codes of Active Directory."""

import asyncio
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nac.cellformat.identity_names import UserName
from nac.inventory.identity_sources.faults import DirectoryRefused
from nac.inventory.identity_sources.ldap import ber, messages
from nac.inventory.identity_sources.ldap.messages import (
    BIND_RESPONSE,
    SEARCH_DONE,
    SEARCH_ENTRY,
    parse_entry,
    parse_message,
    parse_result,
)
from nac.inventory.identity_sources.ldap_directory import first_rdn_value
from nac.inventory.identity_sources.settings import OidcSettings
from nac.inventory.identity_sources.verification import verify_password
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from tests.identities.servers import entry, kind_of, ldap_server, number_of, reply, result
from tests.identities.test_directory import response_of
from tests.run_depth import examples

BASE = "ou=people,dc=corp,dc=example"
ANNA = f"uid=anna,{BASE}"
_BIND, _SEARCH = 0x60, 0x63


def document(url, **changed):
    return {"urls": [url], "allow_unencrypted": True, "base_dn": BASE, "time_limit_seconds": 1} | changed


def honest(message, *, code=0, text=""):
    """A response of a server that has the user anna and answers anna's bind with `code`. Other binds fail."""
    number, kind = number_of(message), kind_of(message)
    if kind == _SEARCH:
        return entry(number, ANNA, uid="anna") + result(number, SEARCH_DONE, 0)
    if kind == _BIND:
        return result(number, BIND_RESPONSE, code if ANNA.encode() in message else 49, text)
    return None


def verify_against(respond, **changed):
    with ldap_server(respond) as url:
        return response_of(document(url, **changed), "anna", "secret")


def test_correct_response_is_accepted():
    assert verify_against(honest).verified


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("525", "unknown-user"),
        ("52e", "wrong-password"),
        ("530", "login-not-permitted"),
        ("532", "password-expired"),
        ("533", "account-disabled"),
        ("701", "account-expired"),
        ("773", "password-must-change"),
        ("775", "account-locked"),
        ("99999", "wrong-password"),
    ],
)
def test_active_directory_reasons_are_recognised(data, reason):
    text = f"80090308: LdapErr: DSID-0C090446, comment: AcceptSecurityContext error, data {data}, v4563\0"
    answer = verify_against(lambda message: honest(message, code=49, text=text))
    assert (answer.reason, answer.source) == (reason, "corp")


IN_CHAIN = b"1.2.840.113556.1.4.1941"


def active_directory(message):
    """A response of Active Directory, which resolves nested groups by its own matching rule.

    The test checks the rule.
    """
    if kind_of(message) == _SEARCH and IN_CHAIN in message:
        assert ANNA.encode() in message
        number = number_of(message)
        found = b"".join(entry(number, f"cn={name},{BASE}", cn=name) for name in ("WLAN-Staff", "Everybody"))
        return found + result(number, SEARCH_DONE, 0)
    return honest(message)


def test_active_directory_nested_groups_are_resolved():
    assert verify_against(active_directory, groups="nested").groups == ("WLAN-Staff", "Everybody")
    assert verify_against(active_directory, groups="nested", only_groups=["WLAN-*"]).groups == ("WLAN-Staff",)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (32, "unknown-user"),
        (19, "account-locked"),
        (53, "account-locked"),
        (51, "directory-unavailable"),
        (52, "directory-unavailable"),
        (8, "directory-refused"),
        (10, "directory-refused"),
        (1, "directory-refused"),
        (4096, "directory-refused"),
    ],
)
def test_other_bind_results_admit_nobody(code, reason):
    assert verify_against(lambda message: honest(message, code=code)).reason == reason


def test_direct_bind_uses_the_user_and_reads_its_entry():
    binds = []

    def respond(message):
        number, kind = number_of(message), kind_of(message)
        if kind == _BIND:
            binds.append(message)
            return result(number, BIND_RESPONSE, 0 if b"anna@corp.example" in message else 49)
        return entry(number, ANNA, uid="anna", memberOf=f"cn=Domain Users,{BASE}") + result(number, SEARCH_DONE, 0)

    answer = verify_against(respond, direct_bind="{user}@corp.example")
    assert (answer.verified, answer.groups) == (True, ("Domain Users",))
    assert b"anna@corp.example" in binds[0]


def searched(found):
    """A server like `honest`, whose response to a search is `found(number)`."""
    return lambda message: found(number_of(message)) if kind_of(message) == _SEARCH else honest(message)


def done(number):
    return result(number, SEARCH_DONE, 0)


def test_server_that_accepts_any_password_admits_nobody():
    def respond(message):
        return result(number_of(message), BIND_RESPONSE, 0) if kind_of(message) == _BIND else honest(message)

    answer = verify_against(respond)
    assert (answer.reason, "accepts any" in answer.detail) == ("directory-refused", True)


@pytest.mark.parametrize("dn", ["", "uid=root,dc=elsewhere", BASE, f"x{BASE}", "cn=admin,dc=corp,dc=example"])
def test_entry_outside_the_base_is_rejected(dn):
    assert verify_against(searched(lambda n: entry(n, dn, uid="anna") + done(n))).reason == "directory-refused"


@pytest.mark.parametrize(
    ("found", "detail"),
    [
        (lambda n: done(n + 1), ""),
        (lambda n: entry(n, ANNA, uid="anna") * 5, ""),
        (lambda n: result(n, SEARCH_DONE, 10, "ldap://elsewhere.example"), "referral"),
        (lambda n: b"\x30\x84\x40\x00\x00\x00", "larger"),
        (lambda n: entry(n, ANNA, uid="x" * (2 << 20)) + done(n), ""),
    ],
    ids=["of another request", "too many entries", "referral", "gigabyte", "megabytes"],
)
def test_false_or_large_response_is_rejected(found, detail):
    answer = verify_against(searched(found))
    assert (answer.reason, detail in answer.detail) == ("directory-refused", True)


def test_endless_groups_are_rejected():
    def respond(message):
        if b"member" in message:
            number = number_of(message)
            return b"".join(entry(number, f"cn={place},{BASE}", cn=str(place)) for place in range(2_500))
        return honest(message)

    assert verify_against(respond, groups="search").reason == "directory-refused"


def test_too_many_groups_are_reported():
    listed = ber.sequence([ber.octets(f"cn={place}") for place in range(2_001)], ber.SET)
    groups = ber.sequence((ber.sequence((ber.octets("memberOf"), listed)),))
    respond = searched(lambda n: reply(n, SEARCH_ENTRY, ber.octets(ANNA), groups) + done(n))
    assert verify_against(respond, only_groups=["7"]).reason == "too-many-groups"


def test_endless_text_is_truncated():
    answer = verify_against(searched(lambda n: entry(n, f"uid={os.urandom(50_000).hex()}", uid="anna") + done(n)))
    assert (answer.reason, len(answer.detail)) == ("directory-refused", 300)


def test_unloggable_name_becomes_one_line():
    answer = verify_against(searched(lambda n: entry(n, ANNA, uid="\x1b[31man\0na" + "a" * 1000) + done(n)))
    assert (answer.name[:11], len(answer.name)) == (" [31man naa", 300)


FORGED = "no\nWARNING tenant bravo, source corp: broken\x1b[2J\0"


class SourceWithText:
    settings = OidcSettings()

    def __init__(self, fails):
        self.fails = fails

    async def verify(self, name, password, report):
        if self.fails:
            raise DirectoryRefused(FORGED)
        return VerificationResult("wrong-password", FORGED, "corp")


@pytest.mark.parametrize(("fails", "reason"), [(False, "wrong-password"), (True, "directory-refused")])
def test_server_text_becomes_one_printable_line(fails, reason):
    answer = asyncio.run(verify_password(SourceWithText(fails), UserName("anna", "anna"), b"x", source_name="corp"))
    assert (answer.reason, answer.detail) == (reason, "no WARNING tenant bravo, source corp: broken [2J ")


OCTETS = [bytes((octet,)) for octet in ber.octets(bytes(8192), ber.SEQUENCE)]


@pytest.mark.parametrize(
    ("response", "reason"),
    # Each octet of the second server arrives in time, but the complete response does not. The third disconnects.
    [(b"", "directory-slow"), (OCTETS, "directory-slow"), (None, "directory-unavailable")],
    ids=["silent", "trickling", "disconnecting"],
)
def test_slow_or_absent_response_times_out(response, reason):
    assert verify_against(lambda message: response, time_limit_seconds=0.3).reason == reason


@pytest.mark.parametrize(
    "garbage",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x30\x80", b"\x30\x05hello", b"\x30\x00", b"\x30\xff" + b"\0" * 130],
    ids=repr,
)
def test_server_of_another_protocol_is_rejected_or_times_out(garbage):
    answer = verify_against(lambda message: garbage, time_limit_seconds=0.3)
    assert answer.reason in ("directory-refused", "directory-slow")


@given(st.binary(max_size=200))
@settings(max_examples=examples(300))
def test_any_octets_are_a_message_or_malformed(data):
    for parse in (parse_message, parse_entry, parse_result):
        try:
            parse(data)
        except ber.MalformedBer:
            continue


@given(st.binary(min_size=1, max_size=20), st.integers(0, 60), st.integers(0, 255))
def test_message_with_one_changed_octet_is_read_or_malformed(seed, place, octet):
    data = bytearray(entry(3, ANNA, uid=seed.hex()))
    data[place % len(data)] = octet
    try:
        message = parse_message(bytes(data))
        parse_entry(message.content)
    except ber.MalformedBer:
        return


@pytest.mark.parametrize("length", [0, 1, 127, 128, 255, 256, 65535, 70000])
def test_lengths_of_every_form_round_trip(length):
    encoded = ber.octets(os.urandom(length))
    assert ber.parse_lengths(encoded) == (len(encoded) - length, length)
    assert len(ber.BerReader(encoded).of(ber.OCTET_STRING)) == length


@pytest.mark.parametrize("password", [b"", b"\0", b"a\0b"])
def test_bind_without_a_password_is_never_sent(password):
    with pytest.raises(ValueError, match="needs"):
        messages.bind_request(1, ANNA, password)


@pytest.mark.parametrize(
    ("dn", "value"),
    [
        ("cn=staff,ou=groups,dc=example", "staff"),
        ("CN=Domain Users,CN=Users,DC=corp", "Domain Users"),
        ("cn=B\\2C C\\+D,dc=x", "B, C+D"),
        ("cn=Z\\C3\\BCrich,dc=x", "Zürich"),
        ("cn=Büro,dc=x", "Büro"),
        ("cn=a+ou=b,dc=x", "a"),
        ("cn=,dc=x", ""),
        ("", ""),
        ("nonsense", ""),
    ],
)
def test_group_is_named_by_the_first_value(dn, value):
    assert first_rdn_value(dn) == value
