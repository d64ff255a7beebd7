"""Interface of all clients of identity sources."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from itertools import islice
from typing import Protocol

from nac.cellformat.identity_names import UserName
from nac.inventory.identity_sources.faults import TooManyMemberships
from nac.inventory.identity_sources.settings import LdapSettings, OidcSettings
from nac.inventory.identity_sources.verifier_messages import VerificationResult

# Maximum number of groups per user. While the verifier compares all groups with `only_groups`, other tenants wait.
MAX_GROUPS = 2_000
# Function that receives each step of a login as text for administrators.
StepLog = Callable[[str], None]


def discard_step(step: str) -> None:
    """Ignore the steps of a login."""


class SourceClient(Protocol):
    """A client of an identity source, with its open connections."""

    @property
    def settings(self) -> LdapSettings | OidcSettings: ...

    async def verify(self, name: UserName, password: bytes, report: StepLog = discard_step) -> VerificationResult:
        """Verify a password and identify the user. Raises SourceFault if the source gives no usable response.

        The caller must set a time limit. A cancellation closes the connections in use.
        """
        ...

    async def close(self) -> None: ...


def filter_groups(groups: Iterable[str], only: tuple[str, ...]) -> tuple[str, ...]:
    """Return the groups that match one of the patterns `only`, without duplicates, in the original order.

    Raises TooManyMemberships.
    """
    distinct = dict.fromkeys(islice((group for group in groups if group), MAX_GROUPS + 1))
    if len(distinct) > MAX_GROUPS:
        raise TooManyMemberships(f"more than {MAX_GROUPS} groups")
    return tuple(group for group in distinct if not only or any(fnmatchcase(group, pattern) for pattern in only))
