"""Validation of template documents."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.kit.errors import InvalidInput, SeveralMistakes
from nac.onboarding.templates.document import PART_PATTERN, list_parts, parse_template, read_template
from tests.templates.conftest import document, policy


def test_document_has_exactly_its_parts() -> None:
    parts = list_parts(parse_template(document(10)))
    assert parts == {
        "group:endpoint/printers": True,
        "site:main": True,
        "policy:office": policy(10),
        "site:main.time_zone": "Europe/Berlin",
        "site:main.policy": "office",
        "settings.replay_days": None,
        "settings.silent_days": 5,
    }
    assert all(PART_PATTERN.fullmatch(part) for part in parts)


@pytest.mark.parametrize(
    ("given_value", "stored"),
    [
        # The tenant's own setting applies.
        ({"replay_days": 0}, {"replay_days": None}),
        ({"realms": ["CORP", "corp"]}, {"realms": ["corp"]}),
        ({"realms": []}, {"realms": []}),
    ],
)
def test_settings_are_normalised_as_in_tenants(given_value: dict[str, Any], stored: dict[str, Any]) -> None:
    parts = list_parts(parse_template({"settings": given_value}))
    assert parts == {f"settings.{name}": value for name, value in stored.items()}


def _policy(fallback: dict[str, str]) -> dict[str, object]:
    return {"policies": [{"slug": "office", "document": {"rules": [], "fallback": fallback}}]}


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ({}, ""),
        ([], ""),
        ({"site": []}, ""),
        ({"sites": [{"slug": "Main"}]}, "sites[0]"),
        ({"sites": [{"slug": "main"}, {"slug": "main"}]}, "sites[1]"),
        ({"sites": [{"slug": "main", "zone": "UTC"}]}, "sites[0]"),
        ({"policies": [{"slug": "office"}]}, "policies[0]"),
        ({"settings": {"methods": ["telnet"]}}, "settings.methods"),
        ({"settings": {"replay_days": 91}}, "settings.replay_days"),
        ({"settings": {"replay_days": -1}}, "settings.replay_days"),
        ({"settings": {"nat_session_seconds": 59}}, "settings.nat_session_seconds"),
        ({"settings": {"realms": ["corp.example", "CORP\\anna"]}}, "settings.realms"),
        ({"settings": {"silent_reports": 1}}, "settings.silent_reports"),
        ({"settings": {"silent_days": 61}}, "settings.silent_days"),
        ({"sites": [{"slug": "main", "time_zone": "Mars/Base"}]}, "sites[0].time_zone"),
        ({"sites": [{"slug": "main"}, {"slug": "b", "name": "x" * 201}]}, "sites[1].name"),
        ({"settings": {"status_failure": "maybe"}}, "settings.status_failure"),
        ({"endpoint_groups": ["x "]}, "endpoint_groups[0]"),
        ({"endpoint_groups": [str(number) for number in range(201)]}, "endpoint_groups"),
        ({"policies": [{"slug": "office", "document": {"x": "y" * 1_000_000}}]}, ""),
        (_policy({"verdict": "maybe"}), "policies[0].document.fallback.verdict"),
        ({"sites": [{"slug": "main", "fallback": {"verdict": "maybe"}}]}, "sites[0].fallback.verdict"),
    ],
)
def test_errors_have_their_paths(content: object, place: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_template(content)
    assert refused.value.place == place


def test_all_errors_are_listed_at_once() -> None:
    wrong = {"replay_days": 91, "silent_reports": 0, "silent_days": 0}
    with pytest.raises(SeveralMistakes) as refused:
        parse_template({"settings": wrong, "sites": [{"slug": "A"}]})
    assert [each.place for each in refused.value.mistakes] == ["sites[0]", *(f"settings.{name}" for name in wrong)]


def test_version_from_before_the_limits_is_still_read() -> None:
    assert list_parts(read_template({"settings": {"silent_days": 1000}})) == {"settings.silent_days": 1000}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["sites", "slug", "policies"]), inner),
    max_leaves=20,
)


@given(_JSON)
def test_arbitrary_document_is_parsed_or_rejected(content: object) -> None:
    with suppress(InvalidInput):
        list_parts(parse_template(content))
