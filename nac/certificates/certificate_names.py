"""Names in a tenant's certificates: default names of its authorities, and reserved names of its RADIUS servers."""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from cryptography import x509

from nac.certificates.errors import CertificateRefused, translate_pki_errors
from nac.models import Tenant
from pki.names import San, build_san, read_sans

SERVER_PROFILE = "eap-server"
# Characters that names of Admit's authorities must not contain, because radiusd changes these characters. The attribute
# parser of radiusd removes escapes (a backslash before n, r, t, " or digits) from the names that OpenSSL prints. The
# Python module of radiusd (rlm_python3) escapes the names again.
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 .,&()'-]+")
# With this limit, "<name> Issuing CA" fits into the 64 characters of a common name.
_MAX_PLAIN_LENGTH = 48


def require_no_server_name(servers: Iterable[bytes], *, common_name: str | None, sans: Iterable[San]) -> None:
    """Check that no requested name belongs to a RADIUS server. `servers` are the certificates of the RADIUS servers.

    Devices recognise the RADIUS server by its DNS name. Some devices do not check the extended key usage, so the
    holder of any certificate with that name could imitate the server. Some devices compare only the end of a name, so
    subdomains of a server name are also reserved. Raises CertificateRefused.
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


def subject_organisation(tenant: Tenant, name: str = "") -> str:
    """Return the organisation for certificate subjects: `name`, by default the tenant's name or slug."""
    return _to_plain(name or tenant.name) or tenant.slug[:_MAX_PLAIN_LENGTH]


def default_server_name(tenant: Tenant) -> str:
    """Return the default DNS name of the tenant's server certificate."""
    return f"radius.{tenant.slug}.admit.example"


def add_dns_name(name: str, names: Sequence[San]) -> tuple[San, ...]:
    """Add the DNS name `name` to the alternative names `names`, where RadSec clients expect it (RFC 6614 2.3)."""
    with translate_pki_errors():
        own = build_san("dns", name)
    return tuple(names) if own in names else (own, *names)


def _normalise_name(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().rstrip(".")


def _is_taken(name: str, server: str) -> bool:
    is_pattern = name.startswith("*.") and server.endswith(name[1:])
    return name == server or name.endswith(f".{server}") or is_pattern


def _to_plain(name: str) -> str:
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return " ".join(_NOT_PLAIN.sub(" ", ascii_only).split())[:_MAX_PLAIN_LENGTH].strip()
