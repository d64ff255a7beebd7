"""Asks a source within its time limit, and puts what goes wrong into an answer."""

import asyncio
from collections.abc import Iterable

import msgspec

from nac.identities.answer import Answer
from nac.identities.directory import Directory
from nac.identities.faults import SourceFault
from nac.identities.names import UserName
from nac.identities.provider import Provider
from nac.identities.settings import LdapSettings, read_settings
from nac.identities.source import Source, Tell, tell_nobody
from nac.outbound.reach import Reach

# Of nac.reasons: the source is to blame, not the user.
FAULTS = frozenset({"directory-unavailable", "directory-refused", "directory-slow"})
_MAX_TEXT = 300


def make_source(name: str, kind: str, document: dict[str, object], secret: bytes, reach: Reach) -> Source:
    """Raises SettingsRefused or ValueError where the document is none."""
    settings = read_settings(kind, document)
    if isinstance(settings, LdapSettings):
        return Directory(name, settings, secret, reach)
    return Provider(name, settings, secret, reach)


async def ask(source: Source, name: UserName, password: bytes, *, source_name: str, tell: Tell = tell_nobody) -> Answer:
    """What the source says, within its time limit; never raises for what a server does."""
    limit = source.settings.time_limit_seconds
    try:
        async with asyncio.timeout(limit):
            answer = await source.verify(name, password, tell)
    except TimeoutError:
        tell(f"no answer within {limit:g} s")
        return Answer("directory-slow", f"no answer within {limit:g} s", source_name)
    except SourceFault as exc:
        tell(str(exc))
        answer = Answer(exc.reason, str(exc), source_name)
    return msgspec.structs.replace(
        answer,
        detail=_one_line(answer.detail),
        name=_one_line(answer.name),
        groups=_lines(answer.groups),
        attributes={name: _lines(values) for name, values in answer.attributes.items()},
    )


def _lines(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(_one_line, texts))


def _one_line(text: str) -> str:
    """A server's words go into logs and a database that hold other tenants', too: no control character, no NUL, no half
    of a surrogate pair, and no more than a name or a sentence needs."""
    text = text[:_MAX_TEXT]
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
