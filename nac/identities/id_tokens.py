"""id_tokens of OpenID Connect providers: signed by the provider, for us, and not expired (Core 3.1.3.7)."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import jwt

# Asymmetric ones alone: a public key must never do as a shared secret (RFC 8725 2.1, 3.1).
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LEEWAY_SECONDS = 60
# Of a key (RFC 7518 6). For the secret members PyJWT would look for primes, minutes long.
_PUBLIC_MEMBERS = ("kty", "kid", "alg", "use", "n", "e", "crv", "x", "y")
# 16,384 bits in base64.
_MAX_MEMBER = 2731
_MAX_KEYS = 100
# What PyJWT raises of what it is given: its own, and what numbers without bounds and JSON without end do to it.
_INVALID_TOKEN_ERRORS = (jwt.PyJWTError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError)


class IdTokenRefused(Exception):
    """The message is for an administrator."""


def read_key_id(token: str) -> str | None:
    """Of the key that it says it is signed with. Raises IdTokenRefused."""
    try:
        found = jwt.get_unverified_header(token).get("kid")
    except _INVALID_TOKEN_ERRORS as exc:
        raise IdTokenRefused(f"its id_token does not hold: {exc}") from exc
    return found if isinstance(found, str) else None


def read_claims(token: str, key: jwt.PyJWK, *, client_id: str, issuer: str) -> Mapping[str, Any]:
    """Raises IdTokenRefused."""
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
        raise IdTokenRefused(f"its id_token does not hold: {exc}") from exc
    # OpenID Connect Core 3.1.3.7: of a token for several, ours is the one that names us as its user.
    if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != client_id:
        raise IdTokenRefused("its id_token is meant for others, too")
    return claims


def parse_public_keys(described: object) -> Iterator[jwt.PyJWK]:
    """Those of a set that can be used; a set may hold others (RFC 7517 5)."""
    for each in described[:_MAX_KEYS] if isinstance(described, list) else ():
        public = {name: each[name] for name in _PUBLIC_MEMBERS if name in each} if isinstance(each, dict) else {}
        if all(isinstance(value, str) and len(value) <= _MAX_MEMBER for value in public.values()):
            with suppress(*_INVALID_TOKEN_ERRORS):
                yield jwt.PyJWK(public)
