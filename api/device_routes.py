"""Routes for devices: certificates, authorities, revocation lists."""

from typing import Final

from fastapi import APIRouter, FastAPI

from api.application_state import MAX_DEVICE_REQUESTS, prepare_request_limit
from api.routes import add_routes
from api.thread_limits import limit_routes

_LIMIT_NAME: Final = "devices"


def add_device_routes(app: FastAPI, *routers: APIRouter, most_octets: int) -> None:
    """Add the routes. Bodies of up to `most_octets` bytes are read before a request takes a place."""
    for router in routers:
        add_routes(app, limit_routes(router.routes, whose=_LIMIT_NAME, most_octets=most_octets))
    prepare_request_limit(app, MAX_DEVICE_REQUESTS, whose=_LIMIT_NAME)
