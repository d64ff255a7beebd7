"""The API's application, as uvicorn starts it: `uvicorn --factory api.main:create_app`."""

from fastapi import FastAPI

from api import description_route, form_pages
from api.answer_headers import AnswerHeaders
from api.application import make_application
from api.change import DoneBefore, NotModified, answer_again, answer_unchanged
from api.deprecation import DeprecationHeaders
from api.description import describe
from api.json_input import JsonInput, exceptions
from api.new_password import routes as new_password_pages
from api.rates import Rates
from api.request_ids import RequestIds
from api.route_index import RouteIndex
from api.routes import add_routes
from api.sign_up import routes as sign_up_pages
from api.start import routes as start_pages
from api.start import tenant as tenant_pages
from api.state import prepare_enrolling, prepare_reading
from api.v1.routers import ROUTES, V1
from nac.settings import Settings, load_settings

# Tenants are of very unequal size: a plan that was made for one, or for any, reads a table from end to end for another.
_PLANS = "plan_cache_mode=force_custom_plan"
_PAGES = (
    sign_up_pages.router,
    new_password_pages.router,
    start_pages.router,
    tenant_pages.router,
)


def create_app(settings: Settings | None = None) -> FastAPI:
    """Settings come from the environment where none are given. Raises SettingsError."""
    settings = settings or load_settings(required=("DATABASE_URL", "REDIS_URL", "MASTER_KEY_FILE"))
    app = make_application(settings, title="Admit", name="admit-api", database_settings=(_PLANS,))
    add_routes(app, ROUTES)
    for router in (*_PAGES, description_route.router):
        add_routes(app, router.routes)
    describe(app)
    prepare_enrolling(app, settings)
    prepare_reading(app)
    app.add_exception_handler(DoneBefore, answer_again)
    app.add_exception_handler(NotModified, answer_unchanged)
    app.add_middleware(DeprecationHeaders)
    excepted = [taken for router in V1 for taken in exceptions(router.routes, prefix="/v1")]
    pages = [route for router in _PAGES for route in router.routes]
    excepted += exceptions(pages)
    app.add_middleware(JsonInput, excepted=excepted, routes=ROUTES, pages=pages, on_page=form_pages.refused)
    app.add_middleware(
        Rates,
        requests_per_minute=settings.api_requests_per_minute,
        owner_requests_per_minute=settings.api_owner_requests_per_minute,
        failures_per_minute=settings.api_failures_per_minute,
    )
    app.add_middleware(AnswerHeaders)
    app.add_middleware(RequestIds)
    # Last: of all routes that there are.
    app.router.routes.insert(0, RouteIndex(app.router.routes))
    return app
