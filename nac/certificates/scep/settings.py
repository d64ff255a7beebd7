"""Settings of a tenant's SCEP webhook. Admit stores the settings as one JSON document and checks all fields
together."""

import ssl
from collections.abc import Iterable
from ipaddress import ip_network

import msgspec

from nac.certificates.issuance import CLIENT_PROFILES
from nac.kit.outbound.tls import tls_context
from nac.kit.validation import is_https_address

_MIN_SECONDS, _MAX_SECONDS = 0.5, 10.0
_MAX_NETWORKS = 50


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: str
    # Profile of the certificates that Admit issues if the webhook permits the enrolment.
    profile: str = "eap-client-device"
    # Maximum time of each step: to connect, to send the request, and to receive each part of the response.
    timeout_seconds: float = 5.0
    # Permitted networks (CIDR) for the webhook's address. Empty: the platform's networks (ADMIT_OUTBOUND_NETWORKS).
    networks: tuple[str, ...] = ()
    # PEM of the authorities that may sign the webhook's server certificate; "" for the operating system's authorities.
    ca_certificate: str = ""


class InvalidWebhookSettings(ValueError):
    """The webhook settings are invalid. `mistakes` contains a pair (field, message) for each mistake."""

    def __init__(self, mistakes: Iterable[tuple[str, str]]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(f"{place}: {what}" for place, what in self.mistakes))


def check_settings(settings: WebhookSettings) -> WebhookSettings:
    """Return the settings if they are valid. Raises InvalidWebhookSettings with all mistakes."""
    mistakes = []
    if not is_https_address(settings.url):
        mistakes.append(("url", f"{settings.url!r} must be https://host, optionally with a path"))
    if settings.profile not in CLIENT_PROFILES:
        mistakes.append(("profile", f"{settings.profile!r} must be one of {', '.join(CLIENT_PROFILES)}"))
    if not _MIN_SECONDS <= settings.timeout_seconds <= _MAX_SECONDS:
        mistakes.append(("timeout_seconds", f"must be between {_MIN_SECONDS:g} and {_MAX_SECONDS:g}"))
    if len(settings.networks) > _MAX_NETWORKS:
        mistakes.append(("networks", f"must have at most {_MAX_NETWORKS} entries"))
    for text in settings.networks:
        try:
            ip_network(text)
        except ValueError as exc:
            mistakes.append(("networks", f"{exc}; write a network as 10.1.0.0/16"))
    if settings.ca_certificate:
        try:
            tls_context(settings.ca_certificate)
        except (ssl.SSLError, ValueError) as exc:
            mistakes.append(("ca_certificate", f"not a valid PEM certificate: {exc}"))
    if mistakes:
        raise InvalidWebhookSettings(mistakes)
    return settings
