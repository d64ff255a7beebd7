"""MS-CHAPv2 outside tunnels, as VPN gateways and consoles use it. Admit always rejects MS-CHAPv1."""

import re

import pytest

from nac.cellformat.methods import METHODS
from nac.cellformat.replica.records import UserRecord, nt_hash_context
from nac.kit.passwords import compute_nt_hash, hash_password
from tests.radius.mschap import attributes_v1 as v1
from tests.radius.mschap import attributes_v2 as v2
from tests.radius.nas import radclient
from tests.radius.supplicant import new_mac
from tests.radius.tenants import PASSWORD


@pytest.fixture(autouse=True)
def everything_offered(cell, replica):
    with replica.begin() as batch:
        batch.put_slot(cell.alpha.slot, cell.alpha.slot_record(methods=METHODS))


def ask(cell, credentials):
    name, *lines = credentials
    return radclient(cell.alpha, f'User-Name="{name}"', *lines, f'Calling-Station-Id="{new_mac()}"')


@pytest.mark.parametrize("name", ["anna", "02a0c0000001"])
@pytest.mark.parametrize("beside", [(), v2("anna", PASSWORD)[2:], (f'User-Password="{PASSWORD}"',)], ids=range(3))
def test_version_1_is_rejected_with_any_other_credential(cell, replica, name, beside):
    """`rlm_mschap` would compare version 1 if both versions are present.

    A replica may still contain the method's old name.
    """
    with replica.begin() as batch:
        batch.put_slot(cell.alpha.slot, cell.alpha.slot_record(methods=(*METHODS, "mschapv1")))
    password = PASSWORD if name == "anna" else name
    reply = ask(cell, (*v1(name, password), *beside))
    assert reply.code == "Access-Reject"
    assert "MS-CHAP-Error" not in reply.attributes
    record = cell.decision()
    assert (record.permitted, record.method, record.reason) == (False, "mschapv1", "method-not-offered")
    assert record.detail.startswith("the device wants mschapv1; offered here: mab, ")


@pytest.mark.parametrize("name", ["anna", "ANNA"])
def test_right_password_is_permitted_with_keys(cell, name):
    reply = ask(cell, v2(name, PASSWORD))
    assert reply.code == "Access-Accept"
    assert reply.attributes["Tunnel-Private-Group-Id:1"] == "30"
    keys = ("MS-MPPE-Send-Key", "MS-MPPE-Recv-Key")
    assert all(re.fullmatch("0x[0-9a-f]{32,}", reply.attributes[key]) for key in keys)
    assert "MS-MPPE-Encryption-Policy" in reply.attributes
    record = cell.decision()
    assert (record.permitted, record.rule_id, record.method) == (True, "staff", "mschapv2")
    assert record.request["user.name"] == ("anna",)
    assert not [name for name in record.request if "CHAP" in name or "MPPE" in name]


def test_device_gets_proof_that_admit_knows_the_password(cell):
    """The authenticator response follows the identifier of its request (RFC 2759 8.7)."""
    reply = ask(cell, v2("anna", PASSWORD, identifier=0x41))
    assert re.fullmatch(rb"AS=[0-9A-F]{40}", bytes.fromhex(reply.attributes["MS-CHAP2-Success"][2:]))


@pytest.mark.parametrize(
    ("name", "password", "reason", "code"),
    [
        ("anna", "wrong password", "wrong-password", 691),
        ("anna", PASSWORD + " ", "wrong-password", 691),
        # Equal to the reject of a wrong password, so that an attacker cannot learn user names.
        ("nobody", PASSWORD, "unknown-user", 691),
        ("bravo-user", PASSWORD, "unknown-user", 691),
        ("pap-only", PASSWORD, "mschap-not-allowed", 691),
        ("disabled", PASSWORD, "user-disabled", 647),
        ("lapsed", PASSWORD, "user-disabled", 647),
        ("guest", PASSWORD, "rule-denied", 649),
        ("guest", "wrong password", "wrong-password", 691),
    ],
)
def test_rejected_user_gets_a_reason(cell, name, password, reason, code):
    reply = ask(cell, v2(name, password, identifier=0x42))
    assert reply.code == "Access-Reject"
    assert not [name for name in reply.attributes if "Success" in name or "Key" in name or "Tunnel" in name]
    record = cell.decision()
    assert (record.permitted, record.reason, record.method) == (False, reason, "mschapv2")
    assert re.fullmatch(f"BE={code} R=0 C=[0-9a-f]{{32}} V=3 M=[A-Z].*", reply.attributes["MS-CHAP-Error"])


def test_mac_address_has_no_password(cell):
    reply = ask(cell, v2("02a0c0000001", PASSWORD))
    assert reply.code == "Access-Reject"
    assert cell.decision().method == "mab"


@pytest.mark.parametrize(("identifier", "shown"), [(0, r"\000"), (0x22, r"\""), (0x5C, r"\\"), (0xFF, r"\377")])
def test_error_repeats_any_identifier(cell, identifier, shown):
    for name in ("nobody", "anna"):
        reply = ask(cell, v2(name, "wrong password", identifier=identifier))
        assert reply.attributes["MS-CHAP-Error"].startswith(f"{shown}E=691")
    assert [record.reason for record in cell.decisions()] == ["unknown-user", "wrong-password"]


def test_disabled_method_is_rejected(cell, replica):
    with replica.begin() as batch:
        others = tuple(name for name in METHODS if name != "mschapv2")
        batch.put_slot(cell.alpha.slot, cell.alpha.slot_record(methods=others))
    assert ask(cell, v2("anna", PASSWORD)).code == "Access-Reject"
    assert (cell.decision().reason, cell.decision().method) == ("method-not-offered", "mschapv2")


@pytest.mark.parametrize(("name", "spoken"), [(r"OFFICE\anna", "anna"), ("anna@office.example", "anna@office.example")])
def test_name_with_a_domain_is_a_separate_name(cell, replica, name, spoken):
    """Windows sends the domain before the name, and omits it in its computation (RFC 2759 8.2)."""
    with replica.begin() as batch:
        sealed = cell.sealer.seal(compute_nt_hash(PASSWORD).encode(), nt_hash_context("0"))
        stored = UserRecord("0", name.lower(), False, ("staff",), hash_password(PASSWORD), b"", 0, sealed)
        batch.put_user(cell.alpha.number, stored)
    name_line, *lines = v2(name, PASSWORD, spoken=spoken)
    assert ask(cell, (name_line.replace("\\", "\\\\"), *lines)).code == "Access-Accept"
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
def test_random_data_is_rejected(cell, lines):
    assert ask(cell, ("anna", *lines)).code == "Access-Reject"
    assert cell.decision().permitted is False
