"""Reply attributes that the NAS returns in accounting: the decision and a name of the user."""

import re

import pytest

from nac.cellformat.class_attribute import MAX_MICROSECONDS, encode_class, parse_decided_at
from tests.engine.builders import compare, policy_of, rule
from tests.radius.nas import plain_login
from tests.radius.supplicant import eap_tls
from tests.radius.tenants import PASSWORD, PRINTER

ASKS = "Chargeable-User-Identity=0x00"


def test_class_identifies_the_decision(cell):
    device = plain_login(cell.alpha, "pap", PRINTER, PRINTER, station=PRINTER)
    user = plain_login(cell.alpha, "pap", "anna", PASSWORD)
    assert "Chargeable-User-Identity" not in user.attributes
    given = [parse_decided_at(value) for reply in (device, user) for value in reply.classes]
    assert given == [record.at for record in cell.decisions(permitted=True)]
    assert len(given) == 2


def test_class_identifies_the_decision_also_after_resumption(cell):
    seen = eap_tls(cell.alpha, cell.alpha.clients["laptop"], reauthentications=1).run()
    assert seen.accepted
    classes = re.findall(r"Attribute 25 \(Class\) length=11\n\s+Value: ([0-9a-f]+)", seen.output)
    # eapol_test prints each packet twice.
    assert list(dict.fromkeys(classes)) == [encode_class(record.at)[2:] for record in cell.decisions(permitted=True)]
    assert [record.resumed for record in cell.decisions(permitted=True)] == [False, True]


@pytest.mark.parametrize("claimed", ["laptop", "anonymous", "anna", "spare"])
def test_accounting_name_is_the_certificates_name(cell, claimed):
    seen = eap_tls(cell.alpha, cell.alpha.clients["laptop"], identity=claimed, reauthentications=1).run()
    assert seen.accept_user_names == ["laptop", "laptop"]
    assert {record.identity for record in cell.decisions()} == {"laptop"}


@pytest.mark.parametrize(("client", "claimed", "accepted"), [("laptop", "x", False), ("spare", "laptop", True)])
def test_session_limit_uses_the_certificates_name(cell, client, claimed, accepted):
    """The certificate laptop may have one session. Another identity gets no second session, and uses none of spare."""
    many = rule("many", compare("session.count.user", "at_least", 1), {"verdict": "deny"})
    cell.set_policy(policy_of(many, rule("any", {"all": []})))
    with cell.changes() as batch:
        batch.put_session_count(cell.alpha.number, "ulaptop", 1)
    seen = eap_tls(cell.alpha, cell.alpha.clients[client], identity=claimed).run()
    assert seen.accepted is accepted
    assert cell.decision().rule_id == ("any" if accepted else "many")


def test_reject_returns_nothing(cell):
    reply = plain_login(cell.alpha, "pap", "anna", "wrong", ASKS)
    assert reply.code == "Access-Reject"
    assert (reply.classes, "Chargeable-User-Identity" in reply.attributes) == ((), False)


def test_chargeable_identity_is_stable_within_a_tenant(cell):
    """Chargeable-User-Identity does not reveal the user (RFC 4372 2.1)."""
    replies = [
        plain_login(tenant, "pap", name, PASSWORD, ASKS)
        for tenant, name in ((cell.alpha, "anna"), (cell.alpha, "ANNA"), (cell.bravo, "anna"))
    ]
    first, same, other = (reply.attributes["Chargeable-User-Identity"] for reply in replies)
    assert first == same != other
    assert len(bytes.fromhex(first[2:])) == len(bytes.fromhex(other[2:])) == 32


@pytest.mark.parametrize("at", [0, 1_795_000_000_000_000, MAX_MICROSECONDS])
def test_class_round_trips(at):
    assert parse_decided_at(encode_class(at)) == at


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            "0x",
            "0x41",
            "0x42" + "0" * 16,
            *("0x41" + digits for digits in ("0" * 15, "0" * 17, "g" * 16, "f" * 16)),
        ),
        # The text A1234567Z, and a time after the highest valid time.
        *("0x41" + b"1234567Z".hex(), encode_class(MAX_MICROSECONDS + 1)),
    ],
)
def test_foreign_class_is_ignored(value):
    assert parse_decided_at(value) is None
