"""Records that radiusd's module writes to the journal and that the agent ships to PostgreSQL.

New fields must be at the end and have a default, because a newer agent must read records of an older module. Times are
epoch microseconds.
"""

import msgspec

from nac.cellformat.packet_values import Pairs, Values, packet_values


class JournalRecord(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class AuthRecord(JournalRecord, frozen=True, array_like=True, tag="auth"):
    """An Access-Request and its response. For EAP, the record has the last request of the conversation."""

    at: int
    slot: int
    tenant_id: str
    # The ids of site, NAS, rule and policy are "" if the request has no site, NAS, rule or policy.
    site_id: str
    nas_id: str
    nas_address: str
    nas_identifier: str
    nas_port: str
    # 12 hex digits or "".
    mac: str
    identity: str
    # A method of nac.cellformat.methods. If the login ended before the method was clear: eap-ttls or peap (inner method
    # unknown), eap (no EAP type agreed), or unknown.
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
    # (attribute, operator, value) as the module returned them to radiusd.
    reply: tuple[tuple[str, str, str], ...]
    certificate_serial: str
    tls_version: str
    resumed: bool
    # Id of the conversation if radiusd sent its server certificate (CertificateSentRecord.conversation); otherwise "".
    conversation: str
    # Attributes of the packet that rules can read, in the order of the packet.
    pairs: Pairs
    # Attributes from other sources (endpoint, certificate, site ...): {name: [values]}.
    facts: dict[str, Values]
    # Time that the module needed in `authorize` and `post_auth`, in microseconds.
    module_microseconds: int
    # Number of earlier rejects with the same cause that the failure limiter did not log.
    suppressed: int = 0
    # The policy's verdict: permit | quarantine | deny; "" in old records, which only have `permitted`.
    verdict: str = ""
    # What was in monitor mode, so that the verdict was not enforced: rule | site | "" (neither).
    monitored: str = ""
    # Id of the external authority that signed the client certificate, and the certificate in DER. Set at the first
    # login with the certificate, and then once a day.
    external_authority: str = ""
    external_certificate: bytes = b""
    # Pool addresses in the Access-Accept: (pool id, number of the address in the pool, number of the grant).
    addresses: tuple[tuple[str, int, int], ...] = ()
    # During a rotation of the NAS's secret: id of the rotation, the secret that the NAS used ("old" or "new"), and its
    # source address.
    proof: tuple[str, ...] = ()
    # For a request without EAP from a NAS that may omit Message-Authenticator: "signed" or "unsigned", source address.
    signature: tuple[str, ...] = ()

    @property
    def request(self) -> dict[str, Values]:
        """All values that rules could read, for the decision log and for replays."""
        return packet_values(self) | self.facts


class CertificateSentRecord(JournalRecord, frozen=True, array_like=True, tag="cert-sent"):
    """Record that radiusd sent its server certificate.

    If no AuthRecord of the conversation follows within 30 s, the device has abandoned the login.
    """

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
    """An Accounting-Request as radiusd received it (RFC 2866)."""

    at: int
    slot: int
    tenant_id: str
    site_id: str
    nas_id: str
    nas_address: str
    # All attributes in the order of the packet, as printed by radiusd: (name, value).
    attributes: tuple[tuple[str, str], ...]
    # Whether the text of an attribute was not UTF-8. Admit escapes the text if it identifies the session or device, and
    # omits it otherwise.
    unreadable: bool = False
    # Like AuthRecord.proof.
    proof: tuple[str, ...] = ()


AnyRecord = AuthRecord | CertificateSentRecord | AccountingRecord
