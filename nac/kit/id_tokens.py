"""Verification of id_tokens: signature, issuer, audience and expiry (OpenID Connect Core 3.1.3.7)."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import jwt

# Only asymmetric algorithms. Otherwise an attacker could sign a token with the public key as a shared secret (RFC 8725
# 2.1, 3.1).
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LEEWAY_SECONDS = 60
# Public members of a key (RFC 7518 6). Admit ignores secret members, with which PyJWT could calculate prime numbers for
# minutes.
_PUBLIC_MEMBERS = ("kty", "kid", "alg", "use", "n", "e", "crv", "x", "y")
# Maximum length of a member: 16,384 bits in base64.
_MAX_MEMBER = 2731
_MAX_KEYS = 100
# Errors that PyJWT raises for invalid input, including very large numbers and deeply nested JSON.
_INVALID_TOKEN_ERRORS = (jwt.PyJWTError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError)


class IdTokenRefused(Exception):
    """The id_token is invalid. The message is for administrators."""


def read_key_id(token: str) -> str | None:
    """Return the key id in the header of the token; None if the header has no key id. Raises IdTokenRefused."""
    try:
        found = jwt.get_unverified_header(token).get("kid")
    except _INVALID_TOKEN_ERRORS as exc:
        raise IdTokenRefused(f"invalid id_token: {exc}") from exc
    return found if isinstance(found, str) else None


def read_claims(token: str, key: jwt.PyJWK, *, client_id: str, issuer: str) -> Mapping[str, Any]:
    """Verify the token, and return its claims. Raises IdTokenRefused."""
    try:
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            audience=client_id,
            issuer=issuer,
            leeway=_LEEWAY_SECONDS,
            options={"require": ["iss", "aud", "exp", "iat", "sub"]},
        )
    except _INVALID_TOKEN_ERRORS as exc:
        raise IdTokenRefused(f"invalid id_token: {exc}") from exc
    # OpenID Connect Core 3.1.3.7: with several audiences, `azp` must be this client.
    if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != client_id:
        raise IdTokenRefused("the id_token is for several audiences and not issued to this client")
    return claims


def parse_public_keys(described: object) -> Iterator[jwt.PyJWK]:
    """Yield the usable keys of a key set. Ignores all other keys (RFC 7517 5)."""
    for each in described[:_MAX_KEYS] if isinstance(described, list) else ():
        public = {name: each[name] for name in _PUBLIC_MEMBERS if name in each} if isinstance(each, dict) else {}
        if all(isinstance(value, str) and len(value) <= _MAX_MEMBER for value in public.values()):
            with suppress(*_INVALID_TOKEN_ERRORS):
                yield jwt.PyJWK(public)
