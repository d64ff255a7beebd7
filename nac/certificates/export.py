"""An issued certificate as files: what a device, or a person who sets one up, is handed."""

from nac.certificates.errors import CertificateRefused, refusals
from nac.certificates.issuing import IssuedCertificate
from pki.bundles import build_pkcs12, certificates_pem
from pki.keys import key_pem


def pem_files(issued: IssuedCertificate) -> dict[str, bytes]:
    """By kind: `cert` (the certificate with its intermediates, as supplicants want it), `chain` (the intermediates),
    `ca` (the root to trust), and `key` where it is at hand.
    """
    files = {
        "cert": certificates_pem([issued.certificate, *issued.intermediates]),
        "chain": certificates_pem(issued.intermediates),
        "ca": certificates_pem([issued.root]),
    }
    if issued.key is not None:
        files["key"] = key_pem(issued.key)
    return files


def pkcs12_file(issued: IssuedCertificate, *, password: str, legacy: bool = False) -> bytes:
    """Key, certificate, intermediates and root in one file; `legacy` for importers that know no AES (3DES)."""
    if issued.key is None:
        raise CertificateRefused("The key is not here: whoever made the signing request holds it.", place="key")
    with refusals():
        return build_pkcs12(
            friendly_name=issued.common_name,
            key=issued.key,
            certificate=issued.certificate,
            chain=[*issued.intermediates, issued.root],
            password=password,
            legacy=legacy,
        )
