"""Entry point of `python -m api.public`, which serves the public application."""

import uvicorn
from fastapi import FastAPI

from api.concurrency_limit import ConcurrencyLimit
from api.connections import BoundedHttp
from api.public.main import REQUIRED_SETTINGS, create_app
from api.tcp_listeners import open_listeners
from nac.kit.request_sources import NetworkSet
from nac.kit.settings import Settings, load_settings

# Further connections get 503.
_MAX_CONNECTIONS = 1000


def create_server(app: FastAPI, settings: Settings) -> uvicorn.Server:
    places = ConcurrencyLimit(settings.connections_per_source, what="connections")
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=BoundedHttp.with_limit(places, proxies=NetworkSet(settings.trusted_proxies)),
            access_log=False,
            server_header=False,
            proxy_headers=True,
            forwarded_allow_ips=settings.trusted_proxies,
            limit_concurrency=_MAX_CONNECTIONS,
        )
    )


def main() -> None:
    settings = load_settings(required=REQUIRED_SETTINGS)
    listeners = open_listeners(settings.listen_address, settings.public_port)
    create_server(create_app(settings), settings).run(sockets=listeners)


if __name__ == "__main__":
    main()
