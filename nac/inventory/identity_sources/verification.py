"""Verifies a password at an identity source within its time limit."""

import asyncio
from collections.abc import Iterable

import msgspec

from nac.cellformat.identity_names import UserName
from nac.inventory.identity_sources.faults import SourceFault
from nac.inventory.identity_sources.ldap_directory import LdapDirectory
from nac.inventory.identity_sources.provider import OidcProvider
from nac.inventory.identity_sources.settings import LdapSettings, read_settings
from nac.inventory.identity_sources.source_client import SourceClient, StepLog, discard_step
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit.outbound.reach import OutboundReach

# Reason codes (nac.engine.reasons) for faults of the source, not of the user.
SOURCE_FAULT_REASONS = frozenset({"directory-unavailable", "directory-refused", "directory-slow"})
_MAX_TEXT = 300


def build_source_client(
    name: str, kind: str, document: dict[str, object], secret: bytes, reach: OutboundReach
) -> SourceClient:
    """Create a client of the source. Raises SettingsRefused or ValueError if `document` is invalid."""
    settings = read_settings(kind, document)
    if isinstance(settings, LdapSettings):
        return LdapDirectory(name, settings, secret, reach)
    return OidcProvider(name, settings, secret, reach)


async def verify_password(
    source: SourceClient, name: UserName, password: bytes, *, source_name: str, report: StepLog = discard_step
) -> VerificationResult:
    """Verify the password within the source's time limit. Returns faults and timeouts of the source as results."""
    limit = source.settings.time_limit_seconds
    try:
        async with asyncio.timeout(limit):
            answer = await source.verify(name, password, report)
    except TimeoutError:
        report(f"no answer within {limit:g} s")
        return VerificationResult("directory-slow", f"no answer within {limit:g} s", source_name)
    except SourceFault as exc:
        report(str(exc))
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
    """Replace unprintable characters and truncate the text, because Admit stores texts from servers in logs."""
    text = text[:_MAX_TEXT]
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
