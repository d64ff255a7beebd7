"""Tests an identity source with one user and reports each step."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from nac.cellformat.identity_names import name_for_realms
from nac.core.audit import service as audit
from nac.inventory.identity_sources import service
from nac.inventory.identity_sources.verification import build_source_client, verify_password
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit.ids import TenantId
from nac.kit.outbound.reach import OutboundReach
from nac.kit.sealing import Unseal


@dataclass(frozen=True, slots=True)
class SourceProbe:
    """Copy of the data of a stored source. With the copy, no transaction stays open during the test."""

    name: str
    kind: str
    settings: dict[str, Any]
    secret: bytes


def prepare_probe(
    session: Session, *, actor: str, tenant_id: TenantId, name: str, user: str, unseal: Unseal
) -> SourceProbe:
    """Load the source for a test. Raises IdentitySourceNotFound."""
    stored = service.require_by_name(session, tenant_id=tenant_id, name=name)
    secret = b""
    if stored.secret_sealed is not None:
        secret = unseal(stored.secret_sealed, service.secret_context(stored.id))
    audit.append(
        session, actor=actor, action="identity-source.test", target=name, tenant_id=tenant_id, after={"user": user}
    )
    return SourceProbe(stored.name, stored.kind, dict(stored.settings), secret)


async def run_probe(
    trial: SourceProbe, *, reach: OutboundReach, user: str, password: bytes
) -> tuple[VerificationResult, list[str]]:
    """Verify the user at the source. Returns the result, and the steps of the test as text."""
    steps: list[str] = []
    source = build_source_client(trial.name, trial.kind, trial.settings, trial.secret, reach)
    try:
        addressed = name_for_realms(user, source.settings.realms)
        if addressed is None:
            steps.append(f"{user} is not in the source's realms; the source is not queried")
            return VerificationResult("unknown-user", source=trial.name), steps
        return await verify_password(source, addressed, password, source_name=trial.name, report=steps.append), steps
    finally:
        await source.close()
