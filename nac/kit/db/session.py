"""Database transactions. Only this module commits transactions."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, cast
from uuid import UUID

import psycopg
from psycopg.generators import execute
from psycopg.pq import Escaping, ExecStatus, TransactionStatus
from sqlalchemy import Connection, Engine, Select, bindparam, column, event, func, select, table
from sqlalchemy.exc import DBAPIError, InvalidRequestError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session, SessionTransaction

from nac.kit.db.engine import get_process_engine
from nac.kit.db.error_translation import translate_error
from nac.kit.db.scope import CredentialScope, MspScope, PlatformScope, Scope
from nac.kit.db.timeouts import ServerSilent
from nac.kit.errors import ConnectionsInUse, NotFound, ScopeViolation
from nac.kit.ids import MspId, TenantId

_SETTINGS_KEY = "admit.settings"
_TENANTS_TABLE = table("tenants", column("id"))
_MSPS_TABLE = table("msps", column("id"))


@lru_cache
def _settings_query(number: int) -> Select[Any]:
    """Return a query that sets `number` settings. The function is cached, because every transaction runs this query."""
    return select(
        *(func.set_config(bindparam(f"name_{index}"), bindparam(f"value_{index}"), True) for index in range(number))
    )


def _apply_settings(connection: Connection, settings: Mapping[str, str]) -> None:
    values: dict[str, str] = {}
    for index, (name, value) in enumerate(settings.items()):
        values[f"name_{index}"], values[f"value_{index}"] = name, value
    connection.execute(_settings_query(len(settings)), values)


@event.listens_for(Session, "after_begin")
def _scope_transaction(session: Session, transaction: SessionTransaction, connection: Connection) -> None:
    settings = session.info.get(_SETTINGS_KEY)
    if settings:
        _send_settings(connection, cast("dict[str, str]", settings))


def _send_settings(connection: Connection, settings: Mapping[str, str]) -> None:
    """Set PostgreSQL settings of the transaction. Begins the transaction if necessary.

    BEGIN and the settings are one message to the server, which bypasses SQLAlchemy to save time.
    """
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    begins = driver.pgconn.transaction_status == TransactionStatus.IDLE
    # If the isolation level of the connection was changed, SQLAlchemy must begin the transaction, because only
    # SQLAlchemy resets the level.
    is_usual = driver.isolation_level in (None, psycopg.IsolationLevel.READ_COMMITTED)
    try:
        is_set = (is_usual or not begins) and _try_send_settings(driver, settings, begins=begins)
    except ServerSilent as exc:
        connection.invalidate(exc)
        raise OperationalError(None, None, exc, connection_invalidated=True) from exc
    if not is_set:
        _apply_settings(connection, settings)


def _try_send_settings(connection: psycopg.Connection, settings: Mapping[str, str], *, begins: bool) -> bool:
    """Send the settings. Returns False on failure: the next statement then raises the error through SQLAlchemy."""
    escaping = Escaping(connection.pgconn)
    commands = [b"BEGIN ISOLATION LEVEL READ COMMITTED"] if begins else []
    for name, value in settings.items():
        commands.append(b"SET LOCAL %s = %s" % (name.encode(), escaping.escape_literal(value.encode())))
    try:
        connection.pgconn.send_query(b"; ".join(commands))
        results = connection.wait(execute(connection.pgconn))
        return all(result.status == ExecStatus.COMMAND_OK for result in results)
    except ServerSilent:
        raise
    except psycopg.OperationalError:
        return False


def _plan_settings(scope: Scope, by_key: bool) -> dict[str, str]:
    """Return settings of the query planner for the scope.

    With `by_key` (lookups of few rows by key), PostgreSQL uses an index, and reuses one generic plan for all lookups of
    a connection. A new plan for each lookup would take several times as long. The generic plan remains good while
    tables grow. Transactions in CredentialScope also reuse generic plans.
    """
    if by_key:
        return {"plan_cache_mode": "auto", "enable_seqscan": "off"}
    return {"plan_cache_mode": "auto"} if isinstance(scope, CredentialScope) else {}


def set_for_transaction(session: Session, **settings: str) -> None:
    """Set PostgreSQL settings until the transaction ends, or until a later call changes them."""
    _send_settings(session.connection(), settings)


@contextmanager
def session_scope(
    scope: Scope, *, engine: Engine | None = None, is_snapshot: bool = False, by_key: bool = False
) -> Iterator[Session]:
    """Open a session that can read the rows of `scope`. Commits at exit, and rolls back after an error.

    Converts driver errors to errors of `nac.kit.errors`. With `is_snapshot`, all queries see the same state of the
    database. Set `by_key` if the queries look up few rows by an index.
    """
    chosen = engine or get_process_engine()
    if is_snapshot:
        chosen = chosen.execution_options(isolation_level="REPEATABLE READ")
    try:
        with Session(chosen, expire_on_commit=False, info={"scope": scope}) as session:
            session.info[_SETTINGS_KEY] = scope.settings() | _plan_settings(scope, by_key)
            _ensure_connection(session)
            yield session
            session.commit()
    except DBAPIError as exc:
        # If the connection is broken, the rollback can raise this error too.
        raise translate_error(exc) from exc
    except PoolTimeout as exc:
        raise ConnectionsInUse(remedy="Try again in a few seconds.") from exc


def _ensure_connection(session: Session) -> None:
    """Begin the transaction.

    If the idle connection is broken, retries once. A retry is safe, because the transaction has not begun.
    """
    try:
        session.connection()
    except DBAPIError as exc:
        if not exc.connection_invalidated:
            raise
        session.rollback()
        session.connection()


def commit_intent(session: Session) -> None:
    """Commit the record of an irreversible operation. Call this function directly before the operation.

    The record remains even if the operation fails. The function commits all changes of the session so far. The session
    then continues in a new transaction without the earlier locks, so the caller must repeat earlier checks.
    """
    try:
        session.commit()
    except DBAPIError as exc:
        raise translate_error(exc) from exc


def lock_row(session: Session, row: object, *, keeps_key: bool = False) -> None:
    """Lock a row until the transaction ends, and reload its values. Raises NotFound if the row was deleted.

    With `keeps_key`, other transactions can still insert rows that refer to this row.
    """
    try:
        session.refresh(row, with_for_update={"key_share": keeps_key})
    except InvalidRequestError as exc:
        raise NotFound("The object was deleted meanwhile.") from exc


def enter_tenant(session: Session, tenant_id: TenantId) -> None:
    """Give a session of the platform or an MSP access to the rows of one tenant, if the session can see the tenant."""
    if not isinstance(session.info.get("scope"), PlatformScope | MspScope):
        raise ScopeViolation("Only a session of the platform or an MSP can get access to a tenant.")
    session.flush()
    # Row-level security controls whether this scope can see the tenant.
    if session.scalar(select(_TENANTS_TABLE.c.id).where(_TENANTS_TABLE.c.id == tenant_id)) is None:
        raise NotFound("The tenant does not exist.")
    session.info[_SETTINGS_KEY] = session.info[_SETTINGS_KEY] | {"admit.tenant_id": str(tenant_id)}
    _apply_settings(session.connection(), session.info[_SETTINGS_KEY])


def enter_msp(session: Session, msp_id: MspId) -> None:
    """Give a platform session access to the rows of one MSP."""
    if not isinstance(session.info.get("scope"), PlatformScope):
        raise ScopeViolation("Only a session of the platform can get access to an MSP.")
    session.flush()
    session.info[_SETTINGS_KEY] = session.info[_SETTINGS_KEY] | {"admit.msp_id": str(msp_id)}
    _apply_settings(session.connection(), session.info[_SETTINGS_KEY])


def enter_person(session: Session, person_id: UUID) -> None:
    """Give a platform session access to a person's account. The caller must have checked permissions."""
    if not isinstance(session.info.get("scope"), PlatformScope):
        raise ScopeViolation("Only a session of the platform can get access to a person's account.")
    session.flush()
    session.info[_SETTINGS_KEY] = session.info[_SETTINGS_KEY] | {"admit.person_id": str(person_id)}
    _apply_settings(session.connection(), session.info[_SETTINGS_KEY])


def enter_platform(session: Session, *, msp_id: MspId | None = None, tenant_id: TenantId | None = None) -> None:
    """Give the session of an MSP or tenant access to rows of the platform, such as the port pairs of cells.

    The caller must have checked permissions. Row-level security ensures that the session belongs to this MSP or tenant.
    """
    session.flush()
    row, owner_id = (_TENANTS_TABLE, tenant_id) if msp_id is None else (_MSPS_TABLE, msp_id)
    if session.scalar(select(row.c.id).where(row.c.id == owner_id)) is None:
        raise NotFound("The tenant or MSP does not exist.")
    session.info[_SETTINGS_KEY] = session.info[_SETTINGS_KEY] | {"admit.platform": "on"}
    _apply_settings(session.connection(), session.info[_SETTINGS_KEY])


def become_person(session: Session, person_id: UUID) -> None:
    """Give a session the access of this person. The caller must have verified the person's credential."""
    if not isinstance(session.info.get("scope"), CredentialScope):
        raise ScopeViolation("Only a session in CredentialScope can get the access of a person.")
    session.flush()
    session.info[_SETTINGS_KEY] = session.info[_SETTINGS_KEY] | {"admit.person_id": str(person_id)}
    _apply_settings(session.connection(), session.info[_SETTINGS_KEY])


def driver_connection(session: Session) -> psycopg.Connection:
    """Return the psycopg connection of the session, inside the session's transaction."""
    connection = session.connection().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    return connection


def lock_quota(session: Session, noun: str, owner: object) -> None:
    """Lock the quota of `owner` for objects of the kind `noun` until the transaction ends.

    Call this function after the transaction has locked rows, and before it counts the objects. Concurrent callers wait
    until this transaction ends, so their counts include the objects that this transaction created.
    """
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"quota {noun} {owner}", 0))))
