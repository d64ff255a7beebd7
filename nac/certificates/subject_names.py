"""Default names of a tenant's authorities and first server certificate."""

import re
import unicodedata
from collections.abc import Sequence

from nac.certificates.errors import translate_pki_errors
from nac.models import Tenant
from pki.names import San, build_san

# radiusd's attribute parser unescapes OpenSSL's names (a backslash before n, r, t, " or three digits), and its Python
# module escapes them again. Our own names avoid all such characters.
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 .,&()'-]+")
# Keeps "<name> Issuing CA" within the 64 characters of a common name.
_MAX_PLAIN_LENGTH = 48


def subject_organisation(tenant: Tenant, name: str = "") -> str:
    """Return the organisation for the subjects: `name`, or the tenant's name, or its slug."""
    return _to_plain(name or tenant.name) or tenant.slug[:_MAX_PLAIN_LENGTH]


def default_server_name(tenant: Tenant) -> str:
    """Return the default DNS name of the server certificate."""
    return f"radius.{tenant.slug}.admit.example"


def _to_plain(name: str) -> str:
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return " ".join(_NOT_PLAIN.sub(" ", ascii_only).split())[:_MAX_PLAIN_LENGTH].strip()


def add_dns_name(name: str, names: Sequence[San]) -> tuple[San, ...]:
    """Add `name` to the alternative names: RadSec clients check the server name there (RFC 6614 2.3)."""
    with translate_pki_errors():
        own = build_san("dns", name)
    return tuple(names) if own in names else (own, *names)
