"""Realms and NetBIOS domains that Admit removes from user names.

`CORP\anna` and `anna@corp.example` become `anna`. Admit removes only realms in the tenant's list. Admit keeps any
other realm in the user name, and then finds no user with this name.
"""

import re
from collections.abc import Sequence

from nac.kit.errors import InvalidInput, MistakeCollector

MAX_REALMS = 50


# A realm must not contain a character that separates the realm from the user name or from other realms.
_REALM = re.compile(r"[^\s\\@,]{1,253}")


def parse_realms(realms: Sequence[str]) -> list[str]:
    """Return the realms in lower case, without duplicates, in the original order.

    Raises InvalidInput or SeveralMistakes.
    """
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
