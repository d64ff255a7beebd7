"""What single sign-on by a provider is told."""

import ssl
from collections.abc import Mapping
from typing import Any

import msgspec

from nac.errors import InvalidInput, Mistakes
from nac.outbound.tls import tls_context
from nac.validation import is_https_address, require_name

MAX_JOINS = 20
_CA_CHARACTERS = 50_000
# What decides to whom the client's secret is sent.
SECRET_BOUND_SETTINGS = ("issuer", "ca_certificate")
# What decides whom a subject means.
SUBJECT_BOUND_SETTINGS = ("issuer", "client_id")


class JoinRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whoever the provider names becomes a member, where domain and group, as far as given, are theirs."""

    role: str
    domain: str = ""
    group: str = ""
    # Slugs of the MSP's tenants; None for all of them.
    tenants: tuple[str, ...] | None = None


class SignOnSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    issuer: str
    client_id: str
    scope: str = "openid email profile"
    # PEM of the authorities that the provider's server certificate may come from; "" for those of the system.
    ca_certificate: str = ""
    groups_claim: str = "groups"
    # Addresses count without `email_verified`, which some providers never say.
    trusts_email: bool = False
    # The provider asks for two factors itself, whether it says so in `amr` or not.
    counts_as_two: bool = False
    joins: tuple[JoinRule, ...] = ()


def read_settings(document: Mapping[str, Any]) -> SignOnSettings:
    """Raises InvalidInput or SeveralMistakes."""
    try:
        settings = msgspec.convert(document, SignOnSettings)
    except msgspec.ValidationError as exc:
        raise InvalidInput(str(exc), place="settings") from exc
    mistakes = Mistakes()
    for check in (_check_issuer, _check_client, _check_authorities, _check_joins):
        with mistakes.noted():
            check(settings)
    mistakes.refuse()
    return settings


def _check_issuer(settings: SignOnSettings) -> None:
    if not is_https_address(settings.issuer) or "?" in settings.issuer:
        raise InvalidInput(
            f"{settings.issuer[:200]!r} is no issuer.", place="issuer", remedy="Such as https://login.example.com."
        )


def _check_client(settings: SignOnSettings) -> None:
    require_name(settings.client_id, place="client_id")
    require_name(settings.groups_claim, place="groups_claim")
    if "openid" not in settings.scope.split() or not settings.scope.isprintable():
        raise InvalidInput("This asks for no sign-in.", place="scope", remedy="It has openid among its words.")


def _check_authorities(settings: SignOnSettings) -> None:
    try:
        if len(settings.ca_certificate) > _CA_CHARACTERS:
            raise ValueError("too long")
        tls_context(settings.ca_certificate)
    except (ssl.SSLError, ValueError) as exc:
        raise InvalidInput("These are no certificates.", place="ca_certificate", remedy="Give them as PEM.") from exc


def _check_joins(settings: SignOnSettings) -> None:
    if len(settings.joins) > MAX_JOINS:
        raise InvalidInput(f"There may be {MAX_JOINS} at most.", place="joins")
    for number, join in enumerate(settings.joins):
        if not join.domain and not join.group:
            raise InvalidInput(
                "This would let everybody in whom the provider knows.",
                place=f"joins.{number}",
                remedy="Give a domain, a group or both.",
            )
        if join.domain != join.domain.lower() or "@" in join.domain:
            raise InvalidInput(f"{join.domain!r} is no domain.", place=f"joins.{number}.domain")
