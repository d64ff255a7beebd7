"""Sightings: every seen MAC address is stored once. Only changes are queued for the worker."""

from radius.agent.shipping import sightings as under_test
from radius.agent.shipping.sightings import ACCOUNTING_QUIET_MICROSECONDS
from radius.agent.shipping.streams import AccountingStream, AuthStream
from tests.agent.journal_records import AT, SECOND, auth, drain

MAC = "aa:bb:cc:dd:ee:ff"


def evidence_of(number, value):
    return "0x" + (b"dhcp-option=" + number.to_bytes(2) + len(value).to_bytes(2) + value).hex()


def sightings(owner, columns="mac::text, method, identity, permitted, nas_port, ssid, times"):
    return owner.execute(f"SELECT {columns} FROM endpoint_sightings ORDER BY tenant_id, mac").fetchall()


def evidence(owner):
    return owner.execute("SELECT source, key, value FROM endpoint_evidence ORDER BY source, key").fetchall()


def take_work(owner):
    """Take the addresses queued for the worker."""
    return [mac for (mac,) in owner.execute("DELETE FROM endpoint_work RETURNING mac::text").fetchall()]


def test_authentication_reports_place_and_method(owner, alpha, journal):
    pairs = (("Called-Station-Id", "00-10-A4-23-19-C0:Guests"),)
    journal.ship(auth(alpha, permitted=False, pairs=pairs))
    assert sightings(owner) == [(MAC, "mab", "aabbccddeeff", False, "1/0/3", "Guests", 1)]
    assert take_work(owner) == [MAC]


def test_accounting_sighting_keeps_the_authentication_data(owner, alpha, reports, journal):
    journal.ship(reports.start(NAS_Port_Id="Gi1/0/7"))
    assert sightings(owner) == [(MAC, "", "", None, "Gi1/0/7", "", 1)]
    journal.ship(auth(alpha, at=AT + SECOND))
    journal.ship(reports.interim(1_800, after=ACCOUNTING_QUIET_MICROSECONDS // SECOND))
    assert sightings(owner) == [(MAC, "mab", "aabbccddeeff", True, "", "", 3)]


def test_returning_device_is_not_queued_and_rarely_written(owner, alpha, reports, journal):
    journal.ship(auth(alpha), reports.start())
    assert take_work(owner) == [MAC]
    for minute in range(1, 20):
        journal.ship(reports.interim(minute * 60))
    journal.ship(auth(alpha, at=AT + 61 * SECOND))
    assert take_work(owner) == []
    # One write by each stream, and one a minute later.
    assert sightings(owner, "times") == [(3,)]


def test_sighting_is_written_once_a_minute_or_on_a_new_verdict(owner, alpha, journal):
    columns = "(extract(epoch FROM last_seen_at) * 1000000)::bigint, permitted"
    for seconds, permitted, stored in ((0, True, 0), (30, True, 0), (61, True, 61), (62, False, 62)):
        journal.ship(auth(alpha, at=AT + seconds * SECOND, permitted=permitted))
        assert sightings(owner, columns) == [(AT + stored * SECOND, permitted)]
    # A late record does not lower the time, also after a restart of the agent.
    for shipper in (journal.auth, journal.shipper(AuthStream())):
        journal.write(auth(alpha, at=AT + 61 * SECOND))
        drain(shipper)
        assert sightings(owner, columns) == [(AT + 62 * SECOND, False)]


def test_new_or_changed_evidence_is_stored(owner, reports, journal):
    hostname, parameters = evidence_of(12, b"BRW001"), evidence_of(55, bytes((1, 3, 6)))
    journal.ship(reports.start(Device_Sensor=hostname))
    assert evidence(owner) == [("dhcp", "hostname", "BRW001")]
    take_work(owner)
    journal.ship(reports.interim(1, Device_Sensor=hostname))
    assert take_work(owner) == []
    journal.ship(reports.interim(2, Device_Sensor=parameters))
    assert evidence(owner) == [("dhcp", "hostname", "BRW001"), ("dhcp", "parameters", "1,3,6")]
    assert take_work(owner) == [MAC]
    journal.ship(reports.interim(3, Device_Sensor=evidence_of(12, b"NPI7")))
    assert evidence(owner) == [("dhcp", "hostname", "NPI7"), ("dhcp", "parameters", "1,3,6")]


def test_evidence_of_several_records_of_a_batch_is_kept(owner, reports, journal):
    journal.ship(
        reports.start(Device_Sensor=evidence_of(12, b"BRW001")),
        reports.interim(1, Device_Sensor=evidence_of(60, b"Brother")),
        reports.interim(2),
    )
    assert evidence(owner) == [("dhcp", "class", "Brother"), ("dhcp", "hostname", "BRW001")]


def test_full_queue_of_a_tenant_skips_new_work_for_later(owner, alpha, make, journal, monkeypatch):
    known, stranger = "00:1b:a9:00:00:01", "00:1b:a9:00:00:02"
    bravo = make("bravo")
    named = (("User-Name", "host/pc1"),)
    journal.ship(auth(alpha, mac=known.replace(":", "")))
    monkeypatch.setattr(under_test, "MAX_WAITING", 1)
    monkeypatch.setattr(under_test, "CHECK_INTERVAL_SECONDS", 0)
    again = AT + 2 * SECOND
    journal.ship(
        auth(alpha, at=again, mac=known.replace(":", ""), permitted=False, pairs=named),
        auth(alpha, at=again, mac=stranger.replace(":", "")),
        auth(bravo, at=again, mac=stranger.replace(":", "")),
    )
    # Alpha's known addresses are still updated. Bravo's queue has room.
    assert sorted(sightings(owner, "mac::text, times, permitted")) == [(known, 2, False), (stranger, 1, True)]
    assert evidence(owner) == []
    assert sorted(take_work(owner)) == [known, stranger]
    later = again + SECOND
    journal.ship(
        auth(alpha, at=later, mac=known.replace(":", ""), permitted=False, pairs=named),
        auth(alpha, at=later + 60 * SECOND, mac=stranger.replace(":", "")),
    )
    assert evidence(owner) == [("radius", "machine", "host/pc1")]
    assert sorted(take_work(owner)) == [known, stranger]


def test_restarted_agent_queues_nothing_twice(owner, alpha, reports, journal):
    named = (("User-Name", "host/pc1"),)
    journal.ship(auth(alpha, pairs=named), reports.start())
    take_work(owner)
    for stream in (AuthStream(), AccountingStream()):
        journal.write(auth(alpha, at=AT + SECOND, pairs=named), reports.interim(1))
        drain(journal.shipper(stream))
    assert take_work(owner) == []


def test_malformed_evidence_is_skipped_and_its_record_shipped(owner, reports, journal):
    journal.ship(reports.start(Device_Sensor="0xzz", User_Name="host/\0\x1b[2J"))
    assert evidence(owner) == [("radius", "machine", "host/ [2J")]
    assert journal.alarm_codes == set()


def test_same_address_at_two_tenants_is_two_devices(owner, alpha, make, journal):
    bravo = make("bravo")
    journal.ship(auth(alpha), auth(bravo, permitted=False))
    found = owner.execute("SELECT tenant_id, permitted FROM endpoint_sightings").fetchall()
    assert dict(found) == {alpha.id: True, bravo.id: False}
    assert len(take_work(owner)) == 2
