"""Commands of `./admit mail`, for mails that Admit stores instead of sending them."""

from datetime import datetime

import click

from cli import environment
from cli.errors import Refused
from cli.output import Row, escape_unprintable, json_option, show_json, show_list
from nac.core.mail.mailbox import Mailbox, StoredMail


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show the mails that Admit stores if no mail server is set (ADMIT_MAIL_HOST)."""
    if context.invoked_subcommand is None:
        context.invoke(list_, to="", as_json=as_json)


def _mailbox() -> Mailbox:
    return Mailbox(environment.load_into_process().mailbox_dir)


@command.command("list")
@click.option("--to", metavar="ADDRESS", default="", help="E-mail address of the recipient.")
@json_option
def list_(to: str, as_json: bool) -> None:
    """List mails, newest last."""
    rows = [_row(kept) for kept in _mailbox().list_mails()]
    show_list([row for row in rows if not to or row["to"] == to.lower()], as_json=as_json)


@command.command()
@click.argument("mail_id", metavar="[ID]", default="")
@json_option
def show(mail_id: str, as_json: bool) -> None:
    """Show the mail ID, by default the newest."""
    mailbox = _mailbox()
    mail = mailbox.get(mail_id) if mail_id else next(iter(reversed(mailbox.list_mails())), None)
    if mail is None:
        raise Refused("This mail does not exist.", place="mail", remedy="See ./admit mail list.")
    row = dict(_row(mail))
    text = mail.part("plain")
    if as_json:
        show_json(row | {"text": text, "html": mail.part("html")})
        return
    for name, value in row.items():
        click.echo(f"{name}: {escape_unprintable(str(value))}")
    click.echo("")
    for line in text.splitlines():
        click.echo(escape_unprintable(line))


def _row(kept: StoredMail) -> Row:
    at: datetime | None = kept.at
    return {
        "id": kept.id,
        "at": at and at.isoformat(timespec="seconds"),
        "to": str(kept.message["To"] or "").lower(),
        "subject": str(kept.message["Subject"] or ""),
    }
