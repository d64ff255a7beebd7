"""Serves the enrolment application over TLS: `python -m api.enrolment`."""

import ssl

import uvicorn
from fastapi import FastAPI

from api.enrolment.main import REQUIRED, create_app
from api.enrolment.tls import ContextKeeper, PeerCertificateProtocol, ServerFiles, make_context
from nac.settings import Settings, load_settings

# Each holds a thread while it signs; more wait no longer than a device does.
_MOST_CONNECTIONS = 500


def make_server(app: FastAPI, settings: Settings, context: ssl.SSLContext) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=settings.listen_address,
            port=settings.enrolment_port,
            http=PeerCertificateProtocol,
            ssl_context_factory=lambda config, default: context,
            access_log=False,
            server_header=False,
            # No proxy ends TLS in front of it, or the peer's certificate would be lost: a forwarded address is a claim.
            proxy_headers=False,
            limit_concurrency=_MOST_CONNECTIONS,
        )
    )


def main() -> None:
    settings = load_settings(required=REQUIRED)
    app = create_app(settings)
    files = ServerFiles(settings.enrolment_certificate_file, settings.enrolment_key_file)
    context = make_context(files)
    keeper = ContextKeeper(context, files, settings.database_url)
    keeper.start()
    try:
        make_server(app, settings, context).run()
    finally:
        keeper.stop()


if __name__ == "__main__":
    main()
