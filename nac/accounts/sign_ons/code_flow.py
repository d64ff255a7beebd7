"""Single sign-on by the authorization code flow (OpenID Connect Core 3.1) with PKCE (RFC 7636)."""

import asyncio
import hashlib
import hmac
import secrets
import threading
import time
from base64 import b64encode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

import msgspec

from nac.accounts.sign_ons.errors import (
    ClientRefused,
    CodeRefused,
    EmailMissing,
    EmailNotVerified,
    IdTokenNotValid,
    ProviderDenied,
    ProviderUnavailable,
    WrongProvider,
)
from nac.accounts.sign_ons.provider_limits import ProviderLimits
from nac.accounts.sign_ons.settings import SignOnSettings
from nac.kit.errors import AdmitError
from nac.kit.id_tokens import IdTokenRefused, parse_public_keys, read_claims, read_key_id
from nac.kit.outbound.http_client import FetchFailed, HttpClient, OutboundTransport
from nac.kit.outbound.reach import OutboundReach
from nac.kit.outbound.tls import tls_context
from nac.kit.validation import is_https_address

_MAX_RESPONSE_BYTES = 1 << 19
_STEP_SECONDS = 5.0
_TOTAL_SECONDS = 10.0
_CACHE_SECONDS = 600.0
_MAX_CACHED = 500
_SUBJECT_CHARACTERS = 255
_MAX_GROUPS = 2_000
# Value of the claim `amr` for several factors (RFC 8176 2).
_TWO_FACTOR_AMR = "mfa"
_PROVIDER_ERRORS = frozenset({"server_error", "temporarily_unavailable"})
_CLIENT_ERRORS = frozenset(
    {
        "invalid_request",
        "unauthorized_client",
        "unsupported_response_type",
        "invalid_scope",
        "invalid_request_uri",
        "invalid_request_object",
        "request_not_supported",
        "request_uri_not_supported",
        "registration_not_supported",
    }
)
_SETUP_REMEDY = "Ask an administrator to check the settings of the single sign-on, such as the client secret."
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class StartedFlow:
    url: str
    state: str
    nonce: str = field(repr=False)
    code_verifier: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AuthorizationResponse:
    """Parameters of the provider's response."""

    code: str = field(repr=False)
    # Parameter `iss` of the response (RFC 9207).
    issuer: str | None
    nonce: str = field(repr=False)
    code_verifier: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ProviderIdentity:
    """Person whom the provider signed in. `email` is in lower case. The provider has verified the address, unless the
    settings of the single sign-on trust unverified addresses."""

    subject: str
    email: str
    groups: frozenset[str]
    has_two_factors: bool


class _Metadata(msgspec.Struct, frozen=True):
    """Provider metadata that Admit uses (OpenID Connect Discovery 3)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class _TokenError(msgspec.Struct, frozen=True):
    error: str


class SignOnProvider:
    def __init__(self, settings: SignOnSettings, *, owner: str, redirect_uri: str, reach: OutboundReach) -> None:
        self._settings = settings
        # Text that identifies the MSP or tenant that configured the provider, for ProviderLimits.
        self._owner = owner
        self._redirect_uri = redirect_uri
        self._reach = reach
        self._key = hashlib.sha256(f"{settings.issuer}\0{settings.ca_certificate}".encode()).digest()

    def begin(self) -> StartedFlow:
        """Start the flow. Raises ProviderUnavailable and TooManySignIns."""
        # With cached metadata, this method sends no request, so it also succeeds if the provider is unavailable.
        metadata = _metadata_cache.get(self._key) or self._run(self._discover)
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        parameters = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": self._settings.scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": _compute_code_challenge(verifier),
            "code_challenge_method": "S256",
        }
        return StartedFlow(_add_to_query(metadata.authorization_endpoint, parameters), state, nonce, verifier)

    def finish(self, returned: AuthorizationResponse, *, secret: str) -> ProviderIdentity:
        """Redeem the code and check the id_token. Raises ProviderRefused, ProviderUnavailable and TooManySignIns."""

        async def redeem(web: HttpClient) -> ProviderIdentity:
            metadata = await self._discover(web)
            issuer = returned.issuer
            if issuer != metadata.issuer and (issuer or metadata.authorization_response_iss_parameter_supported):
                raise WrongProvider
            token, access_token = await self._redeem_code(web, metadata, returned, secret)
            claims = await self._claims(web, metadata, token)
            if not isinstance(claims.get("nonce"), str) or not hmac.compare_digest(
                claims["nonce"].encode(errors="replace"), returned.nonce.encode()
            ):
                raise IdTokenNotValid("The id_token belongs to another sign-in.")
            return self._identity(await self._complete(web, metadata, claims, access_token))

        return self._run(redeem)

    def _run(self, exchange: Callable[[HttpClient], Awaitable[_Found]]) -> _Found:
        async def run() -> _Found:
            tls = tls_context(self._settings.ca_certificate)
            async with OutboundTransport(self._reach, tls=tls, connections=1) as transport:
                web = HttpClient(transport, step_seconds=_STEP_SECONDS, total_seconds=_STEP_SECONDS, redirects_most=0)
                async with asyncio.timeout(_TOTAL_SECONDS):
                    return await exchange(web)

        with _provider_limits.one(owner=self._owner, host=urlsplit(self._settings.issuer).netloc):
            try:
                return asyncio.run(run())
            except (FetchFailed, TimeoutError) as exc:
                raise ProviderUnavailable(str(exc) or "The provider timed out.") from exc

    async def _discover(self, web: HttpClient) -> _Metadata:
        known = _metadata_cache.get(self._key)
        if known is not None:
            return known
        address = self._settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
        metadata = _decode(await web.fetch(address, most_bytes=_MAX_RESPONSE_BYTES), _Metadata, address)
        if metadata.issuer != self._settings.issuer:
            raise ProviderUnavailable(f"{address} reports another issuer: {metadata.issuer[:200]!r}.")
        for endpoint in (metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri):
            if not is_https_address(endpoint):
                raise ProviderUnavailable(f"{address} reports an endpoint without https: {endpoint[:200]!r}.")
        _metadata_cache.put(self._key, metadata)
        return metadata

    async def _redeem_code(
        self, web: HttpClient, metadata: _Metadata, returned: AuthorizationResponse, secret: str
    ) -> tuple[str, str]:
        client_id = self._settings.client_id
        form = {
            "grant_type": "authorization_code",
            "redirect_uri": self._redirect_uri,
            "code": returned.code,
            "code_verifier": returned.code_verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if secret and "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            # Encode client id and secret as form values, so that neither contains a colon (RFC 6749 2.3.1).
            pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            form["client_id"] = client_id
            if secret:
                form["client_secret"] = secret
        body, address = urlencode(form).encode(), metadata.token_endpoint
        try:
            answer = await web.fetch(address, most_bytes=_MAX_RESPONSE_BYTES, body=body, headers=headers)
        except FetchFailed as exc:
            raise _token_refusal(exc) from exc
        found = _decode(answer, dict[str, Any], address)
        token, access_token = found.get("id_token"), found.get("access_token")
        if not isinstance(token, str) or not isinstance(access_token, str):
            raise IdTokenNotValid("The response has no id_token or no access_token.")
        return token, access_token

    async def _claims(self, web: HttpClient, metadata: _Metadata, token: str) -> Mapping[str, Any]:
        address = metadata.jwks_uri
        described = _decode(await web.fetch(address, most_bytes=_MAX_RESPONSE_BYTES), dict[str, Any], address)
        try:
            kid = read_key_id(token)
            keys = list(parse_public_keys(described.get("keys")))
            key = next((key for key in keys if key.key_id == kid or (kid is None and len(keys) == 1)), None)
            if key is None:
                raise IdTokenNotValid("The provider did not publish the key that signed the id_token.")
            return read_claims(token, key, client_id=self._settings.client_id, issuer=metadata.issuer)
        except IdTokenRefused as exc:
            raise IdTokenNotValid(f"{str(exc)[:1].upper()}{str(exc)[1:300]}.") from exc

    async def _complete(
        self, web: HttpClient, metadata: _Metadata, claims: Mapping[str, Any], access_token: str
    ) -> Mapping[str, Any]:
        """Return the claims of the id_token.

        If the claim `email` is missing, adds the claims of the userinfo endpoint (OpenID Connect Core 5.3).
        """
        address = metadata.userinfo_endpoint
        if "email" in claims or not is_https_address(address) or not access_token.isascii():
            return claims
        headers = {"Authorization": f"Bearer {access_token}", "Accept": "application/json"}
        userinfo = _decode(
            await web.fetch(address, most_bytes=_MAX_RESPONSE_BYTES, headers=headers), dict[str, Any], address
        )
        if userinfo.get("sub") != claims.get("sub"):
            raise IdTokenNotValid("The userinfo response and the id_token have different subjects (`sub`).")
        return {**userinfo, **claims}

    def _identity(self, claims: Mapping[str, Any]) -> ProviderIdentity:
        subject, email, groups = claims["sub"], claims.get("email"), claims.get(self._settings.groups_claim)
        if not isinstance(subject, str) or not 1 <= len(subject) <= _SUBJECT_CHARACTERS or not subject.isprintable():
            raise IdTokenNotValid("The id_token has no valid subject.")
        if not isinstance(email, str) or not email:
            raise EmailMissing(remedy="Configure the provider to send the claim `email`.")
        if claims.get("email_verified") is not True and not self._settings.trusts_email:
            raise EmailNotVerified
        listed = groups[:_MAX_GROUPS] if isinstance(groups, list) else [groups]
        amr = claims.get("amr")
        return ProviderIdentity(
            subject,
            email.strip().lower(),
            frozenset(each for each in listed if isinstance(each, str)),
            self._settings.counts_as_two or (isinstance(amr, list) and _TWO_FACTOR_AMR in amr),
        )


def _compute_code_challenge(verifier: str) -> str:
    """Compute the S256 code challenge (RFC 7636 4.2)."""
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _add_to_query(endpoint: str, parameters: Mapping[str, str]) -> str:
    """Add these parameters to the URL of the endpoint. The URL keeps its existing parameters (RFC 6749 3.1)."""
    parts = urlsplit(endpoint)
    query = urlencode([*parse_qsl(parts.query, keep_blank_values=True), *parameters.items()])
    return parts._replace(query=query).geturl()


def build_denial(error: str) -> AdmitError:
    """Return Admit's error for an error code of the provider (RFC 6749 4.1.2.1, OpenID Connect Core 3.1.2.6)."""
    message = f"The provider reports: {error}."
    if error in _PROVIDER_ERRORS:
        return ProviderUnavailable(message, remedy="Start the sign-in again.")
    if error in _CLIENT_ERRORS:
        return ClientRefused(message, remedy=_SETUP_REMEDY)
    return ProviderDenied(message, remedy="Start the sign-in again.")


def _token_refusal(exc: FetchFailed) -> Exception:
    """Convert an error response of the token endpoint (RFC 6749 5.2) to an AdmitError.

    Returns any other `exc` unchanged.
    """
    if exc.refused is None:
        return exc
    try:
        error = msgspec.json.decode(exc.refused, type=_TokenError).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return exc
    if error == "invalid_grant":
        return CodeRefused(remedy="Start the sign-in again.")
    return ClientRefused(f"The provider reports: {error[:100]!r}.", remedy=_SETUP_REMEDY)


def _decode(body: bytes, kind: type[_Found], address: str) -> _Found:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ProviderUnavailable(f"{address} sent an invalid response.") from exc


class _MetadataCache:
    """Cache of provider metadata. An entry is valid for ten minutes."""

    def __init__(self) -> None:
        self._found: OrderedDict[bytes, tuple[float, _Metadata]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes) -> _Metadata | None:
        with self._lock:
            at, metadata = self._found.get(key, (float("-inf"), None))
        return metadata if time.monotonic() - at < _CACHE_SECONDS else None

    def put(self, key: bytes, metadata: _Metadata) -> None:
        with self._lock:
            self._found[key] = (time.monotonic(), metadata)
            self._found.move_to_end(key)
            if len(self._found) > _MAX_CACHED:
                self._found.popitem(last=False)


_provider_limits = ProviderLimits()
_metadata_cache = _MetadataCache()
