"""Snippets: configurations for a tenant's switches and access points, with the server's address, ports and secret.

The folder `templates` has a file for each snippet: a TOML header, a line `+++`, and a Jinja2 template.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from jinja2 import Environment, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.engine.vendors.catalogue import all_vendors
from nac.kit.advice import Advice
from nac.kit.errors import InvalidInput, NotFound
from nac.kit.ids import TenantId
from nac.kit.sealing import Unseal
from nac.models import Nas
from nac.tenancy import sites
from nac.tenancy.cells import service as cells
from nac.tenancy.nases import service as nases
from nac.tenancy.secret_rotations import service as rotations
from nac.tenancy.tenants import service as tenants

_FOLDER = Path(__file__).parent / "templates"
_SEPARATOR = "\n+++\n"

AccessKind = Literal["wired", "wireless", "both"]
SnippetKind = Literal["commands", "file", "steps"]
# How the device's configuration quotes values. "plain": not quoted, so a blank ends the value. "double", "single": in
# double or single quotation marks.
Quoting = Literal["plain", "double", "single"]
Feature = Literal["dot1x", "mab", "accounting", "coa", "vlan"]
FEATURES: tuple[Feature, ...] = get_args(Feature)


class TemplatesDamaged(Exception):
    """Template files have mistakes. Each of the `mistakes` is a text that begins with the name of the file."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(mistakes))


@dataclass(frozen=True, slots=True)
class SnippetTemplate:
    id: str
    title: str
    # Vendor in nac.engine.vendors. The vendor determines how Admit ends sessions on the NAS.
    vendor: str
    access: AccessKind
    kind: SnippetKind
    versions: str
    features: tuple[Feature, ...]
    quoting: Quoting
    # Characters that begin a comment line; "" if the text is instructions and not a configuration.
    comment: str
    # Text about Message-Authenticator: whether the device sends this attribute, and what to do if not.
    message_authenticator: str
    text: str


@cache
def load_templates() -> Mapping[str, SnippetTemplate]:
    """Return all templates by id. Raises TemplatesDamaged."""
    mistakes: list[str] = []
    found = {
        file.stem: _parse_template(file.stem, file.read_text(), mistakes) for file in sorted(_FOLDER.glob("*.txt"))
    }
    if mistakes:
        raise TemplatesDamaged(mistakes)
    return {name: template for name, template in found.items() if template is not None}


def _parse_template(name: str, content: str, mistakes: list[str]) -> SnippetTemplate | None:
    head, rule, text = content.partition(_SEPARATOR)
    try:
        written: dict[str, Any] = tomllib.loads(head)
    except tomllib.TOMLDecodeError as exc:
        mistakes.append(f"{name}: {exc}")
        return None
    if not rule:
        mistakes.append(f"{name}: missing line +++")
    known: dict[str, tuple[str, ...]] = {
        "vendor": tuple(all_vendors()),
        "access": get_args(AccessKind),
        "kind": get_args(SnippetKind),
        "quoting": get_args(Quoting),
    }
    for key, values in known.items():
        if written.get(key) not in values:
            mistakes.append(f"{name}: {key} must be one of {', '.join(values)}")
    if wrong := set(written.get("features", ())).difference(FEATURES):
        mistakes.append(f"{name}: unknown feature {', '.join(sorted(wrong))}")
    written["features"] = tuple(written.get("features", ()))
    try:
        return SnippetTemplate(id=name, text=text, **written)
    except TypeError as exc:
        mistakes.append(f"{name}: {exc}")
        return None


# Placeholder for a secret that the user has not revealed.
SECRET_PLACEHOLDER = "REPLACE-WITH-THE-SECRET"  # noqa: S105 -- no password
_MAX_SAFE_NAME_CHARACTERS = 32
_HOST = re.compile(r"[A-Za-z0-9.:-]{1,253}", re.ASCII)
# Letters, digits, and characters that have no special meaning in any vendor's command line.
_PLAIN = re.compile(r"[A-Za-z0-9._+=@/-]{1,128}", re.ASCII)
_QUOTED: Mapping[Quoting, re.Pattern[str]] = {
    "plain": _PLAIN,
    # Characters that have no special meaning within quotation marks in any vendor's command line.
    "double": re.compile(r"[A-Za-z0-9 ._+=@/,:;<>()\[\]{}#%&*^~|-]{1,128}", re.ASCII),
    "single": re.compile(r"[A-Za-z0-9 ._+=@/,:;<>()\[\]{}#%&*^~|$-]{1,128}", re.ASCII),
}


class SecretNotWritable(InvalidInput):
    """The secret has characters that this device's configuration cannot contain safely."""


@dataclass(frozen=True, slots=True)
class SnippetValues:
    tenant: str
    host: str
    auth_port: int
    acct_port: int
    # Names of the site and NAS that the user selected; "" without a selection.
    site: str = ""
    nas: str = ""
    secret: str = field(default="", repr=False)


class SnippetNotFound(NotFound):
    """The snippet does not exist."""


def list_templates() -> Sequence[SnippetTemplate]:
    return list(load_templates().values())


def require_template(name: str) -> SnippetTemplate:
    found = load_templates().get(name)
    if found is None:
        raise SnippetNotFound(place="snippet", remedy=Advice("List snippets", "listSnippets"))
    return found


def render_snippet(
    session: Session,
    *,
    tenant_id: TenantId,
    name: str,
    usual_host: str,
    site: str = "",
    nas: str = "",
    secret: str = "",
) -> str:
    """Return the snippet `name` as text. `site` is a slug. `nas` is a name, address or identifier.

    If the tenant's cell has no address of its own, the snippet contains `usual_host`. `secret` comes from
    `reveal_secret`; without `secret`, the text contains a placeholder. Raises NotFound and SecretNotWritable.
    """
    template = require_template(name)
    slot = cells.require_slot(session, tenant_id=tenant_id)
    device = nases.require_nas(session, tenant_id=tenant_id, reference=nas) if nas else None
    place = sites.require_by_slug(session, tenant_id=tenant_id, slug=site) if site else None
    values = SnippetValues(
        tenant=tenants.require_tenant(session, tenant_id=tenant_id).slug,
        host=cells.advertised_address(session, slot=slot, usual=usual_host),
        auth_port=slot.auth_port,
        acct_port=slot.acct_port,
        site=place.name if place else "",
        nas=(device.identifier or device.name) if device else "",
        secret=secret,
    )
    return render(template, values)


def reveal_secret(
    session: Session, *, actor: str, tenant_id: TenantId, unseal: Unseal, nas: str = "", following: bool = False
) -> str:
    """Return the shared secret of the NAS, or of the tenant if the NAS has no secret. Audits the access.

    With `following`, returns the next secret of a running rotation instead.
    """
    device: Nas | None = nases.require_nas(session, tenant_id=tenant_id, reference=nas) if nas else None
    target = device.name if device else tenants.require_tenant(session, tenant_id=tenant_id).slug
    audit.append(
        session,
        actor=actor,
        action="secret.reveal",
        target=target,
        tenant_id=tenant_id,
        after={"of": "nas" if device and device.secret_sealed else "tenant"} | ({"next": True} if following else {}),
    )
    if following:
        return rotations.open_next_secret(session, tenant_id=tenant_id, nas=device, unseal=unseal)
    if device is not None and device.secret_sealed is not None:
        return unseal(device.secret_sealed, nases.secret_context(device)).decode()
    slot = cells.require_slot(session, tenant_id=tenant_id)
    return unseal(slot.secret_sealed, cells.slot_secret_context(slot)).decode()


def render(template: SnippetTemplate, values: SnippetValues) -> str:
    """Render a template. Raises SecretNotWritable.

    Checks that names and secrets cannot end a word, line or quotation, because they could then add commands to the
    configuration.
    """
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
    """Return a short form of a name, in which dashes replace all characters except letters, digits and dots."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")[:_MAX_SAFE_NAME_CHARACTERS]


@cache
def _environment() -> Environment:
    # The output is not HTML, so it needs no escaping. `render` has checked the values.
    return ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
