"""Time windows in a real cell. They use the time zone of the device's site, also in resumed sessions."""

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from nac.cellformat.replica.records import SiteRecord
from nac.kit.clock import utc_now
from nac.kit.radius_packet import ACCESS_REJECT
from tests.engine.builders import compare, policy_of, rule
from tests.radius.devices import VERSIONS, Device, is_resumed

BERLIN, AUCKLAND = "Europe/Berlin", "Pacific/Auckland"


def window_around_now(zone):
    """A window of four hours around now.

    It is night in the other zone: Auckland is ten or more hours ahead of Berlin.
    """
    now = utc_now().astimezone(ZoneInfo(zone))
    begin, end = now - timedelta(hours=2), now + timedelta(hours=2)
    return {"from": f"{begin:%H:%M}", "to": f"{end:%H:%M}"}


def put(cell, replica, window, zone, *, version):
    document = policy_of(rule("hours", compare("time", "within", window), {"verdict": "permit", "vlan": "60"}))
    tenant = cell.alpha
    with replica.begin() as batch:
        batch.put_policy(tenant.number, tenant.policy_record(document, version=version))
        batch.put_site(tenant.number, SiteRecord(tenant.site_id, "Head office", tenant.policy_id, time_zone=zone))


@pytest.mark.parametrize("version", VERSIONS)
def test_site_time_zone_applies_to_resumed_sessions_too(cell, replica, version):
    window = window_around_now(BERLIN)
    device = Device(cell.alpha.clients["laptop"], version)
    put(cell, replica, window, BERLIN, version=20)
    device.visit(cell.alpha, vlan="60")
    # Only the site changes. The policy has the same version.
    put(cell, replica, window, AUCKLAND, version=20)
    assert is_resumed(device.visit(cell.alpha, expected=ACCESS_REJECT))
    assert cell.decisions()[-1].reason == "fallback-denied"
    put(cell, replica, window_around_now(AUCKLAND), AUCKLAND, version=21)
    device.visit(cell.alpha, vlan="60")


def test_window_that_ends_between_visits_denies_the_second(cell, replica):
    device = Device(cell.alpha.clients["laptop"], VERSIONS[1])
    put(cell, replica, window_around_now("UTC"), "UTC", version=30)
    device.visit(cell.alpha, vlan="60")
    now = utc_now()
    over = {"from": f"{now - timedelta(hours=3):%H:%M}", "to": f"{now - timedelta(hours=1):%H:%M}"}
    put(cell, replica, over, "UTC", version=31)
    assert is_resumed(device.visit(cell.alpha, expected=ACCESS_REJECT))
