"""Export of a chain as lines of JSON: a start, one line for each entry, and a signed end. Auditors can verify an export
without Admit."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy.orm import Session

from nac.core.access.owners import Owner
from nac.core.audit import repository
from nac.core.audit.chain import CHAIN_FORMAT, chain_name, entry_text, first_hash, head_text
from nac.core.audit.keys import public_pem
from nac.kit.errors import InvalidInput, NotFound
from nac.models import AuditChain

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
    """Signed head of the owner's chain. Raises NothingSealed."""
    return _build_head(session, owner, _require_chain(session, owner))


def export_chain(read: OpenSession, *, owner: Owner, behind: int = 0) -> Iterator[str]:
    """Yield the export of the entries after position `behind`, in blocks of one or more lines. `read` opens read
    transactions.

    Raises NothingSealed or InvalidInput at the call, before any block.
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
