"""Users in the database who log in by PAP and CHAP."""

import hashlib
import os

import pytest

from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, USER_NAME, encode_attribute
from tests.radius.nas import CHAP_CHALLENGE, CHAP_PASSWORD, Nas, radclient
from tests.radius.supplicant import new_mac
from tests.radius.tenants import PASSWORD
from tests.radius.users import put_user


def ask(cell, *lines):
    return radclient(cell.alpha, *lines, f'Calling-Station-Id="{new_mac()}"')


@pytest.mark.parametrize(
    ("method", "attribute"), [("pap", "User-Password"), ("chap", "CHAP-Password")], ids=["pap", "chap"]
)
class TestBothMethods:
    @pytest.mark.parametrize("name", ["anna", "ANNA"])
    def test_right_password_is_permitted_by_the_rule_for_its_group(self, cell, method, attribute, name):
        reply = ask(cell, f'User-Name="{name}"', f'{attribute}="{PASSWORD}"')
        assert reply.code == "Access-Accept"
        assert reply.attributes["Tunnel-Private-Group-Id:1"] == "30"
        record = cell.decision()
        assert (record.permitted, record.reason, record.rule_id) == (True, "rule-permitted", "staff")
        assert (record.method, record.identity, record.vlan) == (method, name, "30")
        assert record.request["user.name"] == ("anna",)
        assert record.request["user.group"] == ("staff",)

    @pytest.mark.parametrize(
        ("name", "password", "reason"),
        [
            ("anna", "wrong", "wrong-password"),
            ("anna", PASSWORD + " ", "wrong-password"),
            ("nobody", PASSWORD, "unknown-user"),
            ("disabled", PASSWORD, "user-disabled"),
            ("guest", PASSWORD, "rule-denied"),
            ("guest", "wrong", "wrong-password"),
        ],
    )
    def test_rejected_user_gets_a_reason(self, cell, method, attribute, name, password, reason):
        reply = ask(cell, f'User-Name="{name}"', f'{attribute}="{password}"')
        assert reply.code == "Access-Reject"
        assert "Tunnel-Private-Group-Id:1" not in reply.attributes
        record = cell.decision()
        assert (record.permitted, record.reason, record.method) == (False, reason, method)
        assert (record.identity, record.vlan) == (name, "")


@pytest.mark.parametrize(("name", "reason"), [("zoe", "directory-needs-pap"), ("pap-only", "chap-not-allowed")])
def test_possible_directory_user_gets_the_advice_to_use_pap(cell, replica, name, reason):
    with replica.begin() as batch:
        cell.alpha.put_source(batch)
    assert ask(cell, f'User-Name="{name}"', f'CHAP-Password="{PASSWORD}"').code == "Access-Reject"
    assert (cell.decision().reason, cell.decision().method) == (reason, "chap")


def test_user_with_only_a_hash_can_use_pap(cell):
    assert ask(cell, 'User-Name="pap-only"', f'User-Password="{PASSWORD}"').code == "Access-Accept"


def test_chap_with_a_challenge_attribute_is_compared_with_it(cell):
    challenge = "CHAP-Challenge=0x000102030405060708090a0b0c0d0e0f"
    assert ask(cell, 'User-Name="anna"', f'CHAP-Password="{PASSWORD}"', challenge).code == "Access-Accept"


@pytest.mark.parametrize(
    "password",
    ["%{User-Name}", "$ENV{PATH} `id`", "back\\slash", r"\n\101\\", "\"quoted\" 'too'", "ü ☕", "a" * 128, " blanks  "],
)
def test_password_with_special_characters_is_compared_literally(cell, replica, password):
    with replica.begin() as batch:
        put_user(batch, cell, "odd", password)
    nas, name = Nas(cell.alpha), encode_attribute(USER_NAME, "odd")
    assert nas.ask(name, password=password.encode())[0] == ACCESS_ACCEPT
    assert nas.ask(name + chap_password(password.encode()))[0] == ACCESS_ACCEPT
    assert nas.ask(name + chap_password(password.encode() + b"!"))[0] == ACCESS_REJECT


def chap_password(password: bytes) -> bytes:
    """CHAP-Password and CHAP-Challenge (RFC 2865 5.3, 5.40; RFC 1994 4.1)."""
    challenge = os.urandom(16)
    response = hashlib.md5(b"\x07" + password + challenge, usedforsecurity=False).digest()
    return encode_attribute(CHAP_PASSWORD, b"\x07" + response) + encode_attribute(CHAP_CHALLENGE, challenge)
