"""Names as people type them: anna, anna@corp.example, CORP\\anna."""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

_PLACEHOLDER = re.compile(r"\{(name|user)\}")


class UserName(NamedTuple):
    # As typed.
    name: str
    # Without the realm, where the source answers for that realm or it is the tenant's own; else as typed.
    user: str

    @property
    def placeholders(self) -> dict[str, str]:
        return {"name": self.name, "user": self.user}


def split_name(name: str) -> tuple[str, str]:
    """User and realm, "" where there is none."""
    realm, backslash, user = name.partition("\\")
    if backslash:
        return user, realm
    user, at, realm = name.rpartition("@")
    return (user, realm) if at else (name, "")


def strip_realm(name: str, realms: Collection[str]) -> str:
    """`name` without its realm where that is one of `realms` (in lower case); any other realm stays.

    Of CORP\\anna@corp.example both go: what is left has none to take off, so that all who look see one name.
    """
    if not realms:
        return name
    user, realm = split_name(name)
    while user and realm.casefold() in realms:
        name = user
        user, realm = split_name(name)
    return name


def name_for_realms(name: str, realms: Collection[str], own_realms: Collection[str] = ()) -> UserName | None:
    """The name as a source that answers for `realms` is asked about it, None where it is none of its affair.

    A source without realms answers for all names; the tenant's `own_realms` (in lower case) are taken off there.
    """
    if not realms:
        return UserName(name, strip_realm(name, own_realms))
    user, realm = split_name(name)
    folded = {known.casefold() for known in realms}
    return UserName(name, user) if user and realm.casefold() in folded else None


def fill_placeholders(template: str, values: Mapping[str, str]) -> str:
    """With the values in place of {name} and {user}; nothing of a value is read as a placeholder."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)
