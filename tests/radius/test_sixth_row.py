"""Ways to an Access-Accept, or to another's name, that a second look has tried."""

import ssl

import pytest

from loadtest.eap_tls_client import client_context
from loadtest.packet import (
    ACCESS_CHALLENGE,
    ACCESS_REJECT,
    NAS_IDENTIFIER,
    attribute,
)
from nac.methods import METHODS
from nac.replica import keys
from nac.replica.records import NasRecord, mab_password_context
from tests.radius.devices import VERSIONS
from tests.radius.tenants import PRINTER
from tests.radius.test_eap_restarts import open_verified
from tests.radius.tunnel import IDENTITY, PEAP, RESPONSE, TLS, TTLS, Tunnel, eap

SUCCESS, EXPANDED = 3, 254


def expanded(identifier, kind, data=b""):
    return eap(RESPONSE, identifier, EXPANDED, b"\0\0\0\0\0\0" + bytes((kind,)) + data)


@pytest.fixture(autouse=True)
def everything_offered(cell, replica):
    with replica.begin() as batch:
        for tenant in cell.tenants.values():
            batch.put_slot(tenant.slot, tenant.slot_record(methods=METHODS))


@pytest.fixture
def fixed_text(cell, replica):
    sealed = cell.sealer.seal(b"text-of-the-switch", mab_password_context("n"))
    nas = NasRecord("n", "Fixed", cell.alpha.site_id, "cisco", mab_password="fixed", sealed_mab_password=sealed)
    with replica.begin() as batch:
        batch.put_nas(keys.by_identifier(cell.alpha.number, "fixed"), nas)


@pytest.mark.parametrize("version", VERSIONS)
def test_expanded_last_packet_of_tls_is_no_mab(cell, fixed_text, version):
    client = cell.alpha.clients["revoked"]
    context = client_context(certificate=str(client.chain_file), key=str(client.key_file), version=version)
    tunnel = Tunnel(cell.alpha, TLS, outer=PRINTER, mac=PRINTER, context=context)
    tunnel.more = attribute(NAS_IDENTIFIER, "fixed")
    tunnel.open()
    if version == ssl.TLSVersion.TLSv1_3:
        assert tunnel.say() == ACCESS_CHALLENGE
    tunnel.ask(expanded(tunnel._identifier, TLS, b"\0"))
    assert tunnel.code == ACCESS_REJECT


def test_expanded_identity_begins_no_second_conversation(cell):
    first = open_verified(cell.alpha, TTLS)
    first.ask(expanded(0, IDENTITY, b"anonymous"))
    assert first.code == ACCESS_REJECT


def test_malformed_packet_with_a_foreign_state_is_logged_without_the_other_name(cell):
    first = open_verified(cell.alpha, PEAP)
    other = Tunnel(cell.alpha, PEAP, outer="stranger")
    other.state = first.state
    other.ask(eap(SUCCESS, first._identifier, PEAP, b"\0"))
    assert other.code == ACCESS_REJECT
    record = cell.decision()
    assert (record.mac, record.identity, record.method) == (other.mac, "stranger", "peap")
