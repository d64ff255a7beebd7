"""Tenants with authorities, and what they issue."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.certificates.authorities import TenantAuthorities, create_tenant_authorities
from nac.certificates.service import IssuedCertificate, issue_client
from nac.certificates.signing import Signing
from nac.clock import utc_now
from nac.db import TenantScope, session_scope
from nac.ids import TenantId
from nac.secrets import RawKey, Sealer
from tests.factories.tenancy import ACTOR

MASTER_KEY = bytes(range(32))
SEALER = Sealer(RawKey(MASTER_KEY))
SIGNING = Signing(SEALER, "http://status.admit.example")


@dataclass(frozen=True)
class Certified:
    """A tenant with its authorities."""

    tenant_id: TenantId
    authorities: TenantAuthorities
    now: datetime

    def issue(self, session: Session, **changes: Any) -> IssuedCertificate:
        arguments: dict[str, Any] = {
            "actor": ACTOR,
            "tenant_id": self.tenant_id,
            "profile": "eap-client-device",
            "common_name": "laptop 1",
            "signing": SIGNING,
            "now": self.now,
        }
        return issue_client(session, **arguments | changes)


def certify(app_engine: Engine, tenant_id: TenantId, **changes: Any) -> Certified:
    now = utc_now()
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        arguments: dict[str, Any] = {"actor": ACTOR, "tenant_id": tenant_id, "signing": SIGNING, "now": now}
        made = create_tenant_authorities(session, **arguments | changes)
    return Certified(tenant_id, made, now)
