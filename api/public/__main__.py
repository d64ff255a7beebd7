"""Serves the public application: `python -m api.public`."""

import uvicorn
from fastapi import FastAPI

from api.connections import BoundedHttp
from api.listening import open_listeners
from api.places import Places
from api.public.main import REQUIRED, create_app
from nac.request_sources import NetworkSet
from nac.settings import Settings, load_settings

# Who comes when so many are there gets 503.
_MOST_CONNECTIONS = 1000


def make_server(app: FastAPI, settings: Settings) -> uvicorn.Server:
    places = Places(settings.connections_per_source, what="connections")
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=BoundedHttp.sharing(places, proxies=NetworkSet(settings.trusted_proxies)),
            access_log=False,
            server_header=False,
            proxy_headers=True,
            forwarded_allow_ips=settings.trusted_proxies,
            limit_concurrency=_MOST_CONNECTIONS,
        )
    )


def main() -> None:
    settings = load_settings(required=REQUIRED)
    listeners = open_listeners(settings.listen_address, settings.public_port)
    make_server(create_app(settings), settings).run(sockets=listeners)


if __name__ == "__main__":
    main()
