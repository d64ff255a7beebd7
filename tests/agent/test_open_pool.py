"""What radiusd takes of a pool by itself, for one replica and one file of claims."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.pools.claims import (
    ENTRY_BYTES,
    Claim,
    ClaimsFile,
    allocate_entries,
    parse_created_at,
    read_claims,
    read_grants,
)
from nac.replica.records import PoolLeaseRecord, PoolStockRecord
from radius.module.open_pool import OpenPool, Taken

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


def stock(*numbers, grant=GRANT):
    return PoolStockRecord("", "guests", tuple((number, grant, f"10.0.0.{number}") for number in numbers))


def test_what_was_made_ready_before_the_file_was_is_not_taken(pool):
    pool.restock(1, stock(1, grant=MADE))
    assert pool.take(ANNA, None, now=NOW) is None
    pool.restock(2, stock(1, grant=MADE + 1))
    assert pool.take(ANNA, None, now=NOW) == Taken(1, MADE + 1, "10.0.0.1")


def test_lease_from_before_the_file_counts_only_where_nobody_else_can_have_taken_it(pool):
    assert pool.take(ANNA, PoolLeaseRecord(1, MADE, "10.0.0.1", ready=True), now=NOW) is None
    assert pool.take(ANNA, PoolLeaseRecord(1, MADE, "10.0.0.1"), now=NOW).number == 1


def test_lease_that_another_took_under_its_grant_is_not_given_back(pool):
    pool.restock(1, stock(1, 2))
    assert pool.take(BEN, None, now=NOW).number == 1
    assert pool.take(ANNA, PoolLeaseRecord(1, GRANT, "10.0.0.1", ready=True), now=NOW).number == 2


def test_number_that_was_taken_by_its_lease_after_it_was_made_ready_is_left_out(pool):
    assert pool.take(ANNA, PoolLeaseRecord(1, MADE + 5, "10.0.0.1"), now=NOW).grant == MADE + 5
    pool.restock(1, stock(1, 2, grant=NOW * SECOND - 1))
    assert pool.take(BEN, None, now=NOW + 3600).number == 2
    pool.restock(2, stock(1, 2, grant=(NOW + 2) * SECOND))
    assert pool.take(BEN, None, now=NOW + 3600).number == 1


def test_device_takes_the_same_again_until_the_replica_knows_of_it(pool):
    pool.restock(1, stock(1, 2))
    assert [pool.take(mac, None, now=NOW).number for mac in (ANNA, BEN, ANNA)] == [1, 2, 1]
    # It has become another's meanwhile.
    pool.restock(2, stock())
    assert pool.take(ANNA, None, now=NOW) is None


def test_process_that_comes_next_finds_what_was_taken(path, pool):
    pool.restock(1, stock(1, 2, 3))
    first = pool.take(ANNA, None, now=NOW)
    following = OpenPool(path, ClaimsFile(path))
    following.restock(1, stock(1, 2, 3))
    assert following.take(BEN, None, now=NOW).number == 2
    assert following.take(ANNA, None, now=NOW) == first
    following.close()


def test_pool_that_has_grown_is_read_from_its_larger_file(path, pool):
    pool.restock(1, stock(100))
    assert pool.take(ANNA, None, now=NOW) is None
    allocate_entries(path, 101)
    pool.restock(2, stock(100))
    assert pool.take(ANNA, None, now=NOW).number == 100


def test_memory_of_devices_is_bounded_by_the_numbers(pool):
    for turn in range(1, 50):
        pool.restock(turn, stock(1, 2, grant=(NOW + turn) * SECOND))
        pool.take(f"{turn:012x}", None, now=NOW + turn - 1)
    assert len(pool._numbers) <= 2


def test_claims_are_read_as_they_were_written(path):
    claims = ClaimsFile(path)
    claims.put(3, Claim(2**62, "ffeeddccbbaa", 1_795_000_000))
    claims.put(0, Claim(7, ANNA, 5))
    assert len(claims) == 8
    assert dict(claims.items()) == dict(read_claims(path)) == {0: Claim(7, ANNA, 5), 3: claims[3]}
    assert claims[3] == Claim(2**62, "ffeeddccbbaa", 1_795_000_000)
    assert read_grants(path, [0, 1, 3, 99]) == {0: 7, 1: 0, 3: 2**62}
    claims.close()


def test_file_takes_its_room_at_once_and_keeps_what_is_in_it(path):
    claims = ClaimsFile(path)
    claims.put(1, Claim(7, ANNA, 5))
    claims.close()
    allocate_entries(path, 1_000)
    found = os.stat(path)
    assert (found.st_size, found.st_blocks * 512 >= found.st_size) == (1_000 * ENTRY_BYTES, True)
    assert read_claims(path) == [(1, Claim(7, ANNA, 5))]
    assert parse_created_at(path.name) == MADE


def test_file_that_is_not_there_or_empty_opens_not(tmp_path):
    (tmp_path / "empty").touch()
    assert ClaimsFile.open(tmp_path / "empty") is None
    assert ClaimsFile.open(tmp_path / "missing") is None


@given(content=st.binary(max_size=5 * ENTRY_BYTES))
def test_damage_is_read_as_far_as_it_can_have_been_written(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("damaged") / f"pool_{MADE}.claims"
    path.write_bytes(content)
    for number, claim in read_claims(path):
        assert (0 < claim.grant < 2**63, len(claim.mac), claim.at * SECOND < 2**63) == (True, 12, True)
        assert number < len(content) // ENTRY_BYTES
    claims = ClaimsFile.open(path)
    assert (claims is None) == (not content)
    if claims is not None:
        pool = OpenPool(path, claims)
        pool.restock(1, stock(0, 1, 4, 7))
        taken = [pool.take(mac, None, now=NOW) for mac in (ANNA, BEN)]
        assert len({each.number for each in taken if each}) == len([each for each in taken if each])
        pool.close()
