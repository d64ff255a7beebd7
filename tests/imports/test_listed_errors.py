"""The choice of listed errors when a file has too many."""

import pytest

from nac.kit.bulk_rows import MAX_REPORTED, RowMistake, RowReader, select_reported
from nac.kit.errors import InvalidInput


def test_single_row_error_is_not_hidden_by_common_errors() -> None:
    of_all = [RowMistake(number, "groups", "Unknown group 'all'.") for number in range(1, 10 * MAX_REPORTED)]
    of_one = RowMistake(9 * MAX_REPORTED, "mac", "That is no address.")
    shown = select_reported([*of_all, of_one])
    assert (len(shown), shown[0], shown[-1]) == (MAX_REPORTED, of_all[0], of_one)
    assert shown == sorted(shown)
    assert select_reported(of_all[4::-1]) == of_all[:5]


def test_many_unknown_groups_are_reported_in_bounded_memory() -> None:
    rows, reader = range(1, 20_001), RowReader()
    for number in range(20):
        reader.add_mistake_in_lines(rows, "groups", f"Unknown group 'g{number}'.", "Add it.")
    # Each row is invalid, and is skipped if that is enabled. The list names few groups per row.
    assert {each.number for each in reader.mistakes} == set(rows)
    assert len(reader.mistakes) < 2 * len(rows)


def test_each_group_of_a_row_is_reported() -> None:
    reader = RowReader()
    for name in ("a", "b"):
        reader.add_mistake_in_lines([3, 4], "groups", f"Unknown group {name!r}.", "Add it.")
    assert len(reader.mistakes) == 4


def test_file_of_only_groups_is_rejected_before_the_lookup() -> None:
    rows = [(number, [f"{number}-{each}" for each in range(100)]) for number in range(1, 1_001)]
    assert len(RowReader.lines_naming(rows[:100])) == 10_000
    with pytest.raises(InvalidInput, match="more than 15000 groups"):
        RowReader.lines_naming(rows)
