"""Routes that devices ask: for certificates, authorities, revocation lists."""

from typing import Final

from fastapi import APIRouter, FastAPI

from api.routes import add_routes
from api.state import DEVICES_MOST, prepare_room
from api.turns import in_room

_ROOM: Final = "devices"


def serve_devices(app: FastAPI, *routers: APIRouter, most_octets: int) -> None:
    """Bodies of `most_octets` are read before their request takes a place."""
    for router in routers:
        add_routes(app, in_room(router.routes, whose=_ROOM, most_octets=most_octets))
    prepare_room(app, DEVICES_MOST, whose=_ROOM)
