"""Whoever asks the API is told its operations, not commands of a shell that is not theirs."""

import re
from pathlib import Path

import pytest

from api.remedies import OPERATIONS, of_the_api, told_by_the_api
from api.v1.routers import V1

ROOT = Path(__file__).resolve().parents[2]
# Said to whoever runs the installation.
_OF_THE_INSTALLATION = {"api", "up"}


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ("They are listed by: ./admit endpoint list", "They are listed by: listEndpoints"),
        ("If it should come in: ./admit endpoint set MAC --until DATE.", "If it should come in: changeEndpoint."),
        ("./admit ca list and ./admit cert list.", "listAuthorities and listCertificates."),
        ("then assign one (./admit policy assign) or", "then assign one (changeSite) or"),
        ("./admit ca import-root-key. If", "importRootKey. If"),
        ("Start it: ./admit up", "Start it: ./admit up"),
        ("Or say make_groups (--make-groups), which makes it.", "Or say make_groups, which makes it."),
        ("There is no group 'Printers (--old)'.", "There is no group 'Printers (--old)'."),
        (
            'There is no group "Ann\'s (--old)". See: ./admit ca list',
            'There is no group "Ann\'s (--old)". See: listAuthorities',
        ),
        ("The tenant's words: say so (--code), or don't.", "The tenant's words: say so, or don't."),
        ("A group './admit ca list' is there.", "A group './admit ca list' is there."),
    ],
)
def test_commands_become_operations(told: str, wanted: str) -> None:
    assert of_the_api(told) == wanted
    mistakes = [{"remedy": told, "place": "./admit endpoint list"}]
    assert told_by_the_api({"remedy": told, "mistakes": mistakes}) == {
        "remedy": wanted,
        "mistakes": [{"remedy": wanted, "place": "./admit endpoint list"}],
    }


def test_operations_are_there() -> None:
    assert set(OPERATIONS.values()) <= {route.operation_id for router in V1 for route in router.routes}


def test_each_command_that_services_name_has_an_operation() -> None:
    named = {
        found[1]
        for file in (ROOT / "nac").rglob("*.py")
        for found in re.finditer(r"\./admit ([a-z][a-z-]*(?: [a-z][a-z-]*)?)", file.read_text())
    }
    unknown = {name for name in named if not any(f"{name} ".startswith(f"{known} ") for known in OPERATIONS)}
    unknown -= {name for name in named if any(known.startswith(f"{name} ") for known in OPERATIONS)}
    assert {name for name in unknown if name.split()[0] not in _OF_THE_INSTALLATION} == set()
