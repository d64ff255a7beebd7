"""Names of a tenant's RADIUS servers, which are reserved.

Devices recognise their server by its name below the tenant's root. Not all check the usage of the certificate, so any
other certificate with that name could imitate the server.
"""

import unicodedata
from collections.abc import Iterable

from cryptography import x509

from nac.certificates.errors import CertificateRefused
from pki.names import San, read_sans

SERVER_PROFILE = "eap-server"


def require_no_server_name(servers: Iterable[bytes], *, common_name: str | None, sans: Iterable[San]) -> None:
    """Check that no name belongs to the RADIUS servers whose certificates are `servers`.

    Raises CertificateRefused also for names below a server name: some devices compare only the end of a name.
    """
    names = [item.value for item in sans if item.kind == "dns"]
    if common_name is not None:
        names.append(common_name)
    taken = {_normalise_name(item.value) for der in servers for item in read_sans(x509.load_der_x509_certificate(der))}
    for name in names:
        if any(_is_taken(_normalise_name(name), server) for server in taken):
            raise CertificateRefused(
                f"{name!r} is reserved for the tenant's RADIUS servers.",
                place="name",
                remedy="Choose another name.",
            )


def _normalise_name(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().rstrip(".")


def _is_taken(name: str, server: str) -> bool:
    is_pattern = name.startswith("*.") and server.endswith(name[1:])
    return name == server or name.endswith(f".{server}") or is_pattern
