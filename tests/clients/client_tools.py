"""Inputs of client generators."""

from pathlib import Path

from cli import openapi
from cli.layout import CHECKOUT

SETTINGS = CHECKOUT / "docs" / "reference" / "openapi-python-client.yaml"
TYPESCRIPT = Path(__file__).with_name("typescript")


def write_description(folder: Path) -> Path:
    """Write the OpenAPI document to a file."""
    file = folder / "openapi.json"
    file.write_text(openapi.text(), encoding="utf-8")
    return file
