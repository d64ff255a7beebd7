"""Tenants with authorities, and the certificates that they issue."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.certificates.authorities import TenantAuthorities, create_tenant_authorities
from nac.certificates.issuance import CertificateReservation
from nac.certificates.service import IssuedCertificate, issue_client, reserve_certificate
from nac.certificates.signing import SigningContext
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.ids import TenantId
from nac.kit.secrets import RawKey, Sealer
from tests.factories.tenancy import ACTOR

MASTER_KEY = bytes(range(32))
SEALER = Sealer(RawKey(MASTER_KEY))
SIGNING = SigningContext(SEALER, "http://status.admit.example")


def write_master_key(folder: Path) -> Path:
    """Write the file with which a process opens values that SEALER sealed."""
    path = folder / "master.key"
    path.touch(mode=0o600)
    path.write_text(MASTER_KEY.hex())
    return path


@dataclass(frozen=True)
class Certified:
    """A tenant with its authorities."""

    tenant_id: TenantId
    authorities: TenantAuthorities
    now: datetime

    def issue(self, session: Session, **changes: Any) -> IssuedCertificate:
        return issue_client(session, **self._asked() | changes)

    def reserve(self, session: Session, **changes: Any) -> CertificateReservation:
        return reserve_certificate(session, **self._asked() | changes)

    def _asked(self) -> dict[str, Any]:
        return {
            "actor": ACTOR,
            "tenant_id": self.tenant_id,
            "profile": "eap-client-device",
            "common_name": "laptop 1",
            "signing": SIGNING,
            "now": self.now,
        }


def certify(app_engine: Engine, tenant_id: TenantId, **changes: Any) -> Certified:
    now = utc_now()
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        arguments: dict[str, Any] = {"actor": ACTOR, "tenant_id": tenant_id, "signing": SIGNING, "now": now}
        made = create_tenant_authorities(session, **arguments | changes)
    return Certified(tenant_id, made, now)
