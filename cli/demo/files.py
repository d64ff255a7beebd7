"""Files of the demo: handed to whoever runs the command, written only once the database has what they belong to."""

import os
from pathlib import Path

from cli.account import Account, find_account, is_root
from cli.files import make_folder
from nac.private_files import write_private


def owner() -> Account | None:
    """Behind sudo the person who called it, who is going to try the certificates by hand; else the caller."""
    name = os.environ.get("SUDO_USER")
    return find_account(name) if name and is_root() else None


class Writer:
    """Collects what is to be written."""

    def __init__(self) -> None:
        self._pending: dict[Path, str] = {}

    def add(self, path: Path, content: bytes | str) -> None:
        self._pending[path] = content if isinstance(content, str) else content.decode()

    def write(self) -> None:
        """Only what differs; all of it for its owner's eyes alone."""
        account = owner()
        for path, content in self._pending.items():
            make_folder(path.parent, owner=account, mode=0o700)
            if read(path) != content:
                write_private(path, content, owner=account)
        self._pending.clear()


def read(path: Path) -> str:
    """ "" where there is no such file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
