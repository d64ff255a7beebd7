"""Vendor files: every error with its path, and the inheritance of defaults."""

import pytest

from nac.engine.dictionary.codec import encode_attribute
from nac.engine.vendors import NEUTRAL_KEYS, Results, all_vendors
from nac.engine.vendors.recipes import REQUEST_KINDS as RECIPE_KINDS
from nac.engine.vendors.recipes import STATION_FORMS, Recipe, RecipeStep
from nac.engine.vendors.vendor import MAX_PASSPHRASE_LENGTH
from nac.engine.vendors.vendor_files import VendorFilesDamaged, read_vendor_files

DEFAULT = """
title = "RFC"
[vlan]
attributes = [{ attribute = "Tunnel-Private-Group-Id", tag = 1, value = "{vlan}" }]
[acl]
attributes = [{ attribute = "Filter-Id", value = "{acl}" }]
[downloadable_acl]
attributes = [{ attribute = "NAS-Filter-Rule", operator = "+=", value = "{entry}" }]
[role]
cannot = "none"
[session_timeout]
attributes = [{ attribute = "Session-Timeout", value = "{session_timeout}" }]
[reauthenticate]
attributes = [{ attribute = "Termination-Action", value = "RADIUS-Request" }]
[psk]
attributes = [{ attribute = "Tunnel-Password", value = "{psk}" }]
[coa]
port = 3799
identify = ["Acct-Session-Id"]
station = "AA-BB-CC-DD-EE-FF"
disconnect = [{ send = "disconnect" }]
reauthenticate = [{ send = "disconnect" }]
bounce = [{ send = "disconnect" }]
change = [{ send = "coa" }]
"""


def read(text: str = 'title = "Acme"\n', name: str = "acme.toml", default: str = DEFAULT):
    return read_vendor_files({"default.toml": default.encode(), name: text.encode()}, default="default")


def mistakes(*arguments: str, **files: str) -> tuple[str, ...]:
    with pytest.raises(VendorFilesDamaged) as caught:
        read(*arguments, **files)
    return caught.value.mistakes


def test_unmentioned_key_uses_the_rfc_default():
    acme = read('title = "Acme"\n[role]\nattributes = [{ attribute = "Class", value = "{role}", encoding = "hex" }]\n')
    assert set(acme["acme"].forms) == set(NEUTRAL_KEYS)
    assert acme["acme"].forms["acl"] is acme["default"].forms["acl"]
    (item,) = acme["acme"].render(Results(role="a")).attributes
    assert (item.attribute.attribute, item.attribute.value) == ("Class", "0x61")


FORM = 'title = "Acme"\n[{key}]\n{line}\n'


@pytest.mark.parametrize(
    ("key", "line", "told"),
    [
        ("role", "", "role: must have either the key `attributes` or the key `cannot`"),
        ("role", "cannot = 7", "role.cannot: must be nonempty text"),
        ("role", 'cannot = "x"\ncolour = 1', "role.colour: unknown key; use one of: attributes"),
        ("role", 'cannot = "x"\ntakes = "a"', "role: `takes` (a regular expression) and `wanted` (the"),
        ("role", 'cannot = "x"\ntakes = "("\nwanted = "y"', "role.takes: invalid regular expression"),
        ("role", "attributes = []", "role.attributes: must be a nonempty list of attributes"),
        ("role", "attributes = [7]", "role.attributes[0]: must be a table"),
        ("role", 'attributes = [{ attribute = "A B", value = "{role}" }]', "must be the name of a RADIUS attribute"),
        ("role", 'attributes = [{ attribute = "A", value = "x" }]', "role.attributes: no value contains {role}"),
        ("role", 'attributes = [{ attribute = "A", value = "{acl}" }]', "unknown placeholder {acl}; use: role"),
        ("role", 'attributes = [{ attribute = "A", value = "{role!r}" }]', "unknown placeholder {role!r}"),
        ("role", 'attributes = [{ attribute = "A", value = "{role" }]', "unmatched braces"),
        ("role", 'attributes = [{ attribute = "A", value = "{role}", tag = 32 }]', "tag: must be a number"),
        ("role", 'attributes = [{ attribute = "A", value = "{role}", operator = "=" }]', 'operator: must be ":="'),
        ("role", 'attributes = [{ attribute = "A", value = "{role}", encoding = "pmk" }]', "encoding: must be"),
        ("downloadable_acl", 'attributes = [{ attribute = "A", value = "{entry}" }]', 'operator: must be "+="'),
        ("downloadable_acl", 'attributes = [{ attribute = "A", value = "{number}" }]', "no value contains {entry}"),
        (
            "downloadable_acl",
            'attributes = [{ attribute = "A", operator = "+=", value = "{entry}{entries}" }]',
            "only one of {entry} and {entries}",
        ),
    ],
)  # fmt: skip
def test_error_has_its_file_and_path(key, line, told):
    (mistake,) = mistakes(FORM.replace("{key}", key).replace("{line}", line))
    assert mistake.startswith("acme.toml: ")
    assert told in mistake


def test_errors_of_all_files_are_listed_together():
    found = mistakes('colour = 1\naliases = "x"\n[vlan]\n', default=DEFAULT.replace("[acl]", "[alc]"))
    assert found == (
        "acme.toml: colour: unknown key; use one of: title, aliases, sources, coa, " + ", ".join(NEUTRAL_KEYS),
        "acme.toml: aliases: must be a list of texts",
        "acme.toml: vlan: must have either the key `attributes` or the key `cannot`",
        "acme.toml: title: must be nonempty text",
        "default.toml: alc: unknown key; use one of: title, aliases, sources, coa, " + ", ".join(NEUTRAL_KEYS),
        "default.toml: acl: is missing; the default needs a form for every key",
    )


def test_invalid_toml_and_invalid_names_are_reported():
    assert mistakes("[[")[0].startswith("acme.toml: invalid TOML: ")
    assert mistakes(name="Acme Inc.toml") == (
        "Acme Inc.toml: a vendor's name must have lower-case letters, digits and dashes",
    )
    with pytest.raises(VendorFilesDamaged, match=r"default.toml: is missing"):
        read_vendor_files({}, default="default")


def test_every_vendor_attribute_is_in_the_radiusd_dictionaries(dictionary):
    for vendor in all_vendors().values():
        for form in vendor.forms.values():
            for template in form.attributes:
                assert dictionary.knows(template.attribute), (vendor.name, template.attribute)


def test_longest_passphrase_fits_every_vendor(dictionary):
    for vendor in all_vendors().values():
        for template in vendor.render(Results(psk="endpoint")).passphrase:
            item = template.fill_passphrase("x" * MAX_PASSPHRASE_LENGTH, "s" * 32)
            dictionary.check(item.attribute, item.value, item.tag)


COA = 'title = "Acme"\n[coa]\n'


def test_partial_recipe_inherits_the_default():
    acme = read(COA + 'port = 1700\nbounce = [{ send = "coa", attributes = { Class = "0x61" } }]\n')["acme"].recipe
    assert (acme.port, acme.identify) == (1700, ("Acct-Session-Id",))
    assert acme.steps["bounce"] == (RecipeStep("coa", (("Class", "0x61"),)),)
    assert acme.steps["disconnect"] == (RecipeStep("disconnect"),)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("port = 0", "coa.port: must be a number from 1 to 65535"),
        ("identify = []", "coa.identify: must contain at least one of: NAS-Identifier"),
        ('station = "AABB"', "coa.station: must be one of: AA-BB-CC-DD-EE-FF"),
        ("bounce = []", "coa.bounce: must be a list of 1 to 4 steps"),
        ('bounce = [{ send = "ping" }]', 'coa.bounce[0].send: must be "disconnect" or "coa"'),
        ('bounce = [{ send = "coa", attributes = { A = 7 } }]', "coa.bounce[0].attributes: must be a table"),
        ("bounce = [{ send = 'coa', next_on = ['refused'] }]", "coa.bounce[0].next_on: is not allowed in the last"),
        ('bounce = [{ send = "coa" }, { send = "coa" }]', "coa.bounce[0].next_on: is required"),
        (
            'bounce = [{ send = "coa", next_on = ["refused", "bored"] }, { send = "coa" }]',
            "coa.bounce[0].next_on: unknown value 'bored'; use one of: refused, unanswered",
        ),
    ],
)  # fmt: skip
def test_recipe_error_has_its_path(line, told):
    found = mistakes(COA + line + "\n")
    assert found[0].startswith("acme.toml: ")
    assert told in found[0]


def test_default_recipe_must_be_complete():
    found = mistakes(default=DEFAULT.replace("port = 3799\n", "").replace("change = ", "[other]\nx = "))
    assert "default.toml: coa.port: is missing; the default needs all keys" in found
    assert "default.toml: coa.change: is missing; the default needs all keys" in found


def test_station_id_has_the_vendor_format():
    assert [Recipe(station=form).format_station("0a1b2c3d4e5f") for form in STATION_FORMS] == [
        "0A-1B-2C-3D-4E-5F",
        "0a-1b-2c-3d-4e-5f",
        "0A:1B:2C:3D:4E:5F",
        "0a:1b:2c:3d:4e:5f",
        "0a1b2c3d4e5f",
    ]


def test_every_step_of_every_vendor_can_be_rendered(dictionary):
    for vendor in all_vendors().values():
        assert set(vendor.recipe.steps) == set(RECIPE_KINDS)
        for step in (step for steps in vendor.recipe.steps.values() for step in steps):
            for name, value in step.attributes:
                assert encode_attribute(dictionary, name, value), (vendor.name, name)
