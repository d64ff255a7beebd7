"""Audit chains: format, signing keys and export. docs/how-to/audit.md explains how auditors verify an export.

* Format: the texts that Admit hashes and signs. Do not change the format, because sealed entries could then not be
  verified. A new format needs a new name (CHAIN_FORMAT).
* Signing keys: Ed25519 keys of the platform that sign the heads of chains. The master key encrypts the private keys.
  Users who have access only to the database can therefore not sign a head or replace a key.
* Export: one line of JSON for the start of the export, for each entry, and for the signed head. Auditors can verify an
  export without Admit.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.core.audit import repository
from nac.kit.errors import InvalidInput, NotFound
from nac.kit.ids import MspId, TenantId
from nac.kit.secrets import Sealer
from nac.models import AuditChain, AuditEntry, AuditKey

CHAIN_FORMAT = "admit-audit-1"
_HASHED_COLUMNS = ("id", "actor", "action", "target", "tenant_id", "msp_id", "address", "request_id", "before", "after")


def chain_name(owner: Owner) -> str:
    """Name of the owner's chain, such as `tenant:<id>`; `platform` for the platform."""
    if owner.tenant_id is not None:
        return f"tenant:{owner.tenant_id}"
    return "platform" if owner.msp_id is None else f"msp:{owner.msp_id}"


def chain_owner(entry: AuditEntry) -> Owner:
    """Return the owner (tenant, MSP or platform) whose chain contains the entry.

    All changes of a tenant are in the tenant's chain, even changes that the platform's operator makes.
    """
    if entry.tenant_id is not None:
        return Owner(tenant_id=TenantId(entry.tenant_id))
    return Owner(None if entry.msp_id is None else MspId(entry.msp_id))


def entry_text(entry: AuditEntry) -> str:
    """Return the text of an entry that Admit hashes: one line of JSON with sorted names."""
    values: dict[str, Any] = {name: getattr(entry, name) for name in _HASHED_COLUMNS}
    return _canonical_json(values | {"at": format_moment(entry.at), "form": CHAIN_FORMAT})


def head_text(chain: str, *, position: int, digest: bytes, at: datetime) -> str:
    """Return the text of a chain's head that Admit signs. It contains the number of entries and the last hash."""
    return _canonical_json(
        {"at": format_moment(at), "chain": chain, "form": CHAIN_FORMAT, "hash": digest.hex(), "position": position}
    )


def first_hash(chain: str) -> bytes:
    """Return the value that replaces the previous hash for the first entry of a chain.

    The value depends on the chain's name, so that the entries of a chain are invalid in any other chain.
    """
    return hashlib.sha256(f"{CHAIN_FORMAT} {chain}".encode()).digest()


def next_hash(previous: bytes, text: str) -> bytes:
    return hashlib.sha256(f"{previous.hex()}\n{text}".encode()).digest()


def format_moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _canonical_json(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


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
    """Return the signing keys by id, newest last. Creates a key if no key exists.

    Needs database role admit_worker. Raises the errors of `Sealer.open`.
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


_PAGE_ENTRIES = 1_000

OpenSession = Callable[[], AbstractContextManager[Session]]


class NothingSealed(NotFound):
    """The audit log has no sealed entries yet."""


@dataclass(frozen=True, slots=True)
class SignedHead:
    chain: str
    position: int
    # `text` is the signed text, `signature` is in base64, `public_key` in PEM.
    text: str
    signature: str
    public_key: str

    def line(self) -> str:
        return json.dumps({"head": self.text, "signature": self.signature, "public_key": self.public_key})


def get_head(session: Session, *, owner: Owner) -> SignedHead:
    """Return the signed head of the owner's chain. Raises NothingSealed if the chain has no entries."""
    return _build_head(session, owner, _require_chain(session, owner))


def export_chain(read: OpenSession, *, owner: Owner, behind: int = 0) -> Iterator[str]:
    """Yield the export of the entries after position `behind`, in blocks of one or more lines.

    `read` opens transactions that only read. Raises NothingSealed or InvalidInput when you call the function, before
    the first block.
    """
    with read() as session:
        chain = _require_chain(session, owner)
        end = _build_head(session, owner, chain)
        previous = repository.get_hash(session, chain.id, behind) if behind else first_hash(end.chain)
    if previous is None:
        raise InvalidInput(f"The chain of the audit log has only {chain.position} entries.", place="after")
    return _iter_lines(read, chain, end, behind=behind, previous=previous)


def _iter_lines(
    read: OpenSession, chain: AuditChain, end: SignedHead, *, behind: int, previous: bytes
) -> Iterator[str]:
    yield json.dumps({"form": CHAIN_FORMAT, "chain": end.chain, "after": behind, "previous": previous.hex()}) + "\n"
    while behind < chain.position:
        with read() as session:
            piece, behind = _read_piece(session, chain, behind)
        if not piece:
            break
        yield piece
    yield end.line() + "\n"


def _read_piece(session: Session, chain: AuditChain, behind: int) -> tuple[str, int]:
    places = repository.list_seals_after(session, chain.id, position=behind, until=chain.position, limit=_PAGE_ENTRIES)
    entries = {
        entry.id: entry for entry in repository.list_entries_by_ids(session, [place.entry_id for place in places])
    }
    lines = []
    for place in places:
        entry = entries.get(place.entry_id)
        # A deleted entry keeps its position in the export, so that verification reports the gap.
        text = entry and entry_text(entry)
        line = {"position": place.position, "hash": place.hash.hex(), "entry": text}
        lines.append(json.dumps(line) + "\n")
        behind = place.position
    return "".join(lines), behind


def _require_chain(session: Session, owner: Owner) -> AuditChain:
    chain = repository.get_chain(session, owner)
    if chain is None:
        raise NothingSealed(remedy="Try again in a few seconds. The worker seals new entries every few seconds.")
    return chain


def _build_head(session: Session, owner: Owner, chain: AuditChain) -> SignedHead:
    name = chain_name(owner)
    text = head_text(name, position=chain.position, digest=chain.hash, at=chain.sealed_at)
    key = public_pem(repository.get_public_key(session, chain.key_id))
    return SignedHead(name, chain.position, text, base64.b64encode(chain.signature).decode(), key)
