"""Adds the pages of enrolment links to an application that also serves devices."""

from typing import Final

from fastapi import FastAPI

from api.application_state import MAX_LINK_REQUESTS, prepare_request_limit
from api.browser_errors import BrowserErrorPages
from api.links import routes
from api.pages import render_error_page_without_links
from api.route_index import RouteIndex
from api.routes import add_routes
from api.thread_limits import limit_routes

_LIMIT_NAME: Final = "links"
_PAGE_ROUTES: Final = tuple(
    limit_routes(
        routes.router.routes,
        whose=_LIMIT_NAME,
        refused=render_error_page_without_links,
        most_octets=routes.MAX_FORM_OCTETS,
    )
)


def add_link_routes(app: FastAPI) -> None:
    add_routes(app, _PAGE_ROUTES)
    prepare_request_limit(app, MAX_LINK_REQUESTS, whose=_LIMIT_NAME)


def add_browser_errors(app: FastAPI) -> None:
    """Show errors as pages to browsers. These applications have no home page."""
    app.add_middleware(BrowserErrorPages, pages=RouteIndex(()), home=())
