"""Access to PostgreSQL: engines, scopes, transactions, schema version."""

import gc

from nac.db.driver import driver_connection
from nac.db.engine import CONNECTIONS_MOST, make_engine, process_engine, use_engine
from nac.db.places import by_order, by_place
from nac.db.schema import require_current_schema
from nac.db.scope import (
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
from nac.db.session import (
    become_person,
    commit_intent,
    enter_msp,
    enter_person,
    enter_platform,
    enter_tenant,
    go_on,
    hold,
    session_scope,
    set_for_transaction,
)
from nac.db.waiting import BoundedConnection, connect, wait_budget

# The default of 700 is a hundredth of the objects for one response, and imports create no garbage: early collections
# take a fifth of a process's start.
gc.set_threshold(20_000)

__all__ = [
    "CONNECTIONS_MOST",
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
    "by_order",
    "by_place",
    "commit_intent",
    "connect",
    "driver_connection",
    "enter_msp",
    "enter_person",
    "enter_platform",
    "enter_tenant",
    "go_on",
    "hold",
    "make_engine",
    "process_engine",
    "require_current_schema",
    "session_scope",
    "set_for_transaction",
    "use_engine",
    "wait_budget",
]
