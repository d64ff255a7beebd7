"""`./admit pool`: output for users and scripts, and exit statuses."""

import json

import psycopg
import pytest

OF = ("-t", "alpha")
MAC = "00:a0:c0:00:00:01"


@pytest.fixture
def guests(alpha):
    return alpha.json("pool", "add", "guests", *OF, "--range", "10.1.0.0/29", "--exclude", "10.1.0.6")


def test_pool_is_created_shown_updated_and_deleted(alpha, guests):
    assert {key: guests[key] for key in ("size", "free", "used", "ready", "quarantined", "reserved")} == {
        "size": 5,
        "free": 5,
        "used": 0,
        "ready": 0,
        "quarantined": 0,
        "reserved": 0,
    }
    assert (guests["attribute"], guests["when_empty"], guests["grace_seconds"]) == ("Framed-IP-Address", "deny", 600)
    changed = alpha.json("pool", "set", "guests", *OF, "--no-exclusions", "--when-empty", "without", "--grace", "2m")
    assert (changed["size"], changed["when_empty"], changed["grace_seconds"]) == (6, "without", 120)
    changed = alpha.json("pool", "set", "guests", *OF, "--reserve", f"{MAC}=10.1.0.2")
    assert changed["reserved"] == 1
    assert alpha.json("pool", "show", "guests", *OF) == changed
    [listed] = alpha.json("pool", "list", *OF)
    assert listed == {key: value for key, value in changed.items() if key != "cells"}
    assert "guests" in alpha.run("pool", "list", *OF).output
    alpha.json("pool", "set", "guests", *OF, "--unreserve", MAC)
    assert alpha.json("pool", "rename", "guests", "visitors", *OF)["name"] == "visitors"
    assert alpha.json("pool", "remove", "visitors", *OF) == {"removed": "visitors", "gone": True}
    assert alpha.json("pool", "list", *OF) == []


def test_prefixes_have_their_lengths(alpha):
    row = alpha.json("pool", "add", "wan", *OF, "--kind", "delegated", "--range", "2001:db8::/48")
    assert (row["prefix_length"], row["size"], row["attribute"]) == (56, 256, "Delegated-IPv6-Prefix")
    row = alpha.json("pool", "add", "lan", *OF, "--kind", "ipv6", "--range", "2001:db8:1::/60")
    assert (row["prefix_length"], row["size"], row["attribute"]) == (64, 16, "Framed-IPv6-Prefix")


def test_site_has_its_own_pools(alpha, guests):
    alpha.json("site", "add", "branch", *OF)
    row = alpha.json("pool", "add", "guests", *OF, "--site", "branch", "--range", "10.2.0.0/29")
    assert (row["site"], row["size"]) == ("branch", 6)
    assert [each["site"] for each in alpha.json("pool", "list", *OF)] == ["", "branch"]
    refused = alpha.run("site", "remove", "branch", *OF)
    assert (refused.exit_code, "has 1 address pool" in refused.output) == (1, True)
    assert alpha.json("pool", "remove", "guests", *OF, "--site", "branch")["gone"] is True
    assert alpha.run("site", "remove", "branch", *OF).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "status", "error", "place"),
    [
        (("add", "guests", "--range", "10.2.0.0/29"), 1, "already-exists", "name"),
        (("add", "b", "--range", "10.1.0.4-10.1.0.9"), 1, "pools-overlap", "ranges"),
        (("add", "b", "--range", "10.0.0.0/8"), 2, "invalid-input", "ranges"),
        (("add", "b", "--range", "10.2.0.0-10.2.0.9"), 2, "invalid-input", "ranges"),
        (("add", "b", "--range", "10.2.0.0/24", "--exclude", "10.3.0.1"), 2, "invalid-input", "exclusions"),
        (("add", "b", "--range", "10.2.0.0/24", "--site", "mars"), 2, "site-not-found", "site"),
        (("add", "b", "--range", "10.2.0.0/24", "--stock", "0"), 2, "invalid-input", "stock"),
        (("add", "b", "--range", "10.2.0.0/24", "--quarantine", "5s"), 2, "invalid-input", "quarantine_seconds"),
        (("add", "B B", "--range", "10.2.0.0/24"), 2, "invalid-input", "name"),
        (("add", "B B", "--range", "what", "--grace", "1s"), 2, "several-mistakes", ""),
        (("set", "nothing", "--stock", "5"), 2, "pool-not-found", "name"),
        (("set", "guests", "--reserve", f"{MAC}=10.9.0.1"), 2, "invalid-input", "reserved"),
        (("set", "guests", "--reserve", "printer=10.1.0.2"), 2, "invalid-input", "reserved"),
        (("set", "guests", "--range", "10.1.0.0/24", "--exclude", "10.1.1.1"), 2, "invalid-input", "exclusions"),
        (("remove", "nothing"), 2, "pool-not-found", "name"),
        (("leases", "nothing"), 2, "pool-not-found", "name"),
        (("release", "10.1.0.1"), 2, "pool-not-found", "address"),
        (("release", "printer"), 2, "invalid-input", "address"),
    ],
)
def test_invalid_pool_is_rejected_and_not_stored(alpha, guests, arguments, status, error, place):
    before = alpha.json("pool", "list", *OF)
    result = alpha.run("pool", *arguments, *OF, "--json")
    assert result.exit_code == status, result.output
    told = json.loads(result.stdout)
    assert (told["error"], told["place"]) == (error, place)
    assert alpha.json("pool", "list", *OF) == before


def test_leases_are_listed_and_released(alpha, guests, database):
    with psycopg.connect(database.owner_url) as connection:
        connection.execute(
            "UPDATE pool_addresses SET state = 'leased', mac = %s, decided_at = now(), until = now(), "
            "cell_id = (SELECT id FROM cells) WHERE number < 2",
            (MAC,),
        )
    rows = alpha.json("pool", "leases", "guests", *OF)
    assert [(row["address"], row["mac"], row["state"]) for row in rows] == [
        ("10.1.0.1", MAC, "leased"),
        ("10.1.0.2", MAC, "leased"),
    ]
    assert alpha.json("pool", "leases", *OF, "--mac", "00a0.c000.0001", "--limit", "1") == rows[:1]
    assert alpha.json("pool", "leases", *OF, "--address", "10.1.0.2") == rows[1:]
    assert alpha.json("pool", "show", "guests", *OF)["cells"] == {"cell-1": {"leased": 2}}
    released = alpha.json("pool", "release", "10.1.0.2", *OF)
    assert (released["state"], released["mac"]) == ("quarantined", "")
    [row] = alpha.json("pool", "list", *OF)
    assert (row["used"], row["quarantined"], row["free"]) == (1, 1, 3)


def test_address_of_another_device_is_not_reserved(alpha, guests, database):
    with psycopg.connect(database.owner_url) as connection:
        connection.execute("UPDATE pool_addresses SET state = 'leased', mac = '00:00:00:00:00:09' WHERE number = 0")
    refused = alpha.run("pool", "set", "guests", *OF, "--reserve", f"{MAC}=10.1.0.1")
    assert (refused.exit_code, "Device 000000000009 already has 10.1.0.1" in refused.output) == (2, True)
    alpha.json("pool", "set", "guests", *OF, "--reserve", f"{MAC}=10.1.0.2")
    refused = alpha.run("pool", "set", "guests", *OF, "--range", "10.5.0.0/29", "--no-exclusions")
    assert (refused.exit_code, "Reserved for a device: 10.1.0.2" in refused.output) == (1, True)


def test_leased_address_cannot_move_to_another_pool(alpha, guests, database):
    with psycopg.connect(database.owner_url) as connection:
        connection.execute("UPDATE pool_addresses SET state = 'leased', mac = %s WHERE number = 0", (MAC,))
    assert alpha.json("pool", "remove", "guests", *OF)["gone"] is False
    [row] = alpha.json("pool", "list", *OF)
    assert (row["removing"], row["size"], row["leaving"]) == (True, 1, 1)
    refused = alpha.run("pool", "set", "guests", *OF, "--stock", "9")
    assert (refused.exit_code, "is being deleted" in refused.output) == (1, True)
