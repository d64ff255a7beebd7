"""The API serves the built portal: page, assets, compression, and headers."""

import re

import pytest

from api import portal
from api.main import create_app
from tests.api.app_server import serve_app

SCRIPT = b"export default 1"


@pytest.fixture
def built(tmp_path, monkeypatch):
    assets = tmp_path / "assets"
    assets.mkdir()
    (tmp_path / "index.html").write_text('<meta property="csp-nonce" nonce="__NONCE__">')
    (assets / "main-1a2b.js").write_bytes(SCRIPT)
    (assets / "main-1a2b.js.br").write_bytes(b"brotli")
    (assets / "main-1a2b.js.gz").write_bytes(b"gzip")
    (assets / "mark-3c4d.svg").write_bytes(b"<svg/>")
    files = portal.read_files(tmp_path)
    monkeypatch.setattr(portal, "_files", lambda: files)


@pytest.fixture
def client(public_settings):
    with serve_app(create_app(public_settings)) as client:
        yield client


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("path", ["/portal/", "/portal/t/acme/log?who=ann", "/portal/no/such/page"])
def test_each_address_of_the_portal_returns_the_page(client, path):
    reply = client.get(path)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert reply.headers["cache-control"] == "no-store"
    nonce = re.search('nonce="([^"]+)"', reply.text)[1]
    policy = reply.headers["content-security-policy"]
    assert f"style-src 'self' 'nonce-{nonce}';" in policy
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert client.get(path).headers["content-security-policy"] != policy


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize(
    ("accepted", "encoding"), [("gzip, deflate, br, zstd", "br"), ("gzip", "gzip"), ("identity", None), ("zstd", None)]
)
def test_asset_is_cached_for_a_year_in_the_best_accepted_encoding(client, accepted, encoding):
    with client.stream("GET", "/portal/assets/main-1a2b.js", headers={"Accept-Encoding": accepted}) as reply:
        content = b"".join(reply.iter_raw())
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert reply.headers["vary"] == "Accept-Encoding"
    assert (reply.headers.get("content-encoding"), content) == (encoding, encoding_content(encoding))


def encoding_content(encoding):
    return {"br": b"brotli", "gzip": b"gzip", None: SCRIPT}[encoding]


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("name", ["main-old.js", "main-1a2b.js.br", "..%2findex.html"])
def test_unknown_asset_is_not_found_and_not_cached(client, name):
    reply = client.get(f"/portal/assets/{name}")
    assert reply.status_code in {404, 422}
    assert "immutable" not in reply.headers.get("cache-control", "")


@pytest.mark.usefixtures("built")
def test_portal_without_slash_redirects(client):
    reply = client.get("/portal")
    assert (reply.status_code, reply.headers["location"]) == (303, "/portal/")


def test_portal_that_is_not_built_names_the_remedy(client, monkeypatch):
    monkeypatch.setattr(portal, "_files", lambda: None)
    reply = client.get("/portal/")
    assert reply.status_code == 503
    assert "./admit up" in reply.text
