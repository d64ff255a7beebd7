"""docs/policy.md says everything that the engine understands, and its example is a policy."""

import json
import re

import pytest

from cli.layout import CHECKOUT
from nac.engine import compile_policy
from nac.engine.attributes import Kind
from nac.engine.operators import OPERATORS
from nac.policies.reading import _KEYS

PAGE = (CHECKOUT / "docs" / "policy.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_has_its_row(operator: str) -> None:
    assert f"\n| `{operator}` | " in PAGE


@pytest.mark.parametrize("word", [*dict.fromkeys(_KEYS), *Kind.__args__])
def test_every_key_and_kind_is_told(word: str) -> None:
    assert re.search(rf'[`"]{word}[`"]', PAGE)


def test_example_is_a_policy() -> None:
    (example,) = re.findall(r"\n    (\{\n.*?\n    \})\n", PAGE, re.DOTALL)
    assert len(compile_policy(json.loads(example)).rules) == 5
