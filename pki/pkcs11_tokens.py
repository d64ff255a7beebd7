"""Private keys in a PKCS#11 token (OASIS PKCS#11 v2.40).

The token creates the keys, and never exports a private key. Callers use the keys like local keys, and identify each key
by its CKA_ID. After a fork, or after a failure of the token, this module opens a new session with the token. So Admit
needs no restart after a failure. This module requires the package extra `pkcs11`.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, encode_dss_signature

from pki.errors import TokenRefused, TokenUnavailable
from pki.keys import KeyKind, PrivateKey, PublicKey, require_acceptable

_T = TypeVar("_T")

_CURVE_NAMES = {"ecdsa-p256": "secp256r1", "ecdsa-p384": "secp384r1"}
_RSA_BITS = {"rsa-2048": 2048, "rsa-3072": 3072}


class Pkcs11Token:
    """A token, which this class uses through a PKCS#11 module. Thread-safe: runs one operation at a time."""

    def __init__(self, module: Path, label: str, pin: str) -> None:
        self._module = module
        self._label = label
        self._pin = pin
        self._lock = threading.RLock()
        self._session: Any = None
        self._owner = 0
        self._pin_refused = False

    def __repr__(self) -> str:
        return f"Token({self._label!r} of {self._module})"

    def generate(self, kind: KeyKind, *, key_id: bytes, label: str) -> PrivateKey:
        """Create a key pair whose private key cannot be extracted."""

        def make(session: Any) -> PrivateKey:  # noqa: ANN401 -- the library is optional
            import pkcs11
            from pkcs11.util.ec import encode_named_curve_parameters

            common: dict[str, Any] = {
                "id": key_id,
                "label": label,
                "store": True,
                "capabilities": pkcs11.MechanismFlag.SIGN | pkcs11.MechanismFlag.VERIFY,
                "private_template": {pkcs11.Attribute.SENSITIVE: True, pkcs11.Attribute.EXTRACTABLE: False},
            }
            if curve := _CURVE_NAMES.get(kind):
                parameters = {pkcs11.Attribute.EC_PARAMS: encode_named_curve_parameters(curve)}
                session.create_domain_parameters(pkcs11.KeyType.EC, parameters, local=True).generate_keypair(**common)
            else:
                session.generate_keypair(pkcs11.KeyType.RSA, _RSA_BITS[kind], **common)
            return self._wrap(session, key_id)

        return self._run(make)

    def key(self, key_id: bytes) -> PrivateKey:
        """Return the key with this id. Raises TokenRefused if the token does not have the key."""
        return self._run(lambda session: self._wrap(session, key_id))

    def sign(self, key_id: bytes, data: bytes, mechanism: str) -> bytes:
        """Sign data with a private key inside the token.

        `mechanism` is the name of a PKCS#11 mechanism without CKM_.
        """

        def sign(session: Any) -> bytes:  # noqa: ANN401 -- the library is optional
            import pkcs11

            key = self._find(session, pkcs11.ObjectClass.PRIVATE_KEY, key_id)
            signature: bytes = key.sign(data, mechanism=pkcs11.Mechanism[mechanism])
            return signature

        return self._run(sign)

    def _wrap(self, session: Any, key_id: bytes) -> PrivateKey:  # noqa: ANN401 -- the library is optional
        public = self._public_key(session, key_id)
        if isinstance(public, ec.EllipticCurvePublicKey):
            return TokenEcKey(self, key_id, public)
        return TokenRsaKey(self, key_id, public)

    def _public_key(self, session: Any, key_id: bytes) -> PublicKey:  # noqa: ANN401 -- the library is optional
        import pkcs11
        from pkcs11.util.ec import encode_ec_public_key
        from pkcs11.util.rsa import encode_rsa_public_key

        key = self._find(session, pkcs11.ObjectClass.PUBLIC_KEY, key_id)
        if key.key_type == pkcs11.KeyType.EC:
            loaded = serialization.load_der_public_key(encode_ec_public_key(key))
        else:
            # The encoding is PKCS#1 (RFC 8017 A.1.1), which `cryptography` also reads.
            loaded = serialization.load_der_public_key(encode_rsa_public_key(key))
        return require_acceptable(loaded)

    def _find(self, session: Any, kind: Any, key_id: bytes) -> Any:  # noqa: ANN401 -- the library is optional
        import pkcs11

        try:
            return session.get_key(object_class=kind, id=key_id)
        except pkcs11.NoSuchKey as exc:
            raise pkcs11.NoSuchKey(f"The token {self._label!r} has no key {key_id.hex()}.") from exc

    def _run(self, operation: Callable[[Any], _T]) -> _T:
        """Run an operation in a session of the token.

        If the token reports an error, such as an invalid session, the function repeats the operation in a new session.
        """
        pkcs11 = _import_library()
        with self._lock:
            try:
                return operation(self._open(pkcs11))
            except pkcs11.PKCS11Error:
                self._session = None
            try:
                return operation(self._open(pkcs11))
            except pkcs11.NoSuchKey as exc:
                raise TokenRefused(_error_text(exc)) from exc
            except pkcs11.PKCS11Error as exc:
                self._session = None
                raise TokenUnavailable(f"The token {self._label!r} fails: {_error_text(exc)}.") from exc

    def _open(self, pkcs11: Any) -> Any:  # noqa: ANN401 -- the library is optional
        if self._session is not None and self._owner == os.getpid():
            return self._session
        if self._pin_refused:
            raise self._wrong_pin()
        if not self._module.is_file():
            raise TokenRefused(f"PKCS#11 module {self._module} does not exist. Check ADMIT_PKCS11_MODULE.")
        try:
            module = pkcs11.lib(str(self._module))
            # A PKCS#11 module knows only the tokens that were present when it started, and does not support forks.
            module.reinitialize()
            self._session = module.get_token(token_label=self._label).open(rw=True, user_pin=self._pin)
        except (pkcs11.PinIncorrect, pkcs11.PinInvalid, pkcs11.PinLenRange) as exc:
            # Do not use this PIN again, because a token locks after a few wrong PINs.
            self._pin_refused = True
            raise self._wrong_pin() from exc
        except pkcs11.PinLocked as exc:
            raise TokenRefused(
                f"The token {self._label!r} is locked after wrong PINs."
                " The security officer of the token must unlock the token."
            ) from exc
        except pkcs11.NoSuchToken as exc:
            raise TokenUnavailable(f"Token {self._label!r} does not exist. Check ADMIT_PKCS11_TOKEN.") from exc
        except RuntimeError as exc:
            # The error has a PKCS#11 code, so the file is a PKCS#11 module. The failure may be temporary, for example
            # because no session is free.
            if isinstance(exc, pkcs11.PKCS11Error) and type(exc) is not pkcs11.PKCS11Error:
                raise
            raise TokenRefused(f"{self._module} is not a PKCS#11 module: {exc}") from exc
        self._owner = os.getpid()
        return self._session

    def _wrong_pin(self) -> TokenRefused:
        return TokenRefused(
            f"The PIN of the token {self._label!r} is wrong. Admit does not try this PIN again."
            " Write the right PIN into the file in ADMIT_PKCS11_PIN_FILE, and restart Admit."
        )


def _import_library() -> Any:  # noqa: ANN401 -- the library is optional
    try:
        import pkcs11
    except ImportError as exc:
        raise TokenRefused("Python's PKCS#11 library is missing: pip install 'admit[pkcs11]'.") from exc
    return pkcs11


def _error_text(exc: Exception) -> str:
    return str(exc) or type(exc).__name__


class _TokenKey:
    """Common methods of keys in a token. Keys cannot be exported. `copy` returns the key object itself."""

    def private_numbers(self) -> NoReturn:
        _refuse("cannot be exported")

    def private_bytes(
        self,
        encoding: serialization.Encoding,
        format: serialization.PrivateFormat,  # noqa: A002 -- the interface's name
        encryption_algorithm: serialization.KeySerializationEncryption,
    ) -> NoReturn:
        _refuse("cannot be exported")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[Any, Any]) -> Self:
        return self


class TokenEcKey(_TokenKey, ec.EllipticCurvePrivateKey):
    """ECDSA key (FIPS 186-5). The token receives only the hash of the data that it signs."""

    def __init__(self, token: Pkcs11Token, key_id: bytes, public: ec.EllipticCurvePublicKey) -> None:
        self._token, self._key_id, self._public = token, key_id, public

    def sign(self, data: Any, signature_algorithm: ec.EllipticCurveSignatureAlgorithm) -> bytes:  # noqa: ANN401
        algorithm = signature_algorithm.algorithm
        if isinstance(algorithm, Prehashed):
            digest = bytes(data)
        else:
            hashing = hashes.Hash(algorithm)
            hashing.update(data)
            digest = hashing.finalize()
        raw = self._token.sign(self._key_id, digest, "ECDSA")
        # The token returns r and s, each as long as the order of the curve (PKCS#11 2.3.1). X.509 requires
        # ECDSA-Sig-Value (RFC 5480).
        half = len(raw) // 2
        return encode_dss_signature(int.from_bytes(raw[:half]), int.from_bytes(raw[half:]))

    def public_key(self) -> ec.EllipticCurvePublicKey:
        return self._public

    @property
    def curve(self) -> ec.EllipticCurve:
        return self._public.curve

    @property
    def key_size(self) -> int:
        return self._public.key_size

    def exchange(self, algorithm: ec.ECDH, peer_public_key: ec.EllipticCurvePublicKey) -> NoReturn:
        _refuse("does not support key exchange")


class TokenRsaKey(_TokenKey, rsa.RSAPrivateKey):
    """RSA key for signatures with RSASSA-PKCS1-v1_5 (RFC 8017 8.2)."""

    def __init__(self, token: Pkcs11Token, key_id: bytes, public: rsa.RSAPublicKey) -> None:
        self._token, self._key_id, self._public = token, key_id, public

    def sign(self, data: Any, padding: Any, algorithm: Any) -> bytes:  # noqa: ANN401
        if not isinstance(padding, _PKCS1V15) or algorithm.name not in ("sha256", "sha384", "sha512"):
            raise UnsupportedAlgorithm("An RSA key in a token only signs with PKCS#1 v1.5 and SHA-2.")
        return self._token.sign(self._key_id, bytes(data), f"{algorithm.name.upper()}_RSA_PKCS")

    def public_key(self) -> rsa.RSAPublicKey:
        return self._public

    @property
    def key_size(self) -> int:
        return self._public.key_size

    def decrypt(self, ciphertext: bytes, padding: Any) -> NoReturn:  # noqa: ANN401
        _refuse("cannot decrypt")


_PKCS1V15 = padding.PKCS1v15


def _refuse(what: str) -> NoReturn:
    raise TokenRefused(f"A key in a token {what}.")
