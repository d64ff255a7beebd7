"""The form of a chain: what is hashed, what is signed. docs/how-to/audit.md describes it for whoever writes a verifier.

Never changes for entries that are sealed: another form gets another name.
"""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from nac.accounts.owners import Owner
from nac.ids import MspId, TenantId
from nac.models import AuditEntry

FORM = "admit-audit-1"
_COLUMNS = ("id", "actor", "action", "target", "tenant_id", "msp_id", "address", "request_id", "before", "after")


def chain_name(owner: Owner) -> str:
    """Such as tenant:<id>; the platform's is platform."""
    if owner.tenant_id is not None:
        return f"tenant:{owner.tenant_id}"
    return "platform" if owner.msp_id is None else f"msp:{owner.msp_id}"


def owner_of(entry: AuditEntry) -> Owner:
    """In whose chain it is: what is done to a tenant is in the tenant's, whoever did it."""
    if entry.tenant_id is not None:
        return Owner(tenant_id=TenantId(entry.tenant_id))
    return Owner(None if entry.msp_id is None else MspId(entry.msp_id))


def entry_text(entry: AuditEntry) -> str:
    """What is hashed of it: one line of JSON, names sorted."""
    values: dict[str, Any] = {name: getattr(entry, name) for name in _COLUMNS}
    return _line(values | {"at": moment(entry.at), "form": FORM})


def head_text(chain: str, *, position: int, digest: bytes, at: datetime) -> str:
    """What is signed: that the chain had so many entries then, and the last one's hash."""
    return _line({"at": moment(at), "chain": chain, "form": FORM, "hash": digest.hex(), "position": position})


def first_hash(chain: str) -> bytes:
    """What stands for the hash before the first entry: so that no entry of one chain fits into another."""
    return hashlib.sha256(f"{FORM} {chain}".encode()).digest()


def next_hash(previous: bytes, text: str) -> bytes:
    return hashlib.sha256(f"{previous.hex()}\n{text}".encode()).digest()


def moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _line(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
