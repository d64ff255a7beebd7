"""Conversations that a device broke off after our certificate: radiusd is silent on them, so they are noticed here."""

import msgspec

from nac.journal.records import AuthRecord, CertificateSentRecord

ABANDONED_AFTER_MICROSECONDS = 30_000_000
# Beyond this the oldest are forgotten: a flood of half-open conversations must not fill the database.
MAX_OPEN = 10_000

_decoder = msgspec.json.Decoder(dict[str, CertificateSentRecord])
_encoder = msgspec.json.Encoder()


class Conversations:
    """Those whose certificate was sent and that have not ended, oldest first.

    A value: `copy` before following a batch, so that a batch that is not stored leaves nothing behind.
    """

    def __init__(self, waiting: dict[str, CertificateSentRecord] | None = None) -> None:
        self._waiting = waiting if waiting is not None else {}
        self.forgotten = 0

    def copy(self) -> "Conversations":
        return Conversations(dict(self._waiting))

    def __len__(self) -> int:
        return len(self._waiting)

    def open(self, record: CertificateSentRecord) -> None:
        self._waiting[record.conversation] = record
        if len(self._waiting) > MAX_OPEN:
            del self._waiting[next(iter(self._waiting))]
            self.forgotten += 1

    def end(self, conversation: str) -> None:
        self._waiting.pop(conversation, None)

    def take_abandoned(self, now: int) -> list[AuthRecord]:
        """End those that have waited too long at `now` (epoch microseconds), each with the row that tells of it."""
        limit = now - ABANDONED_AFTER_MICROSECONDS
        # Of several writers' segments the order is not quite that of time, so all are looked at.
        late = [record for record in self._waiting.values() if record.at <= limit]
        for record in late:
            del self._waiting[record.conversation]
        return [_abandoned(record) for record in late]

    def due(self, now: int) -> bool:
        limit = now - ABANDONED_AFTER_MICROSECONDS
        return any(record.at <= limit for record in self._waiting.values())

    def to_json(self) -> str:
        return _encoder.encode(self._waiting).decode()

    @classmethod
    def from_json(cls, text: str) -> "Conversations":
        return cls(dict(sorted(_decoder.decode(text).items(), key=_sent_at)))


def _sent_at(item: tuple[str, CertificateSentRecord]) -> int:
    return item[1].at


def _abandoned(sent: CertificateSentRecord) -> AuthRecord:
    return AuthRecord(
        at=sent.at + ABANDONED_AFTER_MICROSECONDS,
        slot=sent.slot,
        tenant_id=sent.tenant_id,
        site_id=sent.site_id,
        nas_id=sent.nas_id,
        nas_address=sent.nas_address,
        nas_identifier=sent.nas_identifier,
        nas_port=sent.nas_port,
        mac=sent.mac,
        identity=sent.identity,
        method=sent.method,
        permitted=False,
        reason="conversation-abandoned",
        detail="",
        rule_id="",
        rule_name="",
        policy_id="",
        policy_version=0,
        vlan="",
        reply=(),
        certificate_serial="",
        tls_version="",
        resumed=False,
        conversation=sent.conversation,
        pairs=(),
        facts={},
        module_microseconds=0,
    )
