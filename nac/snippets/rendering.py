"""A template with a tenant's values. What somebody chose, a name or a secret, can end no word, line or quotation."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from jinja2 import Environment, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from nac.errors import InvalidInput
from nac.snippets.catalogue import Quoting, SnippetTemplate
from nac.vendors.catalogue import all_vendors

# In place of a secret that is not shown.
SECRET_PLACEHOLDER = "REPLACE-WITH-THE-SECRET"  # noqa: S105 -- no password
_MAX_NAME_CHARACTERS = 32
_HOST = re.compile(r"[A-Za-z0-9.:-]{1,253}", re.ASCII)
# Beside letters and digits, in a word that ends at a blank: of these no vendor's shell makes anything.
_PLAIN = re.compile(r"[A-Za-z0-9._+=@/-]{1,128}", re.ASCII)
_QUOTED: Mapping[Quoting, re.Pattern[str]] = {
    "plain": _PLAIN,
    # What a quoted word may hold and no vendor reads as the beginning of something else.
    "double": re.compile(r"[A-Za-z0-9 ._+=@/,:;<>()\[\]{}#%&*^~|-]{1,128}", re.ASCII),
    "single": re.compile(r"[A-Za-z0-9 ._+=@/,:;<>()\[\]{}#%&*^~|$-]{1,128}", re.ASCII),
}


class SecretNotWritable(InvalidInput):
    """The secret has characters that this device's configuration cannot hold safely."""


@dataclass(frozen=True, slots=True)
class SnippetValues:
    tenant: str
    host: str
    auth_port: int
    acct_port: int
    # Names of a site and of a NAS, as people chose them; "" where none is given.
    site: str = ""
    nas: str = ""
    secret: str = field(default="", repr=False)


@cache
def _environment() -> Environment:
    # No HTML: what may stand in a value is checked before.
    return ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)


def render(template: SnippetTemplate, values: SnippetValues) -> str:
    """Raises SecretNotWritable."""
    if not _HOST.fullmatch(values.host):
        raise InvalidInput(f"{values.host!r} is no address of a RADIUS server.", place="radius_host")
    secret = values.secret or SECRET_PLACEHOLDER
    if not _QUOTED[template.quoting].fullmatch(secret):
        raise SecretNotWritable(
            f"{template.title} cannot hold it.", place="secret", remedy="Give letters and digits alone: 32 of them."
        )

    def about(comment: str) -> str:
        words = [f"Admit: tenant {safe_name(values.tenant)}"]
        words += [f"{kind} {safe_name(name)}" for kind, name in (("site", values.site), ("NAS", values.nas)) if name]
        lines = [
            f"{', '.join(words)}. {template.title}, {template.versions}.",
            f"Message-Authenticator: {template.message_authenticator}",
        ]
        if values.host.startswith("127."):
            lines.append(f"{values.host} is the server itself: give its cell the address that devices reach.")
        return "\n".join(f"{comment} {line}".lstrip() for line in lines)

    return (
        _environment()
        .from_string(template.text)
        .render(
            about=about,
            radius={
                "host": values.host,
                "auth_port": values.auth_port,
                "acct_port": values.acct_port,
                "secret": secret,
            },
            nas={"name": safe_name(values.nas) or "admit-nas"},
            coa={"port": all_vendors()[template.vendor].recipe.port},
        )
    )


def safe_name(text: str) -> str:
    """What is left of a name where nothing but letters, digits, dots and dashes means anything."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")[:_MAX_NAME_CHARACTERS]
