"""`./admit person`."""

from collections.abc import Iterator
from contextlib import contextmanager

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.output import Row, json_option, show_list, show_one
from nac.accounts.people import service as people
from nac.accounts.sign_in import links, sign_ins
from nac.models import Person


@click.group()
def command() -> None:
    """Manage administrators' accounts. Their roles are managed by `./admit member`."""


def _row(person: Person) -> Row:
    return {
        "email": person.email,
        "name": person.name,
        "status": person.status,
        "has_password": bool(person.password_hash),
        "id": person.id,
    }


@contextmanager
def _account(domain: CommandContext, email: str) -> Iterator[tuple[Session, Person]]:
    """Session in the scope of the person."""
    with domain.platform() as session:
        person_id = people.require_by_email(session, email=email).id
    with domain.person(person_id) as session:
        yield session, people.require_person(session, person_id=person_id)


@command.command()
@click.argument("email")
@click.option("--name", default="", help="Display name.")
@json_option
def add(email: str, name: str, as_json: bool) -> None:
    """Create the account EMAIL, and a link to set its password. The link is displayed only once."""
    domain = CommandContext()
    with domain.platform() as session:
        person_id = people.get_or_create_person(session, email=email, name=name)
    with domain.person(person_id) as session:
        person = people.require_person(session, person_id=person_id)
        row = {**_row(person), **_link(domain, session, person)}
    show_one(row, as_json=as_json)


def _link(domain: CommandContext, session: Session, person: Person) -> Row:
    made = links.create_link(session, actor=domain.actor, person=person)
    return {"token": made.text, "token_expires_at": made.expires_at}


@command.command("reset-password")
@click.argument("email")
@json_option
def reset_password(email: str, as_json: bool) -> None:
    """Create a one-time token for setting a new password of EMAIL. Earlier tokens become invalid."""
    domain = CommandContext()
    with _account(domain, email) as (session, person):
        row = {"email": person.email, **_link(domain, session, person)}
    show_one(row, as_json=as_json)


@command.command("reset-factors")
@click.argument("email")
@json_option
def reset_factors(email: str, as_json: bool) -> None:
    """Delete the authenticator app, passkeys and recovery codes of EMAIL, and end all its sign-ins."""
    domain = CommandContext()
    with _account(domain, email) as (session, person):
        sign_ins.reset_factors(session, actor=domain.actor, person=person)
        row = _row(person)
    show_one(row, as_json=as_json)


@command.command("sign-out")
@click.argument("email")
@json_option
def sign_out(email: str, as_json: bool) -> None:
    """End all sign-ins of EMAIL."""
    domain = CommandContext()
    with _account(domain, email) as (session, person):
        row = {"email": person.email, "ended": sign_ins.end_all(session, actor=domain.actor, person=person)}
    show_one(row, as_json=as_json)


def _set_disabled(email: str, *, disabled: bool, as_json: bool) -> None:
    domain = CommandContext()
    with domain.platform() as session:
        person_id = people.require_by_email(session, email=email).id
        row = _row(people.set_disabled(session, actor=domain.actor, person_id=person_id, disabled=disabled))
    show_one(row, as_json=as_json)


@command.command()
@click.argument("email")
@json_option
def disable(email: str, as_json: bool) -> None:
    """Disable the account EMAIL and end all its sign-ins."""
    _set_disabled(email, disabled=True, as_json=as_json)


@command.command()
@click.argument("email")
@json_option
def enable(email: str, as_json: bool) -> None:
    """Enable the account EMAIL."""
    _set_disabled(email, disabled=False, as_json=as_json)


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List accounts by e-mail address."""
    with CommandContext().platform() as session:
        pages = people.ORDERS.pages(lambda span: people.list_people(session, span=span))
        rows = [_row(person) for page in pages for person in page]
    show_list(rows, as_json=as_json)
