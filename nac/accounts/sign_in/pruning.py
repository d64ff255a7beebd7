"""Deletes old sign-in data in batches. Runs as admit_worker, in PlatformScope."""

from datetime import timedelta

from sqlalchemy import ColumnElement, Engine, or_

from nac.accounts.sign_in import repository
from nac.accounts.sign_in.sign_ins import MAX_IDLE
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.models import PasswordLink, SignIn, SignInAttempt, SignInFailure, SpentChallenge

# Retention of a person's sign-ins and failures.
HISTORY_RETENTION = timedelta(days=90)
LINK_RETENTION = timedelta(days=30)
# The same as in begin_sign_in_attempt().
_ATTEMPT_WINDOW = timedelta(hours=1)
BATCH_ROWS = 1_000
_MAX_BATCHES = 200


def prune(*, engine: Engine | None = None, batch: int = BATCH_ROWS) -> dict[str, int]:
    """Delete old rows. Returns the number by table. The rest is deleted in the next hour."""
    now = utc_now()
    over: dict[type, ColumnElement[bool]] = {
        # A sign-in that was not seen for this time has ended.
        SignIn: SignIn.last_seen_at < now - HISTORY_RETENTION - MAX_IDLE,
        SignInFailure: SignInFailure.last_at < now - HISTORY_RETENTION,
        PasswordLink: PasswordLink.expires_at < now - LINK_RETENTION,
        SignInAttempt: (SignInAttempt.last_at < now - _ATTEMPT_WINDOW)
        & or_(SignInAttempt.blocked_until.is_(None), SignInAttempt.blocked_until < now),
        SpentChallenge: SpentChallenge.expires_at < now - _ATTEMPT_WINDOW,
    }
    return {
        str(table.__tablename__): _prune_table(table, which, batch, engine)  # type: ignore[attr-defined]
        for table, which in over.items()
    }


def _prune_table(table: type, which: ColumnElement[bool], batch: int, engine: Engine | None) -> int:
    gone = 0
    for _ in range(_MAX_BATCHES):
        with session_scope(PlatformScope(), engine=engine) as session:
            found = repository.delete_batch(session, table, which, most=batch)
        gone += found
        if found < batch:
            break
    return gone
