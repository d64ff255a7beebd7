"""Renders a template with a tenant's values. No name or secret can end a word, line or quotation."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from jinja2 import Environment, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from nac.engine.vendors.catalogue import all_vendors
from nac.kit.errors import InvalidInput
from nac.onboarding.snippets.catalogue import Quoting, SnippetTemplate

# Stands for a secret that is not revealed.
SECRET_PLACEHOLDER = "REPLACE-WITH-THE-SECRET"  # noqa: S105 -- no password
_MAX_NAME_CHARACTERS = 32
_HOST = re.compile(r"[A-Za-z0-9.:-]{1,253}", re.ASCII)
# Besides letters and digits, characters without a meaning in any vendor's shell.
_PLAIN = re.compile(r"[A-Za-z0-9._+=@/-]{1,128}", re.ASCII)
_QUOTED: Mapping[Quoting, re.Pattern[str]] = {
    "plain": _PLAIN,
    # Characters without a meaning within quotation marks of any vendor.
    "double": re.compile(r"[A-Za-z0-9 ._+=@/,:;<>()\[\]{}#%&*^~|-]{1,128}", re.ASCII),
    "single": re.compile(r"[A-Za-z0-9 ._+=@/,:;<>()\[\]{}#%&*^~|$-]{1,128}", re.ASCII),
}


class SecretNotWritable(InvalidInput):
    """The secret has characters that this configuration cannot contain safely."""


@dataclass(frozen=True, slots=True)
class SnippetValues:
    tenant: str
    host: str
    auth_port: int
    acct_port: int
    # Names of a site and a NAS; "" if not selected.
    site: str = ""
    nas: str = ""
    secret: str = field(default="", repr=False)


@cache
def _environment() -> Environment:
    # The output is not HTML. Values are checked beforehand.
    return ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)


def render(template: SnippetTemplate, values: SnippetValues) -> str:
    """Render a template. Raises SecretNotWritable."""
    if not _HOST.fullmatch(values.host):
        raise InvalidInput(f"Invalid address of a RADIUS server: {values.host!r}.", place="radius_host")
    secret = values.secret or SECRET_PLACEHOLDER
    if not _QUOTED[template.quoting].fullmatch(secret):
        raise SecretNotWritable(
            f"A configuration of {template.title} cannot contain this secret.",
            place="secret",
            remedy="Use a secret of 32 letters and digits.",
        )

    def about(comment: str) -> str:
        words = [f"Admit: tenant {safe_name(values.tenant)}"]
        words += [f"{kind} {safe_name(name)}" for kind, name in (("site", values.site), ("NAS", values.nas)) if name]
        lines = [
            f"{', '.join(words)}. {template.title}, {template.versions}.",
            f"Message-Authenticator: {template.message_authenticator}",
        ]
        if values.host.startswith("127."):
            lines.append(f"{values.host} is the server itself: set an address of the cell that devices can reach.")
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
    """Replace everything except letters, digits and dots by dashes, and shorten the name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")[:_MAX_NAME_CHARACTERS]
