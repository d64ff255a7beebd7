"""API tokens of the demo.

Only files have the text of the tokens, so the demo creates missing or invalid tokens again.
"""

from datetime import timedelta
from pathlib import Path

from sqlalchemy.orm import Session

from cli.demo.files import FileWriter, read_text
from nac.accounts.api_tokens import service as tokens
from nac.accounts.api_tokens.service import TokenText
from nac.accounts.roles import BUILT_IN_ROLES
from nac.core.access.owners import Owner
from nac.kit.clock import utc_now
from nac.kit.permissions import permissions_at

_LASTS = timedelta(days=90)
_LEFT = timedelta(days=1)


def ensure_token(session: Session, *, actor: str, owner: Owner, role: str, folder: Path, writer: FileWriter) -> str:
    """Return a token with the permissions of `role`, valid for at least a day."""
    now, file = utc_now(), folder / "api_token"
    permissions = BUILT_IN_ROLES[role].at(owner.level)
    text = TokenText.parse(read_text(file).strip())
    if text is not None:
        row = tokens.get_valid(session, owner=owner, text=text, now=now + _LEFT)
        if row is not None and set(row.permissions) == permissions:
            return text.reveal()
    made = tokens.create_token(
        session,
        actor=actor,
        held=permissions_at(owner.level),
        owner=owner,
        name=f"demo {role}",
        permissions=permissions,
        expires_at=now + _LASTS,
    )
    writer.add(file, f"{made.text}\n")
    return made.text
