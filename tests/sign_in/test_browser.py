"""Passkeys in a real browser with virtual authenticators, on a page that the API serves."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from fastapi.responses import HTMLResponse

from api import portal
from api.connections import HttpWithFiles
from api.main import create_app
from tests.api.app_server import running, settings_of_public
from tests.polling import until
from tests.ports import free_row
from tests.postgres import Database
from tests.sign_in.chromium import Chromium, Page, PageError, chromium
from tests.sign_in.conftest import EMAIL, PASSWORD

PAGE = Path(__file__).with_name("passkeys.html").read_text()
BY_PASSWORD = f'ask("POST", "/sign-in", {{email: "{EMAIL}", password: "{PASSWORD}"}})'
ALONE = 'signIn("/sign-in/passkey", {})'


@pytest.fixture
def port(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of the API at http://localhost, which browsers accept as secure without TLS.

    Without a built portal, `/` is a page of the API.
    """
    monkeypatch.setattr(portal, "_files", lambda: None)
    port = free_row(udp=0, tcp=1)
    app = create_app(settings_of_public(database, tmp_path, ADMIT_PORTAL_URL=f"http://localhost:{port}"))
    app.add_api_route("/page", lambda: HTMLResponse(PAGE), include_in_schema=False)
    config = uvicorn.Config(app, host="127.0.0.1", port=port, http=HttpWithFiles, log_level="critical", lifespan="on")
    with running(uvicorn.Server(config)):
        yield port


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as found:
        yield found


def test_browser_creates_a_passkey_and_signs_in(browser, port, ann):
    page = browser.open(f"http://localhost:{port}/page")
    key = page.plug_in(transport="internal", verifies=True)
    assert page.run(BY_PASSWORD)["state"] == "signed-in"
    assert page.run('register("Laptop")')["name"] == "Laptop"
    assert page.run('ask("GET", "/me")')["factors"] == ["passkey", "password"]
    # A user cannot register an authenticator twice.
    with pytest.raises(PageError, match="InvalidStateError"):
        page.run('register("Again")')
    page.run('ask("POST", "/sign-out")')
    with pytest.raises(PageError, match="401 not-signed-in"):
        page.run('ask("GET", "/me")')
    # First without name and password, then as the second step, then as a confirmation.
    page.run(ALONE)
    me = page.run('ask("GET", "/me")')
    assert (me["email"], me["factors"], me["methods"], me["has_two_factors"]) == (EMAIL, ["passkey"], ["passkey"], True)
    page.run('signIn("/me/confirmation/passkey")')
    needed = f'{BY_PASSWORD}.then(found => signIn("/sign-in/passkey", {{challenge: found.challenge}}))'
    assert page.run(needed)["state"] == "signed-in"
    assert page.run('ask("GET", "/me")')["factors"] == ["passkey", "password"]
    # A user who cannot unlock the passkey cannot sign in with it only.
    page.run('ask("POST", "/sign-out")')
    page.send("WebAuthn.setUserVerified", authenticatorId=key, isUserVerified=False)
    with pytest.raises(PageError, match=r"NotAllowedError|401 sign-in-refused"):
        page.run(ALONE)
    # The passkey belongs to this host name, and is invalid at the server's other name.
    page.send("WebAuthn.setUserVerified", authenticatorId=key, isUserVerified=True)
    page.go(f"http://127.0.0.1:{port}/page")
    with pytest.raises(PageError, match=r"SecurityError|403 cross-site"):
        page.run(ALONE)


def test_browser_uses_a_security_key_as_second_factor(browser, port, ann):
    page = browser.open(f"http://localhost:{port}/page")
    page.plug_in(transport="usb", verifies=False)
    page.run(BY_PASSWORD)
    page.run('register("Key")')
    page.run('ask("POST", "/sign-out")')
    needed = page.run(BY_PASSWORD)
    assert (needed["state"], needed["methods"]) == ("factors-needed", ["passkey"])
    page.run(f'signIn("/sign-in/passkey", {{challenge: "{needed["challenge"]}"}})')
    assert page.run('ask("GET", "/me")')["factors"] == ["password", "security-key"]


BUTTON = 'document.querySelector("button[data-passkey]")'
FILLED_IN = f'form.elements.email.value = "{EMAIL}"; form.elements.password.value = "{PASSWORD}"'


def go(page: Page, port: int, path: str) -> None:
    """Open a page. Pages that navigate automatically have already reported their end."""
    page.go(f"http://localhost:{port}{path}")
    until(lambda: page.run("[location.pathname, document.readyState]") == [path, "complete"], path)


def with_laptop(browser: Chromium, port: int) -> tuple[Page, str]:
    """A signed-out page of a user who has registered a passkey, and the id of its authenticator."""
    page = browser.open(f"http://localhost:{port}/page")
    key = page.plug_in(transport="internal", verifies=True)
    page.run(BY_PASSWORD)
    page.run('register("Laptop")')
    page.run('ask("POST", "/sign-out")')
    return page, key


def signed_in(page: Page, port: int) -> list[str]:
    """The sign-in method, after the page has navigated."""
    until(lambda: page.run("location.pathname") == "/", "the page goes on")
    go(page, port, "/page")
    found = page.run('ask("GET", "/me")')["factors"]
    page.run('ask("POST", "/sign-out")')
    return found


def take_second_step(page: Page, port: int) -> None:
    """Enter a password, then use the passkey."""
    go(page, port, "/sign-in")
    page.run(f"const form = document.forms[0]; {FILLED_IN}; form.submit()")
    until(lambda: page.run(f"{BUTTON}?.dataset.passkey.length > 0 && {BUTTON}.checkVisibility()"), "the second step")
    page.run(f"{BUTTON}.click()")
    assert signed_in(page, port) == ["passkey", "password"]


@pytest.mark.long
def test_sign_in_page_works_without_passkey_json_support(browser, port, ann):
    """Browsers before 2024 lack the JSON functions. A browser without passkeys shows an error where it needs one."""
    page, _ = with_laptop(browser, port)
    old = "delete PublicKeyCredential.parseRequestOptionsFromJSON; delete PublicKeyCredential.prototype.toJSON"
    page.send("Page.addScriptToEvaluateOnNewDocument", source=f'if (location.pathname != "/page") {{ {old} }}')
    go(page, port, "/sign-in")
    assert not page.run("PublicKeyCredential.parseRequestOptionsFromJSON || PublicKeyCredential.prototype.toJSON")
    page.run(f"{BUTTON}.click()")
    assert signed_in(page, port) == ["passkey"]
    take_second_step(page, port)
    page.send("Page.addScriptToEvaluateOnNewDocument", source="delete window.PublicKeyCredential")
    go(page, port, "/sign-in")
    assert not page.run(f"{BUTTON}.checkVisibility()")
    page.run(f"const form = document.forms[0]; {FILLED_IN}; form.submit()")
    told = 'document.querySelector("p[role=alert]:not([hidden])")?.textContent'
    assert until(lambda: page.run(told), "what is wrong").startswith("This browser does not support passkeys.")
    assert page.run(f"{BUTTON} === null")


def test_style_applies_under_the_security_policy(browser, port):
    page = browser.open(f"http://localhost:{port}/page")
    go(page, port, "/sign-in")
    assert page.run('getComputedStyle(document.querySelector("main")).borderRadius') == "8px"


def test_page_signs_in_by_a_passkey(browser, port, ann):
    page, key = with_laptop(browser, port)
    go(page, port, "/sign-in")
    page.run(f"{BUTTON}.click()")
    assert signed_in(page, port) == ["passkey"]
    take_second_step(page, port)
    # A user who cannot unlock the passkey sees an error and may retry.
    go(page, port, "/sign-in")
    page.send("WebAuthn.setUserVerified", authenticatorId=key, isUserVerified=False)
    page.run(f"{BUTTON}.click()")
    until(lambda: page.run('document.querySelector("p[role=alert]:not([hidden])")?.textContent'), "what is wrong")
    assert page.run(f"!{BUTTON}.disabled")
