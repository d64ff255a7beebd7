"""The one place that commits."""

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

from nac.db.engine import process_engine
from nac.db.failures import translate
from nac.db.scope import CredentialScope, MspScope, PlatformScope, Scope
from nac.db.waiting import ServerSilent
from nac.errors import ConnectionsInUse, NotFound, ScopeViolation
from nac.ids import MspId, TenantId

_SETTINGS = "admit.settings"
_TENANTS = table("tenants", column("id"))
_MSPS = table("msps", column("id"))


@lru_cache
def _setting(number: int) -> Select[Any]:
    """So many settings at once; made once, since every transaction begins with it."""
    return select(
        *(func.set_config(bindparam(f"name_{index}"), bindparam(f"value_{index}"), True) for index in range(number))
    )


def _apply(connection: Connection, settings: Mapping[str, str | None]) -> None:
    values: dict[str, str | None] = {}
    for index, (name, value) in enumerate(settings.items()):
        values[f"name_{index}"], values[f"value_{index}"] = name, value
    connection.execute(_setting(len(settings)), values)


@event.listens_for(Session, "after_begin")
def _scope_transaction(session: Session, transaction: SessionTransaction, connection: Connection) -> None:
    settings = session.info.get(_SETTINGS)
    if settings:
        _set(connection, cast("dict[str, str]", settings))


def _set(connection: Connection, settings: Mapping[str, str | None]) -> None:
    """Settings of the transaction, None for what the connection has; it is begun where none is, in one message: one
    wait where there were two, and nothing of what SQLAlchemy and the driver do for a statement."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    begins = driver.pgconn.transaction_status == TransactionStatus.IDLE
    # SQLAlchemy sets the usual level back by its name where a transaction of the connection had another.
    is_usual = driver.isolation_level in (None, psycopg.IsolationLevel.READ_COMMITTED)
    try:
        is_set = (is_usual or not begins) and _sent(driver, settings, begins=begins)
    except ServerSilent as exc:
        connection.invalidate(exc)
        raise OperationalError(None, None, exc, connection_invalidated=True) from exc
    if not is_set:
        _apply(connection, settings)


def _sent(connection: psycopg.Connection, settings: Mapping[str, str | None], *, begins: bool) -> bool:
    """False where it did not go: the next statement tells why, as SQLAlchemy understands it."""
    escaping = Escaping(connection.pgconn)
    commands = [b"BEGIN ISOLATION LEVEL READ COMMITTED"] if begins else []
    for name, value in settings.items():
        quoted = b"DEFAULT" if value is None else escaping.escape_literal(value.encode())
        commands.append(b"SET LOCAL %s = %s" % (name.encode(), quoted))
    try:
        connection.pgconn.send_query(b"; ".join(commands))
        results = connection.wait(execute(connection.pgconn))
        return all(result.status == ExecStatus.COMMAND_OK for result in results)
    except ServerSilent:
        raise
    except psycopg.OperationalError:
        return False


def _plans(scope: Scope, by_key: bool) -> dict[str, str]:
    """What is looked up by a key, as who asks is, is found in one way whatever the key: planned once for a connection,
    also where all else is planned for its values, which takes several times as long as to look. Such a plan stays while
    a table grows."""
    if by_key:
        return {"plan_cache_mode": "auto", "enable_seqscan": "off"}
    return {"plan_cache_mode": "auto"} if isinstance(scope, CredentialScope) else {}


def set_for_transaction(session: Session, **settings: str) -> None:
    """Settings of PostgreSQL itself, until the transaction ends or sets them again."""
    _set(session.connection(), settings)


@contextmanager
def session_scope(
    scope: Scope, *, engine: Engine | None = None, is_snapshot: bool = False, by_key: bool = False
) -> Iterator[Session]:
    """A session whose transactions see the rows of `scope`; commits at exit, rolls back on any error.

    Driver errors leave as errors of `nac.errors`. `is_snapshot`: all that it reads is of one moment. `by_key`: it looks
    up what few rows have in common, by an index.
    """
    chosen = engine or process_engine()
    if is_snapshot:
        chosen = chosen.execution_options(isolation_level="REPEATABLE READ")
    try:
        with Session(chosen, expire_on_commit=False, info={"scope": scope}) as session:
            session.info[_SETTINGS] = scope.settings() | _plans(scope, by_key)
            _begin(session)
            yield session
            session.commit()
    except DBAPIError as exc:
        # Of the rollback, too, where the connection is gone for another reason than what ended the transaction.
        raise translate(exc) from exc
    except PoolTimeout as exc:
        raise ConnectionsInUse(remedy="Try again in some seconds.") from exc


def _begin(session: Session) -> None:
    """A connection that was cut since it was last used costs nobody a request: nothing has been done by it yet."""
    try:
        session.connection()
    except DBAPIError as exc:
        if not exc.connection_invalidated:
            raise
        session.rollback()
        session.connection()


def commit_intent(session: Session) -> None:
    """Commit what says that something irreversible is about to be done, so that it stays whatever becomes of the deed.

    All that the session did before stays with it. Its scope goes on in a new transaction, its locks do not: what was
    looked at before has to be looked at again. For the deed alone, right before it.
    """
    try:
        session.commit()
    except DBAPIError as exc:
        raise translate(exc) from exc


def hold(session: Session, row: object) -> None:
    """Lock a row that was read until the transaction ends; it is then as it is now. Raises NotFound where it has gone
    meanwhile."""
    try:
        session.refresh(row, with_for_update=True)
    except InvalidRequestError as exc:
        raise NotFound("It was removed meanwhile.") from exc


def enter_tenant(session: Session, tenant_id: TenantId) -> None:
    """Let a platform or MSP transaction act on the rows of one tenant that it may see, until the session ends."""
    if not isinstance(session.info.get("scope"), PlatformScope | MspScope):
        raise ScopeViolation("Only a platform or MSP scope can enter a tenant.")
    session.flush()
    # Row-level security answers whether this scope may see the tenant at all.
    if session.scalar(select(_TENANTS.c.id).where(_TENANTS.c.id == tenant_id)) is None:
        raise NotFound("There is no such tenant.")
    session.info[_SETTINGS] = session.info[_SETTINGS] | {"admit.tenant_id": str(tenant_id)}
    _apply(session.connection(), session.info[_SETTINGS])


def enter_msp(session: Session, msp_id: MspId) -> None:
    """Let a platform transaction act on what is one MSP's own, until the session ends."""
    if not isinstance(session.info.get("scope"), PlatformScope):
        raise ScopeViolation("Only the platform can enter an MSP.")
    session.flush()
    session.info[_SETTINGS] = session.info[_SETTINGS] | {"admit.msp_id": str(msp_id)}
    _apply(session.connection(), session.info[_SETTINGS])


def enter_person(session: Session, person_id: UUID) -> None:
    """Let a platform transaction act on an account as well, until the session ends; the edge has looked who asks."""
    if not isinstance(session.info.get("scope"), PlatformScope):
        raise ScopeViolation("Only the platform can enter an account.")
    session.flush()
    session.info[_SETTINGS] = session.info[_SETTINGS] | {"admit.person_id": str(person_id)}
    _apply(session.connection(), session.info[_SETTINGS])


def enter_platform(session: Session, *, msp_id: MspId | None = None, tenant_id: TenantId | None = None) -> None:
    """Let a transaction of this MSP or tenant reach what is the platform's, such as a slot of a cell, until the session
    ends. Whoever calls has checked the permission; that it is the transaction's own place, row-level security answers.
    """
    session.flush()
    row, wanted = (_TENANTS, tenant_id) if msp_id is None else (_MSPS, msp_id)
    if session.scalar(select(row.c.id).where(row.c.id == wanted)) is None:
        raise NotFound("There is no such place.")
    session.info[_SETTINGS] = session.info[_SETTINGS] | {"admit.platform": "on"}
    _apply(session.connection(), session.info[_SETTINGS])


def become_person(session: Session, person_id: UUID) -> None:
    """Let a transaction that somebody's credential began, and that has found it to be good, go on as that person."""
    if not isinstance(session.info.get("scope"), CredentialScope):
        raise ScopeViolation("Only a credential makes somebody a person.")
    session.flush()
    session.info[_SETTINGS] = session.info[_SETTINGS] | {"admit.person_id": str(person_id)}
    _apply(session.connection(), session.info[_SETTINGS])


def go_on(session: Session, scope: Scope, *, by_key: bool = False) -> None:
    """Let a transaction that has looked at somebody's credential go on with what the edge has found that one may see.
    Nothing of the credential's is seen any more. `by_key` as of `session_scope`."""
    if not isinstance(session.info.get("scope"), CredentialScope):
        raise ScopeViolation("Only what has looked at a credential goes on.")
    session.expunge_all()
    before = session.info[_SETTINGS]
    session.info["scope"], session.info[_SETTINGS] = scope, scope.settings() | _plans(scope, by_key)
    _set(session.connection(), dict.fromkeys(before) | session.info[_SETTINGS])
