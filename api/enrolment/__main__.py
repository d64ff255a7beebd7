"""Entry point of `python -m api.enrolment`, which serves the enrolment application over TLS."""

import asyncio
import socket
import ssl
import sys

import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE

from api.concurrency_limit import ConcurrencyLimit, ConcurrencySlot
from api.enrolment.main import REQUIRED_SETTINGS, create_app
from api.enrolment.server_certificate import CertificateMaintainer
from api.enrolment.tls import PeerCertificateProtocol, ServerFiles, TlsContextUpdater, create_tls_context
from api.enrolment.tls_listener import TlsListener
from api.source_rate_limit import SourceTokenBuckets
from api.tcp_listeners import open_listeners
from nac.kit.request_sources import NetworkSet
from nac.kit.settings import Settings, load_settings

# Maximum number of connections. A connection uses a thread while Admit signs a certificate. Further connections get
# 503.
_MAX_CONNECTIONS = 500
# Maximum number of connections, including connections in the TLS handshake. Further connections are closed without a
# response.
_MAX_ACCEPTED = 2 * _MAX_CONNECTIONS


class EnrolmentServer(uvicorn.Server):
    """A `uvicorn.Server` with its own listener."""

    def __init__(self, config: uvicorn.Config, context: ssl.SSLContext, settings: Settings) -> None:
        super().__init__(config)
        self._context = context
        self._places = ConcurrencyLimit(settings.connections_per_source, what="connections", most_in_all=_MAX_ACCEPTED)
        self._proxies = NetworkSet(settings.enrolment_proxies)
        self._per_second = settings.public_requests_per_second

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(STARTUP_FAILURE)
        try:
            listeners = open_listeners(self.config.host, self.config.port)
        except SystemExit:
            await self.lifespan.shutdown()
            raise
        for each in listeners:
            each.listen(self.config.backlog)
            each.setblocking(False)
        listener = TlsListener(
            listeners,
            context=self._context,
            make_protocol=self._make_protocol,
            places=self._places,
            proxies=self._proxies,
            buckets=SourceTokenBuckets(self._per_second) if self._per_second else None,
        )
        self.servers = [listener]  # type: ignore[list-item]
        self.started = True

    def _make_protocol(self, client: tuple[str, int], place: ConcurrencySlot) -> PeerCertificateProtocol:
        return PeerCertificateProtocol(
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            _loop=asyncio.get_running_loop(),
            client=client,
            place=place,
        )


def create_server(app: FastAPI, settings: Settings, context: ssl.SSLContext) -> EnrolmentServer:
    config = uvicorn.Config(
        app,
        host=settings.listen_address,
        port=settings.enrolment_port,
        http=PeerCertificateProtocol,
        access_log=False,
        server_header=False,
        # A proxy that terminates TLS would lose the client certificate, so forwarded addresses are not trusted.
        proxy_headers=False,
        limit_concurrency=_MAX_CONNECTIONS,
    )
    return EnrolmentServer(config, context, settings)


def main() -> None:
    settings = load_settings(required=REQUIRED_SETTINGS)
    app = create_app(settings)
    files = ServerFiles(settings.enrolment_certificate_file, settings.enrolment_key_file)
    context = create_tls_context(files)
    keeper = TlsContextUpdater(context, files, settings.database_url, look_after=CertificateMaintainer(settings).look)
    keeper.start()
    try:
        create_server(app, settings, context).run()
    finally:
        keeper.stop()


if __name__ == "__main__":
    main()
