"""Texts of mails, from the templates `templates/<name>.txt` and `.html`. The first line of `.txt` is the subject."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_FOLDER = Path(__file__).parent / "templates"
_SUBJECT = "Subject: "
_MAX_SUBJECT_CHARACTERS = 200


class RenderedMail(NamedTuple):
    subject: str
    text: str
    html: str


@cache
def _environment(*, escapes: bool) -> Environment:
    return Environment(
        loader=FileSystemLoader(_FOLDER),
        undefined=StrictUndefined,
        autoescape=escapes,  # noqa: S701 -- plain text is not HTML
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(template: str, values: Mapping[str, object]) -> RenderedMail:
    """Render a mail. Raises jinja2.TemplateNotFound, and jinja2.UndefinedError if a value is missing."""
    subject, _, text = _environment(escapes=False).get_template(f"{template}.txt").render(values).partition("\n")
    html = _environment(escapes=True).get_template(f"{template}.html").render(values)
    return RenderedMail(to_one_line(subject.removeprefix(_SUBJECT)), text.lstrip("\n"), html)


def to_one_line(text: str) -> str:
    """Return the text for use in a mail header. Line breaks become spaces, so that the text cannot add a header."""
    return "".join(c if c.isprintable() else " " for c in text).strip()[:_MAX_SUBJECT_CHARACTERS]


def list_templates() -> list[str]:
    return sorted(file.stem for file in _FOLDER.glob("*.txt"))
