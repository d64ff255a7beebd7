"""Settings of an identity source: all fields that the stored JSON document can have, and the checks of the fields."""

import ssl
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from nac.inventory.identity_sources.ldap.filters import InvalidLdapFilter, LdapFilter
from nac.kit.outbound.tls import tls_context

# Time limit in seconds of a login for all identity sources that the login tries together. radiusd times out a second
# later.
MAX_LOGIN_SECONDS = 9.0
MAX_SOURCE_SECONDS = 8.0
_MAX_CONNECTIONS = 64
# Maximum number of waiting logins. This number and the maximum of connections add up to the number of logins that the
# verifier allows for a tenant (radius/verifier/server.py).
_MAX_WAITING = 448
_DAY_SECONDS = 24 * 3600
# Maximum number of entries in a list. While the verifier compares names and groups with all entries, other requests
# wait.
_MAX_LISTED = 100
USER_PLACEHOLDERS = frozenset({"user", "name"})
GROUP_PLACEHOLDERS = USER_PLACEHOLDERS | {"dn"}
# Settings that determine to which server Admit sends the secret, and whether others can read the secret in transit.
SECRET_BOUND_SETTINGS = ("allow_unencrypted", "ca_certificate", "issuer", "start_tls", "token_endpoint", "urls")


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that all kinds of sources have."""

    # Admit queries the source only for user names with these realms (the part after @ or before a backslash). ""
    # matches names without a realm. An empty list matches all names.
    realms: tuple[str, ...] = ()
    # PEM of the authorities that may sign the server certificate; "" for the authorities of the operating system.
    ca_certificate: str = ""
    time_limit_seconds: float = 3.0
    # Maximum number of simultaneous logins at the source.
    connections: int = 8
    # Maximum number of further logins that wait for the source.
    waiting: int = 64
    # Time in seconds for which Admit caches a correct password and the user's data.
    cache_seconds: int = 300
    # Time in seconds for which Admit rejects a repeated wrong password without a query to the source, so that a device
    # with a wrong password does not lock the user's account.
    refused_seconds: int = 10
    # Number of consecutive failures after which Admit pauses queries to the source.
    breaker_failures: int = 5
    # Duration of the pause in seconds.
    breaker_seconds: int = 15
    # Shell patterns for names of groups. Admit ignores groups that match no pattern. If empty, Admit uses all groups.
    only_groups: tuple[str, ...] = ()
    # Maps the name of a user attribute in policies to the name of the attribute at the source.
    attributes: dict[str, str] = {}


class LdapSettings(SourceSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    # URLs of the servers. Admit tries the servers in this order until a server accepts the connection.
    urls: tuple[str, ...] = ()
    start_tls: bool = False
    # Whether Admit may send passwords unencrypted.
    allow_unencrypted: bool = False
    # Account with which Admit searches for users; "" for an anonymous search. Its password is the source's secret.
    bind_dn: str = ""
    # Name with which Admit binds as the user without a search, such as "{user}@corp.example"; "" to search for the user
    # first.
    direct_bind: str = ""
    base_dn: str = ""
    user_filter: str = "(uid={user})"
    # Attribute that contains the user's name in the spelling of the directory.
    name_attribute: str = "uid"
    # How Admit finds the groups of a user. "nested" is like "search", but also finds groups that contain groups of the
    # user (only Active Directory).
    groups: Literal["none", "memberof", "search", "nested"] = "memberof"
    # Directory entry below which Admit searches for groups; "" to use base_dn.
    group_base_dn: str = ""
    group_filter: str = "(member={dn})"
    group_name: str = "cn"


class OidcSettings(SourceSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    issuer: str = ""
    # URL of the token endpoint; "" to read the URL from the issuer's discovery document.
    token_endpoint: str = ""
    jwks_uri: str = ""
    client_id: str = ""
    scope: str = "openid profile"
    # Template of the user name in the token request.
    username: str = "{name}"
    # Claim that must contain the name of the requested user; "" to trust the provider without this check.
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"


SETTINGS_BY_KIND: dict[str, type[LdapSettings | OidcSettings]] = {"ldap": LdapSettings, "oidc": OidcSettings}
S = TypeVar("S", bound=SourceSettings)


class SettingsRefused(ValueError):
    """Invalid settings. `mistakes` contains a pair (field, description) for each mistake."""

    def __init__(self, mistakes: list[tuple[str, str]]) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(f"{place}: {what}" for place, what in mistakes))


def read_settings(kind: str, document: Mapping[str, Any]) -> LdapSettings | OidcSettings:
    """Parse settings. Raises one SettingsRefused that lists all mistakes, and ValueError for an unknown kind."""
    settings_type = SETTINGS_BY_KIND.get(kind)
    if settings_type is None:
        raise ValueError(f"unknown kind of source {kind!r}; use one of: {', '.join(SETTINGS_BY_KIND)}")
    mistakes: list[tuple[str, str]] = []
    known = {field.name: field.type for field in msgspec.structs.fields(settings_type)}
    values = {}
    for name, value in document.items():
        if name not in known:
            mistakes.append((name, f"unknown setting; use one of: {', '.join(sorted(known))}"))
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
    # If the value of a setting has a wrong type, report only this mistake: the other checks used the default value.
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
            found.append((name, f"must be between {low:g} and {high:g}"))
    for name in ("realms", "only_groups", "attributes"):
        if len(getattr(settings, name)) > _MAX_LISTED:
            found.append((name, f"can have at most {_MAX_LISTED} entries"))
    if settings.ca_certificate and (trouble := _error_text(lambda: tls_context(settings.ca_certificate))):
        found.append(("ca_certificate", f"invalid PEM certificates: {trouble}"))
    for name in settings.attributes:
        if not name.isidentifier():
            found.append(("attributes", f"{name!r} cannot be used as user.attribute.{name}"))
    return found


def _ldap_mistakes(settings: LdapSettings) -> list[tuple[str, str]]:
    found = []
    if not settings.urls:
        found.append(("urls", "required, such as ldaps://ldap.example.net"))
    for url in settings.urls:
        parts = _split_url(url)
        if parts is None or parts[0] not in ("ldap", "ldaps"):
            found.append(("urls", f"{url!r} must be ldaps://host or ldap://host, with an optional port"))
        elif parts[0] == "ldap" and not (settings.start_tls or settings.allow_unencrypted):
            found.append(("urls", f"{url} sends passwords in the clear; use ldaps://, start_tls or allow_unencrypted"))
        elif parts[0] == "ldaps" and settings.start_tls:
            found.append(("start_tls", f"not allowed with {url}, which is already encrypted"))
    if not settings.base_dn:
        found.append(("base_dn", "required: the entry above all users, such as ou=people,dc=example,dc=net"))
    if settings.direct_bind and "{user}" not in settings.direct_bind and "{name}" not in settings.direct_bind:
        found.append(("direct_bind", "must contain {user} or {name}"))
    if "=" in settings.direct_bind or "," in settings.direct_bind:
        found.append(
            (
                "direct_bind",
                "must be a login name such as {user}@corp.example; to search for the user first, omit this setting",
            )
        )
    if "{user}" not in settings.user_filter and "{name}" not in settings.user_filter:
        found.append(("user_filter", "must contain {user} or {name}; otherwise the filter matches everyone"))
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
        found.append(("client_id", "required: identifies Admit at the provider"))
    if "openid" not in settings.scope.split():
        found.append(("scope", "must contain openid; otherwise the provider sends no id_token"))
    if "{user}" not in settings.username and "{name}" not in settings.username:
        found.append(("username", "must contain {user} or {name}"))
    return found


def list_hosts(settings: LdapSettings | OidcSettings) -> list[str]:
    """Return the host names in the URLs of the settings."""
    if isinstance(settings, LdapSettings):
        urls = settings.urls
    else:
        urls = tuple(filter(None, (settings.issuer, settings.token_endpoint, settings.jwks_uri)))
    return [urlsplit(url).hostname or "" for url in urls]


def _split_url(url: str) -> tuple[str, str] | None:
    """Return scheme and host; None if the URL is invalid, has no host, or contains a user name."""
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
