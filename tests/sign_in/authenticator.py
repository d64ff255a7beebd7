"""A software authenticator that uses Yubico's library. Admit verifies with another library."""

import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2.cose import ES256
from fido2.webauthn import Aaguid, AttestationObject, AttestedCredentialData, AuthenticatorData

ORIGIN = "http://localhost:8460"
_FLAGS = AuthenticatorData.FLAG


class Authenticator:
    def __init__(self, *, verifies: bool = True, origin: str = ORIGIN, counts: bool = True) -> None:
        self.verifies = verifies
        self.origin = origin
        self.count = 0
        self._counts = counts
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.credential_id = os.urandom(32)
        self.handle = b""

    def create(self, options: dict[str, Any]) -> dict[str, Any]:
        self.handle = decoded(options["user"]["id"])
        client = self._client("webauthn.create", options["challenge"])
        public = ES256.from_cryptography_key(self._key.public_key())
        attested = AttestedCredentialData.create(Aaguid(bytes(16)), self.credential_id, public)
        data = self._data(options["rp"]["id"], _FLAGS.AT, attested)
        made = AttestationObject.create("none", data, {})
        return self._credential({"clientDataJSON": encoded(client), "attestationObject": encoded(bytes(made))})

    def get(self, options: dict[str, Any], **changed: Any) -> dict[str, Any]:
        client = self._client("webauthn.get", options["challenge"])
        data = self._data(options["rpId"], _FLAGS(0), b"")
        signature = self._key.sign(bytes(data) + sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        response = {
            "clientDataJSON": encoded(client),
            "authenticatorData": encoded(bytes(data)),
            "signature": encoded(signature),
            "userHandle": encoded(self.handle),
        }
        return self._credential(response | changed)

    def _data(self, rp_id: str, flags: Any, attested: bytes) -> AuthenticatorData:
        self.count += self._counts
        flags |= _FLAGS.UP | (_FLAGS.UV if self.verifies else _FLAGS(0))
        return AuthenticatorData.create(sha256(rp_id.encode()).digest(), flags, self.count, attested)

    def _client(self, kind: str, challenge: str) -> bytes:
        return json.dumps({"type": kind, "challenge": challenge, "origin": self.origin}).encode()

    def _credential(self, response: dict[str, Any]) -> dict[str, Any]:
        name = encoded(self.credential_id)
        return {"id": name, "rawId": name, "type": "public-key", "response": response, "clientExtensionResults": {}}


def encoded(octets: bytes) -> str:
    return urlsafe_b64encode(octets).decode().rstrip("=")


def decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
