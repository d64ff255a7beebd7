"""Cost of finding the authority that signed a certificate: `python -m loadtest.micro.trust`.

Prints microseconds of CPU for the first use of a certificate, and for each later use. Runs with a replica, without
radiusd.
"""

import tempfile
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from loadtest.certificates import BenchAuthority
from loadtest.micro import radius_module
from nac.cellformat.replica.records import CertificateRecord, IssuerRecord, SlotRecord, TrustedAuthority
from nac.cellformat.replica.store import ReplicaReader, ReplicaWriter
from nac.kit.clock import epoch_seconds
from pki.openssl_names import subject_line
from pki.signatures import public_key_der

CERTIFICATES = 1_000
VISITS = 20


def main() -> int:
    radius_module.install(print)
    from radius.module.tls_sessions import certificate_attributes
    from radius.module.trust import check_certificate, find_issuer

    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        authority = BenchAuthority(root)
        issuing = authority.certificates[-1]
        slot = SlotRecord(1, "", "bench", "active", "", "", 200, 60)
        ders = []
        writer = ReplicaWriter(root / "replica", fresh=True)
        with writer.begin() as batch:
            key = public_key_der(issuing.public_bytes(Encoding.DER))
            trusted = TrustedAuthority("0" * 32, key, True, False, 1 << 40)
            batch.put_issuer(1, subject_line(issuing), IssuerRecord((trusted,)))
            for number in range(CERTIFICATES):
                client = authority.client(f"device-{number}")
                ders.append(x509.load_pem_x509_certificate(client.certificate.read_bytes()).public_bytes(Encoding.DER))
                record = CertificateRecord("", "valid", "eap-client-device", "", "")
                batch.put_certificate(1, client.serial, record)
        writer.close()
        reader = ReplicaReader(root / "replica")
        shown = [(der, certificate_attributes(der)) for der in ders]
        spent = []
        for _ in range(VISITS):
            started = time.process_time_ns()
            for der, attributes in shown:
                with reader.begin() as view:
                    issuer = find_issuer(attributes, view, slot)
                    if check_certificate(attributes, der, issuer, view, slot, {}, at=epoch_seconds()):
                        raise SystemExit("a valid certificate was rejected")
            spent.append((time.process_time_ns() - started) / CERTIFICATES / 1000)
        reader.close()
    print(f"{spent[0]:.1f} us for the first use of each of {CERTIFICATES} certificates, {min(spent[1:]):.1f} us later")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
