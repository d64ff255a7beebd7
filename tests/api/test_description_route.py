"""`/openapi.json` as clients fetch it."""

import gzip
from pathlib import Path

from api.main import create_app
from tests.api.app_server import serve_app, settings_of_public
from tests.postgres import Database


def test_description_is_built_once_and_cached_by_etag(database: Database, tmp_path: Path) -> None:
    app = create_app(settings_of_public(database, tmp_path))
    with serve_app(app) as client:
        plain = client.get("/openapi.json", headers={"Accept-Encoding": "identity"})
        packed = client.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
        assert plain.json() == packed.json() == app.openapi()
        assert list(plain.json()["paths"]["/readyz"]["get"]["responses"]) == ["200", "503"]
        assert packed.headers["content-encoding"] == "gzip"
        assert len(gzip.compress(plain.content)) < len(plain.content) / 5
        known = client.get("/openapi.json", headers={"If-None-Match": packed.headers["etag"]})
        assert (known.status_code, known.content) == (304, b"")
        assert plain.headers["etag"] != packed.headers["etag"]
        app.openapi_schema = {"paths": {}}
        assert client.get("/openapi.json").json() == plain.json()


def test_api_responses_are_not_cacheable(database: Database, tmp_path: Path) -> None:
    with serve_app(create_app(settings_of_public(database, tmp_path))) as client:
        answer = client.get("/v1/tenants/alpha")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "strict-transport-security" not in answer.headers
