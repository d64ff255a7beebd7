"""`./admit api`: every operation of a real API, from its description."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel
from sqlalchemy import Engine

from api.main import create_app
from cli.main import admit
from nac.accounts import api_tokens
from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import MspScope, session_scope
from nac.kit.permissions import permissions_at
from tests.api.app_server import serve_app_on_port, settings_of_public
from tests.factories.tenancy import ACTOR, Platform, make_tenant
from tests.postgres import Database

Api = Callable[..., Result]


@pytest.fixture
def token_file(app_engine: Engine, platform: Platform, tmp_path: Path) -> Path:
    owner, end = Owner(platform.msp_id), utc_now() + timedelta(days=1)
    held = permissions_at(owner.level)
    with session_scope(MspScope(platform.msp_id), engine=app_engine) as session:
        given = {"owner": owner, "name": "t", "permissions": held, "expires_at": end}
        made = api_tokens.create_token(session, actor=ACTOR, held=held, **given)
    path = tmp_path / "token"
    path.write_text(f"{made.text}\n")
    return path


@pytest.fixture(scope="module")
def app(migrated_database: Database, tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """An application that builds its description once."""
    return create_app(settings_of_public(migrated_database, tmp_path_factory.mktemp("api")))


@pytest.fixture
def api(app: FastAPI, app_engine: Engine, platform: Platform, token_file: Path) -> Iterator[Api]:
    make_tenant(app_engine, platform, "alpha")
    with serve_app_on_port(app) as url:
        yield partial(run_api, url, "--token-file", str(token_file))


def run_api(url: str, *arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(admit, ("api", "--url", url, *arguments), input=text)


def parse_output(result: Result) -> dict[str, object]:
    assert result.exit_code == 0, result.output
    document: dict[str, object] = json.loads(result.stdout)
    return document


def test_help_lists_every_operation_and_its_options(api: Api) -> None:
    listed = api("--help").output
    assert "list-endpoints" in listed
    assert "create-tenant-token" in listed
    options = api("create-endpoint", "--help").output
    for name in ("TENANT", "--mac", "--valid-until", "--groups", "--idempotency-key", "--wait [live]", "--body"):
        assert name in options
    assert "TENANT MAC" in api("get-endpoint", "--help").output.replace("[OPTIONS] ", "")


def test_options_become_path_query_and_body(api: Api) -> None:
    for number in range(3):
        mac = f"00:00:5e:00:53:0{number}"
        options = ("--name", "Printer", "--attributes", '{"floor": "2"}', "--valid-until", "2099-01-01T00:00:00Z")
        made = parse_output(api("create-endpoint", "alpha", "--mac", mac, *options, "--json"))
        assert (made["mac"], made["name"], made["attributes"]) == (mac, "Printer", {"floor": "2"})
    changed = parse_output(api("update-endpoint", "alpha", "00:00:5e:00:53:00", "--valid-until", "null", "--json"))
    assert changed["valid_until"] is None
    listing = ("list-endpoints", "alpha", "--limit", "2")
    page = parse_output(api(*listing, "--status", "active", "--status", "blocked", "--json"))
    assert len(page["items"]) == 2  # type: ignore[arg-type]
    every = parse_output(api(*listing, "--all", "--json"))
    assert [each["mac"][-1] for each in every["items"]] == ["0", "1", "2"]  # type: ignore[attr-defined]
    table = api(*listing)
    assert "00:00:5e:00:53:01" in table.stdout
    assert "--after" in table.stderr
    assert api("delete-endpoint", "alpha", "00:00:5e:00:53:00").exit_code == 0


def test_body_comes_from_a_file_with_if_match(api: Api) -> None:
    body = json.dumps({"mac": "00:00:5e:00:53:09", "name": "x"})
    made = parse_output(api("create-endpoint", "alpha", "--body", "-", "--name", "y", "--json", text=body))
    assert made["name"] == "y"
    shown = api("get-endpoint", "alpha", "00:00:5e:00:53:09")
    tag = shown.stderr.split("ETag: ")[1].strip()
    assert api("block-endpoint", "alpha", "00:00:5e:00:53:09").exit_code == 0
    late = api("update-endpoint", "alpha", "00:00:5e:00:53:09", "--if-match", tag, "--name", "z", "--json")
    assert (late.exit_code, json.loads(late.stdout)["error"]) == (1, "has-changed")


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (("get-endpoint", "alpha", "00:00:5e:00:53:01"), 2, "endpoint-not-found"),
        (("get-endpoint", "other", "00:00:5e:00:53:01"), 2, "tenant-not-found"),
        (("create-endpoint", "alpha", "--mac", "no"), 2, "invalid-input"),
        (("create-endpoint", "alpha", "--mac", "00:00:5e:00:53:01", "--attributes", "{"), 2, "invalid-input"),
        (("create-endpoint", "alpha"), 2, "invalid-input"),
        (("get-endpoint", "../../x", "00:00:5e:00:53:01"), 2, "text-refused"),
    ],
)
def test_api_errors_are_printed_with_an_exit_status(
    api: Api, arguments: tuple[str, ...], status: int, error: str
) -> None:
    refused = api(*arguments, "--json")
    assert (refused.exit_code, json.loads(refused.stdout)["error"]) == (status, error), refused.output


def test_each_of_several_errors_is_its_own_object(api: Api, tmp_path: Path) -> None:
    items = [{"mac": "xyz"}, {"mac": "00005e005301", "groups": ["no"]}]
    body = tmp_path / "endpoints.json"
    body.write_text(json.dumps({"operation": "put", "items": items}))
    refused = api("update-endpoints-in-bulk", "alpha", "--body", str(body), "--json")
    told = json.loads(refused.stdout)
    assert (refused.exit_code, told["error"], told["message"]) == (2, "rows-refused", "2 mistakes.")
    assert [each["place"] for each in told["mistakes"]] == ["items[0].mac", "items[1].groups"]
    assert told["mistakes"][1]["message"] == "Unknown group 'no'."
    assert "./admit endpoint-group add" in told["mistakes"][1]["remedy"]
    # In text output each error has a line.
    assert "items[1].groups: Unknown group 'no'." in refused.stderr


def test_invalid_url_and_token_are_reported(
    api: Api, app: FastAPI, token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token_file.write_text("admit_x")
    refused = api("get-tenant", "alpha", "--json")
    assert (refused.exit_code, json.loads(refused.stdout)["error"]) == (1, "token-refused")
    monkeypatch.delenv("ADMIT_API_TOKEN", raising=False)
    with serve_app_on_port(app) as url:
        refused = run_api(url, "get-tenant", "alpha", "--json")
    problem = json.loads(refused.stdout)
    assert (refused.exit_code, problem["error"], "ADMIT_API_TOKEN" in problem["remedy"]) == (1, "not-signed-in", True)
    away = run_api("http://127.0.0.1:9", "get-tenant", "alpha")
    assert (away.exit_code, "does not respond" in away.output) == (1, True)
    assert run_api("ftp://x", "get-tenant", "alpha").exit_code == 2


def test_other_media_types_are_passed_through(tmp_path: Path) -> None:
    """Routes that accept and return something other than JSON."""
    app = FastAPI()

    class StoredFile(BaseModel):
        octets: int

    @app.post("/files/{name}", operation_id="putFile", openapi_extra=_BINARY)
    async def put_file(name: str, request: Request) -> StoredFile:
        return StoredFile(octets=len(await request.body()))

    @app.get("/files/{name}", operation_id="getFile", response_class=PlainTextResponse)
    def get_file(name: str) -> PlainTextResponse:
        return PlainTextResponse(f"content of {name}\n")

    with serve_app_on_port(app) as url:
        assert run_api(url, "put-file", "a/b", "--body", "-", "--json", text="1234").exit_code in (0, 2)
        sent = run_api(url, "put-file", "a", "--body", "-", "--json", text="1234")
        assert json.loads(sent.stdout) == {"octets": 4}
        output = tmp_path / "file"
        assert run_api(url, "get-file", "x", "--output", str(output)).exit_code == 0
        assert output.read_text() == run_api(url, "get-file", "x").stdout == "content of x\n"


_BINARY = {"requestBody": {"content": {"text/csv": {}}, "required": True}}
