"""Entry point of `python -m api`, which serves the API in several processes."""

import uvicorn
from uvicorn.supervisors import Multiprocess

from api.tcp_listeners import open_listeners
from nac.kit.settings import Settings, load_settings


def make_config(settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        "api.main:create_app",
        factory=True,
        http="api.connections:HttpWithFiles",
        access_log=False,
        server_header=False,
        forwarded_allow_ips=settings.trusted_proxies,
        workers=settings.api_processes,
    )


def main() -> None:
    settings = load_settings()
    config = make_config(settings)
    listeners = open_listeners(settings.listen_address, settings.api_port)
    if config.workers > 1:
        Multiprocess(config, sockets=listeners).run()
    else:
        uvicorn.Server(config).run(sockets=listeners)


if __name__ == "__main__":
    main()
