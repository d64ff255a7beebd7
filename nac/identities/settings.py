"""What an identity source is told: the document that is stored, checked at once as a whole."""

import ssl
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from nac.identities.ldap.filters import InvalidLdapFilter, LdapFilter
from nac.outbound.tls import tls_context

# The longest that one login may take, all sources together. radiusd gives up a second later.
MAX_LOGIN_SECONDS = 9.0
MAX_SOURCE_SECONDS = 8.0
_MAX_CONNECTIONS = 64
# With those connections the verifier's share of a tenant (radius/verifier/server.py).
_MAX_WAITING = 448
_DAY_SECONDS = 24 * 3600
# Of what is named in a list: names and groups are compared with all of them while others wait.
_MAX_LISTED = 100
USER_PLACEHOLDERS = frozenset({"user", "name"})
GROUP_PLACEHOLDERS = USER_PLACEHOLDERS | {"dn"}
# What decides to whom the source's secret is sent, and who could read it on the way.
SECRET_BOUND_SETTINGS = ("allow_unencrypted", "ca_certificate", "issuer", "start_tls", "token_endpoint", "urls")


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every kind has."""

    # Names that go there: those with one of these after an @ or before a backslash, and "" for names with neither.
    # Empty: all names.
    realms: tuple[str, ...] = ()
    # PEM of the authorities that its server certificate may come from; "" for those of the system.
    ca_certificate: str = ""
    time_limit_seconds: float = 3.0
    # Logins under way at once, and how many more may wait for their turn.
    connections: int = 8
    waiting: int = 64
    # How long a password that held, and what was found out with it, is remembered.
    cache_seconds: int = 300
    # How long a password that did not hold is refused unasked, which keeps a device from locking its user out.
    refused_seconds: int = 10
    # So many failures of the source in a row, and it is left alone for so long.
    breaker_failures: int = 5
    breaker_seconds: int = 15
    # Groups that are kept, as shell patterns; empty: all.
    only_groups: tuple[str, ...] = ()
    # Policies' name for an attribute of the user -> the source's name for it.
    attributes: dict[str, str] = {}


class LdapSettings(SourceSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    # Asked in order until one takes the connection.
    urls: tuple[str, ...] = ()
    start_tls: bool = False
    # Passwords may cross the network in the clear.
    allow_unencrypted: bool = False
    # Whom we are when we look for users; its password is the source's secret. "" for nobody.
    bind_dn: str = ""
    # In place of looking for the user first: what it binds as, "{user}@corp.example" say.
    direct_bind: str = ""
    base_dn: str = ""
    user_filter: str = "(uid={user})"
    # How the directory spells the user's name.
    name_attribute: str = "uid"
    # nested: as search, with Active Directory's rule that follows groups into groups.
    groups: Literal["none", "memberof", "search", "nested"] = "memberof"
    # "": where users are.
    group_base_dn: str = ""
    group_filter: str = "(member={dn})"
    group_name: str = "cn"


class OidcSettings(SourceSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    issuer: str = ""
    # "": as the issuer's discovery document says.
    token_endpoint: str = ""
    jwks_uri: str = ""
    client_id: str = ""
    scope: str = "openid profile"
    # What is sent as the user's name.
    username: str = "{name}"
    # The claim that must name the user that was asked about; "" to trust the provider with that.
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"


SETTINGS_BY_KIND: dict[str, type[LdapSettings | OidcSettings]] = {"ldap": LdapSettings, "oidc": OidcSettings}
S = TypeVar("S", bound=SourceSettings)


class SettingsRefused(ValueError):
    """`mistakes` are (field, what is wrong with it)."""

    def __init__(self, mistakes: list[tuple[str, str]]) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(f"{place}: {what}" for place, what in mistakes))


def read_settings(kind: str, document: Mapping[str, Any]) -> LdapSettings | OidcSettings:
    """Raises SettingsRefused with every mistake; ValueError where there is no such kind."""
    settings_type = SETTINGS_BY_KIND.get(kind)
    if settings_type is None:
        raise ValueError(f"{kind!r} is no kind of source; there are: {', '.join(SETTINGS_BY_KIND)}")
    mistakes: list[tuple[str, str]] = []
    known = {field.name: field.type for field in msgspec.structs.fields(settings_type)}
    values = {}
    for name, value in document.items():
        if name not in known:
            mistakes.append((name, f"no setting of this kind; there are: {', '.join(sorted(known))}"))
            continue
        try:
            values[name] = msgspec.convert(value, known[name])
        except msgspec.ValidationError as exc:
            mistakes.append((name, str(exc)))
    settings = settings_type(**values)
    broken = {place for place, _ in mistakes}
    found = _common_mistakes(settings) + (
        _ldap_mistakes(settings) if isinstance(settings, LdapSettings) else _oidc_mistakes(settings)
    )
    # What was not read is at its default: that is no mistake of its own.
    mistakes += [(place, what) for place, what in found if place not in broken]
    if mistakes:
        raise SettingsRefused(mistakes)
    return settings


def _common_mistakes(settings: SourceSettings) -> list[tuple[str, str]]:
    found = []
    for name, low, high in (
        ("time_limit_seconds", 0.1, MAX_SOURCE_SECONDS),
        ("connections", 1, _MAX_CONNECTIONS),
        ("waiting", 0, _MAX_WAITING),
        ("cache_seconds", 0, _DAY_SECONDS),
        ("refused_seconds", 0, 300),
        ("breaker_failures", 1, 1_000),
        ("breaker_seconds", 1, 3600),
    ):
        if not low <= getattr(settings, name) <= high:
            found.append((name, f"must be from {low:g} to {high:g}"))
    for name in ("realms", "only_groups", "attributes"):
        if len(getattr(settings, name)) > _MAX_LISTED:
            found.append((name, f"at most {_MAX_LISTED}"))
    if settings.ca_certificate and (trouble := _error_text(lambda: tls_context(settings.ca_certificate))):
        found.append(("ca_certificate", f"no certificates in PEM: {trouble}"))
    for name in settings.attributes:
        if not name.isidentifier():
            found.append(("attributes", f"{name!r} cannot be asked for as user.attribute.{name}"))
    return found


def _ldap_mistakes(settings: LdapSettings) -> list[tuple[str, str]]:
    found = []
    if not settings.urls:
        found.append(("urls", "at least one is needed, such as ldaps://ldap.example.net"))
    for url in settings.urls:
        parts = _split_url(url)
        if parts is None or parts[0] not in ("ldap", "ldaps"):
            found.append(
                ("urls", f"{url!r} must be ldaps://host or ldap://host, with a port where it is not the usual")
            )
        elif parts[0] == "ldap" and not (settings.start_tls or settings.allow_unencrypted):
            found.append(
                ("urls", f"{url} would carry passwords in the clear; use ldaps://, start_tls or allow_unencrypted")
            )
        elif parts[0] == "ldaps" and settings.start_tls:
            found.append(("start_tls", f"{url} is encrypted from the start"))
    if not settings.base_dn:
        found.append(("base_dn", "needed: below which entry users are, such as ou=people,dc=example,dc=net"))
    if settings.direct_bind and "{user}" not in settings.direct_bind and "{name}" not in settings.direct_bind:
        found.append(("direct_bind", "must hold {user} or {name}"))
    if "=" in settings.direct_bind or "," in settings.direct_bind:
        found.append(("direct_bind", "must be a login name such as {user}@corp.example; else leave it out"))
    if "{user}" not in settings.user_filter and "{name}" not in settings.user_filter:
        found.append(("user_filter", "must hold {user} or {name}: it would find everybody"))
    for name, placeholders in (("user_filter", USER_PLACEHOLDERS), ("group_filter", GROUP_PLACEHOLDERS)):
        if trouble := _error_text(lambda: LdapFilter(getattr(settings, name), placeholders=placeholders)):  # noqa: B023 -- called at once
            found.append((name, trouble))
    return found


def _oidc_mistakes(settings: OidcSettings) -> list[tuple[str, str]]:
    found = []
    for name in ("issuer", "token_endpoint", "jwks_uri"):
        url = getattr(settings, name)
        parts = _split_url(url)
        if (url or name == "issuer") and (parts is None or parts[0] != "https"):
            found.append((name, f"{url!r} must be an https:// address"))
    if not settings.client_id:
        found.append(("client_id", "needed: the provider knows us by it"))
    if "openid" not in settings.scope.split():
        found.append(("scope", "must hold openid: without it there is no id_token to verify"))
    if "{user}" not in settings.username and "{name}" not in settings.username:
        found.append(("username", "must hold {user} or {name}"))
    return found


def list_hosts(settings: LdapSettings | OidcSettings) -> list[str]:
    """The servers that it names."""
    if isinstance(settings, LdapSettings):
        urls = settings.urls
    else:
        urls = tuple(filter(None, (settings.issuer, settings.token_endpoint, settings.jwks_uri)))
    return [urlsplit(url).hostname or "" for url in urls]


def _split_url(url: str) -> tuple[str, str] | None:
    """Scheme and host, None where it is no address of a server alone."""
    try:
        parts = urlsplit(url)
        alone = parts.hostname and parts.port != 0 and not parts.username
    except ValueError:
        return None
    return (parts.scheme, parts.hostname or "") if alone else None


def _error_text(check: Callable[[], object]) -> str:
    try:
        check()
    except (InvalidLdapFilter, ssl.SSLError, ValueError) as exc:
        return str(exc) or type(exc).__name__
    return ""
