"""The API's application, as uvicorn starts it: `uvicorn --factory api.main:create_app`."""

from fastapi import FastAPI

from api.application import make_application
from api.body_limits import BodyLimits
from api.change import DoneBefore, answer_again
from api.request_ids import RequestIds
from api.sign_up import routes as sign_up_pages
from api.sign_up import routes as sign_up_pages
from api.state import prepare_enrolling
from api.v1.routers import V1
from nac.settings import Settings, load_settings

_MOST_BYTES = 1024 * 1024
# 10,000 endpoints with all that can be said of them are some 5 MB.
_LARGER = {r"/v1/tenants/[^/]+/(endpoints/bulk|users/bulk|nases/bulk|imports)": 16 * 1024 * 1024}


def create_app(settings: Settings | None = None) -> FastAPI:
    """Settings come from the environment where none are given. Raises SettingsError."""
    settings = settings or load_settings(required=("DATABASE_URL", "REDIS_URL", "MASTER_KEY_FILE"))
    app = make_application(settings, title="Admit", name="admit-api")
    for router in V1:
        app.include_router(router, prefix="/v1")
    app.include_router(sign_up_pages.router)
    app.include_router(sign_up_pages.router)
    prepare_enrolling(app, settings)
    app.add_exception_handler(DoneBefore, answer_again)
    app.add_middleware(BodyLimits, most=_MOST_BYTES, larger=_LARGER)
    app.add_middleware(RequestIds)
    return app
