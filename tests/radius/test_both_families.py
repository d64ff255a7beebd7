"""A cell that listens on `::` answers over IPv4 and IPv6, and identifies each NAS by its own address."""

import pytest

from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, ACCT_SESSION_ID, ACCT_STATUS_TYPE
from tests.polling import until
from tests.radius.nas import Nas, joined, mab, named
from tests.radius.standalone import OLD_NAS, OWN_SECRET, OWN_SECRET_NAS, Plan, running_cell
from tests.radius.tenants import PRINTER
from tests.radius.test_secret_lookup import NEW, WRONG, is_answered, rotate
from tests.radius.test_secret_lookup import is_silent as is_silent_with
from tests.radius.test_unsigned import is_accepted, is_silent, logged, unsigned

START = joined([(ACCT_STATUS_TYPE, 1), (ACCT_SESSION_ID, "session-1")])


@pytest.fixture(scope="module")
def listening():
    with running_cell(Plan(listen_address="::", looking_up=("bravo",))) as cell:
        yield cell


@pytest.fixture
def cell(listening):
    listening.forget_records()
    return listening


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", "::1"])
def test_nas_of_either_family_is_answered(cell, address):
    nas = Nas(cell.alpha, address)
    attributes, password = mab(PRINTER)
    assert nas.ask(attributes, password=password)[0] == ACCESS_ACCEPT
    assert cell.decision().nas_address == address
    assert nas.account(START) is not None
    assert [record.nas_address for record in cell.accounting()] == [address]


def test_clients_by_ipv4_address_keep_their_settings(cell):
    assert is_accepted(Nas(cell.alpha, OLD_NAS))
    attributes, password = mab(PRINTER)
    own = Nas(cell.alpha, OWN_SECRET_NAS, OWN_SECRET)
    assert own.ask(attributes, password=password)[0] == ACCESS_ACCEPT


def test_secrets_of_either_family_are_looked_up(cell):
    rotate(cell, cell.bravo.secret, NEW, rotation="both", tenant=cell.bravo)
    for address, secret in (("127.0.0.1", NEW), ("::1", cell.bravo.secret)):
        assert is_answered(cell, address, secret, tenant=cell.bravo)
    assert is_silent_with(cell, "::1", WRONG, tenant=cell.bravo)


@pytest.mark.parametrize("address", ["127.0.0.8", "::1"])
def test_unsigned_request_of_either_family_is_filtered(cell, address):
    nas = Nas(cell.alpha, address)
    assert is_silent(nas)
    until(lambda: logged(cell, address), "a line in the log")

    def flood():
        before = cell.statistics()["access_requests"]
        with nas.socket() as sending:
            for _ in range(1_000):
                sending.send(unsigned(nas))
        return cell.statistics()["access_requests"] - before

    flood()
    assert flood() < 500
    assert nas.ask(named("unknown"))[0] == ACCESS_REJECT
