"""What every kind of identity source can do, and what is common to their answers."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from itertools import islice
from typing import Protocol

from nac.identities.faults import TooManyGroups
from nac.identities.names import UserName
from nac.identities.settings import LdapSettings, OidcSettings
from nac.identities.verifier_messages import VerificationResult

# Of a user, the directory's own limit included. They are compared with `only_groups` while other tenants wait.
MAX_GROUPS = 2_000
# Told each step on the way, in words for an administrator.
StepLog = Callable[[str], None]


def discard_step(step: str) -> None:
    """The steps of a login interest nobody."""


class SourceClient(Protocol):
    """A source that is ready to be asked; it holds connections."""

    @property
    def settings(self) -> LdapSettings | OidcSettings: ...

    async def verify(self, name: UserName, password: bytes, tell: StepLog = discard_step) -> VerificationResult:
        """Whether the password is right, and who that is. Raises SourceFault where the source cannot say.

        To be run under a time limit; a cancellation closes what was in use.
        """
        ...

    async def close(self) -> None: ...


def filter_groups(groups: Iterable[str], only: tuple[str, ...]) -> tuple[str, ...]:
    """In order, each once, those that the source is to keep. Raises TooManyGroups."""
    found = dict.fromkeys(islice((group for group in groups if group), MAX_GROUPS + 1))
    if len(found) > MAX_GROUPS:
        raise TooManyGroups(f"more than {MAX_GROUPS} groups")
    return tuple(group for group in found if not only or any(fnmatchcase(group, pattern) for pattern in only))
