"""Posture: data about an endpoint from device management, a scanner or a script.

Conditions of policies can use this data as mdm.* and posture.*. A posture value expires after its lifetime. Conditions
then treat the value as missing. So Admit does not trust old data if the other system stops sending reports.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session

from nac.cellformat.endpoint_facts import POSTURE_PREFIXES
from nac.core.audit import service as audit
from nac.engine import DocumentMistake
from nac.inventory.endpoints import service
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac
from nac.models import Endpoint

Scalar = bool | int | str
# Twice the usual reporting interval of device management systems.
DEFAULT_LIFETIME = timedelta(days=1)
MAX_LIFETIME = timedelta(days=366)
MAX_FIELDS = 64
MAX_TEXT = 255
_NAME = re.compile(r"(?:mdm|posture)(?:\.[a-z0-9_-]{1,32}){1,4}")
_SOURCE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_NUMBERS = range(-(2**53), 2**53 + 1)


class InvalidPosture(InvalidInput):
    """The posture has mistakes. Admit stored nothing."""

    def __init__(self, mistakes: list[DocumentMistake]) -> None:
        super().__init__("; ".join(str(mistake) for mistake in mistakes), place="posture")
        self.mistakes = tuple(mistakes)


def update_posture(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    mac: str,
    values: Mapping[str, object],
    source: str,
    lifetime: timedelta = DEFAULT_LIFETIME,
) -> Endpoint:
    """Merge `values` into an endpoint's posture; None deletes a value. Raises InvalidPosture with all mistakes."""
    checked = _require_values(values, source, lifetime)
    endpoint = service.require_by_mac(session, tenant_id=tenant_id, mac=mac, lock=True)
    now = utc_now()
    stamp = {"source": source, "at": int(now.timestamp()), "until": int((now + lifetime).timestamp())}
    posture: dict[str, Any] = dict(endpoint.posture)
    before = {name: posture[name]["value"] for name in checked if name in posture}
    for name, value in checked.items():
        if value is None:
            posture.pop(name, None)
        else:
            posture[name] = {"value": value, **stamp}
    if len(posture) > MAX_FIELDS:
        raise InvalidPosture(
            [DocumentMistake("", f"too many posture values: {len(posture)}; the limit is {MAX_FIELDS}")]
        )
    endpoint.posture = posture
    session.flush()
    if before != checked:
        # A report that repeats the stored values gets no audit entry.
        audit.append(
            session,
            actor=actor,
            action="endpoint.set-posture",
            target=display_mac(endpoint.mac),
            tenant_id=tenant_id,
            before=before,
            after={"source": source, **checked},
        )
    return endpoint


def _require_values(values: Mapping[str, object], source: str, lifetime: timedelta) -> dict[str, Scalar | None]:
    mistakes = []
    checked: dict[str, Scalar | None] = {}
    if not values:
        mistakes.append(DocumentMistake("values", "must contain at least one value"))
    if not _SOURCE.fullmatch(source):
        mistakes.append(DocumentMistake("source", f"invalid source {source!r}: use a-z, 0-9, dots, _ and -"))
    if not timedelta(seconds=1) <= lifetime <= MAX_LIFETIME:
        mistakes.append(DocumentMistake("lifetime", f"must be between 1 second and {MAX_LIFETIME.days} days"))
    for name, value in values.items():
        if not _NAME.fullmatch(name):
            start = " or ".join(POSTURE_PREFIXES)
            mistakes.append(
                DocumentMistake(name[:64], f"invalid name: the name must start with {start}, as in mdm.compliant")
            )
        elif isinstance(value, str) and (not value or len(value) > MAX_TEXT or not value.isprintable()):
            mistakes.append(DocumentMistake(name, f"must be 1 to {MAX_TEXT} printable characters"))
        elif isinstance(value, int) and value not in _NUMBERS:
            mistakes.append(DocumentMistake(name, "number is too large"))
        elif value is None or isinstance(value, str | int):
            checked[name] = value
        else:
            mistakes.append(DocumentMistake(name, "must be true, false, a whole number or text"))
    if mistakes:
        raise InvalidPosture(mistakes)
    return checked
