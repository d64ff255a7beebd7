"""Access to PostgreSQL: engines, scopes, transactions, schema version."""

import gc

from nac.kit.db.engine import MAX_CONNECTIONS, get_process_engine, make_engine, set_process_engine
from nac.kit.db.queries import force_ctid_scan, force_index_order
from nac.kit.db.schema import require_current_schema
from nac.kit.db.scope import (
    AuthorityScope,
    CellScope,
    CredentialScope,
    EnrolmentScope,
    MspScope,
    PersonScope,
    PlatformScope,
    Scope,
    TenantScope,
)
from nac.kit.db.session import (
    become_person,
    commit_intent,
    driver_connection,
    enter_msp,
    enter_person,
    enter_platform,
    enter_tenant,
    lock_quota,
    lock_row,
    session_scope,
    set_for_transaction,
)
from nac.kit.db.timeouts import BoundedConnection, connect, limit_waiting

# With Python's default threshold of 700 objects, garbage collection would run several times during one response. At the
# start of a process, it would take a fifth of the time, although imports create no garbage.
gc.set_threshold(20_000)

__all__ = [
    "MAX_CONNECTIONS",
    "AuthorityScope",
    "BoundedConnection",
    "CellScope",
    "CredentialScope",
    "EnrolmentScope",
    "MspScope",
    "PersonScope",
    "PlatformScope",
    "Scope",
    "TenantScope",
    "become_person",
    "commit_intent",
    "connect",
    "driver_connection",
    "enter_msp",
    "enter_person",
    "enter_platform",
    "enter_tenant",
    "force_ctid_scan",
    "force_index_order",
    "get_process_engine",
    "limit_waiting",
    "lock_quota",
    "lock_row",
    "make_engine",
    "require_current_schema",
    "session_scope",
    "set_for_transaction",
    "set_process_engine",
]
