"""Realms and NetBIOS domains that are removed from user names: CORP\anna and anna@corp.example become anna.

Only realms in the tenant's list are removed. A user of another realm stays unknown.
"""

import re
from collections.abc import Sequence

from nac.kit.errors import InvalidInput, MistakeCollector

MAX_REALMS = 50
# Excludes separators of realms in names and in lists.
_REALM = re.compile(r"[^\s\\@,]{1,253}")


def parse_realms(realms: Sequence[str]) -> list[str]:
    """Return realms in lower case, each once, in order. Raises InvalidInput or SeveralMistakes."""
    if len(realms) > MAX_REALMS:
        raise InvalidInput(
            f"{len(realms)} realms exceed the limit.", place="realms", remedy=f"Use at most {MAX_REALMS} realms."
        )
    mistakes = MistakeCollector()
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
