"""The API's application, as uvicorn starts it: `uvicorn --factory api.main:create_app`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from api import health
from api.errors import install_error_handlers
from nac.db import make_engine, use_engine
from nac.settings import Settings, load_settings


def create_app(settings: Settings | None = None) -> FastAPI:
    """Settings come from the environment where none are given. Raises SettingsError."""
    settings = settings or load_settings(required=("DATABASE_URL", "REDIS_URL"))
    engine = make_engine(settings.database_url, application_name="admit-api")
    client = health.connect_redis(settings.redis_url)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        use_engine(engine)
        yield
        use_engine(None)
        engine.dispose()
        client.close()

    # The interactive pages load scripts from other sites; the description itself stays at /openapi.json.
    app = FastAPI(title="Admit", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.engine = engine
    app.state.redis = client
    install_error_handlers(app)
    app.include_router(health.router)
    return app
