r"""Users who type their realm or NetBIOS domain.

CORP\anna and anna@corp.example are the user anna if the tenant configures these realms.
"""

import pytest

from nac.cellformat.methods import METHODS
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit.radius_packet import NAS_IDENTIFIER
from tests.radius.nas import log_in, plain_login
from tests.radius.supplicant import PEAP, TTLS_EAP, TTLS_MSCHAPV2, TTLS_PAP, eap_password, eap_tls
from tests.radius.tenants import PASSWORD, PRINTER
from tests.verifier.verifier_server import always, running_verifier

REALMS = ("corp", "corp.example")
# tests/identities/test_names.py has every spelling.
OWN = (r"CORP\anna", "Anna@CORP.Example")
PLAIN = ("pap", "chap", "mschapv2")
TUNNELS = {"ttls-pap": TTLS_PAP, "ttls-mschapv2": TTLS_MSCHAPV2, "ttls-eap": TTLS_EAP, "peap": PEAP}
each_way = pytest.mark.parametrize("way", [*PLAIN, *TUNNELS])


@pytest.fixture(autouse=True)
def realms(cell):
    cell.set_slot(methods=METHODS, realms=REALMS)
    cell.set_slot(cell.bravo, methods=METHODS)


def ask(tenant, way, name, password=PASSWORD):
    """Whether the user is admitted, and the User-Name for accounting in the Access-Accept."""
    if way in TUNNELS:
        seen = eap_password(tenant, TUNNELS[way], name, password).run()
        return seen.accepted, seen.user_names[-1] if seen.accepted else ""
    # Devices omit the domain from their computation, but not the realm (RFC 2759 8.2).
    reply = plain_login(tenant, way, name, password, spoken=name.rpartition("\\")[2])
    return reply.code == "Access-Accept", reply.attributes.get("User-Name", "")


@each_way
@pytest.mark.parametrize("name", OWN)
def test_own_realm_is_removed(cell, way, name):
    accepted, accounted = ask(cell.alpha, way, name)
    assert (accepted, accounted.lower()) == (True, "anna")
    record = cell.decision()
    assert (record.permitted, record.rule_id, record.identity) == (True, "staff", accounted)
    assert (record.request["user.name"], record.request["user.group"]) == (("anna",), ("staff",))
    if way in PLAIN:
        # The log keeps the name as typed.
        assert record.request["radius.User-Name"] == (name,)


@each_way
@pytest.mark.parametrize(
    ("name", "password", "reason", "identity"),
    [
        (OWN[0], "wrong password", "wrong-password", "anna"),
        (r"OTHER\anna", PASSWORD, "unknown-user", r"OTHER\anna"),
    ],
)
def test_wrong_password_or_foreign_realm_is_rejected(cell, way, name, password, reason, identity):
    assert not ask(cell.alpha, way, name, password)[0]
    assert (cell.decision().reason, cell.decision().identity) == (reason, identity)


@pytest.mark.parametrize("way", ["pap", "mschapv2"])
@pytest.mark.parametrize("name", ["anna@x.corp.example", "@corp.example", "CORP\\"])
def test_near_realm_is_an_unknown_user(cell, way, name):
    assert not ask(cell.alpha, way, name)[0]
    assert (cell.decision().reason, cell.decision().identity) == ("unknown-user", name)


@pytest.mark.parametrize("name", OWN)
def test_tenant_without_realms_removes_none(cell, name):
    assert not ask(cell.bravo, "pap", name)[0]
    assert cell.decision().reason == "unknown-user"


def test_name_stored_with_its_realm_no_longer_matches(cell):
    cell.put_user("zoe@corp.example")
    assert not ask(cell.alpha, "pap", "zoe@corp.example")[0]
    cell.set_slot(methods=METHODS)
    assert ask(cell.alpha, "pap", "zoe@corp.example")[0]


def test_mac_address_with_a_realm_is_no_user(cell):
    assert not ask(cell.alpha, "pap", rf"CORP\{PRINTER}", PRINTER)[0]
    assert (cell.decision().reason, cell.decision().method) == ("unknown-user", "pap")


def test_failures_of_all_spellings_count_for_one_user(cell):
    cell.set_slot(realms=REALMS, failure_limit=3)
    nas = (NAS_IDENTIFIER, "realms")
    for name in ("anna", *OWN):
        log_in(cell.alpha, name, "wrong password", nas, station=None)
    log_in(cell.alpha, "anna", PASSWORD, nas, station=None)
    assert [record.reason for record in cell.decisions()] == ["wrong-password"] * 3 + ["rate-limited"]


def test_certificate_keeps_its_name_with_the_realm(cell):
    assert eap_tls(cell.alpha, cell.alpha.clients["laptop"], identity="laptop@corp.example").run().accepted
    assert cell.decision().request["identity"] == ("laptop",)


@pytest.mark.parametrize("way", ["pap", "ttls-pap"])
@pytest.mark.parametrize("typed", [r"CORP\zoe", "zoe@corp.example"])
def test_directory_gets_the_name_as_typed(cell, way, typed):
    """The verifier removes the realm, or selects the source of this realm."""
    with cell.changes() as batch:
        cell.alpha.put_source(batch)
    config = cell.config.verifier
    answer = VerificationResult(source="directory", name="Zoe", groups=("staff",))
    with running_verifier(config.port, config.secret, always(answer)) as running:
        assert ask(cell.alpha, way, typed, "open sesame") == (True, "zoe")
    assert set(running.asked) == {(cell.alpha.slot, typed.encode(), b"open sesame")}
    assert (cell.decision().identity, cell.decision().request["user.source"]) == ("zoe", ("directory",))
