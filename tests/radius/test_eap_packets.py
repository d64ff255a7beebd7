"""EAP packets at their limits: Framed-MTU, empty identities, TLS messages that are too long, and small fragments."""

import os
from dataclasses import dataclass, replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from nac.kit.clock import utc_now
from nac.kit.radius_packet import (
    ACCESS_CHALLENGE,
    ACCESS_REJECT,
    FRAMED_MTU,
    encode_attribute,
)
from pki.bundles import certificates_pem
from pki.issuance import Issuer, issue, issue_root
from pki.keys import generate_key, key_pem
from pki.names import subject_name
from pki.profiles import PROFILES
from pki.serials import random_serial
from tests.radius.devices import VERSIONS
from tests.radius.supplicant import TLS_1_2, TLS_1_3, eap_tls
from tests.radius.tenants import ClientFiles, der
from tests.radius.trusted_authorities import put_trusted
from tests.radius.tunnel import IDENTITY, NAK, RESPONSE, TLS, TTLS, Tunnel, eap

FAILURE = 4
LENGTH_INCLUDED, MORE = 0x80, 0x40


class TunnelWithMtu(Tunnel):
    """A tunnel with this Framed-MTU, which records the lengths of received EAP packets."""

    framed_mtu = 0
    longest = 0

    def ask(self, packet):
        self.more = encode_attribute(FRAMED_MTU, self.framed_mtu)
        found = super().ask(packet)
        self.longest = max(self.longest, len(found))
        return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("framed_mtu", "longest"), [(1400, 1400), (1200, 1200), (1020, 1020), (500, 500), (108, 108), (100, 107), (64, 107)]
)
def test_eap_packets_fit_into_framed_mtu(cell, version, framed_mtu, longest):
    """`radiusd` sends no fragments below 107 octets. EAP requires an MTU of at least 1,020 octets (RFC 3748 3.1)."""
    tunnel = TunnelWithMtu(cell.alpha, TTLS, version=version)
    tunnel.framed_mtu = framed_mtu
    tunnel.open()
    assert 0 < tunnel.longest <= longest
    if framed_mtu < 1000:
        assert tunnel.longest == longest


@pytest.mark.parametrize("name", [None, "x"], ids=["no User-Name", "another User-Name"])
def test_empty_identity_is_rejected_with_eap_failure(cell, name):
    device = Tunnel(cell.alpha, outer=name)
    assert device.ask(eap(RESPONSE, 7, IDENTITY)) == bytes((FAILURE, 7, 0, 4))
    assert device.code == ACCESS_REJECT
    assert cell.decision(mac=device.mac).reason == "empty-identity"


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "not announced"])
def test_long_tls_message_is_rejected_with_eap_failure(cell, announced):
    device = Tunnel(cell.alpha, outer="laptop")
    found = device.ask(eap(RESPONSE, 1, IDENTITY, b"laptop"))
    flags, length = (LENGTH_INCLUDED | MORE, (70_000).to_bytes(4, "big")) if announced else (MORE, b"")
    for _ in range(40):
        assert device.code == ACCESS_CHALLENGE
        identifier = found[1]
        found = device.ask(eap(RESPONSE, identifier, TLS, bytes((flags,)) + length + os.urandom(3_500)))
        if device.code == ACCESS_REJECT:
            break
    assert found == bytes((FAILURE, identifier, 0, 4))
    assert cell.decision(mac=device.mac).reason == "tls-message-too-long"


@pytest.mark.parametrize(
    "last", [eap(RESPONSE, 9, 250, b"x"), eap(RESPONSE, 9, NAK), b"\x02\x09\x00\x03", eap(1, 9, TLS, b"\0")]
)
def test_any_reject_of_eap_carries_eap_failure(cell, last):
    device = Tunnel(cell.alpha, outer="laptop")
    device.ask(eap(RESPONSE, 1, IDENTITY, b"laptop"))
    assert device.code == ACCESS_CHALLENGE
    assert device.ask(last) == bytes((FAILURE, 9, 0, 4))
    assert device.code == ACCESS_REJECT


both_versions = pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
# Sizes of EAP packets from a device. 1,400 is just below the Ethernet MTU.
SIZES = (200, 700, 1_400)
# radiusd ends a conversation of more than 50 round trips.
TOO_SMALL = 80
CHAIN_OCTETS = 4_000


@dataclass(frozen=True)
class Chain:
    authorities: tuple[x509.Certificate, ...]
    client: ClientFiles


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    # All authorities share one key, because each key takes seconds to generate.
    key, own_key = rsa.generate_private_key(public_exponent=65537, key_size=4096), generate_key()
    now, folder = utc_now(), tmp_path_factory.mktemp("chain")

    def about(name):
        return {"subject": subject_name(name, organisation="Longchain"), "now": now, "serial": random_serial()}

    def issuing_authority(name, path_length, issuer):
        profile = replace(PROFILES["issuing"], path_length=path_length)
        return Issuer(issue(profile, public_key=key.public_key(), issuer=issuer, **about(name)), key)

    root = Issuer(issue_root(replace(PROFILES["root"], path_length=3), key=key, **about("Longchain Root")), key)
    policy = issuing_authority("Longchain Policy CA", 2, root)
    region = issuing_authority("Longchain Region CA", 1, policy)
    issuing = issuing_authority("Longchain Issuing CA", 0, region)
    profile = PROFILES["eap-client-device"]
    certificate = issue(profile, public_key=own_key.public_key(), issuer=issuing, **about("longchain-laptop"))
    sent = (certificate, issuing.certificate, region.certificate, policy.certificate)
    assert sum(len(der(each)) for each in sent) > CHAIN_OCTETS
    chain_file, key_file = folder / "chain.pem", folder / "key.pem"
    chain_file.write_bytes(certificates_pem(sent))
    key_file.write_bytes(key_pem(own_key))
    authorities = (root.certificate, *sent[1:])
    return Chain(authorities, ClientFiles("longchain-laptop", certificate, chain_file, key_file))


@pytest.fixture
def trusting(cell, chain):
    """Alpha with the chain's root among its authorities, as the agent stores it."""
    with cell.changes() as batch:
        for certificate in chain.authorities:
            put_trusted(batch, cell.alpha.number, certificate)
    cell.trust_in_openssl(chain.authorities[0])
    yield cell.alpha
    cell.trust_in_openssl()


@both_versions
@pytest.mark.parametrize("octets", SIZES)
def test_long_chain_in_fragments_of_any_size_is_permitted(cell, chain, trusting, octets, version):
    seen = eap_tls(trusting, chain.client, version, fragment_octets=octets).run()
    assert seen.accepted
    assert seen.vlans == ["10"]
    record = cell.decision()
    assert (record.permitted, record.method, record.tls_version) == (True, "eap-tls", version)
    assert record.request["certificate.common_name"] == ("longchain-laptop",)
    # Each fragment takes its own round trip.
    assert seen.codes.count("Access-Challenge") > CHAIN_OCTETS / octets


@both_versions
def test_chain_over_the_round_trip_limit_is_rejected(cell, chain, trusting, version):
    seen = eap_tls(trusting, chain.client, version, fragment_octets=TOO_SMALL).run()
    assert not seen.accepted
    assert seen.codes[-1] == "Access-Reject"
    record = cell.decision()
    assert (record.permitted, record.reason) == (False, "eap-failed")
    assert "More than 50 roundtrips" in record.detail


@both_versions
def test_fragmented_chain_of_an_untrusted_ca_is_rejected(cell, chain, version):
    seen = eap_tls(cell.alpha, chain.client, version, fragment_octets=SIZES[0]).run()
    assert not seen.accepted
    assert seen.eap_failure
    assert (cell.decision().permitted, cell.decision().reason) == (False, "unknown-ca")
