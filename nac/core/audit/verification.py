"""Verification of an audit log export. The verification needs no database and no Admit installation."""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from nac.core.audit.chain import CHAIN_FORMAT, first_hash, is_signature_valid, next_hash
from nac.kit.errors import InvalidInput

_MAX_FINDINGS = 20
_MAX_LINE_LENGTH = 16 << 20


@dataclass(frozen=True, slots=True)
class KnownHead:
    """Signed head of a chain that the auditor stored earlier."""

    chain: str
    position: int
    digest: str
    public_key: str


@dataclass(slots=True)
class ChainVerification:
    chain: str = ""
    # Position directly before the first entry of the export, and position of the last entry.
    after: int = 0
    last: int = 0
    entries: int = 0
    public_key: str = ""
    # Errors found, up to a limit; empty if nobody changed the export.
    findings: list[str] = field(default_factory=list)
    # Checks that the verification could not make.
    notes: list[str] = field(default_factory=list)

    def find(self, what: str) -> None:
        if len(self.findings) < _MAX_FINDINGS:
            self.findings.append(what)


def verify_export(lines: Iterable[str], *, known: Sequence[KnownHead] = (), public_key: str = "") -> ChainVerification:
    """Verify an export, also against heads that the auditor stored earlier (`known`).

    `public_key` is the platform's public key in PEM, if the auditor got it independently of the export. Raises
    InvalidInput if `lines` are not an export.
    """
    result = ChainVerification()
    reading = iter(lines)
    begins = _parse_object(next(reading, ""), 1)
    if begins.get("form") != CHAIN_FORMAT:
        raise InvalidInput(f"This is not an export of an audit log ({CHAIN_FORMAT}).", place="line 1")
    result.chain, result.after = str(begins.get("chain")), _parse_position(begins.get("after"), 1)
    digest = _parse_digest(begins.get("previous"), 1)
    if result.after == 0 and digest != first_hash(result.chain):
        result.find("line 1: wrong start of the chain")
    result.last = result.after
    hashes = {result.after: digest.hex()}
    wanted = {head.position for head in known if head.chain == result.chain}
    end: dict[str, Any] | None = None
    seen: set[int] = set()
    for number, line in enumerate(reading, start=2):
        row = _parse_object(line, number)
        if end is not None:
            result.find(f"line {number}: text after the end")
            break
        if "head" in row:
            end = row
            continue
        digest = _verify_entry(result, row, number, digest, seen)
        if result.last in wanted:
            hashes[result.last] = digest.hex()
    _verify_end(result, end, digest, public_key)
    for head in known:
        _compare_head(result, head, hashes)
    return result


def parse_known_head(text: str) -> KnownHead:
    """Parse a head that the auditor stored. `text` is the line of the head, or a whole export. Raises InvalidInput."""
    row = _parse_object(text.strip().rpartition("\n")[2], 0)
    head = _parse_object(str(row.get("head", "")), 0)
    signature, key = _decode_signature(row), str(row.get("public_key", ""))
    if not _is_signed(key, str(row["head"]), signature):
        raise InvalidInput("The signature of the head is invalid.", place="head")
    return KnownHead(str(head.get("chain")), _parse_position(head.get("position"), 0), str(head.get("hash")), key)


def _verify_entry(
    result: ChainVerification, row: dict[str, Any], number: int, previous: bytes, seen: set[int]
) -> bytes:
    """Check an entry. `row` is the parsed line of the export, and `previous` is the hash of the previous entry.

    Returns the entry's hash in the export, not the computed hash. So a wrong entry causes no errors in later entries.
    """
    position, stored = _parse_position(row.get("position"), number), _parse_digest(row.get("hash"), number)
    where = f"entry {position} (line {number})"
    if position != result.last + 1:
        gap = f"entries {result.last + 1} to {position - 1} are missing" if position > result.last else "out of order"
        result.find(f"{where}: {gap}")
    text = row.get("entry")
    if not isinstance(text, str):
        result.find(f"{where}: the entry was deleted")
    else:
        if next_hash(previous, text) != stored:
            result.find(f"{where}: the entry was changed, or does not follow the previous one")
        entry_id = _parse_object(text, number).get("id")
        if not isinstance(entry_id, int) or entry_id in seen:
            result.find(f"{where}: the id of the entry is missing or repeated")
        else:
            seen.add(entry_id)
    result.last = position
    result.entries += 1
    return stored


def _verify_end(result: ChainVerification, end: dict[str, Any] | None, digest: bytes, public_key: str) -> None:
    if end is None:
        result.find("the end is missing: the file is incomplete")
        return
    text, key = str(end.get("head")), str(end.get("public_key", ""))
    head = _parse_object(text, 0)
    result.public_key = key
    if not _is_signed(key, text, _decode_signature(end)):
        result.find("the signature of the end is invalid")
    if public_key and _raw_public_key(public_key) != _raw_public_key(key):
        result.find("the end is signed by another key, not by the expected key")
    if head.get("chain") != result.chain or head.get("form") != CHAIN_FORMAT:
        result.find(f"the end belongs to another chain: {head.get('chain')}")
    if head.get("position") != result.last:
        result.find(f"the end is for {head.get('position')} entries, but the last entry is {result.last}")
    elif head.get("hash") != digest.hex():
        result.find("the end is for another last entry")


def _compare_head(result: ChainVerification, head: KnownHead, hashes: dict[int, str]) -> None:
    if head.chain != result.chain:
        result.find(f"the stored head belongs to another chain: {head.chain}")
    elif head.position > result.last:
        result.find(
            f"the stored head has {head.position} entries, but the export has {result.last}: entries were deleted"
        )
    elif head.position < result.after:
        result.notes.append(f"the stored head is for entry {head.position}, and this export begins after that entry")
    elif hashes.get(head.position) != head.digest:
        result.find(f"the stored head has another entry {head.position}: earlier entries were rewritten")
    if result.public_key and _raw_public_key(head.public_key) != _raw_public_key(result.public_key):
        result.notes.append("the stored head is signed by another key")


def _is_signed(pem: str, text: str, signature: bytes) -> bool:
    raw = _raw_public_key(pem)
    return raw is not None and is_signature_valid(Ed25519PublicKey.from_public_bytes(raw), text, signature)


def _raw_public_key(pem: str) -> bytes | None:
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        return None
    return key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else None


def _parse_object(line: str, number: int) -> dict[str, Any]:
    try:
        if len(line) > _MAX_LINE_LENGTH:
            raise ValueError
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise InvalidInput(
            "The line does not belong to an export of an audit log.", place=f"line {number}" if number else "head"
        )
    return cast("dict[str, Any]", row)


def _parse_position(value: object, line: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise InvalidInput("Invalid position of an entry in the chain.", place=f"line {line}" if line else "head")
    return value


def _parse_digest(value: object, line: int) -> bytes:
    digest = _decode_hex(value)
    if len(digest) != 32:
        raise InvalidInput("Invalid SHA-256 hash.", place=f"line {line}")
    return digest


def _decode_signature(row: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(str(row.get("signature")), validate=True)
    except ValueError:
        return b""


def _decode_hex(value: object) -> bytes:
    try:
        return bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        return b""
