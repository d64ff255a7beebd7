"""Format of an audit chain: the texts that Admit hashes and signs. docs/how-to/audit.md explains the verification.

The format of sealed entries never changes. A changed format needs a new name.
"""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from nac.core.access.owners import Owner
from nac.kit.ids import MspId, TenantId
from nac.models import AuditEntry

CHAIN_FORMAT = "admit-audit-1"
_HASHED_COLUMNS = ("id", "actor", "action", "target", "tenant_id", "msp_id", "address", "request_id", "before", "after")


def chain_name(owner: Owner) -> str:
    """Name of the owner's chain, such as `tenant:<id>`; `platform` for the platform."""
    if owner.tenant_id is not None:
        return f"tenant:{owner.tenant_id}"
    return "platform" if owner.msp_id is None else f"msp:{owner.msp_id}"


def chain_owner(entry: AuditEntry) -> Owner:
    """Owner whose chain contains the entry. All changes of a tenant are in the tenant's chain, even changes by the
    platform."""
    if entry.tenant_id is not None:
        return Owner(tenant_id=TenantId(entry.tenant_id))
    return Owner(None if entry.msp_id is None else MspId(entry.msp_id))


def entry_text(entry: AuditEntry) -> str:
    """Text of an entry for its hash: one line of JSON with sorted names."""
    values: dict[str, Any] = {name: getattr(entry, name) for name in _HASHED_COLUMNS}
    return _canonical_json(values | {"at": format_moment(entry.at), "form": CHAIN_FORMAT})


def head_text(chain: str, *, position: int, digest: bytes, at: datetime) -> str:
    """Text of a chain's head for its signature: the number of entries and the last hash."""
    return _canonical_json(
        {"at": format_moment(at), "chain": chain, "form": CHAIN_FORMAT, "hash": digest.hex(), "position": position}
    )


def first_hash(chain: str) -> bytes:
    """Hash before the first entry. The first hash contains the chain's name: entries of one chain do not fit into
    another chain."""
    return hashlib.sha256(f"{CHAIN_FORMAT} {chain}".encode()).digest()


def next_hash(previous: bytes, text: str) -> bytes:
    return hashlib.sha256(f"{previous.hex()}\n{text}".encode()).digest()


def format_moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _canonical_json(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
