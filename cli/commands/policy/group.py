"""The group of the policy commands, and what they share: options, files, mistakes."""

from typing import BinaryIO

import click

from nac.engine import DocumentMistake, PolicyErrors, parse_policy_text
from nac.engine.document import MAX_DOCUMENT_BYTES

slug_option = click.option(
    "--slug", "-s", default="", help="The policy; may be left out where the tenant has one only."
)
site_option = click.option("--site", metavar="SLUG", default="", help="At this site: its time zone and fallback apply.")
document_argument = click.argument("file", type=click.File("rb"))


@click.group()
def command() -> None:
    """Policies of a tenant: who is admitted, and on which VLAN. FILE is JSON, "-" reads standard input."""


def read_text(file: BinaryIO) -> bytes:
    """The whole of a file that is not too large to be a policy. Raises PolicyErrors."""
    text = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(text) > MAX_DOCUMENT_BYTES:
        limit = MAX_DOCUMENT_BYTES // 1024
        raise PolicyErrors(
            [DocumentMistake("", f"larger than {limit} kB, the most that is read; use groups instead of lists")]
        )
    return text


def read_document(file: BinaryIO) -> object:
    """What a file says in JSON, never None. Raises PolicyErrors."""
    document = parse_policy_text(read_text(file))
    if document is None:
        raise PolicyErrors([DocumentMistake("", "must be an object, not null")])
    return document
