"""Rights of each process: system user, database roles, Redis and master key.

`up` sets up accounts, folders, environments and Redis users from this table only. See docs/internals/processes.md.
tests/whole/test_rights.py compares the table with running processes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# Group whose members can open the sockets of PostgreSQL and Redis. Each process also needs a password.
SOCKETS_GROUP: Final = "admit-sockets"
# Group whose members can read the master key.
KEYS_GROUP: Final = "admit-keys"

# Rules for AUTH, PING and similar commands, without commands that affect other clients.
_CONNECT = "+@connection -@dangerous"
_LIVE = "~admit:live:*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRights:
    # System user of the process under root; `admit` owns PostgreSQL's data.
    account: str
    # Database roles by the setting that contains the database URL (name without ADMIT_).
    databases: Mapping[str, str] = field(default_factory=dict)
    # ACL rules of the process's Redis user (redis.io: ACL SETUSER); "" for no Redis user.
    redis: str = ""
    has_master_key: bool = False
    # Whether the process has child processes of the same user that must not read the master key. The process has the
    # group of the key only as effective group id, so that the children can drop it permanently (setresgid(2)).
    gives_up_keys: bool = False

    @property
    def groups(self) -> tuple[str, ...]:
        sockets = (SOCKETS_GROUP,) if self.databases or self.redis else ()
        keys = (KEYS_GROUP,) if self.has_master_key and not self.gives_up_keys else ()
        return (*sockets, *keys)


RIGHTS: Final[Mapping[str, ProcessRights]] = {
    "postgres": ProcessRights(account="admit"),
    "redis": ProcessRights(account="admit-redis"),
    # radiusd and the verifier are children of the agent, under the same user.
    "agent": ProcessRights(
        account="admit-cell",
        databases={"DATABASE_CELL_URL": "admit_cell"},
        redis=f"{_CONNECT} {_LIVE} +mget +xadd +expire",
        has_master_key=True,
        gives_up_keys=True,
    ),
    "api": ProcessRights(
        account="admit-api",
        databases={"DATABASE_URL": "admit_app"},
        redis=f"{_CONNECT} {_LIVE} +set +xread +xrevrange",
        has_master_key=True,
    ),
    "public": ProcessRights(
        account="admit-public", databases={"DATABASE_URL": "admit_public"}, redis=_CONNECT, has_master_key=True
    ),
    "enrolment": ProcessRights(
        account="admit-enrolment", databases={"DATABASE_URL": "admit_public"}, redis=_CONNECT, has_master_key=True
    ),
    "mailbox": ProcessRights(account="admit-mailbox"),
    # Jobs that people start by the API use the database role of the API.
    "worker": ProcessRights(
        account="admit-worker",
        databases={"DATABASE_URL": "admit_app", "DATABASE_WORKER_URL": "admit_worker"},
        redis="~* &* +@all -@admin -@dangerous",
        has_master_key=True,
    ),
}

# Rights of people who run ./admit: every database role and all of Redis.
OPERATOR: Final = ProcessRights(
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
