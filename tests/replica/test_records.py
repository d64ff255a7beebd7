"""Replica records that an earlier version wrote. Absent fields have defaults with the effect of that version."""

import msgspec
import pytest

from nac.cellformat.replica.records import NasRecord, SlotRecord

# Records without the MAB settings of a NAS and the realms of a tenant.
NAS = ["n", "Switch", "site", "cisco", True, [[b"sealed", "nas:n"]], "rotation", False]
SLOT = [7, "t", "alpha", "active", "site", "0a", 200, 60, ["mab"], ["1.3"], True, False, b"key", 600, [], "rotation"]


@pytest.mark.parametrize(
    ("kind", "written", "added"),
    [
        (NasRecord, NAS, {"mab_password": "mac", "sealed_mab_password": b"", "mab_by_name": False}),
        (SlotRecord, SLOT, {"realms": ()}),
    ],
)
def test_earlier_record_is_read_with_defaults(kind, written, added):
    found = msgspec.msgpack.decode(msgspec.msgpack.encode(written), type=kind)
    assert {name: getattr(found, name) for name in added} == added
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found))[: len(written)] == written
