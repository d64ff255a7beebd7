"""Folder with the mails that Admit's built-in mail server received. Admit uses this folder if no other mail server is
configured."""

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

from nac.kit.clock import epoch_microseconds

MAX_MAIL_BYTES = 1 << 20
# Maximum number of stored mails. The mailbox deletes the oldest mails above this number.
MAX_MAILS = 500
_SUFFIX = ".eml"


@dataclass(frozen=True, slots=True)
class StoredMail:
    id: str
    message: EmailMessage

    @property
    def at(self) -> datetime | None:
        date = self.message["Date"]
        return date.datetime if date is not None else None

    def part(self, kind: str) -> str:
        """Body of the mail, as text (`kind` "plain") or HTML (`kind` "html")."""
        body = self.message.get_body((kind,))
        return "" if body is None else str(body.get_content())


class Mailbox:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, content: bytes) -> str:
        """Store a mail and return its id. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The ids sort by time.
        mail_id = f"{epoch_microseconds():017d}-{secrets.token_hex(2)}"
        # Rename the file only when it is complete, so that readers never see an incomplete mail.
        written = self._folder / f".{mail_id}"
        handle = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content[:MAX_MAIL_BYTES])
        written.rename(self._folder / f"{mail_id}{_SUFFIX}")
        for old in self._files()[:-MAX_MAILS]:
            old.unlink(missing_ok=True)
        return mail_id

    def list_mails(self) -> Sequence[StoredMail]:
        """List mails, oldest first."""
        return [found for file in self._files() if (found := self.get(file.name.removesuffix(_SUFFIX))) is not None]

    def get(self, mail_id: str) -> StoredMail | None:
        if not mail_id.replace("-", "").isalnum():
            return None
        try:
            content = (self._folder / f"{mail_id}{_SUFFIX}").read_bytes()
        except OSError:
            return None
        return StoredMail(mail_id, message_from_bytes(content, policy=policy.default))

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{_SUFFIX}"))
