"""`./admit person add`."""

import click

from cli.output import json_option, show_one
from cli.remote.commands import call_operation
from cli.remote.local_api import connect


@click.group()
def command() -> None:
    """Manage administrators' accounts. To manage roles of administrators, use `./admit member`."""


@command.command()
@click.argument("email")
@click.option("--name", default="", help="Display name of the person.")
@json_option
def add(email: str, name: str, as_json: bool) -> None:
    """Create the account EMAIL, and a link to set the password. The link is displayed only once."""
    api = connect()
    person = call_operation(api, "create-person", email=email, name=name)
    link = call_operation(api, "create-password-link", person_id=person["id"], mail=False)
    row = {member: person[member] for member in ("email", "name", "status", "has_password", "id")}
    row |= {"url": link["url"], "token": link["token"], "token_expires_at": link["expires_at"]}
    show_one(row, as_json=as_json)
