"""An authority's CRL and OCSP data, without a database."""

from datetime import timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.ocsp import OCSPRequestBuilder

from pki.issuance import IssuerLocations, issue
from pki.keys import KeyKind, generate_key
from pki.names import subject_name
from pki.ocsp import OcspSigner
from pki.profiles import PROFILES
from pki.serials import random_serial
from tests.pki.conftest import Chain

HOUR = timedelta(hours=1)
LOCATIONS = IssuerLocations(
    certificate="http://status.admit.example/ca/1.cer",
    ocsp="http://status.admit.example/ocsp/1",
    crl="http://status.admit.example/crl/1.crl",
)


def make_signer(chain: Chain, kind: KeyKind = "ecdsa-p256") -> OcspSigner:
    key = generate_key(kind)
    certificate = issue(
        PROFILES["ocsp-signer"],
        public_key=key.public_key(),
        subject=subject_name("OCSP signer", organisation="Alpha"),
        issuer=chain.issuing,
        now=chain.now,
        serial=random_serial(),
        locations=LOCATIONS,
    )
    return OcspSigner(certificate, key)


def question(chain: Chain, certificate: x509.Certificate, nonce: bytes | None = None) -> bytes:
    digest = hashes.SHA256()
    builder = OCSPRequestBuilder().add_certificate(certificate, chain.issuing.certificate, digest)
    if nonce is not None:
        builder = builder.add_extension(x509.OCSPNonce(nonce), critical=False)
    return builder.build().public_bytes(Encoding.DER)
