"""What each process may reach: its system user, its database roles, its part of Redis and the master key.

Accounts, folders, environments and Redis are set up from this table alone. docs/internals/processes.md explains it, and
tests/whole/test_rights.py asserts it against running processes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# Members may open the sockets of PostgreSQL and Redis; each still needs a password there.
SOCKETS_GROUP: Final = "admit-sockets"
# Members may read the master key.
KEYS_GROUP: Final = "admit-keys"

# AUTH, PING and the like, but no command that affects other clients.
_CONNECT = "+@connection -@dangerous"
_LIVE = "~admit:live:*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    # The system user that root gives the process; `admit` owns PostgreSQL's data.
    account: str
    # Database role by the setting that carries its URL, without ADMIT_.
    databases: Mapping[str, str] = field(default_factory=dict)
    # Rules of its Redis user (redis.io: ACL SETUSER); "" for none.
    redis: str = ""
    has_master_key: bool = False
    # The process starts others of the same user, which must not have the master key: it holds the group in its
    # effective group id only, so that they can give it up for good (setresgid(2)).
    gives_up_keys: bool = False

    @property
    def groups(self) -> tuple[str, ...]:
        """Supplementary groups of the account."""
        sockets = (SOCKETS_GROUP,) if self.databases or self.redis else ()
        keys = (KEYS_GROUP,) if self.has_master_key and not self.gives_up_keys else ()
        return (*sockets, *keys)


RIGHTS: Final[Mapping[str, Rights]] = {
    "postgres": Rights(account="admit"),
    "redis": Rights(account="admit-redis"),
    # radiusd and the verifier are its children, under the same user.
    "agent": Rights(
        account="admit-cell",
        databases={"DATABASE_CELL_URL": "admit_cell"},
        redis=f"{_CONNECT} {_LIVE} +mget +xadd +expire",
        has_master_key=True,
        gives_up_keys=True,
    ),
    "api": Rights(
        account="admit-api",
        databases={"DATABASE_URL": "admit_app"},
        redis=f"{_CONNECT} {_LIVE} +set +xread +xrevrange",
        has_master_key=True,
    ),
    "public": Rights(
        account="admit-public", databases={"DATABASE_URL": "admit_public"}, redis=_CONNECT, has_master_key=True
    ),
    "enrolment": Rights(
        account="admit-enrolment", databases={"DATABASE_URL": "admit_public"}, redis=_CONNECT, has_master_key=True
    ),
    "mailbox": Rights(account="admit-mailbox"),
    # Jobs that people start from the API run in its role.
    "worker": Rights(
        account="admit-worker",
        databases={"DATABASE_URL": "admit_app", "DATABASE_WORKER_URL": "admit_worker"},
        redis="~* &* +@all -@admin -@dangerous",
        has_master_key=True,
    ),
}

# Of whoever runs ./admit: every role, all of Redis.
OPERATOR: Final = Rights(
    account="",
    databases={
        "DATABASE_URL": "admit_app",
        "DATABASE_OWNER_URL": "admit_owner",
        "DATABASE_CELL_URL": "admit_cell",
        "DATABASE_WORKER_URL": "admit_worker",
    },
    redis="~* &* +@all",
    has_master_key=True,
)
