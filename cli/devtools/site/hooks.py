"""Hooks of mkdocs.yml: navigation from docs/README.md, Markdown as on GitHub, Mermaid without a CDN."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from cli.node import NodeFailed, install_packages

_HERE: Final = Path(__file__).parent
_SCRIPT: Final = "assets/mermaid.min.js"
_SECTION: Final = re.compile(r"^## (.+)$")
_ENTRY: Final = re.compile(r"^\* \[(.+?)\]\((\S+\.md)\)")
_FENCE: Final = re.compile(r" *```")
_UPWARD_LINK: Final = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+)(?:#[^)\s]*)?\)")
# Beginnings of Markdown blocks that need no blank line before the block.
_ITEM: Final = re.compile(r"([*+-]|1\.) ")
_ANY_ITEM: Final = re.compile(r" *([*+-]|\d+\.) ")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = list(_navigation(Path(config.docs_dir, "README.md").read_text(encoding="utf-8")))
    return config


def _navigation(index: str) -> Iterator[dict[str, Any]]:
    """Return the sections of the index with the pages of each section."""
    yield {"Documentation": "README.md"}
    title, entries = "", list[dict[str, str]]()
    for line in index.splitlines():
        if section := _SECTION.match(line):
            if entries:
                yield {title: entries}
            title, entries = section[1], []
        elif entry := _ENTRY.match(line):
            entries.append({entry[1]: entry[2]})
    yield {title: entries}


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    return "\n".join(separate_blocks(name_outer_files(markdown, page.file.src_uri).splitlines()))


def name_outer_files(markdown: str, page: str) -> str:
    """Replace links to repository files outside docs/ by text and path. `page` is the path of the page within docs/."""

    def named(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link[2]))
        return link[0] if path.startswith("docs/") else f"{link[1]} (`{path}`)"

    return _UPWARD_LINK.sub(named, markdown)


def separate_blocks(lines: list[str]) -> Iterator[str]:
    """Insert a blank line before a list or table, and indent items by four spaces, as Python-Markdown requires."""
    before, fence, is_in_list = "", "", False
    for line in lines:
        if fence or _FENCE.match(line):
            # The last line of a code block has no text after its backticks.
            fence = "" if fence and line.strip() == "```" else (fence or line)
        elif line and before and not before.startswith("#"):
            begins_list = _ITEM.match(line) and not is_in_list
            begins_table = line.startswith("|") and not before.startswith("|")
            if begins_list or begins_table:
                yield ""
        if line and not line.startswith(" ") and not fence:
            is_in_list = bool(_ANY_ITEM.match(line)) or (is_in_list and bool(before))
        indent = len(line) - len(line.lstrip(" "))
        yield " " * 4 + line.lstrip(" ") if is_in_list and indent in (2, 3) else line
        before = line


def on_files(files: Files, config: MkDocsConfig) -> Files:
    try:
        modules = install_packages(_HERE, name="documentation-site")
    except NodeFailed as exc:
        raise PluginError(str(exc)) from exc
    script = modules / "mermaid" / "dist" / "mermaid.min.js"
    files.append(File.generated(config, _SCRIPT, abs_src_path=str(script)))
    return files


def on_post_page(output: str, page: Page, **_: object) -> str:
    """Load Mermaid from the site, so that the theme does not load Mermaid from a CDN."""
    if 'class="mermaid"' not in output:
        return output
    return output.replace("</head>", f'<script src="{get_relative_url(_SCRIPT, page.url)}"></script></head>', 1)
