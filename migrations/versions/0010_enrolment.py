"""Enrolment: one-time secrets, and the key of each certificate."""

import hashlib

from alembic import op
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sqlalchemy import text

from migrations.pieces import run_pieces, wall_tenants

revision = "0010"
down_revision = "0009"

_ROWS = 1000


def upgrade() -> None:
    run_pieces(revision)
    wall_tenants("enrolment_secrets")
    _note_keys()


def _note_keys() -> None:
    """Of certificates that were signed before keys were noted."""
    connection = op.get_bind()
    find = text(
        "SELECT id, certificate_der FROM certificates"
        " WHERE certificate_der IS NOT NULL AND public_key_sha256 IS NULL LIMIT :rows"
    )
    note = text("UPDATE certificates SET public_key_sha256 = :digest WHERE id = :id")
    while rows := connection.execute(find, {"rows": _ROWS}).all():
        connection.execute(note, [{"id": row.id, "digest": _key_digest(row.certificate_der)} for row in rows])


def _key_digest(certificate_der: bytes) -> bytes:
    key = x509.load_der_x509_certificate(certificate_der).public_key()
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


def downgrade() -> None:
    raise NotImplementedError("restore the database from before the upgrade")
