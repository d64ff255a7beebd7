"""Long certificate chains in small fragments (RFC 5216 2.1.5).

The chain has three certificates of a foreign authority, with RSA keys of 4,096 bits. The device sends its own
certificate and those of two authorities, more than 4 kB. The tenant trusts their root.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from nac.kit.clock import utc_now
from pki.bundles import certificates_pem
from pki.issuance import Issuer, issue, issue_root
from pki.keys import key_pem
from pki.names import subject_name
from pki.profiles import PROFILES
from pki.serials import random_serial
from radius.agent.radiusd.tls_material import TenantMaterial, TlsMaterialStore
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
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return make_chain(tmp_path_factory.mktemp("chain"))


def make_chain(folder: Path) -> Chain:
    # All authorities share one key, because each key takes seconds to generate.
    key, own_key = (rsa.generate_private_key(public_exponent=65537, key_size=4096) for _ in range(2))
    now = utc_now()

    def authority(name, path_length, issuer=None):
        profile = replace(PROFILES["root" if issuer is None else "issuing"], path_length=path_length)
        about = {"subject": subject_name(name, organisation="Longchain"), "now": now, "serial": random_serial()}
        if issuer is None:
            return Issuer(issue_root(profile, key=key, **about), key)
        return Issuer(issue(profile, public_key=key.public_key(), issuer=issuer, **about), key)

    root = authority("Longchain Root", 2)
    policy = authority("Longchain Policy CA", 1, root)
    issuing = authority("Longchain Issuing CA", 0, policy)
    certificate = issue(
        PROFILES["eap-client-device"],
        public_key=own_key.public_key(),
        subject=subject_name("longchain-laptop", organisation="Longchain"),
        issuer=issuing,
        now=now,
        serial=random_serial(),
    )
    chain_file, key_file = folder / "chain.pem", folder / "key.pem"
    chain_file.write_bytes(certificates_pem([certificate, issuing.certificate, policy.certificate]))
    key_file.write_bytes(key_pem(own_key))
    authorities = (root.certificate, policy.certificate, issuing.certificate)
    return Chain(authorities, ClientFiles("longchain-laptop", certificate, chain_file, key_file))


@pytest.fixture
def trusting(cell, replica, chain):
    """Alpha with the chain's root among its authorities, as the agent stores it."""
    materials, alpha = TlsMaterialStore(cell.paths), cell.alpha
    own = [der(certificate) for certificate in alpha.authorities.certificates]

    def trust(*more: x509.Certificate) -> None:
        ders = [*own, *map(der, more)]
        materials.place(TenantMaterial(alpha.slot, ders, alpha.server.serial, lambda: alpha.server))

    with replica.begin() as batch:
        for certificate in chain.authorities:
            put_trusted(batch, alpha.number, certificate)
    trust(chain.authorities[0])
    yield alpha
    trust()


def test_chain_has_the_intended_length(chain):
    assert sum(len(der(each)) for each in (chain.client.certificate, *chain.authorities[1:])) > CHAIN_OCTETS


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
