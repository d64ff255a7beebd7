"""Files of an issued certificate for a device."""

from nac.certificates.errors import CertificateRefused, translate_pki_errors
from nac.certificates.issuance import IssuedCertificate
from pki.bundles import build_pkcs12, certificates_pem
from pki.keys import key_pem


def build_pem_files(issued: IssuedCertificate) -> dict[str, bytes]:
    """Return PEM files by kind: `cert` (certificate and intermediates), `chain` (intermediates), `ca` (root), and
    `key` if it is available.
    """
    files = {
        "cert": certificates_pem([issued.certificate, *issued.intermediates]),
        "chain": certificates_pem(issued.intermediates),
        "ca": certificates_pem([issued.root]),
    }
    if issued.key is not None:
        files["key"] = key_pem(issued.key)
    return files


def build_pkcs12_file(issued: IssuedCertificate, *, password: str, legacy: bool = False) -> bytes:
    """Return a PKCS#12 file with key, certificate, intermediates and root; `legacy` uses 3DES instead of AES."""
    if issued.key is None:
        raise CertificateRefused(
            "The key is not available: the device that made the signing request has it.", place="key"
        )
    with translate_pki_errors():
        return build_pkcs12(
            friendly_name=issued.common_name,
            key=issued.key,
            certificate=issued.certificate,
            chain=[*issued.intermediates, issued.root],
            password=password,
            legacy=legacy,
        )
