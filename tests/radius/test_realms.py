r"""Users who type their realm or NetBIOS domain.

CORP\anna and anna@corp.example are the user anna if the tenant configures these realms.
"""

import msgspec
import pytest

from nac.cellformat.methods import METHODS
from nac.cellformat.replica.records import UserRecord
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from tests.radius.mschap import attributes_v2
from tests.radius.nas import radclient
from tests.radius.pbkdf2_hashes import earlier_hash
from tests.radius.supplicant import PEAP, TTLS_EAP, TTLS_MSCHAPV2, TTLS_PAP, eap_password, eap_tls, new_mac
from tests.radius.tenants import PASSWORD, PRINTER
from tests.verifier.verifier_server import always, running_verifier

REALMS = ("corp", "corp.example")
# tests/identities/test_names.py has every spelling.
OWN = (r"CORP\anna", "Anna@CORP.Example")
FOREIGN = (r"OTHER\anna", "anna@x.corp.example", "@corp.example", "CORP\\")
each_own = pytest.mark.parametrize("name", OWN)
each_foreign = pytest.mark.parametrize("name", FOREIGN)


@pytest.fixture
def realms(cell, replica):
    def realms(*listed, failure_limit=200):
        with replica.begin() as batch:
            for tenant in cell.tenants.values():
                record = tenant.slot_record(methods=METHODS, failure_limit=failure_limit)
                own = listed if tenant.slug == "alpha" else ()
                batch.put_slot(tenant.slot, msgspec.structs.replace(record, realms=own))

    return realms


def ask(tenant, way, name, password=PASSWORD):
    """Whether the user is admitted, and the User-Name for accounting in the Access-Accept."""
    station = f'Calling-Station-Id="{new_mac()}"'
    written = name.replace("\\", "\\\\")
    match way:
        case "pap":
            lines = (f'User-Password="{password}"',)
        case "chap":
            lines = (f'CHAP-Password="{password}"',)
        case "mschapv2":
            # Devices omit the domain from their computation, but not the realm (RFC 2759 8.2).
            lines = attributes_v2(name, password, spoken=name.rpartition("\\")[2])[1:]
        case _:
            tunnel = {"ttls-pap": TTLS_PAP, "ttls-mschapv2": TTLS_MSCHAPV2, "ttls-eap": TTLS_EAP, "peap": PEAP}[way]
            seen = eap_password(tenant, tunnel, name, password).run()
            return seen.accepted, seen.user_names[-1] if seen.accepted else ""
    reply = radclient(tenant, f'User-Name="{written}"', *lines, station)
    return reply.code == "Access-Accept", reply.attributes.get("User-Name", "")


PLAIN, TUNNELS = ("pap", "chap", "mschapv2"), ("ttls-pap", "ttls-mschapv2", "ttls-eap", "peap")


@pytest.mark.parametrize("way", PLAIN)
@each_own
def test_own_realm_is_removed(cell, realms, way, name):
    realms(*REALMS)
    accepted, accounted = ask(cell.alpha, way, name)
    assert accepted
    assert accounted.lower() == "anna"
    record = cell.decision()
    assert (record.permitted, record.rule_id, record.identity) == (True, "staff", accounted)
    assert record.request["user.name"] == ("anna",)
    # The log keeps the name as typed.
    assert record.request["radius.User-Name"] == (name,)


@pytest.mark.parametrize("way", TUNNELS)
@each_own
def test_own_realm_is_removed_inside_a_tunnel(cell, realms, way, name):
    realms(*REALMS)
    accepted, accounted = ask(cell.alpha, way, name)
    assert (accepted, accounted.lower()) == (True, "anna")
    record = cell.decision()
    assert (record.permitted, record.rule_id, record.identity) == (True, "staff", accounted)
    assert record.request["user.group"] == ("staff",)


@pytest.mark.parametrize("way", [*PLAIN, *TUNNELS])
def test_wrong_password_with_a_realm_is_rejected(cell, realms, way):
    realms(*REALMS)
    assert not ask(cell.alpha, way, OWN[0], "wrong password")[0]
    assert (cell.decision().reason, cell.decision().identity) == ("wrong-password", "anna")


@pytest.mark.parametrize("way", ["pap", "mschapv2"])
@each_foreign
def test_foreign_realm_is_an_unknown_user(cell, realms, way, name):
    realms(*REALMS)
    assert not ask(cell.alpha, way, name)[0]
    record = cell.decision()
    assert (record.reason, record.identity) == ("unknown-user", name)


@pytest.mark.parametrize("way", TUNNELS)
def test_foreign_realm_is_an_unknown_user_inside_a_tunnel(cell, realms, way):
    realms(*REALMS)
    assert not ask(cell.alpha, way, r"OTHER\anna")[0]
    assert (cell.decision().reason, cell.decision().identity) == ("unknown-user", r"OTHER\anna")


@each_own
def test_no_realm_is_removed_by_default(cell, realms, name):
    realms()
    assert not ask(cell.alpha, "pap", name)[0]
    assert cell.decision().reason == "unknown-user"


def test_realms_of_one_tenant_are_foreign_at_another(cell, realms):
    realms(*REALMS)
    assert not ask(cell.bravo, "pap", OWN[0])[0]
    assert cell.decision().reason == "unknown-user"


def test_name_stored_with_its_realm_no_longer_matches(cell, realms, replica):
    with replica.begin() as batch:
        known = UserRecord("0", "zoe@corp.example", False, ("staff",), earlier_hash(PASSWORD), b"", 0)
        batch.put_user(cell.alpha.number, known)
    realms()
    assert ask(cell.alpha, "pap", "zoe@corp.example")[0]
    realms(*REALMS)
    assert not ask(cell.alpha, "pap", "zoe@corp.example")[0]


def test_mac_address_with_a_realm_is_no_user(cell, realms):
    realms(*REALMS)
    assert not ask(cell.alpha, "pap", rf"CORP\{PRINTER}", PRINTER)[0]
    assert (cell.decision().reason, cell.decision().method) == ("unknown-user", "pap")


def test_failures_of_all_spellings_count_for_one_user(cell, realms):
    realms(*REALMS, failure_limit=3)
    for name in ("anna", *OWN):
        lines = (f'User-Name="{name.replace(chr(92), chr(92) * 2)}"', 'User-Password="wrong password"')
        assert radclient(cell.alpha, *lines, "NAS-Identifier=realms").code == "Access-Reject"
    last = radclient(cell.alpha, 'User-Name="anna"', f'User-Password="{PASSWORD}"', "NAS-Identifier=realms")
    assert last.code == "Access-Reject"
    assert cell.decisions()[-1].reason == "rate-limited"


def test_certificate_keeps_its_name_with_the_realm(cell, realms):
    realms(*REALMS)
    assert eap_tls(cell.alpha, cell.alpha.clients["laptop"], identity="laptop@corp.example").run().accepted
    assert cell.decision().request["identity"] == ("laptop",)


@pytest.mark.parametrize("way", ["pap", "ttls-pap"])
@pytest.mark.parametrize("name", [OWN[0], "anna@corp.example"])
def test_directory_gets_the_name_as_typed(cell, realms, replica, way, name):
    """The verifier removes the realm, or selects the source of this realm."""
    with replica.begin() as batch:
        cell.alpha.put_source(batch)
    realms(*REALMS)
    config = cell.config.verifier
    answer = VerificationResult(source="directory", name="Zoe", groups=("staff",))
    typed = name.replace("anna", "zoe")
    with running_verifier(config.port, config.secret, always(answer)) as running:
        assert ask(cell.alpha, way, typed, "open sesame") == (True, "zoe")
    assert set(running.asked) == {(cell.alpha.slot, typed.encode(), b"open sesame")}
    assert (cell.decision().identity, cell.decision().request["user.source"]) == ("zoe", ("directory",))
