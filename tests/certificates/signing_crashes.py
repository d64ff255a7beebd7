"""Processes, or PostgreSQL, that are killed directly after a signature."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

import psycopg
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature
from sqlalchemy import Engine, make_url

from nac.certificates.profiles import KeyStoreChoice
from nac.certificates.signing import AuthorityKey, SigningContext
from nac.kit.db import make_engine
from nac.models import CertificateAuthority
from pki.keys import KeyKind, PrivateKey
from pki.pkcs11_tokens import Pkcs11Token, TokenEcKey
from tests.factories.certificates import SIGNING
from tests.polling import until
from tests.postgres import Database


def nothing() -> None:
    pass


def die() -> None:
    """Kill this process with SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class SigningToken:
    """A test double of a token: signs with `key`, then calls a callback."""

    key: ec.EllipticCurvePrivateKey
    signed: Callable[[], None]

    def sign(self, key_id: bytes, data: bytes, mechanism: str) -> bytes:
        r, s = decode_dss_signature(self.key.sign(data, ec.ECDSA(Prehashed(hashes.SHA256()))))
        self.signed()
        return r.to_bytes(32) + s.to_bytes(32)


@dataclass(frozen=True)
class NotifyingSigning(SigningContext):
    """Calls a callback after each signature of an authority. Otherwise equal to SIGNING."""

    signed: Callable[[], None] = field(default=nothing)

    def authority_key(self, authority: CertificateAuthority) -> PrivateKey:
        return self._notifying(super().authority_key(authority))

    def new_authority_key(self, kind: KeyKind, *, authority_id: UUID, store: KeyStoreChoice = "") -> AuthorityKey:
        made = super().new_authority_key(kind, authority_id=authority_id, store=store)
        return made._replace(key=self._notifying(made.key))

    def _notifying(self, key: PrivateKey) -> PrivateKey:
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return TokenEcKey(cast(Pkcs11Token, SigningToken(key, self.signed)), b"", key.public_key())


def signing_with_callback(signed: Callable[[], None]) -> NotifyingSigning:
    return NotifyingSigning(SIGNING.sealer, SIGNING.public_url, signed=signed)


def dies_signing(url: str, work: Callable[[Engine, SigningContext], Any], *, at: int = 1) -> None:
    """Run `work` in a process that is killed directly after signature number `at`."""
    child = os.fork()
    if child == 0:
        left = iter([nothing] * (at - 1) + [die])
        try:
            work(make_engine(url), signing_with_callback(lambda: next(left)()))
        finally:
            # Only the parent process continues with the tests.
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"it ended by itself: {status}"
    assert os.WTERMSIG(status) == signal.SIGKILL


def durable_engine(engine: Engine) -> Engine:
    """An engine whose commits survive a crash of PostgreSQL, as in production."""
    url = make_url(engine.url).update_query_dict({"options": "-c synchronous_commit=on"})
    return make_engine(url.set(drivername="postgresql").render_as_string(hide_password=False))


def kill_postgres(database: Database) -> None:
    """Kill a server process of PostgreSQL.

    PostgreSQL then ends all other server processes and recovers from its log.
    """
    with psycopg.connect(database.superuser_url) as one, psycopg.connect(database.superuser_url) as another:
        os.kill(one.info.backend_pid, signal.SIGKILL)
        # The connection reports no result, because its own server process is killed first.
        until(lambda: not _responds(another), "PostgreSQL notices")
    until(lambda: _connects(database), "PostgreSQL is back")


def cut_connections(database: Database) -> None:
    """Cut the application's connections, so that its transaction cannot commit."""
    with psycopg.connect(database.superuser_url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE usename = 'admit_app' AND datname = current_database()"
        )


def _responds(connection: psycopg.Connection) -> bool:
    try:
        connection.execute("SELECT")
    except psycopg.OperationalError:
        return False
    return True


def _connects(database: Database) -> bool:
    try:
        psycopg.connect(database.superuser_url).close()
    except psycopg.OperationalError:
        return False
    return True
