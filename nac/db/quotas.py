"""Bounds on how many there may be: counted by one at a time, or many at once would each find room for one more."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session


def count_alone(session: Session, noun: str, owner: object) -> None:
    """Until the transaction ends whoever counts the same owner's waits, and then counts what was made here, too.

    Before counting, behind row locks that the transaction takes.
    """
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"quota {noun} {owner}", 0))))
