"""Names of a tenant's RADIUS servers, which no other certificate may have.

Devices know their server by its name below the tenant's root. Not all look at what a certificate is for, so whoever has
another certificate of that name could be the server to them.
"""

import unicodedata
from collections.abc import Iterable
from datetime import datetime

from cryptography import x509
from sqlalchemy.orm import Session

from nac.certificates import repository
from nac.certificates.errors import CertificateRefused
from nac.ids import TenantId
from pki.names import San, sans_of

SERVER_PROFILE = "eap-server"


def require_no_server_name(
    session: Session, *, tenant_id: TenantId, common_name: str | None, sans: Iterable[San], now: datetime
) -> None:
    """Raises CertificateRefused, for names below a server's name as well: some devices compare the end of a name."""
    asked = [item.value for item in sans if item.kind == "dns"]
    if common_name is not None:
        asked.append(common_name)
    taken = _server_names(session, tenant_id, now)
    for name in asked:
        if any(_is_taken(_plain(name), server) for server in taken):
            raise CertificateRefused(
                f"{name!r} is a name of the tenant's RADIUS servers, or below one.",
                place="name",
                remedy="Choose another name.",
            )


def _server_names(session: Session, tenant_id: TenantId, now: datetime) -> set[str]:
    """Of certificates that have not ended, whatever else became of them: devices believe those names."""
    found: set[str] = set()
    for common_name, der in repository.names_of_profile(session, tenant_id, SERVER_PROFILE, now):
        names = [] if der is None else [item.value for item in sans_of(x509.load_der_x509_certificate(der))]
        found.update(map(_plain, (common_name, *names)))
    return found


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().rstrip(".")


def _is_taken(name: str, server: str) -> bool:
    is_pattern = name.startswith("*.") and server.endswith(name[1:])
    return name == server or name.endswith(f".{server}") or is_pattern
