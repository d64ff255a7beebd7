"""The pages of enrolment links, in an application that serves devices as well."""

from typing import Final

from fastapi import FastAPI

from api import form_pages
from api.browser_pages import PagesForBrowsers
from api.links import routes
from api.route_index import RouteIndex
from api.routes import add_routes
from api.state import LINKS_MOST, prepare_room
from api.turns import in_room

_ROOM: Final = "links"
_PAGES: Final = tuple(
    in_room(routes.router.routes, whose=_ROOM, refused=form_pages.refused_link, most_octets=routes.MOST_FORM_OCTETS)
)


def serve_links(app: FastAPI) -> None:
    add_routes(app, _PAGES)
    prepare_room(app, LINKS_MOST, whose=_ROOM)


def show_refusals(app: FastAPI) -> None:
    """As pages to browsers. Links and revocation lists are opened by hand as well; there is no page to begin with."""
    app.add_middleware(PagesForBrowsers, pages=RouteIndex(()), home=())
