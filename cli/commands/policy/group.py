"""Group, options and file readers of the policy commands."""

from typing import BinaryIO

import click

from nac.engine import DocumentMistake, PolicyErrors, parse_policy_text
from nac.engine.document import MAX_DOCUMENT_BYTES

slug_option = click.option("--slug", "-s", default="", help="Slug of the policy; optional if the tenant has only one.")
site_option = click.option("--site", metavar="SLUG", default="", help="Site whose time zone and fallback apply.")
document_argument = click.argument("file", type=click.File("rb"))


@click.group()
def command() -> None:
    """Manage policies of a tenant. FILE is JSON; "-" reads standard input."""


def read_text(file: BinaryIO) -> bytes:
    """Content of a file within the size limit of policies. Raises PolicyErrors."""
    text = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(text) > MAX_DOCUMENT_BYTES:
        limit = MAX_DOCUMENT_BYTES // 1024
        raise PolicyErrors([DocumentMistake("", f"larger than the limit of {limit} kB; use groups instead of lists")])
    return text


def read_document(file: BinaryIO) -> object:
    """JSON value of a file, never None. Raises PolicyErrors."""
    document = parse_policy_text(read_text(file))
    if document is None:
        raise PolicyErrors([DocumentMistake("", "must be an object, not null")])
    return document
