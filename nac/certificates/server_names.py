"""Names of a tenant's RADIUS servers, which no other certificate may have.

Devices know their server by its name below the tenant's root. Not all look at what a certificate is for, so whoever has
another certificate of that name could be the server to them.
"""

import unicodedata
from collections.abc import Iterable

from cryptography import x509

from nac.certificates.errors import CertificateRefused
from pki.names import San, read_sans

SERVER_PROFILE = "eap-server"


def require_no_server_name(servers: Iterable[bytes], *, common_name: str | None, sans: Iterable[San]) -> None:
    """`servers` are the certificates of the tenant's RADIUS servers, of which devices believe the names.

    Raises CertificateRefused, for names below a server's name as well: some devices compare the end of a name.
    """
    asked = [item.value for item in sans if item.kind == "dns"]
    if common_name is not None:
        asked.append(common_name)
    taken = {_plain(item.value) for der in servers for item in read_sans(x509.load_der_x509_certificate(der))}
    for name in asked:
        if any(_is_taken(_plain(name), server) for server in taken):
            raise CertificateRefused(
                f"{name!r} is a name of the tenant's RADIUS servers, or below one.",
                place="name",
                remedy="Choose another name.",
            )


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().rstrip(".")


def _is_taken(name: str, server: str) -> bool:
    is_pattern = name.startswith("*.") and server.endswith(name[1:])
    return name == server or name.endswith(f".{server}") or is_pattern
