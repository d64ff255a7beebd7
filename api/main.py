"""The API's application, which api/__main__.py serves."""

from functools import partial
from typing import Final

from fastapi import FastAPI, Request, Response

from api import browser_pages, description_route, errors, form_pages
from api.answer_headers import AnswerHeaders
from api.application import make_application
from api.authentication import authenticate
from api.change import DoneBefore, NotModified, answer_again, answer_unchanged
from api.deprecation import DeprecationHeaders
from api.description import describe
from api.head import HeadAsGet
from api.json_input import JsonInput, exceptions
from api.new_password import routes as new_password_pages
from api.quick_reads import asks
from api.rates import Rates
from api.request_ids import RequestIds
from api.route_index import RouteIndex
from api.routes import add_routes
from api.sign_up import routes as sign_up_pages
from api.start import factor as factor_pages
from api.start import routes as start_pages
from api.start import tenant as tenant_pages
from api.state import THREADS_MOST, prepare_enrolling, prepare_reading, prepare_room
from api.turns import in_room
from api.v1.routers import ROUTES, V1
from nac.settings import Settings, load_settings

# Tenants are of very unequal size: a plan that was made for one, or for any, reads a table from end to end for another.
_PLANS = "plan_cache_mode=force_custom_plan"
_PAGES = (sign_up_pages, new_password_pages, start_pages, factor_pages, tenant_pages)
PAGES: Final = tuple(in_room((route for pages in _PAGES for route in pages.router.routes), refused=form_pages.refused))
_PAGE_INDEX = RouteIndex(PAGES)


async def _tell_unforeseen(request: Request, exc: Exception) -> Response:
    """Outside of all else, so that it is no problem on its way to a browser."""
    if browser_pages.wants_page(request.scope, _PAGE_INDEX):
        return browser_pages.tell_unforeseen(request)
    return await errors.tell_unforeseen(request, exc)


def create_app(settings: Settings | None = None) -> FastAPI:
    """Settings come from the environment where none are given. Raises SettingsError."""
    settings = settings or load_settings(required=("DATABASE_URL", "REDIS_URL", "MASTER_KEY_FILE"))
    # Who waits for what another one holds, a job that changes ten thousand devices say, waits no longer than for a
    # connection: he keeps one meanwhile, and some of those leave none to anybody else.
    locks = f"lock_timeout={settings.api_database_wait_seconds * 1000:.0f}ms"
    app = make_application(settings, title="Admit", name="admit-api", database_settings=(_PLANS, locks))
    add_routes(app, ROUTES)
    add_routes(app, PAGES)
    add_routes(app, in_room(description_route.router.routes))
    describe(app)
    prepare_enrolling(app, settings)
    prepare_reading(app)
    prepare_room(app, THREADS_MOST)
    app.add_exception_handler(Exception, _tell_unforeseen)
    app.add_exception_handler(DoneBefore, answer_again)
    app.add_exception_handler(NotModified, answer_unchanged)
    app.add_middleware(DeprecationHeaders)
    excepted = [taken for router in V1 for taken in exceptions(router.routes, prefix="/v1")]
    excepted += exceptions(PAGES)
    on_page = partial(start_pages.refused, trials=settings.trials.offered)
    app.add_middleware(
        JsonInput,
        excepted=excepted,
        routes=ROUTES,
        pages=PAGES,
        on_page=on_page,
        needs_caller=asks,
        authenticate=authenticate,
    )
    app.add_middleware(
        Rates,
        requests_per_minute=settings.api_requests_per_minute,
        owner_requests_per_minute=settings.api_owner_requests_per_minute,
        failures_per_minute=settings.api_failures_per_minute,
    )
    app.add_middleware(browser_pages.PagesForBrowsers, pages=_PAGE_INDEX)
    app.add_middleware(AnswerHeaders)
    app.add_middleware(RequestIds)
    app.add_middleware(HeadAsGet)
    # Last: of all routes that there are.
    app.router.routes.insert(0, RouteIndex(app.router.routes))
    return app
