"""Settings of the single sign-on of an MSP or tenant."""

import ssl
from collections.abc import Mapping
from typing import Any

import msgspec

from nac.kit.errors import InvalidInput, MistakeCollector
from nac.kit.outbound.tls import tls_context
from nac.kit.validation import is_https_address, require_name

MAX_JOINS = 20
_CA_CHARACTERS = 50_000
# These settings select the provider that receives the client secret. A change therefore requires a new client secret.
SECRET_BOUND_SETTINGS = ("issuer", "ca_certificate")
# The subject (`sub`) of an id_token identifies a person only together with these settings.
SUBJECT_BOUND_SETTINGS = ("issuer", "client_id")


class JoinRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rule by which people who sign in become members.

    Admit adds a person if the mail domain and the group match. "" matches every domain or group.
    """

    role: str
    domain: str = ""
    group: str = ""
    # Slugs of the MSP's tenants that the member can access; None for all.
    tenants: tuple[str, ...] | None = None


class SignOnSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    issuer: str
    client_id: str
    scope: str = "openid email profile"
    # CA certificates for TLS to the provider, in PEM. "" uses the CA certificates of the system.
    ca_certificate: str = ""
    groups_claim: str = "groups"
    # Trust e-mail addresses without the claim `email_verified`. Some providers never send this claim.
    trusts_email: bool = False
    # Count each sign-in as two factors, even without the claim `amr`.
    counts_as_two: bool = False
    joins: tuple[JoinRule, ...] = ()


def read_settings(document: Mapping[str, Any]) -> SignOnSettings:
    """Parse the settings. Raises InvalidInput or SeveralMistakes."""
    try:
        settings = msgspec.convert(document, SignOnSettings)
    except msgspec.ValidationError as exc:
        raise InvalidInput(str(exc), place="settings") from exc
    mistakes = MistakeCollector()
    for check in (_check_issuer, _check_client, _check_authorities, _check_joins):
        with mistakes.noted():
            check(settings)
    mistakes.refuse()
    return settings


def _check_issuer(settings: SignOnSettings) -> None:
    if not is_https_address(settings.issuer) or "?" in settings.issuer:
        raise InvalidInput(
            f"Invalid issuer {settings.issuer[:200]!r}.",
            place="issuer",
            remedy="Use a URL like https://login.example.com.",
        )


def _check_client(settings: SignOnSettings) -> None:
    require_name(settings.client_id, place="client_id")
    require_name(settings.groups_claim, place="groups_claim")
    if "openid" not in settings.scope.split() or not settings.scope.isprintable():
        raise InvalidInput("The scope has no `openid`.", place="scope", remedy="Add `openid`.")


def _check_authorities(settings: SignOnSettings) -> None:
    try:
        if len(settings.ca_certificate) > _CA_CHARACTERS:
            raise ValueError("too long")
        tls_context(settings.ca_certificate)
    except (ssl.SSLError, ValueError) as exc:
        raise InvalidInput(
            "Invalid CA certificates.", place="ca_certificate", remedy="Send the CA certificates in PEM."
        ) from exc


def _check_joins(settings: SignOnSettings) -> None:
    if len(settings.joins) > MAX_JOINS:
        raise InvalidInput(
            f"Too many join rules: {len(settings.joins)}.",
            place="joins",
            remedy=f"Send at most {MAX_JOINS} join rules.",
        )
    for number, join in enumerate(settings.joins):
        if not join.domain and not join.group:
            raise InvalidInput(
                "This join rule would make everyone at the provider a member.",
                place=f"joins.{number}",
                remedy="Set a domain, a group, or a domain and a group.",
            )
        if join.domain != join.domain.lower() or "@" in join.domain:
            raise InvalidInput(f"Invalid domain {join.domain!r}.", place=f"joins.{number}.domain")
