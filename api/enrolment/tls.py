"""TLS for devices of all tenants. The handshake accepts client certificates of all tenants' authorities.

The tenant is in the path, which comes after the handshake. The handshake only proves that the device holds the key of a
certificate of some tenant's authority. `nac.certificates.enrolment.certificate_enrolment` then accepts only valid
certificates that this tenant issued. The handshake is only a first filter, so authorities are added to the live context
and never removed. The handshake does not check the dates of certificates, so that devices with an expired certificate
get a readable error.
"""

import logging
import ssl
import threading
from asyncio import BaseTransport
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import UUID

from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope

from api.concurrency_limit import ConcurrencySlot
from api.connections import BoundedHttp
from nac.certificates.enrolment.service import list_unknown_authorities
from nac.kit.db import PlatformScope, make_engine, session_scope
from nac.kit.errors import AdmitError

_log = logging.getLogger("admit.enrolment")
# X509_V_FLAG_NO_CHECK_TIME of OpenSSL (openssl/x509_vfy.h). Python has no name for this flag.
_NO_CHECK_TIME = 0x200000
_STATEMENT_SECONDS = 5.0
_TLS_EXTENSION = "tls"
_CLIENT_CHAIN = "client_cert_chain"


class ServerFiles(NamedTuple):
    """PEM files with the certificate chain and the private key of the server."""

    certificate: Path
    key: Path


def create_tls_context(files: ServerFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(*files)
    context.verify_mode = ssl.CERT_OPTIONAL
    # Some devices send their certificate without the chain.
    context.verify_flags = ssl.VerifyFlags(ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME)
    # TLS sessions cannot be resumed, because a resumption does not prove that the device still holds the key.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    return context


class TlsContextUpdater:
    """Updates the live context with new authorities and a changed server certificate."""

    def __init__(
        self,
        context: ssl.SSLContext,
        files: ServerFiles,
        database_url: str,
        *,
        look_after: Callable[[], None],
        interval_seconds: float = 1,
    ) -> None:
        """The updater calls `look_after` before each check of the files."""
        self._context = context
        self._files = files
        self._loaded = self._stamp()
        self._engine = make_engine(
            database_url, pool_size=1, application_name="admit-enrolment-trust", statement_seconds=_STATEMENT_SECONDS
        )
        self._look_after = look_after
        self._interval_seconds = interval_seconds
        self._known: set[UUID] = set()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tls-context", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()
        self._engine.dispose()

    def _run(self) -> None:
        while True:
            try:
                self.refresh()
            except (AdmitError, OSError) as exc:
                # This error also occurs if only the certificate or only the key was replaced so far. The next check
                # then reads both files.
                _log.warning("TLS settings not updated: %s", exc)
            if self._ending.wait(self._interval_seconds):
                return

    def refresh(self) -> None:
        """Update once. Raises database errors, and OSError (ssl.SSLError) if certificate and key do not match."""
        self._look_after()
        self._reload_certificate()
        self._add_new_authorities()

    def _add_new_authorities(self) -> None:
        with session_scope(PlatformScope(), engine=self._engine) as session:
            fresh = list_unknown_authorities(session, self._known)
        for authority_id, certificate_der in fresh:
            self._context.load_verify_locations(cadata=certificate_der)
            self._known.add(authority_id)

    def _reload_certificate(self) -> None:
        stamp = self._stamp()
        if stamp != self._loaded:
            self._context.load_cert_chain(*self._files)
            self._loaded = stamp
            _log.info("reloaded the server's certificate")

    def _stamp(self) -> tuple[int, ...]:
        return tuple(path.stat().st_mtime_ns for path in self._files)


class PeerCertificateProtocol(BoundedHttp):
    """HTTP/1.1 of uvicorn, with the client certificate in the scope in the format of the ASGI TLS extension."""

    def __init__(self, *arguments: Any, client: tuple[str, int], place: ConcurrencySlot, **named: Any) -> None:  # noqa: ANN401
        """`client` is the client's address and port.

        `place` is the slot that counts the connection until the connection closes.
        """
        super().__init__(*arguments, **named)
        self._connects = client
        self._place = place
        self.made = False

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self.client = self._connects
        self.made = True
        session = transport.get_extra_info("ssl_object")
        shown = session.getpeercert(binary_form=True) if session is not None else None
        if shown is not None:
            self.app = _add_peer_certificate(cast(ASGI3Application, self.app), ssl.DER_cert_to_PEM_cert(shown))


def _add_peer_certificate(app: ASGI3Application, pem: str) -> Callable[..., Any]:
    async def application(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        extensions = cast("dict[str, Any]", scope).setdefault("extensions", {})
        extensions[_TLS_EXTENSION] = {_CLIENT_CHAIN: [pem]}
        await app(scope, receive, send)

    return application


def get_peer_certificate(scope: Any) -> str | None:  # noqa: ANN401 -- starlette's scope is a bare mapping
    """Return the client certificate in PEM; None if the client sent none."""
    chain = scope.get("extensions", {}).get(_TLS_EXTENSION, {}).get(_CLIENT_CHAIN, [])
    return chain[0] if chain else None
