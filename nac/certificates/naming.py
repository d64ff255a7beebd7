"""Names that a tenant's own authorities and its first server certificate get."""

import re
import unicodedata
from collections.abc import Sequence

from nac.certificates.errors import refusals
from nac.models import Tenant
from pki.names import San, build_san

# radiusd's attribute parser unescapes what OpenSSL shows of a name (a backslash before n, r, t, " or three digits) and
# its Python module escapes it again: names of our own authorities hold nothing that either touches.
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 .,&()'-]+")
# So that "<name> Issuing CA" stays within the 64 characters of a common name.
_PLAIN_CHARACTERS = 48


def organisation_for(tenant: Tenant, name: str = "") -> str:
    """The organisation in the subjects of its authorities: `name`, else the tenant's own, else its slug."""
    return _plain(name or tenant.name) or tenant.slug[:_PLAIN_CHARACTERS]


def default_server_name(tenant: Tenant) -> str:
    """The DNS name that devices are told to expect where nobody chose one."""
    return f"radius.{tenant.slug}.admit.example"


def _plain(name: str) -> str:
    ascii_alone = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return " ".join(_NOT_PLAIN.sub(" ", ascii_alone).split())[:_PLAIN_CHARACTERS].strip()


def with_dns_name(name: str, names: Sequence[San]) -> tuple[San, ...]:
    """RFC 6614 2.3: clients of RadSec look for the server's name among the alternative ones."""
    with refusals():
        own = build_san("dns", name)
    return tuple(names) if own in names else (own, *names)
