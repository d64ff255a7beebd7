"""The output of each snippet template equals its reviewed golden file, and follows rules for all templates."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.engine.vendors.catalogue import all_vendors
from nac.kit.errors import InvalidInput
from nac.onboarding.snippets.service import (
    SECRET_PLACEHOLDER,
    SecretNotWritable,
    SnippetTemplate,
    SnippetValues,
    load_templates,
    render,
    safe_name,
)

GOLDEN = Path(__file__).parent / "golden"
SECRET = "s3cretOfAcme"
VALUES = SnippetValues("acme", "192.0.2.1", 21812, 21813, site="Main site", nas="sw-1", secret=SECRET)
TEMPLATES = list(load_templates().values())
each_template = pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.id)
# Characters that could end a value in a shell, a switch or a configuration file.
_SEPARATORS = "\n\r;|&`$\"'\\!#<>{}"


@each_template
def test_template_matches_its_golden_file(template: SnippetTemplate):
    golden = (GOLDEN / f"{template.id}.txt").read_text()
    assert render(template, VALUES) == golden
    assert render(template, replace(VALUES, secret="")) == golden.replace(SECRET, SECRET_PLACEHOLDER)


def test_golden_files_match_the_templates():
    assert {file.stem for file in GOLDEN.iterdir()} == set(load_templates())


@each_template
def test_template_names_the_requirements_of_its_features(template: SnippetTemplate):
    text = render(template, VALUES)
    assert VALUES.host in text
    assert "21812" in text
    assert "21813" in text
    assert SECRET in text
    assert template.message_authenticator
    port = str(all_vendors()[template.vendor].recipe.port)
    assert ("coa" in template.features) == bool(re.search(rf"\b{port}\b", text)), "CoA port of the vendor's recipe"
    if template.access != "wireless":
        names_mab = re.search(r"mab|mac.?(auth|radius|based)|\bmac\b", text, re.IGNORECASE)
        assert ("mab" in template.features) == bool(names_mab)
    assert ("accounting" in template.features) == bool(re.search(r"acc(oun)?t", text, re.IGNORECASE))
    if "coa" not in template.features:
        assert "accepts no CoA" in text


@each_template
def test_secret_that_breaks_quoting_is_rejected(template: SnippetTemplate):
    for sign in (*_SEPARATORS[:3], '"', "\\", "`", " " * 129):
        if sign != ";" or template.quoting == "plain":
            with pytest.raises(SecretNotWritable):
                render(template, SnippetValues("acme", "192.0.2.1", 1, 2, secret=f"abc{sign}reload"))


@given(st.text(max_size=100), st.text(max_size=100))
def test_names_inject_no_line_or_word(site: str, nas: str):
    for template in TEMPLATES:
        plain = render(template, SnippetValues("acme", "192.0.2.1", 21812, 21813, site="S", nas="N"))
        named = render(template, SnippetValues("acme", "192.0.2.1", 21812, 21813, site=f"S{site}", nas=f"N{nas}"))
        assert named.count("\n") == plain.count("\n")
        assert not set(safe_name(site)) & set(_SEPARATORS)


def test_host_is_an_address_or_a_name():
    with pytest.raises(InvalidInput):
        render(TEMPLATES[0], SnippetValues("acme", "192.0.2.1\nreload", 1, 2))


@pytest.mark.parametrize("name", ["hostapd-wired", "hostapd-wireless"])
def test_hostapd_parses_its_template(name: str, tmp_path: Path):
    """`hostapd` reports the missing interface and no invalid line."""
    hostapd = shutil.which("hostapd") or "/usr/sbin/hostapd"
    file = tmp_path / "hostapd.conf"

    def parse(content: str) -> str:
        file.write_text(content)
        return subprocess.run([hostapd, str(file)], capture_output=True, text=True, timeout=20, check=False).stdout

    content = render(load_templates()[name], VALUES)
    told = parse(content)
    assert "driver" in told
    assert "Line " not in told
    assert "errors found in configuration file" not in told
    assert "errors found in configuration file" in parse(content + "no_such_option=1\n")
