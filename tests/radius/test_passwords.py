"""Users in the database who log in without a tunnel: PAP, CHAP and MS-CHAPv2. Admit always rejects MS-CHAPv1."""

import hashlib
import os
import re

import pytest

from nac.cellformat.methods import METHODS
from nac.cellformat.replica.records import nt_hash_context
from nac.kit.passwords import compute_nt_hash
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, USER_NAME, encode_attribute
from tests.radius.mschap import attributes_v1, attributes_v2
from tests.radius.nas import CHAP_CHALLENGE, CHAP_PASSWORD, Nas, plain_login, radclient
from tests.radius.tenants import PASSWORD

pytestmark = pytest.mark.usefixtures("everything_offered")
each_method = pytest.mark.parametrize("method", ["pap", "chap", "mschapv2"])


@each_method
@pytest.mark.parametrize("name", ["anna", "ANNA"])
def test_right_password_is_permitted_by_the_groups_rule(cell, method, name):
    reply = plain_login(cell.alpha, method, name, PASSWORD)
    assert (reply.code, reply.attributes["Tunnel-Private-Group-Id:1"]) == ("Access-Accept", "30")
    record = cell.decision()
    assert (record.permitted, record.reason, record.rule_id) == (True, "rule-permitted", "staff")
    assert (record.method, record.identity, record.vlan) == (method, name, "30")
    assert (record.request["user.name"], record.request["user.group"]) == (("anna",), ("staff",))
    assert not [name for name in record.request if "CHAP" in name or "MPPE" in name or "Password" in name]


# Name, password, reason, and the error code of MS-CHAPv2.
REJECTED = [
    ("anna", "wrong password", "wrong-password", 691),
    ("anna", PASSWORD + " ", "wrong-password", 691),
    # Equal to the reject of a wrong password, so that an attacker cannot learn user names.
    ("nobody", PASSWORD, "unknown-user", 691),
    ("bravo-user", PASSWORD, "unknown-user", 691),
    ("disabled", PASSWORD, "user-disabled", 647),
    ("lapsed", PASSWORD, "user-disabled", 647),
    ("guest", PASSWORD, "rule-denied", 649),
    ("guest", "wrong password", "wrong-password", 691),
]


@pytest.mark.parametrize(
    ("method", "name", "password", "reason", "code"),
    [
        *((method, *row) for method in ("pap", "chap", "mschapv2") for row in REJECTED),
        ("chap", "pap-only", PASSWORD, "chap-not-allowed", None),
        ("mschapv2", "pap-only", PASSWORD, "mschap-not-allowed", 691),
    ],
)
def test_rejected_user_gets_a_reason(cell, method, name, password, reason, code):
    reply = plain_login(cell.alpha, method, name, password)
    assert reply.code == "Access-Reject"
    assert not [name for name in reply.attributes if "Success" in name or "Key" in name or "Tunnel" in name]
    record = cell.decision()
    assert (record.permitted, record.reason, record.method) == (False, reason, method)
    assert (record.identity, record.vlan) == (name, "")
    if method == "mschapv2":
        error = f"\\\\007E={code} R=0 C=[0-9a-f]{{32}} V=3 M=[A-Z].*"
        assert re.fullmatch(error, reply.attributes["MS-CHAP-Error"])


@pytest.mark.parametrize(("name", "reason"), [("zoe", "directory-needs-pap"), ("pap-only", "chap-not-allowed")])
def test_possible_directory_user_gets_the_advice_to_use_pap(cell, name, reason):
    with cell.changes() as batch:
        cell.alpha.put_source(batch)
    assert plain_login(cell.alpha, "chap", name, PASSWORD).code == "Access-Reject"
    assert (cell.decision().reason, cell.decision().method) == (reason, "chap")


def test_user_with_only_a_hash_can_use_pap(cell):
    assert plain_login(cell.alpha, "pap", "pap-only", PASSWORD).code == "Access-Accept"


@pytest.mark.parametrize(
    "password",
    ["%{User-Name}", "$ENV{PATH} `id`", "back\\slash", r"\n\101\\", "\"quoted\" 'too'", "ü ☕", "a" * 128, " blanks  "],
)
def test_password_with_special_characters_is_compared_literally(cell, password):
    cell.put_user("odd", password)
    nas, name = Nas(cell.alpha), encode_attribute(USER_NAME, "odd")
    assert nas.ask(name, password=password.encode())[0] == ACCESS_ACCEPT
    assert nas.ask(name + chap_password(password.encode()))[0] == ACCESS_ACCEPT
    assert nas.ask(name + chap_password(password.encode() + b"!"))[0] == ACCESS_REJECT


def chap_password(password: bytes) -> bytes:
    """CHAP-Password and CHAP-Challenge (RFC 2865 5.3, 5.40; RFC 1994 4.1)."""
    challenge = os.urandom(16)
    response = hashlib.md5(b"\x07" + password + challenge, usedforsecurity=False).digest()
    return encode_attribute(CHAP_PASSWORD, b"\x07" + response) + encode_attribute(CHAP_CHALLENGE, challenge)


@pytest.mark.parametrize("name", ["anna", "02a0c0000001"])
@pytest.mark.parametrize(
    "beside", [(), attributes_v2("anna", PASSWORD)[1:], (f'User-Password="{PASSWORD}"',)], ids=range(3)
)
def test_mschapv1_is_rejected_with_any_other_credential(cell, name, beside):
    """`rlm_mschap` would compare version 1 if both versions are present.

    A replica may still contain the method's old name.
    """
    cell.set_slot(methods=(*METHODS, "mschapv1"))
    reply = radclient(cell.alpha, f'User-Name="{name}"', *attributes_v1(PASSWORD if name == "anna" else name), *beside)
    assert reply.code == "Access-Reject"
    assert "MS-CHAP-Error" not in reply.attributes
    record = cell.decision()
    assert (record.permitted, record.method, record.reason) == (False, "mschapv1", "method-not-offered")
    assert record.detail.startswith("the device wants mschapv1; offered here: mab, ")


def test_mschap_device_gets_keys_and_proof_of_its_password(cell):
    """The authenticator response follows the identifier of its request (RFC 2759 8.7)."""
    lines = attributes_v2("anna", PASSWORD, identifier=0x41)
    attributes = radclient(cell.alpha, 'User-Name="anna"', *lines).attributes
    assert re.fullmatch(rb"AS=[0-9A-F]{40}", bytes.fromhex(attributes["MS-CHAP2-Success"][2:]))
    keys = ("MS-MPPE-Send-Key", "MS-MPPE-Recv-Key")
    assert all(re.fullmatch("0x[0-9a-f]{32,}", attributes[key]) for key in keys)
    assert "MS-MPPE-Encryption-Policy" in attributes


@pytest.mark.parametrize(("identifier", "shown"), [(0, r"\000"), (0x22, r"\""), (0x5C, r"\\"), (0xFF, r"\377")])
def test_mschap_error_repeats_any_identifier(cell, identifier, shown):
    for name in ("nobody", "anna"):
        lines = attributes_v2(name, "wrong password", identifier=identifier)
        reply = radclient(cell.alpha, f'User-Name="{name}"', *lines)
        assert reply.attributes["MS-CHAP-Error"].startswith(f"{shown}E=691")
    assert [record.reason for record in cell.decisions()] == ["unknown-user", "wrong-password"]


@pytest.mark.parametrize(("name", "spoken"), [(r"OFFICE\anna", "anna"), ("anna@office.example", "anna@office.example")])
def test_mschap_name_with_a_domain_is_a_separate_name(cell, name, spoken):
    """Windows sends the domain before the name, and omits it in its computation (RFC 2759 8.2)."""
    sealed = cell.sealer.seal(compute_nt_hash(PASSWORD).encode(), nt_hash_context("0"))
    cell.put_user(name.lower(), sealed_nt_hash=sealed)
    assert plain_login(cell.alpha, "mschapv2", name, PASSWORD, spoken=spoken).code == "Access-Accept"
    assert cell.decision().request["user.name"] == (name.lower(),)


@pytest.mark.parametrize(
    "lines",
    [
        ("MS-CHAP-Challenge=0x00",),
        ("MS-CHAP2-Response=0x00",),
        ("MS-CHAP2-Response=0x00", "MS-CHAP-Challenge=0x00"),
        (f"MS-CHAP2-Response=0x{'00' * 50}", f"MS-CHAP-Challenge=0x{'00' * 16}"),
        (f"MS-CHAP2-Response=0x{'00' * 50}",),
        (f"MS-CHAP-Response=0x{'00' * 50}", f"MS-CHAP-Challenge=0x{'00' * 8}"),
        (f"MS-CHAP2-Response=0x{'ff' * 100}", f"MS-CHAP-Challenge=0x{'ff' * 100}"),
        ("MS-CHAP2-CPW=0x00",),
    ],
    ids=range(8),
)
def test_random_mschap_data_is_rejected(cell, lines):
    assert radclient(cell.alpha, 'User-Name="anna"', *lines).code == "Access-Reject"
    assert cell.decision().permitted is False
