"""Retention, exports and the status of the platform."""

import json

import httpx
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.core import alarms
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.ids import TenantId
from nac.models import ExportJob
from tests.api.v1.responses import created

TENANT = "/v1/tenants/alpha"
RETENTION, EXPORTS = f"{TENANT}/retention", f"{TENANT}/exports"


def test_retention_is_previewed_updated_and_held(api: httpx.Client) -> None:
    logs = {each["log"]: each for each in api.get(RETENTION).json()["items"]}
    assert set(logs) == {"auth", "accounting", "sessions", "usage", "coa"}
    assert logs["auth"]["days_chosen"] is False
    foreseen = api.post(f"{RETENTION}/auth/preview", json={"days": 30}).json()
    assert (foreseen["days"], foreseen["lost_days"]) == (30, 0)
    assert api.get(f"{RETENTION}/auth").json() == logs["auth"]
    changed = api.patch(f"{RETENTION}/auth", json={"days": 30, "export": "csv", "bytes": 1 << 30}).json()
    assert (changed["days"], changed["export"], changed["bytes"]) == (30, "csv", 1 << 30)
    back = api.patch(f"{RETENTION}/auth", json={"days": "default", "export": "none", "bytes": "default"}).json()
    assert (back["days"], back["export"], back["bytes"]) == (logs["auth"]["days"], None, None)
    api.patch(f"{RETENTION}/auth", json={"export": "csv", "bytes": 1 << 30})
    cleared = api.patch(f"{RETENTION}/auth", json={"export": None, "bytes": None}).json()
    assert (cleared["export"], cleared["bytes"]) == (None, None)
    assert api.get(f"{RETENTION}/audit").status_code == 422
    hold = created(api.post(f"{RETENTION}/holds", json={"reason": "Case 17", "since": "2026-01-01"}))["id"]
    assert api.get(f"{RETENTION}/auth").json()["held"] is True
    assert api.post(f"{RETENTION}/holds/{hold}/clear").json()["cleared_at"]
    assert api.post(f"{RETENTION}/holds/{hold}/clear").status_code == 409
    assert [each["id"] for each in api.get(f"{RETENTION}/holds").json()["items"]] == [hold]


def test_operator_sets_limits_and_sees_problems(api: httpx.Client, operator, worker_engine: Engine) -> None:
    limits = "/v1/platform/retention/limits"
    body = {"floor_days": 10, "default_days": 60, "ceiling_days": 100}
    made = api.put(f"{limits}/auth", json=body, headers=operator)
    assert made.json() == {"log": "auth", "ceiling_bytes": None, **body}
    assert made.json() in api.get(limits, headers=operator).json()["items"]
    assert api.put(f"{limits}/auth", json={**body, "floor_days": 70}, headers=operator).json()["place"] == "days"
    assert api.delete(f"{limits}/auth", headers=operator).json()["default_days"] == 90
    with session_scope(PlatformScope(), engine=worker_engine) as session:
        alarms.raise_alarm(session, code="clock-jumped", detail="It did.", now=utc_now())
    status = api.get("/v1/platform/status", headers=operator).json()
    assert [(each["code"], each["cell"]) for each in status["alarms"]] == [("clock-jumped", None)]
    assert [(each["name"], each["silent"]) for each in status["cells"]] == [("cell-1", False)]


def test_export_is_started_cancelled_and_retried(api: httpx.Client) -> None:
    started = api.post(EXPORTS, json={"log": "auth", "since": "2026-01-01T00:00:00Z", "format": "jsonl"})
    assert started.status_code == 202, started.text
    job = started.json()
    assert (job["state"], job["percent"], job["files"]) == ("queued", 0, [])
    assert api.get(f"{EXPORTS}/{job['id']}/files/manifest.json").json()["code"] == "export-file-not-found"
    assert api.post(f"{EXPORTS}/{job['id']}/retry").status_code == 409
    assert api.delete(f"{EXPORTS}/{job['id']}").status_code == 409
    assert api.post(f"{EXPORTS}/{job['id']}/cancel").json()["state"] == "cancelled"
    assert [each["id"] for each in api.get(EXPORTS, params={"state": "cancelled"}).json()["items"]] == [job["id"]]
    assert api.get(EXPORTS, params={"state": "done"}).json()["items"] == []


def test_export_files_download_whole_and_in_ranges(
    api: httpx.Client, owner_engine: Engine, tenant_id: TenantId, tmp_path, monkeypatch
) -> None:
    job = api.post(EXPORTS, json={"log": "auth", "since": "2026-01-01T00:00:00Z"}).json()
    part = {"since": job["since"], "until": job["until"], "rows": 1, "bytes": 10, "sha256": "0" * 64}
    with Session(owner_engine) as session, session.begin():
        row = session.get_one(ExportJob, job["id"])
        row.state, row.parts = "done", [{"file": "a.csv", **part}, {"file": "gone.csv", **part}]
    folder = tmp_path / "exports" / str(tenant_id) / str(job["id"])
    folder.mkdir(parents=True)
    (folder / "a.csv").write_bytes(b"0123456789")
    (folder / "manifest.json").write_text(json.dumps({"files": []}))
    (folder / "secret").write_text("no part of it")
    files = f"{EXPORTS}/{job['id']}/files"
    whole = api.get(f"{files}/a.csv")
    assert (whole.status_code, whole.content, whole.headers["accept-ranges"]) == (200, b"0123456789", "bytes")
    assert "attachment" in whole.headers["content-disposition"]
    rest = api.get(f"{files}/a.csv", headers={"Range": "bytes=7-", "If-Range": whole.headers["etag"]})
    assert (rest.status_code, rest.content, rest.headers["content-range"]) == (206, b"789", "bytes 7-9/10")
    assert api.get(f"{files}/a.csv", headers={"Range": "bytes=20-"}).status_code == 416
    assert api.get(f"{files}/manifest.json").json() == {"files": []}
    for name in ("secret", "gone.csv", "..%2F..%2Fsecret", "%2Fetc%2Fpasswd"):
        assert api.get(f"{files}/{name}").status_code == (422 if "%" in name else 404), name
    assert api.delete(f"{EXPORTS}/{job['id']}").json()["state"] == "pruned"
    assert api.get(f"{files}/a.csv").status_code == 404
