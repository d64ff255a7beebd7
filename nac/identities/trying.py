"""Asking an identity source about one user from here, with each step told: for whoever sets it up."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.identities import service
from nac.identities.answer import Answer
from nac.identities.asking import ask, make_source
from nac.identities.names import addressed_to
from nac.ids import TenantId
from nac.outbound.reach import Reach
from nac.sealing import Unseal


@dataclass(frozen=True, slots=True)
class Trial:
    """A source as it is stored: the transaction that read it is not held open while it is asked."""

    name: str
    kind: str
    settings: dict[str, Any]
    secret: bytes


def begin_trial(session: Session, *, actor: str, tenant_id: TenantId, name: str, user: str, unseal: Unseal) -> Trial:
    """Raises IdentitySourceNotFound."""
    stored = service.require_by_name(session, tenant_id=tenant_id, name=name)
    secret = b""
    if stored.secret_sealed is not None:
        secret = unseal(stored.secret_sealed, service.secret_context(stored.id))
    audit.append(
        session, actor=actor, action="identity-source.test", target=name, tenant_id=tenant_id, after={"user": user}
    )
    return Trial(stored.name, stored.kind, dict(stored.settings), secret)


async def run_trial(trial: Trial, *, reach: Reach, user: str, password: bytes) -> tuple[Answer, list[str]]:
    """The answer, and the steps on the way to it."""
    steps: list[str] = []
    source = make_source(trial.name, trial.kind, trial.settings, trial.secret, reach)
    try:
        addressed = addressed_to(user, source.settings.realms)
        if addressed is None:
            steps.append(f"{user} is none of its realms: it is not asked")
            return Answer("unknown-user", source=trial.name), steps
        return await ask(source, addressed, password, source_name=trial.name, tell=steps.append), steps
    finally:
        await source.close()
