"""What is forgotten of signing in, in bounded batches. As admit_worker, in PlatformScope."""

from datetime import timedelta

from sqlalchemy import ColumnElement, Engine, or_

from nac.clock import utc_now
from nac.db import PlatformScope, session_scope
from nac.models import PasswordLink, SignIn, SignInAttempt, SignInFailure, SpentChallenge
from nac.sign_in import repository
from nac.sign_in.sessions import IDLE

# So long people see where they had signed in, and who tried.
KEPT = timedelta(days=90)
LINKS_KEPT = timedelta(days=30)
# As begin_sign_in_attempt() has it.
_COUNTED = timedelta(hours=1)
BATCH = 1_000
_MOST_BATCHES = 200


def prune(*, engine: Engine | None = None, batch: int = BATCH) -> dict[str, int]:
    """How many rows of which table are gone. What is left after so many batches goes in the next hour."""
    now = utc_now()
    over: dict[type, ColumnElement[bool]] = {
        # Whoever was not seen for so long is signed in no more, and one that was ended is seen no more.
        SignIn: SignIn.last_seen_at < now - KEPT - IDLE,
        SignInFailure: SignInFailure.last_at < now - KEPT,
        PasswordLink: PasswordLink.expires_at < now - LINKS_KEPT,
        SignInAttempt: (SignInAttempt.last_at < now - _COUNTED)
        & or_(SignInAttempt.blocked_until.is_(None), SignInAttempt.blocked_until < now),
        SpentChallenge: SpentChallenge.expires_at < now - _COUNTED,
    }
    return {
        str(table.__tablename__): _prune(table, which, batch, engine)  # type: ignore[attr-defined]
        for table, which in over.items()
    }


def _prune(table: type, which: ColumnElement[bool], batch: int, engine: Engine | None) -> int:
    gone = 0
    for _ in range(_MOST_BATCHES):
        with session_scope(PlatformScope(), engine=engine) as session:
            found = repository.delete_some(session, table, which, most=batch)
        gone += found
        if found < batch:
            break
    return gone
