"""Long certificate chains in small fragments (RFC 5216 2.1.5).

The authorities are foreign and have RSA keys of 4,096 bits. The device sends its own certificate and those of three
authorities, more than 4 kB. The tenant trusts their root.
"""

from dataclasses import dataclass, replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from nac.kit.clock import utc_now
from pki.bundles import certificates_pem
from pki.issuance import Issuer, issue, issue_root
from pki.keys import generate_key, key_pem
from pki.names import subject_name
from pki.profiles import PROFILES
from pki.serials import random_serial
from tests.radius.supplicant import TLS_1_2, TLS_1_3, eap_tls
from tests.radius.tenants import ClientFiles, der
from tests.radius.trusted_authorities import put_trusted

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
