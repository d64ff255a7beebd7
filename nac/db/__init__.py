"""Access to PostgreSQL: engines, scopes, the transaction, the schema's version."""

from nac.db.driver import driver_connection
from nac.db.engine import make_engine, process_engine, use_engine
from nac.db.places import by_place
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
from nac.db.session import become_person, commit_intent, enter_platform, enter_tenant, session_scope

__all__ = [
    "AuthorityScope",
    "CellScope",
    "CredentialScope",
    "EnrolmentScope",
    "MspScope",
    "PersonScope",
    "PlatformScope",
    "Scope",
    "TenantScope",
    "become_person",
    "by_place",
    "commit_intent",
    "driver_connection",
    "enter_platform",
    "enter_tenant",
    "make_engine",
    "process_engine",
    "require_current_schema",
    "session_scope",
    "use_engine",
]
