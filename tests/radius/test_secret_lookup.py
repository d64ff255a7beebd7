"""Two secrets at once: radiusd asks the module which one a source has, and believes what its packets prove."""

import os
import time
from collections.abc import Iterator

import msgspec
import pytest

from loadtest import packet
from loadtest.packet import ACCESS_ACCEPT
from nac.replica import keys
from nac.replica.records import NasRecord, SecretRecord
from radius.module.addresses import packed_address
from tests.radius.nas import SILENCE_SECONDS, Nas, joined, mab
from tests.radius.standalone import Plan, StandaloneCell, running_cell
from tests.radius.tenants import PRINTER

NEW = "the-new-secret-of-alpha-0123"
WRONG = "a-secret-that-nobody-has-here"
SWITCH, OTHER, LEGACY = "127.0.0.21", "127.0.0.22", "127.0.0.23"


@pytest.fixture(scope="module")
def looking_up() -> Iterator[StandaloneCell]:
    with running_cell(Plan(looking_up=("alpha",))) as cell:
        yield cell


def sealed(cell, secret, context="slot:1"):
    return SecretRecord(cell.sealer.seal(secret.encode(), context), context)


def rotate(cell, *secrets, rotation="r1"):
    alpha = cell.alpha
    with cell.replica.begin() as batch:
        record = msgspec.structs.replace(
            alpha.slot_record(), secrets=tuple(sealed(cell, each) for each in secrets), rotation=rotation
        )
        batch.put_slot(alpha.slot, record)
        legacy = NasRecord("n", "old switch", alpha.site_id, "", require_message_authenticator=False)
        batch.put_nas(keys.by_address(alpha.number, packed_address(LEGACY)), legacy)


@pytest.fixture
def cell(looking_up) -> StandaloneCell:
    looking_up.forget_records()
    rotate(looking_up, looking_up.alpha.secret, NEW, rotation=os.urandom(4).hex())
    return looking_up


def next_second():
    time.sleep(1.02 - time.time() % 1)


def is_answered(cell, address, secret, *, seconds=SILENCE_SECONDS):
    nas = Nas(cell.alpha, address, secret)
    attributes, password = mab(cell.alpha.mac(PRINTER))
    try:
        reply = nas.ask(attributes, password=password, seconds=seconds)
    except AssertionError:
        return False
    return reply[0] == ACCESS_ACCEPT


def test_each_nas_is_answered_with_the_secret_that_it_proves(cell):
    next_second()
    assert is_answered(cell, SWITCH, cell.alpha.secret)
    assert is_answered(cell, OTHER, NEW)
    assert not is_answered(cell, "127.0.0.24", WRONG)
    next_second()
    assert is_answered(cell, SWITCH, NEW)
    assert is_answered(cell, OTHER, cell.alpha.secret)
