"""The documentation site builds without warnings and loads no external resources."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.devtools.site.hooks import name_outer_files, separate_blocks
from cli.layout import CHECKOUT

pytestmark = pytest.mark.early

MKDOCS = Path(sys.executable).with_name("mkdocs")
# The first build installs the packages of the lock file.
_SECONDS = 300
_LOADED = re.compile(r"""<(?:script|link|img)[^>]+(?:src|href)="((?:https?:)?//[^"]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [MKDOCS, "build", "--strict", "--site-dir", folder],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return folder


def test_every_page_is_built_with_search(site):
    docs = CHECKOUT / "docs"
    built = {page.relative_to(site).with_suffix("") for page in site.rglob("*.html")}
    pages = {page.relative_to(docs).with_suffix("") for page in docs.rglob("*.md")}
    assert {page.with_name("index") if page.name == "README" else page for page in pages} <= built
    assert (site / "search" / "search_index.json").stat().st_size > 100_000


def test_pages_load_no_external_resources(site):
    found = {page.name: _LOADED.findall(page.read_text(encoding="utf-8")) for page in site.rglob("*.html")}
    assert {name: links for name, links in found.items() if links} == {}


def test_diagrams_use_the_local_mermaid(site):
    page = (site / "internals" / "architecture.html").read_text(encoding="utf-8")
    assert page.count('<pre class="mermaid">') == 6
    assert '<script src="../assets/mermaid.min.js">' in page
    assert (site / "assets" / "mermaid.min.js").stat().st_size > 1_000_000


@pytest.mark.parametrize(
    ("markdown", "separated"),
    [
        ("text\n* item", "text\n\n* item"),
        ("text\n* item\n  more\n* item", "text\n\n* item\n    more\n* item"),
        ("text\n1. item\n2. item", "text\n\n1. item\n2. item"),
        ("in the year\n2. a number", "in the year\n2. a number"),
        ("text\n| a |\n|---|\n| b |", "text\n\n| a |\n|---|\n| b |"),
        ("# Title\n* item", "# Title\n* item"),
        ("```\ntext\n* no item\n```\n* item", "```\ntext\n* no item\n```\n\n* item"),
        ("* item\n\ntext\n  * no item", "* item\n\ntext\n  * no item"),
    ],
)
def test_blocks_are_separated_as_on_github(markdown, separated):
    assert "\n".join(separate_blocks(markdown.split("\n"))) == separated


@pytest.mark.parametrize(
    ("link", "named"),
    [
        ("[results](../../loadtest/results/a.md#b)", "results (`loadtest/results/a.md`)"),
        ("[policies](../reference/policy.md#tests)", "[policies](../reference/policy.md#tests)"),
        ("[web](https://example.com/../a)", "[web](https://example.com/../a)"),
    ],
)
def test_links_out_of_docs_become_paths(link, named):
    assert name_outer_files(link, "internals/benchmarks.md") == named
