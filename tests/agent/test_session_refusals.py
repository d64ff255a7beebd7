"""A device that is blocked, or whose certificate is revoked, between its authentication and its Start."""

import pytest

from nac.cellformat.class_attribute import encode_class
from nac.kit.clock import epoch_microseconds
from tests.agent.journal_records import AT, SECOND, accounting, auth, later
from tests.agent.mirrored_rows import add_authority, add_certificate, add_endpoint
from tests.agent.stored_rows import live

MAC = "aabbccddeeff"


def sent_disconnects(owner):
    return owner.execute("SELECT reason, kind, certificate_serial, state FROM coa_requests ORDER BY id").fetchall()


@pytest.fixture
def blocked(owner, alpha):
    add_endpoint(owner, alpha, MAC)
    owner.execute("UPDATE endpoints SET status = 'blocked'")


@pytest.fixture
def revoke(owner, alpha):
    """Add a certificate. Returns a function that revokes it."""
    add_certificate(owner, alpha, add_authority(owner, alpha), bytes.fromhex("0a0b"), status="valid")
    change = "UPDATE certificates SET status = %s, revoked_at = now() - %s::interval"
    return lambda status="revoked", since="0": owner.execute(change, (status, since))


def test_start_of_a_blocked_device_disconnects_it_once(owner, reports, journal, blocked):
    journal.ship(reports.start())
    # The NAS repeats the Start in another batch.
    journal.ship(reports.start(), reports.interim(60))
    owner.execute("UPDATE coa_requests SET state = 'acknowledged'")
    journal.ship(reports.start())
    assert sent_disconnects(owner) == [("endpoint-blocked", "disconnect", "", "acknowledged")]


@pytest.mark.parametrize("heard", ["first by an Interim-Update", "silent", "stopped", "nas-restarted"])
def test_blocked_device_with_a_late_start_is_disconnected(owner, alpha, reports, journal, heard):
    """The device had no live session when it was blocked."""
    add_endpoint(owner, alpha, MAC)
    if heard != "first by an Interim-Update":
        journal.ship(reports.start(), reports.interim(60))
    if heard == "silent":
        later(journal, 8 * 24 * 3_600)
    elif heard == "stopped":
        journal.ship(reports.stop(90))
    elif heard == "nas-restarted":
        journal.ship(reports.restart(90))
    assert live(owner) == []
    owner.execute("UPDATE endpoints SET status = 'blocked'")
    for seconds in (600, 1_200):
        journal.ship(reports.interim(seconds))
    assert sent_disconnects(owner) == [("endpoint-blocked", "disconnect", "", "queued")]


def test_ended_session_and_other_devices_send_nothing(owner, reports, journal, blocked):
    journal.ship(reports.start(), reports.stop(60), reports.start(station="00-A0-C0-00-00-01", session="s2"))
    assert sent_disconnects(owner) == []


@pytest.mark.parametrize("status", ["revoked", "suspended"])
def test_start_with_a_revoked_certificate_disconnects(owner, alpha, reports, journal, revoke, status):
    journal.ship(auth(alpha, at=AT - SECOND, certificate_serial="000a0b"))
    journal.ship(reports.start(session="before", station="00-A0-C0-00-00-01"))
    revoke(status)
    journal.ship(reports.start(Class=encode_class(AT - SECOND)))
    assert sent_disconnects(owner) == [(f"certificate-{status}", "disconnect", "000a0b", "queued")]


def test_late_session_of_a_long_revoked_cert_disconnects(owner, alpha, journal, revoke):
    """The cell was disconnected for days."""
    then = epoch_microseconds() - 3 * 24 * 3_600 * SECOND
    journal.ship(auth(alpha, at=then, certificate_serial="0a0b"))
    revoke(since="2 days")
    journal.ship(accounting(alpha, "Start", at=then + SECOND, Class=encode_class(then)))
    assert sent_disconnects(owner) == [("certificate-revoked", "disconnect", "0a0b", "queued")]


def test_device_text_is_not_a_serial_number_or_class(owner, alpha, reports, journal, revoke):
    revoke()
    journal.ship(auth(alpha, at=AT - SECOND, certificate_serial="zz"))
    classes = ("", "0x41", "0x41zzzzzzzzzzzzzzzz", encode_class(AT - SECOND), encode_class((1 << 62) - 1))
    journal.ship(*(reports.start(session=f"s{number}", Class=told) for number, told in enumerate(classes)))
    assert sent_disconnects(owner) == []


def test_cell_sends_only_for_its_own_tenants(owner, alpha, blocked, cell_engine):
    owner.execute(
        "INSERT INTO sessions (tenant_id, nas_key, session_id, mac_key, mac, started_at, updated_at) "
        "VALUES (%s, 'switch', 's', %s, %s, now(), now())",
        (alpha.id, MAC, MAC),
    )
    with cell_engine.connect() as connection:
        connection.exec_driver_sql("SELECT set_config('admit.cell_id', '999', true)")
        called = "SELECT end_refused_sessions(ARRAY[%s]::uuid[], ARRAY[%s]::macaddr[], ARRAY['']::text[])"
        assert connection.exec_driver_sql(called, (str(alpha.id), MAC)).scalar_one() == 0
    assert sent_disconnects(owner) == []
