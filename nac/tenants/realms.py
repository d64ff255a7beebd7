"""Realms and NetBIOS domains that are taken off user names: CORP\\anna and anna@corp.example are anna.

Only those that a tenant lists: a user of another realm stays unknown.
"""

import re
from collections.abc import Sequence

from nac.errors import InvalidInput, Mistakes

MAX_REALMS = 50
# What no name could hold as its realm, and what lists are separated by.
_REALM = re.compile(r"[^\s\\@,]{1,253}")


def parse_realms(realms: Sequence[str]) -> list[str]:
    """In lower case, each once, in order. Raises InvalidInput, SeveralMistakes."""
    if len(realms) > MAX_REALMS:
        raise InvalidInput(f"{len(realms)} realms are too many.", place="realms", remedy=f"Give {MAX_REALMS} at most.")
    mistakes = Mistakes()
    for realm in realms:
        with mistakes.noted():
            _require_realm(realm)
    mistakes.refuse()
    return list(dict.fromkeys(realm.casefold() for realm in realms))


def _require_realm(realm: str) -> None:
    if not _REALM.fullmatch(realm) or not realm.isprintable():
        raise InvalidInput(
            f"Invalid realm {realm[:40]!r}.",
            place="realms",
            remedy="Use a realm such as corp.example, or a NetBIOS domain such as CORP.",
        )
