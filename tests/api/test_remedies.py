"""Remedies in API errors name API operations and not shell commands."""

import re
from pathlib import Path

import pytest

from api import remedies
from api.remedies import COMMAND_OPERATIONS, replace_commands, replace_problem_commands
from api.v1.routers import V1

ROOT = Path(__file__).resolve().parents[2]
# Texts for the operator of the installation.
_OF_THE_INSTALLATION = {"api", "up"}


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ("List endpoints: ./admit endpoint list", "List endpoints: listEndpoints"),
        ("If it should come in: ./admit endpoint set MAC --until DATE.", "If it should come in: updateEndpoint."),
        ("./admit ca list and ./admit cert list.", "listAuthorities and listCertificates."),
        ("then assign one (./admit policy assign) or", "then assign one (updateSite) or"),
        ("./admit ca import-root-key. If", "importRootKey. If"),
        ("Start it: ./admit up", "Start it: ./admit up"),
        ("Or say make_groups (--make-groups), which makes it.", "Or say make_groups, which makes it."),
        ("Unknown group 'Printers (--old)'.", "Unknown group 'Printers (--old)'."),
        (
            'Unknown group "Ann\'s (--old)". See: ./admit ca list',
            'Unknown group "Ann\'s (--old)". See: listAuthorities',
        ),
        ("The tenant's words: say so (--code), or don't.", "The tenant's words: say so, or don't."),
        ("A group './admit ca list' is there.", "A group './admit ca list' is there."),
        ("Of 'one\n./admit ca list' two", "Of 'one\nlistAuthorities' two"),
        ("An 'open quote: ./admit ca list", "An 'open quote: listAuthorities"),
    ],
)
def test_commands_are_translated_to_operations(told: str, wanted: str) -> None:
    assert replace_commands(told) == wanted
    mistakes = [{"remedy": told, "place": "./admit endpoint list"}]
    assert replace_problem_commands({"remedy": told, "mistakes": mistakes}) == {
        "remedy": wanted,
        "mistakes": [{"remedy": wanted, "place": "./admit endpoint list"}],
    }


class _Counted:
    """A pattern that counts the characters it has scanned."""

    def __init__(self, pattern: re.Pattern[str], looked: list[int]) -> None:
        self._pattern, self._looked = pattern, looked

    def search(self, text: str, at: int) -> re.Match[str] | None:
        found = self._pattern.search(text, at)
        self._looked.append((found.end() if found else len(text)) - at)
        return found


@pytest.mark.parametrize("part", ["'", '"', "'a ", '" \'a" ', "'x\n", "'a 'b' ", "./admit ca list 'a "])
def test_unterminated_quotes_are_scanned_once(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    text = "./admit ca list " + part * (1_000_000 // len(part))
    looked: list[int] = []
    for quote, pattern in remedies._QUOTE_ENDS.items():
        monkeypatch.setitem(remedies._QUOTE_ENDS, quote, _Counted(pattern, looked))
    monkeypatch.setattr(remedies, "_REPLACED_PATTERN", _Counted(remedies._REPLACED_PATTERN, looked))
    assert replace_commands(text).startswith("listAuthorities ")
    # Once by each of the two patterns, and once for the command prefix.
    assert sum(looked) <= len(text) * (2 + len(remedies._QUOTE_ENDS))


def test_named_operations_exist() -> None:
    assert set(COMMAND_OPERATIONS.values()) <= {route.operation_id for router in V1 for route in router.routes}


def test_each_command_in_remedies_has_an_operation() -> None:
    named = {
        found[1]
        for file in (ROOT / "nac").rglob("*.py")
        for found in re.finditer(r"\./admit ([a-z][a-z-]*(?: [a-z][a-z-]*)?)", file.read_text())
    }
    unknown = {name for name in named if not any(f"{name} ".startswith(f"{known} ") for known in COMMAND_OPERATIONS)}
    unknown -= {name for name in named if any(known.startswith(f"{name} ") for known in COMMAND_OPERATIONS)}
    assert {name for name in unknown if name.split()[0] not in _OF_THE_INSTALLATION} == set()
