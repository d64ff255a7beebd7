"""What may be said in a template."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.errors import InvalidInput
from nac.templates.document import PART, parse_template, parts_of
from tests.templates.conftest import document, policy


def test_parts_are_what_it_says_and_nothing_else() -> None:
    parts = parts_of(parse_template(document(10)))
    assert parts == {
        "group:endpoint/printers": True,
        "site:main": True,
        "policy:office": policy(10),
        "site:main.time_zone": "Europe/Berlin",
        "site:main.policy": "office",
        "settings.replay_days": None,
        "settings.silent_days": 5,
    }
    assert all(PART.fullmatch(part) for part in parts)


def test_no_days_of_replay_are_what_tenants_have() -> None:
    assert parts_of(parse_template({"settings": {"replay_days": 0}})) == {"settings.replay_days": None}


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
        ({"settings": {"methods": ["telnet"]}}, "methods"),
        ({"settings": {"status_failure": "maybe"}}, "settings.status_failure"),
        ({"endpoint_groups": ["x "]}, "endpoint_groups[0]"),
        ({"endpoint_groups": [str(number) for number in range(201)]}, "endpoint_groups"),
        ({"policies": [{"slug": "office", "document": {"x": "y" * 1_000_000}}]}, ""),
    ],
)
def test_mistakes_name_their_places(content: object, place: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_template(content)
    assert refused.value.place == place


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["sites", "slug", "policies"]), inner),
    max_leaves=20,
)


@given(_JSON)
def test_whatever_comes_is_parsed_or_refused(content: object) -> None:
    with suppress(InvalidInput):
        parts_of(parse_template(content))
