r"""User names as people type them: anna, anna@corp.example, CORP\anna."""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

_PLACEHOLDER = re.compile(r"\{(name|user)\}")


class UserName(NamedTuple):
    # As the user typed it.
    name: str
    # Without the realm if the realm belongs to the identity source or the tenant; otherwise like `name`.
    user: str

    @property
    def placeholders(self) -> dict[str, str]:
        return {"name": self.name, "user": self.user}


def split_name(name: str) -> tuple[str, str]:
    """Return user and realm ("" if the name has no realm)."""
    realm, backslash, user = name.partition("\\")
    if backslash:
        return user, realm
    user, at, realm = name.rpartition("@")
    return (user, realm) if at else (name, "")


def strip_realm(name: str, realms: Collection[str]) -> str:
    r"""Return `name` without its realm if the realm is in `realms` (lower case).

    The function removes both realms of CORP\anna@corp.example. Therefore all spellings of a user have the same name.
    """
    if not realms:
        return name
    user, realm = split_name(name)
    while user and realm.casefold() in realms:
        name = user
        user, realm = split_name(name)
    return name


def name_for_realms(name: str, realms: Collection[str], own_realms: Collection[str] = ()) -> UserName | None:
    """Return the name for an identity source that handles only these `realms`; None for a name with another realm.

    If `realms` is empty, the source handles all names, and the function removes the tenant's `own_realms` (lower case).
    """
    if not realms:
        return UserName(name, strip_realm(name, own_realms))
    user, realm = split_name(name)
    folded = {known.casefold() for known in realms}
    return UserName(name, user) if user and realm.casefold() in folded else None


def fill_placeholders(template: str, values: Mapping[str, str]) -> str:
    """Replace {name} and {user} by their values. The function does not replace placeholders within these values."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)
