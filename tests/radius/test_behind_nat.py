"""NASes behind NAT get no Disconnect-Request: sessions there are short if the tenant configures it."""

import uuid

import msgspec
import pytest

from nac.cellformat.replica import keys
from nac.cellformat.replica.records import NasRecord
from tests.radius.nas import radclient
from tests.radius.tenants import PASSWORD

NAMES = ("Session-Timeout", "Termination-Action")


@pytest.fixture
def ask(cell, replica):
    alpha = cell.alpha

    def ask(*, seconds, behind_nat=True):
        with replica.begin() as batch:
            record = NasRecord(str(uuid.uuid4()), "Branch", alpha.site_id, "", behind_nat)
            batch.put_nas(keys.by_identifier(alpha.number, "branch"), record)
            batch.put_slot(alpha.slot, msgspec.structs.replace(alpha.slot_record(), nat_session_seconds=seconds))
        reply = radclient(alpha, 'User-Name="anna"', f'User-Password="{PASSWORD}"', 'NAS-Identifier="branch"')
        assert reply.code == "Access-Accept"
        return {name: value for name, value in reply.attributes.items() if name in NAMES}

    return ask


def test_session_behind_nat_is_short_and_reauthenticates(ask):
    """Of a policy that gives no Session-Timeout itself; tests/radius/test_results.py has one that does."""
    assert ask(seconds=300) == {"Session-Timeout": "300", "Termination-Action": "RADIUS-Request"}


@pytest.mark.parametrize(("seconds", "behind_nat"), [(0, True), (300, False)])
def test_other_sessions_keep_their_timeout(ask, seconds, behind_nat):
    assert ask(seconds=seconds, behind_nat=behind_nat) == {}
