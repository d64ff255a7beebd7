"""The API's application, as uvicorn starts it: `uvicorn --factory api.main:create_app`."""

from fastapi import Depends, FastAPI

from api.application import make_application
from api.change import DoneBefore, answer_again
from api.deprecation import DeprecationHeaders
from api.description import describe
from api.json_input import JsonInput, exceptions
from api.query import known_query
from api.rates import Rates
from api.request_ids import RequestIds
from api.sign_up import routes as sign_up_pages
from api.state import prepare_enrolling
from api.v1.routers import V1
from nac.settings import Settings, load_settings


def create_app(settings: Settings | None = None) -> FastAPI:
    """Settings come from the environment where none are given. Raises SettingsError."""
    settings = settings or load_settings(required=("DATABASE_URL", "REDIS_URL", "MASTER_KEY_FILE"))
    app = make_application(settings, title="Admit", name="admit-api")
    for router in V1:
        app.include_router(router, prefix="/v1", dependencies=[Depends(known_query)])
    app.include_router(sign_up_pages.router)
    describe(app)
    prepare_enrolling(app, settings)
    app.add_exception_handler(DoneBefore, answer_again)
    app.add_middleware(DeprecationHeaders)
    excepted = [taken for router in V1 for taken in exceptions(router.routes, prefix="/v1")]
    app.add_middleware(JsonInput, excepted=[*excepted, *exceptions(sign_up_pages.router.routes)])
    app.add_middleware(
        Rates,
        requests_per_minute=settings.api_requests_per_minute,
        failures_per_minute=settings.api_failures_per_minute,
    )
    app.add_middleware(RequestIds)
    return app
