"""Holders of certificates: endpoints and users of the tenant."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.inventory.endpoints.service import require_by_mac
from nac.inventory.users.service import require_by_name
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac
from nac.models import Certificate, Endpoint, User


@dataclass(frozen=True, slots=True)
class CertificateHolder:
    endpoint_id: UUID | None = None
    user_id: UUID | None = None
    # Name of the endpoint or, without an endpoint, of the user.
    name: str | None = None


def find_holder(session: Session, *, tenant_id: TenantId, mac: str | None, user_name: str | None) -> CertificateHolder:
    """Return the endpoint `mac` and the user `user_name`. Raises NotFound if one of them does not exist."""
    endpoint = require_by_mac(session, tenant_id=tenant_id, mac=mac) if mac is not None else None
    user = require_by_name(session, tenant_id=tenant_id, name=user_name) if user_name is not None else None
    return CertificateHolder(
        endpoint_id=endpoint.id if endpoint else None,
        user_id=user.id if user else None,
        name=endpoint.mac if endpoint else user.name if user else None,
    )


def describe_holder(session: Session, certificate: Certificate) -> dict[str, str | None]:
    """Return the MAC address of the endpoint and the name of the user, each None if the certificate has no endpoint or
    user, or if the endpoint or user was deleted."""
    tenant_id = certificate.tenant_id
    macs = select(Endpoint.mac).where(Endpoint.tenant_id == tenant_id, Endpoint.id == certificate.endpoint_id)
    names = select(User.name).where(User.tenant_id == tenant_id, User.id == certificate.user_id)
    mac = session.scalar(macs)
    return {"endpoint": mac and display_mac(mac), "user": session.scalar(names)}
