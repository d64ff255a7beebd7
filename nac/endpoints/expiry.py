"""Approvals that end by the clock: nobody writes anything then, so the worker looks."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

BATCH = 1_000


def note_expired(session: Session) -> int:
    """Of all tenants, a batch; returns how many were noted, each once. As admit_worker, in PlatformScope."""
    return session.scalar(select(func.note_expired_endpoints(BATCH))) or 0
