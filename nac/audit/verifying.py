"""Whether an export of the audit log is what was sealed. Needs no database and nothing of the platform."""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from nac.audit.chain import FORM, first_hash, next_hash
from nac.audit.keys import is_signed
from nac.errors import InvalidInput

_MOST_FINDINGS = 20
_LONGEST_LINE = 16 << 20


@dataclass(frozen=True, slots=True)
class KnownHead:
    """One that somebody has kept."""

    chain: str
    position: int
    digest: str
    public_key: str


@dataclass(slots=True)
class Verified:
    chain: str = ""
    # Positions; the second is 0 where there is no entry.
    after: int = 0
    last: int = 0
    entries: int = 0
    public_key: str = ""
    # What is wrong, the first of it; none where all is as it was sealed.
    findings: list[str] = field(default_factory=list)
    # What could not be looked at.
    notes: list[str] = field(default_factory=list)

    def find(self, what: str) -> None:
        if len(self.findings) < _MOST_FINDINGS:
            self.findings.append(what)


def verify(lines: Iterable[str], *, known: Sequence[KnownHead] = (), public_key: str = "") -> Verified:
    """`public_key` is the platform's as PEM, where somebody knows it from elsewhere. Raises InvalidInput for what is no
    export."""
    result = Verified()
    reading = iter(lines)
    begins = _object(next(reading, ""), 1)
    if begins.get("form") != FORM:
        raise InvalidInput(f"This is no export of an audit log ({FORM}).", place="line 1")
    result.chain, result.after = str(begins.get("chain")), _number(begins.get("after"), 1)
    digest = _digest(begins.get("previous"), 1)
    if result.after == 0 and digest != first_hash(result.chain):
        result.find("line 1: this is not how the chain begins")
    result.last = result.after
    hashes = {result.after: digest.hex()}
    wanted = {head.position for head in known if head.chain == result.chain}
    end: dict[str, Any] | None = None
    seen: set[int] = set()
    for number, line in enumerate(reading, start=2):
        row = _object(line, number)
        if end is not None:
            result.find(f"line {number}: something stands behind the end")
            break
        if "head" in row:
            end = row
            continue
        digest = _entry(result, row, number, digest, seen)
        if result.last in wanted:
            hashes[result.last] = digest.hex()
    _end(result, end, digest, public_key)
    for head in known:
        _compare(result, head, hashes)
    return result


def known_head(text: str) -> KnownHead:
    """Of a head that was kept: its line, or an export, whose last line it is. Raises InvalidInput."""
    row = _object(text.strip().rpartition("\n")[2], 0)
    told = _object(str(row.get("head", "")), 0)
    signature, key = _signature(row), str(row.get("public_key", ""))
    if not _signed(key, str(row["head"]), signature):
        raise InvalidInput("The signature of this head is not right.", place="head")
    return KnownHead(str(told.get("chain")), _number(told.get("position"), 0), str(told.get("hash")), key)


def _entry(result: Verified, row: dict[str, Any], number: int, previous: bytes, seen: set[int]) -> bytes:
    """The hash that the next entry goes on with: the one that is told, so that what follows is judged by itself."""
    position, told = _number(row.get("position"), number), _digest(row.get("hash"), number)
    where = f"entry {position} (line {number})"
    if position != result.last + 1:
        gap = f"entries {result.last + 1} to {position - 1} are missing" if position > result.last else "out of order"
        result.find(f"{where}: {gap}")
    text = row.get("entry")
    if not isinstance(text, str):
        result.find(f"{where}: the entry is gone, its place is left")
    else:
        if next_hash(previous, text) != told:
            result.find(f"{where}: it is not what was sealed, or not behind the one before it")
        entry_id = _object(text, number).get("id")
        if not isinstance(entry_id, int) or entry_id in seen:
            result.find(f"{where}: it has no number of its own")
        else:
            seen.add(entry_id)
    result.last = position
    result.entries += 1
    return told


def _end(result: Verified, end: dict[str, Any] | None, digest: bytes, public_key: str) -> None:
    if end is None:
        result.find("the end is missing: the file was cut off")
        return
    text, key = str(end.get("head")), str(end.get("public_key", ""))
    told = _object(text, 0)
    result.public_key = key
    if not _signed(key, text, _signature(end)):
        result.find("the end is not signed by the key that it names")
    if public_key and _raw(public_key) != _raw(key):
        result.find("the end is signed by another key than the one that was given")
    if told.get("chain") != result.chain or told.get("form") != FORM:
        result.find(f"the end is of another chain: {told.get('chain')}")
    if told.get("position") != result.last:
        result.find(f"the end tells of {told.get('position')} entries, the last one here is {result.last}")
    elif told.get("hash") != digest.hex():
        result.find("the end tells of another last entry")


def _compare(result: Verified, head: KnownHead, hashes: dict[int, str]) -> None:
    if head.chain != result.chain:
        result.find(f"the kept head is of another chain: {head.chain}")
    elif head.position > result.last:
        result.find(f"the kept head knows {head.position} entries, here are {result.last}: some were taken away")
    elif head.position < result.after:
        result.notes.append(f"the kept head is of entry {head.position}, which is before this export")
    elif hashes.get(head.position) != head.digest:
        result.find(f"the kept head knows another entry {head.position}: what came before it was written anew")
    if result.public_key and _raw(head.public_key) != _raw(result.public_key):
        result.notes.append("the kept head was signed by another key")


def _signed(pem: str, text: str, signature: bytes) -> bool:
    raw = _raw(pem)
    return raw is not None and is_signed(Ed25519PublicKey.from_public_bytes(raw), text, signature)


def _raw(pem: str) -> bytes | None:
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        return None
    return key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else None


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        if len(line) > _LONGEST_LINE:
            raise ValueError
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise InvalidInput("This is no line of an export.", place=f"line {number}" if number else "head")
    return cast("dict[str, Any]", row)


def _number(value: object, line: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise InvalidInput("This is no position.", place=f"line {line}" if line else "head")
    return value


def _digest(value: object, line: int) -> bytes:
    digest = _hex(value)
    if len(digest) != 32:
        raise InvalidInput("This is no hash.", place=f"line {line}")
    return digest


def _signature(row: dict[str, Any]) -> bytes:
    try:
        return base64.b64decode(str(row.get("signature")), validate=True)
    except ValueError:
        return b""


def _hex(value: object) -> bytes:
    try:
        return bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        return b""
