"""What others say of an endpoint: a device management, a scanner, a script. Conditions read it as mdm.* and posture.*.

A value holds for its lifetime; then it is missing, as if it had never been told, so that a device management that falls
silent does not vouch for devices for ever.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.clock import utc_now
from nac.endpoint_facts import POSTURE_PREFIXES
from nac.endpoints import service
from nac.engine import Mistake
from nac.errors import InvalidInput
from nac.ids import TenantId
from nac.mac import display_mac
from nac.models import Endpoint

Scalar = bool | int | str
# Twice what device managements commonly wait between two reports.
DEFAULT_LIFETIME = timedelta(days=1)
LONGEST_LIFETIME = timedelta(days=366)
MAX_FIELDS = 64
MAX_TEXT = 255
_NAME = re.compile(r"(?:mdm|posture)(?:\.[a-z0-9_-]{1,32}){1,4}")
_SOURCE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_NUMBERS = range(-(2**53), 2**53 + 1)


class InvalidPosture(InvalidInput):
    """The posture has mistakes; nothing was stored."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("; ".join(str(mistake) for mistake in mistakes), place="posture")
        self.mistakes = tuple(mistakes)


def set_posture(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    mac: str,
    values: Mapping[str, object],
    source: str,
    lifetime: timedelta = DEFAULT_LIFETIME,
) -> Endpoint:
    """Add these values to what is told of it; None takes one away. Raises InvalidPosture with every mistake."""
    told = _require(values, source, lifetime)
    endpoint = service.require_by_mac(session, tenant_id=tenant_id, mac=mac, lock=True)
    now = utc_now()
    stamp = {"source": source, "at": int(now.timestamp()), "until": int((now + lifetime).timestamp())}
    posture: dict[str, Any] = dict(endpoint.posture)
    before = {name: posture[name]["value"] for name in told if name in posture}
    for name, value in told.items():
        if value is None:
            posture.pop(name, None)
        else:
            posture[name] = {"value": value, **stamp}
    if len(posture) > MAX_FIELDS:
        raise InvalidPosture([Mistake("", f"{len(posture)} values; an endpoint has at most {MAX_FIELDS}")])
    endpoint.posture = posture
    session.flush()
    if before != told:
        # A report that repeats what is known is no change that anybody would look for.
        audit.append(
            session,
            actor=actor,
            action="endpoint.set-posture",
            target=display_mac(endpoint.mac),
            tenant_id=tenant_id,
            before=before,
            after={"source": source, **told},
        )
    return endpoint


def _require(values: Mapping[str, object], source: str, lifetime: timedelta) -> dict[str, Scalar | None]:
    mistakes = []
    told: dict[str, Scalar | None] = {}
    if not values:
        mistakes.append(Mistake("", "there is no value"))
    if not _SOURCE.fullmatch(source):
        mistakes.append(Mistake("source", f"{source!r} is no name of a source: use a-z, 0-9, dots, _ and -"))
    if not timedelta(seconds=1) <= lifetime <= LONGEST_LIFETIME:
        mistakes.append(Mistake("lifetime", f"must be between a second and {LONGEST_LIFETIME.days} days"))
    for name, value in values.items():
        if not _NAME.fullmatch(name):
            start = " or ".join(POSTURE_PREFIXES)
            mistakes.append(Mistake(name[:64], f"is no name: it starts with {start}, as in mdm.compliant"))
        elif isinstance(value, str) and (not value or len(value) > MAX_TEXT or not value.isprintable()):
            mistakes.append(Mistake(name, f"must be 1 to {MAX_TEXT} printable characters"))
        elif isinstance(value, int) and value not in _NUMBERS:
            mistakes.append(Mistake(name, "is too large a number"))
        elif value is None or isinstance(value, str | int):
            told[name] = value
        else:
            mistakes.append(Mistake(name, "must be true, false, a whole number or text"))
    if mistakes:
        raise InvalidPosture(mistakes)
    return told
