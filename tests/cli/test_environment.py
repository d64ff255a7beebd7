"""The environment that `./admit up` builds for its processes."""

from pathlib import Path

import pytest

from cli import envfile, environment
from cli.layout import Layout
from cli.passwords import Passwords
from nac.kit.settings import load_settings


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, tmp_path / "run", tmp_path / "postgres", None, None)


def up(layout: Layout, **choices: str) -> bool:
    """Return whether trials are offered after `./admit up` with these choices."""
    given = {f"ADMIT_{name}": value for name, value in choices.items()}
    values = environment.compose(layout, given, Passwords(b"seed"))
    envfile.write(layout.env_file, values)
    return load_settings(values).trials.offered


def test_trials_follow_the_demo_between_runs(layout: Layout) -> None:
    assert up(layout)
    assert up(layout)
    assert not up(layout, DEMO="no")
    assert not up(layout)
    assert up(layout, DEMO="yes")
    assert not up(layout, LISTEN_ADDRESS="192.0.2.7")


def test_manually_enabled_trials_stay_without_the_demo(layout: Layout) -> None:
    up(layout, DEMO="no")
    envfile.write(layout.env_file, envfile.read(layout.env_file) | {"ADMIT_TRIALS": "yes"})
    assert up(layout)
    assert up(layout, LISTEN_ADDRESS="192.0.2.7")
