"""Records that radiusd's module writes to the journal and the agent ships to PostgreSQL.

New fields must be at the end and have a default: an agent must read records of an older module. Times are epoch
microseconds.
"""

import msgspec

from nac.cellformat.packet_values import Pairs, Values, packet_values


class JournalRecord(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class AuthRecord(JournalRecord, frozen=True, array_like=True, tag="auth"):
    """An answered Access-Request (for EAP, a conversation)."""

    at: int
    slot: int
    tenant_id: str
    # "" if there is no site, NAS, rule and so on.
    site_id: str
    nas_id: str
    nas_address: str
    nas_identifier: str
    nas_port: str
    # 12 hex digits or "".
    mac: str
    identity: str
    # From cellformat.methods. If it ended earlier: eap-ttls, peap (no inner method yet), eap (no type agreed), unknown
    method: str
    # Whether the device was admitted.
    permitted: bool
    # A code of nac.engine.reasons.
    reason: str
    detail: str
    rule_id: str
    rule_name: str
    policy_id: str
    policy_version: int
    vlan: str
    # (attribute, operator, value) as returned to radiusd.
    reply: tuple[tuple[str, str, str], ...]
    certificate_serial: str
    tls_version: str
    resumed: bool
    # Id of the conversation if its server certificate was sent (CertificateSentRecord.conversation).
    conversation: str
    # Attributes of the packet that rules can read, in order.
    pairs: Pairs
    # Attributes from other sources (endpoint, certificate, site ...): {name: [values]}.
    facts: dict[str, Values]
    # Time in the module for both callbacks, in microseconds.
    module_microseconds: int
    # Rejects with the same cause that the failure limiter did not log before this one.
    suppressed: int = 0
    # The policy's verdict: permit | quarantine | deny; "" in old records, which only have `permitted`.
    verdict: str = ""
    # Object in monitor mode, so that the verdict was not enforced: rule | site | "".
    monitored: str = ""
    # For a certificate of an external authority, first and then once a day: id of the authority, and DER.
    external_authority: str = ""
    external_certificate: bytes = b""
    # Pool addresses in the Access-Accept: (pool id, number, grant).
    addresses: tuple[tuple[str, int, int], ...] = ()
    # During a rotation: its id, the NAS's secret ("old" or "new"), and its source address.
    proof: tuple[str, ...] = ()
    # For a NAS exempt from Message-Authenticator, without EAP: "signed" or "unsigned", and its source address.
    signature: tuple[str, ...] = ()

    @property
    def request(self) -> dict[str, Values]:
        """All values that rules could read, for the log and for replay."""
        return packet_values(self) | self.facts


class CertificateSentRecord(JournalRecord, frozen=True, array_like=True, tag="cert-sent"):
    """The server's certificate was sent. Without an AuthRecord of the conversation within 30 s, it was abandoned."""

    at: int
    slot: int
    tenant_id: str
    conversation: str
    site_id: str
    nas_id: str
    nas_address: str
    nas_identifier: str
    nas_port: str
    mac: str
    identity: str
    # eap-tls | eap-ttls | peap
    method: str = "eap-tls"


class AccountingRecord(JournalRecord, frozen=True, array_like=True, tag="acct"):
    """An Accounting-Request as received (RFC 2866)."""

    at: int
    slot: int
    tenant_id: str
    site_id: str
    nas_id: str
    nas_address: str
    # All attributes in order, as printed by radiusd: (name, value).
    attributes: tuple[tuple[str, str], ...]
    # Some text was not UTF-8: escaped if it identifies the session or device, otherwise omitted.
    unreadable: bool = False
    # As in AuthRecord.
    proof: tuple[str, ...] = ()


AnyRecord = AuthRecord | CertificateSentRecord | AccountingRecord
