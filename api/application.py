"""Common parts of all applications in this package: database, Redis, errors, probes."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from fastapi import APIRouter, FastAPI
from fastapi.telemetry import TelemetryConfig

from api import health
from api.application_state import MAX_DEVICE_REQUESTS, prepare_request_limit
from api.errors import install_error_handlers
from api.routes import add_routes
from api.thread_limits import limit_routes
from nac.kit.db import make_engine, set_process_engine
from nac.kit.settings import Settings

# Otherwise FastAPI reads the environment in every request.
_NO_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
_DEVICE_LIMIT_NAME: Final = "devices"


def create_application(
    settings: Settings,
    *routers: APIRouter,
    title: str,
    name: str,
    for_strangers: bool = False,
    database_settings: Sequence[str] = (),
) -> FastAPI:
    """Create an application. `name` is the application_name of its connections to PostgreSQL.

    With `for_strangers`, responses do not contain details of internal errors.
    """
    # PostgreSQL cancels a slow statement before the request times out, so that the connection stays usable.
    statement_seconds = settings.api_database_wait_seconds + 1
    engine = make_engine(
        settings.database_url,
        application_name=name,
        settings=(f"statement_timeout={statement_seconds * 1000:.0f}ms", *database_settings),
        wait_seconds=settings.api_database_wait_seconds,
        # Opening a connection takes as long as ten short queries.
        keeps_all=True,
    )
    client = health.connect_redis(settings.redis_url)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        set_process_engine(engine)
        with ExitStack() as stack:
            for start, stop in app.state.beside:
                start()
                stack.callback(stop)
            yield
        set_process_engine(None)
        engine.dispose()
        client.close()

    # No interactive API pages, because they load scripts from other sites. `api.openapi_document` serves /openapi.json.
    # No redirect of paths with a trailing slash, because the redirect would use the host from the request.
    app = FastAPI(
        title=title,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
    )
    app.state.settings = settings
    app.state.for_strangers = for_strangers
    app.state.engine = engine
    app.state.wait_seconds = statement_seconds + 1
    app.state.redis = client
    # For each background part of the application: the function that starts the part, and the function that stops it.
    beside: list[tuple[Callable[[], None], Callable[[], None]]] = []
    app.state.beside = beside
    app.state.rooms = {}
    app.state.shares = WeakValueDictionary()
    health.prepare_probes(
        app,
        make_engine(
            settings.database_url,
            pool_size=1,
            application_name=f"{name}-probe",
            wait_seconds=settings.api_database_wait_seconds,
        ),
    )
    install_error_handlers(app)
    for router in (health.router, *routers):
        add_routes(app, router.routes)
    return app


def add_device_routes(app: FastAPI, *routers: APIRouter, most_octets: int) -> None:
    """Add the routes for devices.

    Admit reads a body of up to `most_octets` bytes before the request counts toward the limit on running requests.
    """
    for router in routers:
        add_routes(app, limit_routes(router.routes, whose=_DEVICE_LIMIT_NAME, most_octets=most_octets))
    prepare_request_limit(app, MAX_DEVICE_REQUESTS, whose=_DEVICE_LIMIT_NAME)
