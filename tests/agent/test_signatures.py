"""NASes that are exempt from Message-Authenticator but sign, and the notice about these NASes."""

from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from radius.agent.alarms import Alarms
from radius.agent.tenant_alarms import update_exemption_alarms
from tests.agent.journal_records import AT, SECOND, auth
from tests.agent.mirrored_rows import add_nas

ADDRESS = "192.0.2.66"
START = datetime.fromtimestamp(AT / SECOND, UTC)
MINUTE = 60


@pytest.fixture
def nas(owner, alpha):
    nas_id = add_nas(owner, alpha, default_site(owner, alpha), address=ADDRESS)
    owner.execute("UPDATE nases SET require_message_authenticator = false WHERE id = %s", (nas_id,))
    return nas_id


def default_site(owner, tenant):
    (site_id,) = owner.execute("SELECT default_site_id FROM tenants WHERE id = %s", (tenant.id,)).fetchone()
    return site_id


def seen(tenant, which, after_seconds, *, source=ADDRESS):
    return auth(tenant, at=AT + after_seconds * SECOND, signature=(which, source))


def known(owner):
    """Seconds after the start: last unsigned request, start of signing, last signed request."""
    rows = owner.execute("SELECT last_unsigned_at, signs_since, last_signed_at FROM nas_signatures").fetchall()
    return [tuple(None if at is None else round((at - START).total_seconds()) for at in row) for row in rows]


def test_nas_that_starts_signing_is_recorded(owner, journal, alpha, nas):
    journal.ship(seen(alpha, "unsigned", 0))
    assert known(owner) == [(0, None, None)]
    journal.ship(seen(alpha, "unsigned", 100), seen(alpha, "signed", 101), seen(alpha, "signed", 102))
    assert known(owner) == [(100, 101, 102)]
    journal.ship(seen(alpha, "signed", 5_000))
    assert known(owner) == [(100, 101, 5_000)]
    journal.ship(seen(alpha, "unsigned", 5_001))
    assert known(owner) == [(5_001, None, 5_000)]
    journal.ship(seen(alpha, "signed", 5_002))
    assert known(owner) == [(5_001, 5_002, 5_002)]


def test_unordered_batches_never_overstate_signing(owner, journal, alpha, nas):
    """Quarantined records are shipped later (radius/agent/replay.py)."""
    records = [seen(alpha, which, at) for which, at in (("unsigned", 0), ("signed", 100), ("unsigned", 200))]
    records.append(seen(alpha, "signed", 300))
    for order in permutations(records):
        owner.execute("DELETE FROM nas_signatures")
        for record in order:
            journal.ship(record)
        [(_, since, signed)] = known(owner)
        assert since in (None, 300), order
        assert signed == 300, order
        journal.ship(seen(alpha, "signed", 400))
        assert known(owner)[0][1] in (300, 400), order


def test_row_is_written_once_a_minute(owner, journal, alpha, nas):
    journal.ship(seen(alpha, "signed", 0))

    def version():
        return owner.execute("SELECT xmin::text, last_signed_at FROM nas_signatures").fetchone()

    before = version()
    for second in (1, 30, MINUTE - 1):
        journal.ship(seen(alpha, "signed", second))
    assert version() == before
    journal.ship(seen(alpha, "signed", MINUTE))
    assert known(owner) == [(None, 0, MINUTE)]


def test_unrelated_records_write_no_row(owner, journal, alpha, nas):
    """Such records come from an address that is not exempt any more, from another address, or from NASes that must
    sign.
    """
    journal.ship(auth(alpha), seen(alpha, "unsigned", 1, source="192.0.2.67"))
    owner.execute("UPDATE nases SET require_message_authenticator = true")
    journal.ship(seen(alpha, "unsigned", 2))
    assert known(owner) == []


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        (["require_message_authenticator = true"], True),
        (["name = 'another'"], True),
        (["address = '192.0.2.99'"], False),
        # A new exemption starts over.
        (["require_message_authenticator = true", "require_message_authenticator = false"], False),
    ],
)
def test_address_change_or_new_exemption_starts_over(owner, journal, alpha, nas, changes, kept):
    journal.ship(seen(alpha, "unsigned", 0))
    for change in changes:
        assert known(owner)
        owner.execute(f"UPDATE nases SET {change}")
    assert bool(known(owner)) is kept


def test_exempt_nas_that_signs_for_a_week_raises_a_notice(owner, cell_engine, platform, alpha, nas):
    alarms = Alarms()

    def codes(since: timedelta, last: timedelta, unsigned: timedelta | None = None) -> list[str]:
        owner.execute("DELETE FROM nas_signatures")
        owner.execute(
            "INSERT INTO nas_signatures VALUES (%s, %s, %s, %s, %s)",
            (nas, alpha.id, unsigned and START - unsigned, START - since, START - last),
        )
        update_exemption_alarms(cell_engine, platform.cell_id, alarms)
        return [alarm.code for alarm in alarms.standing()]

    week, hour = timedelta(days=7), timedelta(hours=1)
    assert codes(week - hour, timedelta()) == []
    # No packet arrived since, which proves nothing.
    assert codes(week + hour, week) == []
    assert codes(week, timedelta(), week + hour) == ["exemption-unneeded:alpha"]
    [alarm] = alarms.standing()
    assert alarm.tenant == alpha.number
    assert "updateNas (tenant=alpha, require_message_authenticator=true)" in alarm.detail
    owner.execute("UPDATE nases SET require_message_authenticator = true")
    update_exemption_alarms(cell_engine, platform.cell_id, alarms)
    assert alarms.standing() == []
