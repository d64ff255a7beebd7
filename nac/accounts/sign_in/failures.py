"""Failed sign-ins, with person, source and reason. Counted by hour, so that attackers cannot fill a log.

For a person and hour there are at most 20 rows by reason and source, and one more for each reason. The audit log
records the first failure at once and later ones every ten minutes (`nac.accounts.sign_in.failure_audit`).
"""

import ipaddress
from enum import StrEnum, unique
from uuid import UUID

from sqlalchemy import Text, Uuid, bindparam, text
from sqlalchemy.dialects.postgresql import INET
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.request_sources import get_source

# Subject of failures with unknown addresses.
NOBODY_ID = UUID(int=0)
_USER_AGENT_CHARACTERS = 300


@unique
class FailureReason(StrEnum):
    """Reason of a person's failure. Those of a single sign-on are its error codes."""

    PASSWORD = "wrong-password"  # noqa: S105 -- a name
    DISABLED = "disabled"
    CODE = "wrong-code"
    PASSKEY = "wrong-passkey"
    CONFIRMATION = "wrong-confirmation"


_NOTE = text("SELECT note_sign_in_failure(:subject, :why, :source, :address, :request, :agent)").bindparams(
    bindparam("subject", type_=Uuid()),
    bindparam("why", type_=Text()),
    bindparam("source", type_=INET()),
    bindparam("address", type_=INET()),
    bindparam("request", type_=Text()),
    bindparam("agent", type_=Text()),
)


def record_failure(session: Session, *, subject_id: UUID, reason: str, user_agent: str) -> None:
    """Count a failure. `subject_id` is a person, a single sign-on, or NOBODY.

    Takes the same time for unknown people. Works in any scope.
    """
    origin = audit.get_origin(session)
    address = _parse_address(origin.address or "") if origin is not None else None
    values = {
        "subject": subject_id,
        "why": reason,
        "source": address and get_source(address),
        "address": address,
        "request": origin.request_id if origin is not None else None,
        "agent": printable_user_agent(user_agent),
    }
    session.execute(_NOTE, values)


def printable_user_agent(user_agent: str) -> str:
    """The part of the user agent that is stored."""
    return "".join(each for each in user_agent if each.isprintable())[:_USER_AGENT_CHARACTERS]


def _parse_address(text: str) -> str | None:
    """The address without a zone (RFC 4007 11.2), which PostgreSQL does not support."""
    try:
        return str(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return None
