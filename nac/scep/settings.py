"""Where a tenant's SCEP webhook is, and what comes of its word: the document that is stored, checked as a whole."""

import ssl
from collections.abc import Iterable
from ipaddress import ip_network

import msgspec

from nac.certificates.issuing import CLIENT_PROFILES
from nac.outbound.tls import tls_context
from nac.validation import is_https_address

_MIN_SECONDS, _MAX_SECONDS = 0.5, 10.0
_MAX_NETWORKS = 50


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str
    # Of the certificates that are given out on its word.
    profile: str = "eap-client-device"
    # For each step: the connection, the request, the next part of the answer.
    timeout_seconds: float = 5.0
    # Where its host may be, as CIDR; empty: wherever the platform connects to (ADMIT_OUTBOUND_NETWORKS).
    networks: tuple[str, ...] = ()
    # PEM of the authorities that its server certificate may come from; "" for those of the system.
    ca_certificate: str = ""


class InvalidWebhookSettings(ValueError):
    """`mistakes` are (field, what is wrong with it)."""

    def __init__(self, mistakes: Iterable[tuple[str, str]]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(f"{place}: {what}" for place, what in self.mistakes))


def check_settings(settings: WebhookSettings) -> WebhookSettings:
    """Raises WebhookRefused with every mistake."""
    mistakes = []
    if not is_https_address(settings.url):
        mistakes.append(("url", f"{settings.url!r} must be https://host, with a path if it needs one"))
    if settings.profile not in CLIENT_PROFILES:
        mistakes.append(("profile", f"{settings.profile!r} must be one of {', '.join(CLIENT_PROFILES)}"))
    if not _MIN_SECONDS <= settings.timeout_seconds <= _MAX_SECONDS:
        mistakes.append(("timeout_seconds", f"must be from {_MIN_SECONDS:g} to {_MAX_SECONDS:g}"))
    if len(settings.networks) > _MAX_NETWORKS:
        mistakes.append(("networks", f"at most {_MAX_NETWORKS}"))
    for text in settings.networks:
        try:
            ip_network(text)
        except ValueError as exc:
            mistakes.append(("networks", f"{exc}; write it as 10.1.0.0/16"))
    if settings.ca_certificate:
        try:
            tls_context(settings.ca_certificate)
        except (ssl.SSLError, ValueError) as exc:
            mistakes.append(("ca_certificate", f"no certificates in PEM: {exc}"))
    if mistakes:
        raise InvalidWebhookSettings(mistakes)
    return settings
