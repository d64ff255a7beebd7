"""What radiusd's module writes into the journal and the agent ships to PostgreSQL.

Fields are only ever appended, with a default: an agent must read what an older module wrote. Times are epoch
microseconds.
"""

import msgspec

from nac.packet_values import Pairs, Values, packet_values


class JournalRecord(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class AuthRecord(JournalRecord, frozen=True, array_like=True, tag="auth"):
    """One answered Access-Request (or conversation, for EAP)."""

    at: int
    slot: int
    tenant_id: str
    # "" where no site, NAS, rule and so on is involved.
    site_id: str
    nas_id: str
    nas_address: str
    nas_identifier: str
    nas_port: str
    # 12 hex digits or "".
    mac: str
    identity: str
    # One of nac.methods; where it ended before: eap-ttls, peap (nothing inside yet), eap (no type agreed), unknown
    method: str
    # Whether it was admitted.
    permitted: bool
    # A code of nac.reasons.
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
    # Names this conversation where its server certificate was sent (CertificateSentRecord.conversation).
    conversation: str
    # What rules may see of the packet, (attribute, value) in order.
    pairs: Pairs
    # Engine attributes that come from elsewhere (endpoint, certificate, site ...): {name: [values]}.
    facts: dict[str, Values]
    # Time in the module, both callbacks, microseconds.
    module_microseconds: int
    # Rejects of the same cause that the failure limiter did not log one by one before this one.
    suppressed: int = 0
    # permit | quarantine | deny as policy has it; "" in records from before, whose verdict is in `permitted`.
    verdict: str = ""
    # What was in monitor mode, so that the verdict was not carried out: rule | site | "".
    monitored: str = ""
    # Of a certificate that an external authority issued, at its first sight and then once a day: which authority (id),
    # and the DER.
    external_authority: str = ""
    external_certificate: bytes = b""
    # Of pools, with the Access-Accept: (pool id, number, grant).
    addresses: tuple[tuple[str, int, int], ...] = ()
    # While a secret changes over: the rotation's id, which the NAS has ("old" or "new"), and the address it sent from.
    proof: tuple[str, ...] = ()
    # Of a NAS that is exempt from Message-Authenticator, without EAP: "signed" or "unsigned", and the address it sent
    # from.
    signature: tuple[str, ...] = ()

    @property
    def request(self) -> dict[str, Values]:
        """All that rules could see, for the log and for replay."""
        return packet_values(self) | self.facts


class CertificateSentRecord(JournalRecord, frozen=True, array_like=True, tag="cert-sent"):
    """The server's certificate went out; without an AuthRecord of this conversation within 30 s it was abandoned."""

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
    """One Accounting-Request, as it came (RFC 2866)."""

    at: int
    slot: int
    tenant_id: str
    site_id: str
    nas_id: str
    nas_address: str
    # Every attribute in order, as radiusd prints it: (name, value).
    attributes: tuple[tuple[str, str], ...]
    # Some of its text was not UTF-8: escaped where it identifies session or device, else left out.
    unreadable: bool = False
    # As that of an AuthRecord.
    proof: tuple[str, ...] = ()


AnyRecord = AuthRecord | CertificateSentRecord | AccountingRecord
