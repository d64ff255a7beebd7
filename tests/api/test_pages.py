"""The template environment of all browser pages: escaping, security policy and templates."""

import base64
import hashlib
import re
import subprocess
import sys
from pathlib import Path
from shutil import copy, copytree
from zipfile import ZipFile

import pytest
from jinja2 import UndefinedError

from api.pages import render_page

_CHECKOUT = Path(__file__).resolve().parents[2]
_TEMPLATES = _CHECKOUT / "api" / "templates"
_EVIL = "</p><script>'\"&"


def test_values_are_escaped():
    shown = render_page("message.html", title=_EVIL, sentence=_EVIL).body.decode()
    assert shown.count("&lt;/p&gt;&lt;script&gt;&#39;&#34;&amp;") == 3
    assert "<script" not in shown


def test_missing_value_is_an_error():
    with pytest.raises(UndefinedError, match="sentence"):
        render_page("message.html", title="Title")


def test_style_matches_the_security_policy():
    page = render_page("message.html", title="Title", sentence="Sentence.")
    style = re.search(rb"<style>(.*?)</style>", page.body, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1]).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in page.headers["content-security-policy"]


def test_only_a_page_with_a_script_permits_scripts():
    values = {"title": "Title", "sentence": "Sentence."}
    without, own = render_page("message.html", **values), render_page("message.html", script="/own.js", **values)
    assert "script-src" not in without.headers["content-security-policy"]
    assert "; script-src 'self';" in own.headers["content-security-policy"]
    assert re.findall(b"<script[^>]*>", own.body) == [b'<script src="/own.js">']


def test_page_has_its_status_and_own_headers():
    page = render_page("message.html", status=429, headers={"Retry-After": "5"}, title="Title", sentence="Sentence.")
    assert (page.status_code, page.headers["retry-after"], page.headers["cache-control"]) == (429, "5", "no-store")


@pytest.mark.parametrize("template", sorted(_TEMPLATES.rglob("*.html")), ids=lambda path: path.stem)
def test_template_uses_the_layout_and_escaping(template: Path):
    text = template.read_text()
    if template.name not in ("base.html", "macros.html"):
        assert text.startswith('{% extends "base.html" %}\n')
    # The style is a file of this repository.
    assert re.findall(r"\|\s*safe|autoescape", text.replace("{{ style | safe }}", "")) == []


def test_wheel_contains_the_templates(tmp_path: Path):
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        copy(_CHECKOUT / name, tmp_path)
    copytree(_CHECKOUT / "api", tmp_path / "api")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "out", "."]
    subprocess.run(build, cwd=tmp_path, check=True)
    (wheel,) = (tmp_path / "out").glob("*.whl")
    with ZipFile(wheel) as opened:
        names = set(opened.namelist())
    expected = {path.relative_to(_CHECKOUT).as_posix() for path in _TEMPLATES.rglob("*.*")}
    assert expected | {"api/start/passkey.js", "api/described/examples.toml"} <= names
