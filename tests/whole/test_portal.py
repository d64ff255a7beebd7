"""Journeys through the portal in a browser, with real RADIUS requests."""

import re

import pytest
from playwright.sync_api import expect

from cli import portal
from loadtest.bench_tenants import ProvisionedTenant
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT
from tests.polling import until
from tests.whole.instance import Instance
from tests.whole.nas_packets import NasPackets
from tests.whole.portal_browser import PASSWORD, chromium, create_person, list_violations, signed_in

PRINTER = "00:00:5e:00:53:77"
TECHNICIAN, HELP_DESK, STRANGER = "technician@example.com", "help-desk@example.com", "stranger@example.com"


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def tenants(started_instance: Instance, made_tenants: tuple[ProvisionedTenant, ProvisionedTenant]):
    started_instance.ensure_well()
    assert portal.is_built(), "./admit up did not build the portal"
    alpha, bravo = (each.tenant.slug for each in made_tenants)
    create_person(started_instance, TECHNICIAN, tenant=alpha, role="tenant-admin")
    create_person(started_instance, HELP_DESK, tenant=alpha, role="help-desk")
    create_person(started_instance, STRANGER, tenant=bravo, role="tenant-admin")
    return made_tenants


@pytest.fixture
def wire(tenants):
    with NasPackets(tenants[0]) as wire:
        yield wire


def test_rejected_printer_is_found_by_search_and_admitted(browser, started_instance, tenants, wire):
    slug = tenants[0].tenant.slug
    assert wire.verdict(PRINTER.replace(":", "")) == ACCESS_REJECT
    started_instance.wait_until_shipped()
    with signed_in(browser, started_instance, TECHNICIAN) as (page, errors):
        page.keyboard.press("Control+k")
        page.get_by_role("searchbox", name="Search").fill(PRINTER)
        page.get_by_role("option", name=re.compile(PRINTER)).first.click()
        page.wait_for_url(f"**/portal/t/{slug}/devices/{PRINTER.replace(':', '*')}")
        expect(page.get_by_role("alert").first).to_contain_text("Unknown device")
        page.get_by_role("button", name="Approve device").click()
        page.get_by_label("Name").fill("Printer, 2nd floor")
        page.get_by_role("button", name="Group").click()
        page.get_by_role("option", name=tenants[0].tenant.endpoints[0].group).click()
        page.get_by_role("button", name="Approve", exact=True).click()
        expect(page.get_by_role("heading", name="Printer, 2nd floor")).to_be_visible()
        assert wire.verdict(PRINTER.replace(":", "")) == ACCESS_ACCEPT
        started_instance.wait_until_shipped()
        page.reload()
        expect(page.get_by_text("Admitted").first).to_be_visible()
        assert errors == []


def test_live_log_shows_a_reject_and_its_cause(browser, started_instance, tenants, wire):
    slug = tenants[0].tenant.slug
    with signed_in(browser, started_instance, TECHNICIAN) as (page, errors):
        page.goto(f"/portal/t/{slug}/live?result=rejects")
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        row = page.get_by_role("row").filter(has_text="02:aa:00:00:00:02")

        def is_shown() -> bool:
            # The agent sends live events only after it noticed the listener.
            assert wire.verdict("02aa00000002") == ACCESS_REJECT
            page.wait_for_timeout(1_000)
            return row.count() > 0

        until(is_shown, "the reject in the live log")
        row.first.get_by_role("link").click()
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Unknown device")
        page.get_by_role("button", name="Show rules").click()
        expect(page.get_by_role("dialog").get_by_role("listitem").first).to_contain_text("did not match")
        assert errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_no_accessibility_violation(browser, started_instance, tenants, scheme):
    """No page violates WCAG 2.2 AA, as far as axe-core can check."""
    base = f"/portal/t/{tenants[0].tenant.slug}"
    mac = ":".join(re.findall("..", tenants[0].tenant.endpoints[0].mac))
    pages = ("/portal/", base, f"{base}/live", f"{base}/log", f"{base}/devices", f"{base}/devices/{mac}")
    with signed_in(browser, started_instance, TECHNICIAN, color_scheme=scheme) as (page, errors):
        for path in (*pages, f"/portal/search?text={mac}"):
            page.goto(path)
            page.get_by_role("heading", level=1).wait_for()
            expect(page.get_by_role("status", name="Loading")).to_have_count(0)
            assert list_violations(page) == [], path
        page.keyboard.press("Control+k")
        page.get_by_role("dialog").get_by_role("searchbox").fill(mac)
        page.get_by_role("option").first.wait_for()
        assert list_violations(page) == []
        assert errors == []


def test_help_desk_sees_only_its_rights(browser, started_instance, tenants):
    slug = tenants[0].tenant.slug
    mac = ":".join(re.findall("..", tenants[0].tenant.endpoints[0].mac))
    with signed_in(browser, started_instance, HELP_DESK) as (page, errors):
        page.goto(f"/portal/t/{slug}/devices/{mac}")
        expect(page.get_by_role("heading", name="About the device")).to_be_visible()
        expect(page.get_by_role("button", name="Block")).to_have_count(0)
        page.goto(f"/portal/t/{slug}/devices")
        expect(page.get_by_role("table", name="Devices")).to_be_visible()
        expect(page.get_by_role("button", name="Approve device")).to_have_count(0)
        assert errors == []


def test_other_tenant_is_invisible(browser, started_instance, tenants):
    own, other = tenants[1].tenant.slug, tenants[0].tenant.slug
    with signed_in(browser, started_instance, STRANGER) as (page, errors):
        expect(page.get_by_role("link", name=own)).to_be_visible()
        expect(page.get_by_text(other)).to_have_count(0)
        page.goto(f"/portal/t/{other}/log")
        expect(page.get_by_role("alert")).to_contain_text("does not exist")
        page.goto(f"/portal/search?text={tenants[0].tenant.endpoints[0].mac}")
        expect(page.get_by_role("heading", name="Nothing found")).to_be_visible()
        assert errors == []


def test_page_survives_the_end_of_the_sign_in(browser, started_instance, tenants):
    """The person signs in again in another tab, and the first tab keeps its input."""
    slug = tenants[0].tenant.slug
    with signed_in(browser, started_instance, TECHNICIAN) as (page, errors):
        page.goto(f"/portal/t/{slug}/devices")
        page.get_by_role("button", name="Approve device").first.click()
        page.get_by_label("MAC address").fill("00:11:22:33:44:55")
        page.context.clear_cookies()
        page.get_by_role("button", name="Approve", exact=True).click()
        expect(page.get_by_role("heading", name="Sign in again")).to_be_visible()
        with page.expect_popup() as popup:
            page.get_by_role("button", name="Sign in in a new tab").click()
        other = popup.value
        other.fill("input[name=email]", TECHNICIAN)
        other.fill("input[name=password]", PASSWORD)
        other.get_by_role("button", name="Sign in", exact=True).click()
        other.wait_for_url("**/portal/")
        other.close()
        page.bring_to_front()
        page.evaluate("window.dispatchEvent(new Event('focus'))")
        expect(page.get_by_role("heading", name="Sign in again")).to_have_count(0)
        assert page.get_by_label("MAC address").input_value() == "00:11:22:33:44:55"
        page.get_by_role("button", name="Approve", exact=True).click()
        expect(page.get_by_role("row").filter(has_text="00:11:22:33:44:55")).to_be_visible()
        assert errors == []
