"""What a tenant's SCEP webhook is told: the document that is stored, checked at once as a whole."""

import ssl
from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

import msgspec

from nac.certificates.issuing import CLIENT_PROFILES
from nac.identities.reach import Reach

_SECONDS_LEAST, _SECONDS_MOST = 0.5, 10.0
_NETWORKS_MOST = 50


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str
    # Of the certificates that are given out on its word.
    profile: str = "eap-client-device"
    # For the connection, for the answer's head, and for its body.
    timeout_seconds: float = 5.0
    # Where its host may be, as CIDR; empty: wherever the platform connects to (ADMIT_SOURCE_NETWORKS).
    networks: tuple[str, ...] = ()
    # PEM of the authorities that its server certificate may come from; "" for those of the system.
    ca_certificate: str = ""


class WebhookRefused(ValueError):
    """`mistakes` are (field, what is wrong with it)."""

    def __init__(self, mistakes: Iterable[tuple[str, str]]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(f"{place}: {what}" for place, what in self.mistakes))


def check(settings: WebhookSettings) -> WebhookSettings:
    """Raises WebhookRefused with every mistake."""
    mistakes = []
    if not _is_https(settings.url):
        mistakes.append(("url", f"{settings.url!r} must be https://host, with a path if it needs one"))
    if settings.profile not in CLIENT_PROFILES:
        mistakes.append(("profile", f"{settings.profile!r} must be one of {', '.join(CLIENT_PROFILES)}"))
    if not _SECONDS_LEAST <= settings.timeout_seconds <= _SECONDS_MOST:
        mistakes.append(("timeout_seconds", f"must be from {_SECONDS_LEAST:g} to {_SECONDS_MOST:g}"))
    if len(settings.networks) > _NETWORKS_MOST:
        mistakes.append(("networks", f"at most {_NETWORKS_MOST}"))
    for text in settings.networks:
        try:
            ip_network(text)
        except ValueError as exc:
            mistakes.append(("networks", f"{exc}; write it as 10.1.0.0/16"))
    if settings.ca_certificate:
        try:
            tls_context(settings)
        except (ssl.SSLError, ValueError) as exc:
            mistakes.append(("ca_certificate", f"no certificates in PEM: {exc}"))
    if mistakes:
        raise WebhookRefused(mistakes)
    return settings


def _is_https(url: str) -> bool:
    try:
        parts = urlsplit(url)
        alone = parts.hostname and parts.port != 0 and parts.username is None and not parts.fragment
    except ValueError:
        return False
    return bool(alone and parts.scheme == "https" and url.isascii() and url.isprintable() and " " not in url)


def tls_context(settings: WebhookSettings) -> ssl.SSLContext:
    """Verifies certificate and name, always. Raises ssl.SSLError or ValueError where ca_certificate is none."""
    context = ssl.create_default_context(cadata=settings.ca_certificate or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def why_not(settings: WebhookSettings, address: str, reach: Reach) -> str:
    """ "" where the webhook may be asked at this address: the platform lets it, and the tenant's networks hold it."""
    if what := reach.why_not(address):
        return what
    found = ip_address(address)
    found = getattr(found, "ipv4_mapped", None) or found
    if settings.networks and not any(found in ip_network(text) for text in settings.networks):
        return f"{address} is in none of the webhook's networks"
    return ""
