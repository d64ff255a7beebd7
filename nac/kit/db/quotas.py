"""Serializes counting for quotas, so that concurrent requests cannot exceed them."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session


def lock_quota(session: Session, noun: str, owner: object) -> None:
    """Lock the quota of an owner until the transaction ends. Later callers then count the new rows.

    Call it before counting, and after the transaction's row locks.
    """
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"quota {noun} {owner}", 0))))
