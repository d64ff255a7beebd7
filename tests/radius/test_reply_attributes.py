"""Reply attributes that the NAS returns in accounting: the decision and a name of the user."""

import re

import pytest

from nac.cellformat.packet_values import MAX_MICROSECONDS, encode_class, parse_decided_at
from tests.radius.nas import radclient
from tests.radius.supplicant import eap_tls
from tests.radius.tenants import PASSWORD, PRINTER

ASKS = "Chargeable-User-Identity=0x00"


def login(tenant, name="anna", *more):
    return radclient(tenant, f'User-Name="{name}"', f'User-Password="{PASSWORD}"', *more)


def test_class_identifies_the_decision(cell):
    device = radclient(
        cell.alpha, f'User-Name="{PRINTER}"', f'Calling-Station-Id="{PRINTER}"', "Service-Type=Call-Check"
    )
    user = login(cell.alpha)
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
def test_session_limit_uses_the_certificates_name(cell, replica, client, claimed, accepted):
    """The certificate laptop may have one session. Another identity gets no second session, and uses none of spare."""
    counted = {"attribute": "session.count.user", "operator": "at_least", "value": 1}
    document = {
        "rules": [
            {"id": "many", "name": "One session each", "when": counted, "then": {"verdict": "deny"}},
            {"id": "any", "name": "Everybody", "when": {"all": []}, "then": {"verdict": "permit"}},
        ]
    }
    with replica.begin() as batch:
        batch.put_policy(cell.alpha.number, cell.alpha.policy_record(document, version=8))
        batch.put_session_count(cell.alpha.number, "ulaptop", 1)
    seen = eap_tls(cell.alpha, cell.alpha.clients[client], identity=claimed).run()
    assert seen.accepted is accepted
    assert cell.decision().rule_id == ("any" if accepted else "many")


def test_reject_returns_nothing(cell):
    reply = radclient(cell.alpha, 'User-Name="anna"', 'User-Password="wrong"', ASKS)
    assert reply.code == "Access-Reject"
    assert (reply.classes, "Chargeable-User-Identity" in reply.attributes) == ((), False)


def test_chargeable_identity_is_stable_within_a_tenant(cell):
    """Chargeable-User-Identity does not reveal the user (RFC 4372 2.1)."""
    given = {login(cell.alpha, name, ASKS).attributes["Chargeable-User-Identity"] for name in ("anna", "ANNA")}
    elsewhere = login(cell.bravo, "anna", ASKS).attributes["Chargeable-User-Identity"]
    assert len(given | {elsewhere}) == 2
    assert all(len(bytes.fromhex(value[2:])) == 32 for value in given | {elsewhere})


def test_chargeable_identity_is_sent_only_on_request(cell):
    assert "Chargeable-User-Identity" not in login(cell.alpha).attributes


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
            "0x41" + "0" * 15,
            "0x41" + "0" * 17,
            "0x41" + "g" * 16,
            "0x41" + "f" * 16,
        ),
        # The text A1234567Z, and a time after the highest valid time.
        *("0x41" + b"1234567Z".hex(), encode_class(MAX_MICROSECONDS + 1)),
    ],
)
def test_foreign_class_is_ignored(value):
    assert parse_decided_at(value) is None
