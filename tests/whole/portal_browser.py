"""A browser that is signed in to the portal of an installation."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from cli import portal
from tests.whole.instance import Instance

PASSWORD: Final = "a long password of a test"
_AXE: Final = portal.FOLDER / "node_modules" / "axe-core" / "axe.min.js"
_AXE_RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_CHROMIUM: Final = "/usr/bin/chromium"
_TIMEOUT_MILLISECONDS: Final = 15_000
# The account of tests is often root, with which the sandbox of Chromium does not work.
_ARGUMENTS: Final = ("--no-sandbox", "--disable-gpu")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Debian's Chromium. It runs in the network namespace of the caller."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def create_person(instance: Instance, email: str, *, tenant: str, role: str) -> None:
    """Create an account with PASSWORD and a role on the tenant."""
    made = json.loads(instance.admit("person", "add", email, "--json").stdout)
    member = instance.admit("member", "add", email, "-t", tenant, "--role", role)
    assert member.returncode == 0, member.stderr
    url = f"{portal_url(instance)}/v1/sign-in/new-password"
    reply = httpx.post(url, json={"token": made["token"], "password": PASSWORD}, trust_env=False)
    assert reply.status_code == 204, reply.text


def portal_url(instance: Instance) -> str:
    return f"http://127.0.0.1:{instance.settings.api_port}"


@contextmanager
def signed_in(browser: Browser, instance: Instance, email: str, **options: object) -> Iterator[tuple[Page, list[str]]]:
    """Sign in. Yields the page, and its errors: messages of the console and failed scripts."""
    context = browser.new_context(base_url=portal_url(instance), **options)
    context.set_default_timeout(_TIMEOUT_MILLISECONDS)
    page = context.new_page()
    errors: list[str] = []
    try:
        page.goto("/portal/")
        page.fill("input[name=email]", email)
        page.fill("input[name=password]", PASSWORD)
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.get_by_role("navigation").wait_for()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if "Content Security" in message.text else None)
        yield page, errors
    finally:
        context.close()


def list_violations(page: Page) -> list[str]:
    """Check the page with axe-core. Returns a line for each violation of WCAG 2.2 AA, with the first element."""
    page.evaluate(_AXE.read_text(encoding="utf-8"))
    found = page.evaluate(f"axe.run(document, {{runOnly: {json.dumps(_AXE_RULES)}}})")
    return [f"{each['id']}: {each['help']}: {each['nodes'][0]['html']}" for each in found["violations"]]
