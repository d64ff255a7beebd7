"""Asks a source within its time limit, and puts what goes wrong into an answer."""

import asyncio
from collections.abc import Iterable

import msgspec

from nac.identities.directory import LdapDirectory
from nac.identities.faults import SourceFault
from nac.identities.names import UserName
from nac.identities.provider import OidcProvider
from nac.identities.settings import LdapSettings, read_settings
from nac.identities.source_client import SourceClient, StepLog, discard_step
from nac.identities.verifier_messages import VerificationResult
from nac.outbound.reach import OutboundReach

# Of nac.reasons: the source is to blame, not the user.
SOURCE_FAULT_REASONS = frozenset({"directory-unavailable", "directory-refused", "directory-slow"})
_MAX_TEXT = 300


def build_source_client(
    name: str, kind: str, document: dict[str, object], secret: bytes, reach: OutboundReach
) -> SourceClient:
    """Raises SettingsRefused or ValueError where the document is none."""
    settings = read_settings(kind, document)
    if isinstance(settings, LdapSettings):
        return LdapDirectory(name, settings, secret, reach)
    return OidcProvider(name, settings, secret, reach)


async def verify_password(
    source: SourceClient, name: UserName, password: bytes, *, source_name: str, tell: StepLog = discard_step
) -> VerificationResult:
    """What the source says, within its time limit; never raises for what a server does."""
    limit = source.settings.time_limit_seconds
    try:
        async with asyncio.timeout(limit):
            answer = await source.verify(name, password, tell)
    except TimeoutError:
        tell(f"no answer within {limit:g} s")
        return VerificationResult("directory-slow", f"no answer within {limit:g} s", source_name)
    except SourceFault as exc:
        tell(str(exc))
        answer = VerificationResult(exc.reason, str(exc), source_name)
    return msgspec.structs.replace(
        answer,
        detail=_clean_text(answer.detail),
        name=_clean_text(answer.name),
        groups=_clean_texts(answer.groups),
        attributes={name: _clean_texts(values) for name, values in answer.attributes.items()},
    )


def _clean_texts(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(_clean_text, texts))


def _clean_text(text: str) -> str:
    """A server's words go into logs and a database that hold other tenants', too: no control character, no NUL, no half
    of a surrogate pair, and no more than a name or a sentence needs."""
    text = text[:_MAX_TEXT]
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
