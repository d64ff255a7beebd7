"""Options --psk, --generate-psk and --no-psk of endpoints and groups."""

from collections.abc import Callable
from typing import TypeVar

import click

from nac.inventory.endpoints.passphrases import generate_passphrase
from nac.inventory.endpoints.service import UNSET, Unset

F = TypeVar("F", bound=Callable[..., object])
_OPTIONS = (
    click.option(
        "--psk",
        prompt="Passphrase",
        prompt_required=False,
        hide_input=True,
        help="WPA2 passphrase; prompted for if the value is missing.",
    ),
    click.option("--generate-psk", is_flag=True, help="Generate a passphrase. It is displayed only once."),
    click.option("--no-psk", is_flag=True, help="Remove the passphrase."),
)


def psk_options(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def passphrase_meant(psk: str | None, *, generate_psk: bool, no_psk: bool) -> str | Unset | None:
    """The new passphrase, None to remove it, UNSET to keep it."""
    if (psk is not None) + generate_psk + no_psk > 1:
        raise click.UsageError("Use only one of --psk, --generate-psk and --no-psk.")
    if no_psk:
        return None
    return generate_passphrase() if generate_psk else UNSET if psk is None else psk
