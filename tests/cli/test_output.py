"""Command output for users."""

import json
from datetime import UTC, date, datetime, timedelta, timezone

import click
import pytest
from click.testing import CliRunner

from cli.output import show_json, show_list, show_one
from nac.kit.text_format import format_size


@pytest.mark.parametrize("value", ["\x1b[2J", ["\x1b[2J"], ("\x1b[2J",), {"key": "\x1b[2J"}])
def test_output_escapes_control_characters(value):
    @click.command()
    def show():
        show_one({"name": value}, as_json=False)
        show_list([{"name": value}], as_json=False)

    assert "\x1b" not in CliRunner().invoke(show, color=True).output


def test_list_of_objects_is_shown_as_json():
    row = {"drift": [{"part": "settings.silent_days", "expected": 7, "actual": None}]}
    shown = CliRunner().invoke(click.command()(lambda: show_one(row, as_json=False))).output
    assert shown == 'drift  {"part": "settings.silent_days", "expected": 7, "actual": null}\n'


@pytest.mark.parametrize(
    "show", [lambda row: show_list([row], as_json=True), show_json, lambda row: show_one(row, as_json=True)]
)
def test_json_times_are_iso_8601_with_offset(show):
    at = datetime(2026, 11, 23, 4, 5, 6, 70, UTC)
    elsewhere = at.astimezone(timezone(timedelta(hours=2)))
    row = {"at": at, "inner": {"list": [elsewhere, at.replace(tzinfo=None)]}, "day": date(2026, 11, 23), "text": "a b"}
    told = json.loads(CliRunner().invoke(click.command()(lambda: show(row))).output)
    iso = "2026-11-23T04:05:06.000070Z"
    expected = {"at": iso, "inner": {"list": [iso, iso]}, "day": "2026-11-23", "text": "a b"}
    assert told in (expected, [expected])


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1_023, "1023 bytes"),
        (1_024, "1 KB"),
        (1_536, "1.5 KB"),
        (10 * 1_024 + 600, "11 KB"),
        (20 << 30, "20 GB"),
        ((1 << 60) - 1, "1048576 TB"),
    ],
)
def test_size_has_its_unit(size, text):
    assert format_size(size) == text
