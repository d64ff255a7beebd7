"""Journal records of typical requests of a switch, for the micro-benchmarks."""

from uuid import UUID

from nac.cellformat.journal.records import AccountingRecord, AuthRecord
from nac.kit.clock import epoch_microseconds

_SITE = "0b0b8b7e-5a34-4a4e-8a55-0d6a4c1f5b11"
_NAS = "5f0c9a44-1a0b-4c43-9c0e-7a2b3c4d5e6f"
_NOW = epoch_microseconds()
# Records of a session: Start, three Interim-Updates, Stop.
RECORDS_PER_SESSION = 5
_INTERIM_SECONDS = 600
_STATUS = ("Start", "Interim-Update", "Interim-Update", "Interim-Update", "Stop")
# Number of sessions at the same time. Between two records of a session, each other session sends one record.
CONCURRENT = 20_000


def auth_record(number: int, tenant: UUID) -> AuthRecord:
    mac = f"{number % 50_000:012x}"
    return AuthRecord(
        at=_NOW + number * 50,
        slot=1,
        tenant_id=str(tenant),
        site_id=_SITE,
        nas_id=_NAS,
        nas_address="192.0.2.7",
        nas_identifier="switch-07",
        nas_port="GigabitEthernet1/0/12",
        mac=mac,
        identity=mac,
        method="mab",
        permitted=True,
        reason="rule-permitted",
        detail="",
        rule_id="printers",
        rule_name="Printers on VLAN 20",
        policy_id=_SITE,
        policy_version=3,
        vlan="20",
        reply=(("Tunnel-Type:1", ":=", "VLAN"), ("Tunnel-Medium-Type:1", ":=", "IEEE-802")),
        certificate_serial="",
        tls_version="",
        resumed=False,
        conversation="",
        pairs=(
            ("User-Name", mac),
            ("NAS-IP-Address", "192.0.2.7"),
            ("NAS-Identifier", "switch-07"),
            ("NAS-Port-Id", "GigabitEthernet1/0/12"),
            ("NAS-Port-Type", "Ethernet"),
            ("Service-Type", "Call-Check"),
            ("Called-Station-Id", "00-10-A4-23-19-C0"),
            ("Calling-Station-Id", mac),
            ("Framed-MTU", "1500"),
        ),
        facts={"method": ("mab",), "site.name": ("Head office",), "endpoint.group": ("printers",)},
        module_microseconds=40,
    )


def accounting_record(number: int, tenant: UUID, concurrent: int = CONCURRENT) -> AccountingRecord:
    block, within = divmod(number, concurrent * RECORDS_PER_SESSION)
    step, session = divmod(within, concurrent)
    session += block * concurrent
    seconds = step * _INTERIM_SECONDS
    return AccountingRecord(
        # All records of a session have the same start time.
        _NOW + (seconds - _INTERIM_SECONDS * RECORDS_PER_SESSION) * 1_000_000 + number * 50,
        1,
        str(tenant),
        _SITE,
        _NAS,
        "192.0.2.7",
        (
            ("User-Name", f"{session:012x}"),
            ("NAS-IP-Address", "192.0.2.7"),
            ("NAS-Identifier", "switch-07"),
            ("NAS-Port-Id", "GigabitEthernet1/0/12"),
            ("NAS-Port-Type", "Ethernet"),
            ("Calling-Station-Id", f"{session:012x}"),
            ("Called-Station-Id", "00-11-22-33-44-55"),
            ("Framed-IP-Address", "198.51.100.9"),
            ("Acct-Status-Type", _STATUS[step]),
            ("Acct-Session-Id", f"{session:08X}"),
            ("Acct-Delay-Time", "0"),
            ("Acct-Session-Time", str(seconds)),
            ("Acct-Input-Octets", str(seconds * 1_000)),
            ("Acct-Output-Octets", str(seconds * 9_000)),
            ("Acct-Terminate-Cause", "User-Request"),
        ),
    )
