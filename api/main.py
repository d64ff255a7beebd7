"""The API's application, which api/__main__.py serves."""

from functools import partial
from typing import Final

from fastapi import FastAPI, Request, Response

from api import browser_errors, errors, new_password_pages, openapi_document, portal, sign_up_pages
from api.application import create_application
from api.application_state import MAX_THREADS, prepare_request_limit, prepare_signing, prepare_usage_cache
from api.caller import authenticate_before_body, needs_caller
from api.change import IdempotentReplay, NotModified, render_not_modified, render_replay
from api.credential_rate_limit import CredentialRateLimit
from api.event_stream import prepare_event_streams
from api.json_input import JsonInput, list_body_rules
from api.openapi_document import install_openapi
from api.pages import render_error_page
from api.response_headers import DeprecationHeaders, RequestIds, ResponseHeaders
from api.route_index import RouteIndex
from api.routes import add_routes
from api.start import factor_pages, sign_in_pages, tenant_pages
from api.thread_limits import limit_routes
from api.v1.routers import ROUTES, V1
from nac.kit.settings import Settings, load_settings

# Tenants differ in size. A generic query plan, or a query plan for another tenant, can scan a whole table.
_CUSTOM_PLANS = "plan_cache_mode=force_custom_plan"
_PAGE_MODULES = (sign_up_pages, new_password_pages, sign_in_pages, factor_pages, tenant_pages)
PAGE_ROUTES: Final = tuple(
    limit_routes((route for pages in _PAGE_MODULES for route in pages.router.routes), refused=render_error_page)
)
_PAGE_INDEX = RouteIndex(PAGE_ROUTES)


async def _handle_unexpected_error(request: Request, exc: Exception) -> Response:
    """Render an internal error as a page for browsers, otherwise as problem details.

    This handler runs outside of all middleware.
    """
    if browser_errors.wants_page(request.scope, _PAGE_INDEX):
        return browser_errors.render_unexpected_error(request)
    return await errors.handle_unexpected_error(request, exc)


def create_app(settings: Settings | None = None) -> FastAPI:
    """Create the API's application. The default of `settings` comes from environment variables.

    Raises SettingsError.
    """
    settings = settings or load_settings(required=("DATABASE_URL", "REDIS_URL", "MASTER_KEY_FILE"))
    # A request that waits for a lock, such as one of a large job, holds a connection. Without this limit, a few of
    # them could take all connections.
    locks = f"lock_timeout={settings.api_database_wait_seconds * 1000:.0f}ms"
    app = create_application(settings, title="Admit", name="admit-api", database_settings=(_CUSTOM_PLANS, locks))
    add_routes(app, ROUTES)
    add_routes(app, PAGE_ROUTES)
    add_routes(app, limit_routes(openapi_document.router.routes))
    add_routes(app, portal.router.routes)
    install_openapi(app, V1)
    prepare_signing(app, settings)
    prepare_usage_cache(app)
    prepare_event_streams(app)
    prepare_request_limit(app, MAX_THREADS)
    app.add_exception_handler(Exception, _handle_unexpected_error)
    app.add_exception_handler(IdempotentReplay, render_replay)
    app.add_exception_handler(NotModified, render_not_modified)
    app.add_middleware(DeprecationHeaders)
    excepted = [taken for router in V1 for taken in list_body_rules(router.routes, prefix="/v1")]
    excepted += list_body_rules(PAGE_ROUTES)
    on_page = partial(sign_in_pages.render_request_error, trials=settings.trials.offered)
    app.add_middleware(
        JsonInput,
        excepted=excepted,
        routes=ROUTES,
        pages=PAGE_ROUTES,
        on_page=on_page,
        needs_caller=needs_caller,
        authenticate=authenticate_before_body,
    )
    app.add_middleware(
        CredentialRateLimit,
        requests_per_minute=settings.api_requests_per_minute,
        owner_requests_per_minute=settings.api_owner_requests_per_minute,
        failures_per_minute=settings.api_failures_per_minute,
    )
    app.add_middleware(browser_errors.BrowserErrorPages, pages=_PAGE_INDEX)
    app.add_middleware(ResponseHeaders)
    app.add_middleware(RequestIds)
    # Last, so that the index has all routes.
    app.router.routes.insert(0, RouteIndex(app.router.routes))
    return app
