"""WPA2 passphrases of endpoints and endpoint groups (iPSK, PPSK, DPSK).

The passphrase of a device overrides the passphrase of its group. Admit stores passphrases encrypted. Admit shows a
passphrase only once, when a person sets it.
"""

import secrets

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.inventory.endpoints import service
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac
from nac.kit.sealing import Seal
from nac.models import Endpoint, EndpointGroup

# Characters of generated passphrases: letters and digits that do not look like another character. 20 characters have
# 99 bits of entropy.
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_GENERATED_LENGTH = 20
# IEEE 802.11-2020 J.4.1: a passphrase has 8 to 63 ASCII characters with codes from 32 to 126.
_MIN_LENGTH, _MAX_LENGTH = 8, 63


def generate_passphrase() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(_GENERATED_LENGTH))


def require_passphrase(text: str) -> str:
    if not _MIN_LENGTH <= len(text) <= _MAX_LENGTH or not text.isascii() or not text.isprintable():
        # The error must not contain the value, because it can be a real passphrase with one wrong character.
        raise InvalidInput(
            "Invalid passphrase of a wireless network.",
            place="psk",
            remedy=f"Use {_MIN_LENGTH} to {_MAX_LENGTH} printable ASCII characters, or generate a passphrase.",
        )
    return text


def update_endpoint_psk(
    session: Session, *, actor: str, tenant_id: TenantId, mac: str, passphrase: str | None, seal: Seal
) -> Endpoint:
    """Set the passphrase of an endpoint. None removes the passphrase."""
    endpoint = service.require_by_mac(session, tenant_id=tenant_id, mac=mac)
    context = f"endpoint-psk:{endpoint.id}"
    endpoint.psk_sealed = _seal_passphrase(passphrase, seal, context)
    session.flush()
    _audit(session, actor, tenant_id, "endpoint.set-psk", display_mac(endpoint.mac), passphrase)
    return endpoint


def update_group_psk(
    session: Session, *, actor: str, tenant_id: TenantId, name: str, passphrase: str | None, seal: Seal
) -> EndpointGroup:
    """Set the passphrase of a group. None removes the passphrase."""
    group = ENDPOINT_GROUPS.require(session, tenant_id=tenant_id, name=name)
    group.psk_sealed = _seal_passphrase(passphrase, seal, f"endpoint-group-psk:{group.id}")
    session.flush()
    _audit(session, actor, tenant_id, "endpoint-group.set-psk", name, passphrase)
    return group


def _seal_passphrase(passphrase: str | None, seal: Seal, context: str) -> bytes | None:
    return None if passphrase is None else seal(require_passphrase(passphrase).encode(), context)


def _audit(session: Session, actor: str, tenant_id: TenantId, action: str, target: str, passphrase: str | None) -> None:
    """Record in the audit log that a passphrase was set or removed, without the passphrase."""
    after = {"psk": passphrase is not None}
    audit.append(session, actor=actor, action=action, target=target, tenant_id=tenant_id, after=after)
