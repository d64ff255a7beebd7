"""Failed sign-ins. A row counts the failures of one person in one hour with the same reason and source address.

So attackers cannot fill the table: a person has at most 20 rows an hour, and for each reason one more row that counts
all further failures. `nac.accounts.sign_in.failure_audit` copies the counts to the audit log.
"""

import ipaddress
from enum import StrEnum, unique
from uuid import UUID

from sqlalchemy import Text, Uuid, bindparam, text
from sqlalchemy.dialects.postgresql import INET
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.request_sources import get_source

# Value of `subject_id` for all failures with unknown e-mail addresses.
NOBODY_ID = UUID(int=0)
_USER_AGENT_CHARACTERS = 300


@unique
class FailureReason(StrEnum):
    """Reason of a person's failed sign-in. For single sign-on, the reason is the code of Admit's error instead."""

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
    """Count a failed sign-in.

    `subject_id` is the id of a person or of a single sign-on; NOBODY_ID for an unknown person. The call takes the same
    time for known and unknown people. Works in any database scope.
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
    """Return the first printable characters of the user agent, as Admit stores them."""
    return "".join(each for each in user_agent if each.isprintable())[:_USER_AGENT_CHARACTERS]


def _parse_address(text: str) -> str | None:
    """Return the IP address without its zone id (RFC 4007 11.2), because PostgreSQL does not support zone ids."""
    try:
        return str(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return None
