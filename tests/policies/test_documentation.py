"""`docs/reference/policy.md` documents everything that the engine accepts."""

import re

from cli.layout import CHECKOUT
from nac.engine.attributes import AttributeKind
from nac.engine.operators import OPERATORS
from nac.engine.vendors import all_vendors
from nac.policies.json_rows import _KEY_ORDER

PAGE = (CHECKOUT / "docs" / "reference" / "policy.md").read_text(encoding="utf-8")


def test_every_operator_key_and_kind_is_documented():
    assert [operator for operator in OPERATORS if f"\n| `{operator}` | " not in PAGE] == []
    words = {*_KEY_ORDER, *AttributeKind.__args__}
    assert {word for word in words if not re.search(rf'[`"]{word}[`"]', PAGE)} == set()


def test_vendor_page_lists_the_attributes_of_each_vendor():
    page = (CHECKOUT / "docs" / "reference" / "vendors.md").read_text(encoding="utf-8")
    rows = {
        row[0]: row[1:]
        for row in re.findall(r"^\| `([a-z-]+)` \| (.+) \| (.+) \| (.+) \| (.+) \|$", page, re.MULTILINE)
    }
    told = {
        name: tuple("-" if cell == "-" else re.findall(r"`([^`]+)`", cell)[0] for cell in row)
        for name, row in rows.items()
    }
    keys = ("acl", "downloadable_acl", "role", "psk")
    assert told == {
        name: tuple(
            form.attributes[0].attribute if form.attributes else "-" for form in (vendor.forms[key] for key in keys)
        )
        for name, vendor in all_vendors().items()
    }
