"""An OpenID Connect provider as an identity source, with the password grant (RFC 6749 4.3).

A login is successful only if the provider returns a valid id_token that it signed for this client and this user.
"""

import time
from collections.abc import Mapping
from typing import Any

import httpx
import jwt
import msgspec

from nac.cellformat.identity_names import UserName, fill_placeholders
from nac.inventory.identity_sources.faults import DirectoryRefused, DirectoryUnavailable
from nac.inventory.identity_sources.settings import OidcSettings
from nac.inventory.identity_sources.source_client import StepLog, discard_step, filter_groups
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit.id_tokens import IdTokenRefused, parse_public_keys, read_claims, read_key_id
from nac.kit.outbound.http_client import FetchFailed, OutboundTransport, build_client, read_body
from nac.kit.outbound.reach import AddressRefused, OutboundReach
from nac.kit.outbound.tls import tls_context

MAX_RESPONSE_BYTES = 1 << 20
_KEY_LIFETIME_SECONDS = 3600.0
# Minimum time in seconds between two requests for the provider's signing keys. Admit requests the keys again if an
# id_token has an unknown key id.
_KEY_REFRESH_SECONDS = 30.0
_MAX_TEXT = 300
# Maps codes in the error_description of Entra ID to reason codes of Admit. Other providers send only invalid_grant.
_ENTRA_REASONS = {
    "AADSTS50034": "unknown-user",
    "AADSTS50053": "account-locked",
    "AADSTS50055": "password-expired",
    "AADSTS50056": "password-must-change",
    "AADSTS50057": "account-disabled",
    "AADSTS50076": "second-factor-needed",
    "AADSTS50079": "second-factor-needed",
    "AADSTS50126": "wrong-password",
    "AADSTS50144": "password-expired",
    "AADSTS53003": "login-not-permitted",
}


class OidcProvider:
    def __init__(self, name: str, settings: OidcSettings, secret: bytes, reach: OutboundReach) -> None:
        self.settings = settings
        self._name = name
        self._secret = secret.decode()
        tls = tls_context(settings.ca_certificate)
        self._client = build_client(
            OutboundTransport(reach, tls=tls, connections=settings.connections), seconds=settings.time_limit_seconds
        )
        self._endpoints: tuple[str, str] | None = None
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._keys_at = float("-inf")

    async def verify(self, name: UserName, password: bytes, report: StepLog = discard_step) -> VerificationResult:
        try:
            text = password.decode()
        except UnicodeDecodeError:
            return VerificationResult("wrong-password", "password is not UTF-8", self._name)
        if not text:
            return VerificationResult("wrong-password", "empty", self._name)
        token_endpoint, _ = await self._find_endpoints(report)
        sent = fill_placeholders(self.settings.username, name.placeholders)
        status, document = await self._request_token(token_endpoint, sent, text)
        if status == 200:
            report(f"the password of {sent} is right")
            return await self._identity(name, sent, document, report)
        error, description = (str(document.get(key, ""))[:_MAX_TEXT] for key in ("error", "error_description"))
        report(f"the provider rejects the login: {status} {error} {description}".rstrip())
        if error == "invalid_grant":
            code = description.partition(":")[0]
            return VerificationResult(_ENTRA_REASONS.get(code, "wrong-password"), description, self._name)
        raise DirectoryRefused(f"the provider returned {status} {error}: {description}".rstrip(": "))

    async def close(self) -> None:
        await self._client.aclose()

    async def _request_token(self, endpoint: str, username: str, password: str) -> tuple[int, Mapping[str, Any]]:
        form = {"grant_type": "password", "username": username, "password": password, "scope": self.settings.scope}
        if self._secret:
            return await self._ask("POST", endpoint, data=form, auth=(self.settings.client_id, self._secret))
        return await self._ask("POST", endpoint, data=form | {"client_id": self.settings.client_id})

    async def _identity(
        self, name: UserName, sent: str, document: Mapping[str, Any], report: StepLog
    ) -> VerificationResult:
        token = document.get("id_token")
        if not isinstance(token, str):
            raise DirectoryRefused("the response has no id_token")
        claims = await self._claims(token, report)
        settings = self.settings
        called = claims.get(settings.name_claim)
        if settings.name_claim:
            accepted = {text.casefold() for text in (sent, name.name, name.user)}
            if not isinstance(called, str) or called.casefold() not in accepted:
                raise DirectoryRefused(
                    f"requested user {sent!r}, but the id_token is for {called!r} ({settings.name_claim})"
                )
        groups = filter_groups(_claim_texts(claims.get(settings.groups_claim)), settings.only_groups)
        report(f"groups: {', '.join(groups) or 'none'}")
        return VerificationResult(
            source=self._name,
            name=called if isinstance(called, str) else name.user,
            groups=groups,
            attributes={
                ours: values
                for ours, theirs in settings.attributes.items()
                if (values := _claim_texts(claims.get(theirs)))
            },
        )

    async def _claims(self, token: str, report: StepLog) -> Mapping[str, Any]:
        settings = self.settings
        try:
            key = await self._key(read_key_id(token), report)
            claims = read_claims(token, key, client_id=settings.client_id, issuer=settings.issuer)
        except IdTokenRefused as exc:
            raise DirectoryRefused(str(exc)) from exc
        report("the id_token is valid: signature, issuer, audience, time")
        return claims

    async def _key(self, kid: str | None, report: StepLog) -> jwt.PyJWK:
        age = time.monotonic() - self._keys_at
        if age > _KEY_LIFETIME_SECONDS or (kid not in self._keys and age > _KEY_REFRESH_SECONDS):
            _, jwks_uri = await self._find_endpoints(report)
            document = await self._document(jwks_uri)
            self._keys = {key.key_id: key for key in parse_public_keys(document.get("keys"))}
            self._keys_at = time.monotonic()
            report(f"{len(self._keys)} signing keys from {jwks_uri}")
        if kid not in self._keys:
            raise DirectoryRefused(f"the id_token is signed with an unpublished key: {kid!r}")
        return self._keys[kid]

    async def _find_endpoints(self, report: StepLog) -> tuple[str, str]:
        """Return the URLs of the token endpoint and of the key set.

        The URLs are from the settings, or from the provider's discovery document (OpenID Connect Discovery 4).
        """
        settings = self.settings
        if settings.token_endpoint and settings.jwks_uri:
            return settings.token_endpoint, settings.jwks_uri
        if self._endpoints is None:
            address = settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
            document = await self._document(address)
            if document.get("issuer") != settings.issuer:
                raise DirectoryRefused(f"{address} describes another issuer: {document.get('issuer')!r}")
            found = (
                settings.token_endpoint or document.get("token_endpoint"),
                settings.jwks_uri or document.get("jwks_uri"),
            )
            for endpoint in found:
                if not isinstance(endpoint, str) or not endpoint.startswith("https://"):
                    raise DirectoryRefused(f"{address} has an endpoint without https: {endpoint!r}")
            self._endpoints = (str(found[0]), str(found[1]))
            report(f"endpoints from {address}")
        return self._endpoints

    async def _document(self, address: str) -> Mapping[str, Any]:
        status, document = await self._ask("GET", address)
        if status != 200:
            raise DirectoryRefused(f"{address} returned {status}")
        return document

    async def _ask(
        self,
        method: str,
        address: str,
        **options: Any,  # noqa: ANN401 -- httpx's
    ) -> tuple[int, Mapping[str, Any]]:
        try:
            async with self._client.stream(method, address, **options) as response:
                body = await read_body(response, most_bytes=MAX_RESPONSE_BYTES)
        except httpx.TimeoutException as exc:
            raise TimeoutError from exc
        except (AddressRefused, FetchFailed) as exc:
            raise DirectoryRefused(str(exc)) from exc
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as exc:
            # UnicodeError: an invalid host name (idna).
            raise DirectoryUnavailable(f"{address}: {exc or type(exc).__name__}") from exc
        except RuntimeError as exc:
            # httpx raises RuntimeError if the client is closed.
            if not self._client.is_closed:
                raise
            raise DirectoryUnavailable("the source was changed or deleted during the login") from exc
        if response.status_code >= 500:
            raise DirectoryUnavailable(f"{address} returned {response.status_code}")
        try:
            document = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise DirectoryRefused(f"{address} returned {response.status_code} without a JSON object") from exc
        return response.status_code, document


def _claim_texts(claim: object) -> tuple[str, ...]:
    if isinstance(claim, str):
        return (claim,)
    return tuple(value for value in claim if isinstance(value, str)) if isinstance(claim, list) else ()
