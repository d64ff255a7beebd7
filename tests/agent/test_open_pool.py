"""Addresses that radiusd assigns from a pool, with one replica and one claims file."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.cellformat.replica.records import PoolLeaseRecord, PoolStockRecord
from nac.pools.claims import (
    ENTRY_BYTES,
    Claim,
    ClaimsFile,
    allocate_entries,
    parse_created_at,
    read_claims,
    read_grants,
)
from radius.module.open_pool import GrantedAddress, OpenPool

SECOND = 1_000_000
MADE = 1_000 * SECOND
NOW = 2_000
GRANT = NOW * SECOND - SECOND
ANNA, BEN = "02a0c0000001", "02a0c0000002"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / f"pool_{MADE}.claims"
    allocate_entries(path, 8)
    return path


@pytest.fixture
def pool(path):
    pool = OpenPool(path, ClaimsFile(path))
    yield pool
    pool.close()


def add_ready_addresses(*numbers, grant=GRANT):
    return PoolStockRecord("", "guests", tuple((number, grant, f"10.0.0.{number}") for number in numbers))


def test_address_ready_before_the_file_is_not_used(pool):
    pool.restock(1, add_ready_addresses(1, grant=MADE))
    assert pool.take(ANNA, None, now=NOW) is None
    pool.restock(2, add_ready_addresses(1, grant=MADE + 1))
    assert pool.take(ANNA, None, now=NOW) == GrantedAddress(1, MADE + 1, "10.0.0.1")


def test_lease_older_than_the_file_counts_only_if_safe(pool):
    assert pool.take(ANNA, PoolLeaseRecord(1, MADE, "10.0.0.1", ready=True), now=NOW) is None
    assert pool.take(ANNA, PoolLeaseRecord(1, MADE, "10.0.0.1"), now=NOW).number == 1


def test_lease_of_another_device_is_not_returned(pool):
    pool.restock(1, add_ready_addresses(1, 2))
    assert pool.take(BEN, None, now=NOW).number == 1
    assert pool.take(ANNA, PoolLeaseRecord(1, GRANT, "10.0.0.1", ready=True), now=NOW).number == 2


def test_number_reassigned_by_its_lease_is_skipped(pool):
    assert pool.take(ANNA, PoolLeaseRecord(1, MADE + 5, "10.0.0.1"), now=NOW).grant == MADE + 5
    pool.restock(1, add_ready_addresses(1, 2, grant=NOW * SECOND - 1))
    assert pool.take(BEN, None, now=NOW + 3600).number == 2
    pool.restock(2, add_ready_addresses(1, 2, grant=(NOW + 2) * SECOND))
    assert pool.take(BEN, None, now=NOW + 3600).number == 1


def test_device_gets_the_same_address_until_mirrored(pool):
    pool.restock(1, add_ready_addresses(1, 2))
    assert [pool.take(mac, None, now=NOW).number for mac in (ANNA, BEN, ANNA)] == [1, 2, 1]
    # Another device has the address meanwhile.
    pool.restock(2, add_ready_addresses())
    assert pool.take(ANNA, None, now=NOW) is None


def test_next_process_knows_the_assigned_addresses(path, pool):
    pool.restock(1, add_ready_addresses(1, 2, 3))
    first = pool.take(ANNA, None, now=NOW)
    following = OpenPool(path, ClaimsFile(path))
    following.restock(1, add_ready_addresses(1, 2, 3))
    assert following.take(BEN, None, now=NOW).number == 2
    assert following.take(ANNA, None, now=NOW) == first
    following.close()


def test_grown_pool_is_read_from_its_larger_file(path, pool):
    pool.restock(1, add_ready_addresses(100))
    assert pool.take(ANNA, None, now=NOW) is None
    allocate_entries(path, 101)
    pool.restock(2, add_ready_addresses(100))
    assert pool.take(ANNA, None, now=NOW).number == 100


def test_memory_of_devices_is_limited_by_the_pool_size(pool):
    for turn in range(1, 50):
        pool.restock(turn, add_ready_addresses(1, 2, grant=(NOW + turn) * SECOND))
        pool.take(f"{turn:012x}", None, now=NOW + turn - 1)
    assert len(pool._numbers) <= 2


def test_claims_round_trip(path):
    claims = ClaimsFile(path)
    claims.put(3, Claim(2**62, "ffeeddccbbaa", 1_795_000_000))
    claims.put(0, Claim(7, ANNA, 5))
    assert len(claims) == 8
    assert dict(claims.items()) == dict(read_claims(path)) == {0: Claim(7, ANNA, 5), 3: claims[3]}
    assert claims[3] == Claim(2**62, "ffeeddccbbaa", 1_795_000_000)
    assert read_grants(path, [0, 1, 3, 99]) == {0: 7, 1: 0, 3: 2**62}
    claims.close()


def test_file_reserves_its_space_and_keeps_its_contents(path):
    claims = ClaimsFile(path)
    claims.put(1, Claim(7, ANNA, 5))
    claims.close()
    allocate_entries(path, 1_000)
    found = os.stat(path)
    assert (found.st_size, found.st_blocks * 512 >= found.st_size) == (1_000 * ENTRY_BYTES, True)
    assert read_claims(path) == [(1, Claim(7, ANNA, 5))]
    assert parse_created_at(path.name) == MADE


def test_missing_or_empty_file_does_not_open(tmp_path):
    (tmp_path / "empty").touch()
    assert ClaimsFile.open(tmp_path / "empty") is None
    assert ClaimsFile.open(tmp_path / "missing") is None


@given(content=st.binary(max_size=5 * ENTRY_BYTES))
def test_damaged_file_is_read_as_far_as_possible(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("damaged") / f"pool_{MADE}.claims"
    path.write_bytes(content)
    for number, claim in read_claims(path):
        assert (0 < claim.grant < 2**63, len(claim.mac), claim.at * SECOND < 2**63) == (True, 12, True)
        assert number < len(content) // ENTRY_BYTES
    claims = ClaimsFile.open(path)
    assert (claims is None) == (not content)
    if claims is not None:
        pool = OpenPool(path, claims)
        pool.restock(1, add_ready_addresses(0, 1, 4, 7))
        taken = [pool.take(mac, None, now=NOW) for mac in (ANNA, BEN)]
        assert len({each.number for each in taken if each}) == len([each for each in taken if each])
        pool.close()
