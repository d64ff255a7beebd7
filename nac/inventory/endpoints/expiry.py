"""Events for approvals that end. No write marks the end, so the worker checks."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

BATCH_SIZE = 1_000


def record_expired_approvals(session: Session) -> int:
    """Record a batch of expired endpoints of all tenants, each once; return its size. Needs role admit_worker and
    PlatformScope.
    """
    return session.scalar(select(func.note_expired_endpoints(BATCH_SIZE))) or 0
