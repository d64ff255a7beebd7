"""Asked again with the ETag of what one has (RFC 9110 13.1.2)."""

from datetime import UTC, datetime

import httpx
import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.models import EndpointSighting
from tests.factories.rows import make_row

MAC = "00:00:5e:00:53:01"
PATH = f"/v1/tenants/alpha/endpoints/{MAC}"


@pytest.fixture
def tag(api: httpx.Client) -> str:
    return api.post("/v1/tenants/alpha/endpoints", json={"mac": MAC}).headers["etag"]


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', "*"])
def test_what_is_as_it_was_is_not_sent_again(api: httpx.Client, tag: str, form: str) -> None:
    again = api.get(PATH, headers={"If-None-Match": form.format(tag)})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert again.headers["x-request-id"]
    assert again.headers["cache-control"] == "no-store"


def test_what_has_changed_is_sent(api: httpx.Client, tag: str) -> None:
    assert api.get(PATH, headers={"If-None-Match": '"other"'}).status_code == 200
    assert api.patch(PATH, json={"name": "Printer"}, headers={"If-None-Match": tag}).status_code == 200
    assert api.get(PATH, headers={"If-None-Match": tag}).json()["name"] == "Printer"


def test_device_that_was_seen_is_news_and_stops_no_change(
    api: httpx.Client, tag: str, owner_engine: Engine, tenant_id: TenantId
) -> None:
    with Session(owner_engine) as session, session.begin():
        seen = {"mac": MAC.replace(":", ""), "last_seen_at": datetime(2026, 1, 31, tzinfo=UTC)}
        make_row(session, EndpointSighting.__table__, tenant_id, **seen)
    assert api.get(PATH, headers={"If-None-Match": tag}).json()["last_seen_at"]
    assert api.patch(PATH, json={"name": "Printer"}, headers={"If-Match": tag}).status_code == 200


def test_what_the_asker_may_not_see_tells_nothing(api: httpx.Client, tag: str) -> None:
    other = api.get(PATH.replace("alpha", "nobody"), headers={"If-None-Match": "*"})
    assert other.status_code == 404
