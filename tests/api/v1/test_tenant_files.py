"""Files of tenants asked for through the API, and made by the worker."""

import base64
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from api.main import create_app
from nac.jobs.running import SeveralTransactions, run_next
from nac.tenant_files import asked
from tests.api.served import served, settings_of_public
from tests.factories.certificates import SEALER, SIGNING
from tests.postgres import Database

FILES = "/v1/msps/acme/tenant-files"


@pytest.fixture
def files(database: Database, tmp_path: Path, api: httpx.Client) -> Iterator[httpx.Client]:
    (tmp_path / "files").mkdir()
    settings = settings_of_public(database, tmp_path / "files", ADMIT_EXPORT_DIR=str(tmp_path / "exports"))
    with served(create_app(settings)) as client:
        client.headers["Authorization"] = api.headers["Authorization"]
        yield client


def work(tmp_path: Path, app_engine: Engine, worker_engine: Engine) -> None:
    handlers = {
        asked.EXPORT: SeveralTransactions(partial(asked.run_export, export_dir=tmp_path / "exports", sealer=SEALER)),
        asked.IMPORT: SeveralTransactions(partial(asked.run_import, signing=SIGNING)),
    }
    while run_next(handlers, unseal=SEALER.open, app_engine=app_engine, engine=worker_engine):
        pass


def test_tenant_goes_out_as_a_file_and_comes_in_as_another(
    files: httpx.Client, tmp_path: Path, app_engine: Engine, worker_engine: Engine
) -> None:
    files.post("/v1/tenants/alpha/endpoints", json={"mac": "00:00:5e:00:53:01"})
    asked_for = files.post("/v1/msps/acme/tenants/alpha/export", json={})
    assert asked_for.status_code == 202, asked_for.text
    job = asked_for.json()["id"]
    assert files.get(f"{FILES}/{job}").status_code == 404
    work(tmp_path, app_engine, worker_engine)
    done = files.get(f"/v1/msps/acme/jobs/{job}").json()
    assert (done["state"], done["result"]["rows"]["endpoints"]) == ("done", 1), done
    got = files.get(f"{FILES}/{job}")
    assert (got.status_code, got.content[:2]) == (200, b"PK")

    body = {"slug": "copy", "file": base64.b64encode(got.content).decode()}
    brought = files.post(FILES, json=body)
    assert brought.status_code == 202, brought.text
    wrong = files.post(FILES, json={"slug": "other", "file": base64.b64encode(got.content[:-40]).decode()})
    work(tmp_path, app_engine, worker_engine)
    jobs = {each["id"]: each for each in files.get("/v1/msps/acme/jobs").json()["items"]}
    assert jobs[brought.json()["id"]]["state"] == "done", jobs
    assert jobs[wrong.json()["id"]]["problem"]["code"] == "tenant-file-refused"
    copied = files.get("/v1/tenants/copy/endpoints").json()["items"]
    assert [each["mac"] for each in copied] == ["00:00:5e:00:53:01"]
    assert files.get("/v1/tenants/other").status_code == 404
