"""Ed25519 keys of the platform that sign heads of audit chains. The master key encrypts the private keys.

A user with access only to the database cannot sign, and cannot replace a key.
"""

from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.kit.secrets import Sealer
from nac.models import AuditKey


@dataclass(frozen=True, slots=True)
class HeadKey:
    id: int
    private: Ed25519PrivateKey

    def sign(self, text: str) -> bytes:
        return self.private.sign(text.encode())

    def signed(self, text: str, signature: bytes) -> bool:
        return is_signature_valid(self.private.public_key(), text, signature)


def is_signature_valid(key: Ed25519PublicKey, text: str, signature: bytes) -> bool:
    try:
        key.verify(signature, text.encode())
    except InvalidSignature:
        return False
    return True


def public_pem(raw: bytes) -> str:
    key = Ed25519PublicKey.from_public_bytes(raw)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def load_or_create_keys(session: Session, sealer: Sealer) -> dict[int, HeadKey]:
    """Keys by id, newest last.

    Creates the first key. Use as database role admit_worker. Raises the errors of `Sealer.open`.
    """
    rows = session.scalars(select(AuditKey).order_by(AuditKey.id)).all()
    if not rows:
        private = Ed25519PrivateKey.generate()
        raw = private.public_key().public_bytes_raw()
        row = AuditKey(public_key=raw, private_sealed=sealer.seal(private.private_bytes_raw(), _seal_context(raw)))
        session.add(row)
        session.flush()
        rows = [row]
    return {
        row.id: HeadKey(
            row.id, Ed25519PrivateKey.from_private_bytes(sealer.open(row.private_sealed, _seal_context(row.public_key)))
        )
        for row in rows
    }


def _seal_context(public_key: bytes) -> str:
    return f"audit-key:{public_key.hex()}"
