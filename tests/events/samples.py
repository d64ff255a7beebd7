"""Records as devices may send them: with any text, NUL characters and long values."""

from hypothesis import strategies as st

from nac.cellformat.journal.records import AccountingRecord, AuthRecord
from nac.engine.reasons import REASONS
from tests.agent.journal_records import AT, accounting, auth

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["", "\0", "x" * 3_000, "ä\n\t"]
)
UUIDS = st.uuids().map(str) | st.just("")
ADDRESSES = st.ip_addresses().map(str) | st.sampled_from(
    ["", "none", "::ffff:192.0.2.1", "2001:DB8::1", "fe80::1%eth0", "010.0.0.1"]
)
MACS = st.text("0123456789abcdef", min_size=12, max_size=12) | st.just("")
SERIALS = st.text("0123456789abcdef", max_size=40)
NUMBERS = st.integers(0, 2**40)


def auth_records(tenant) -> st.SearchStrategy[AuthRecord]:
    return st.builds(
        lambda **values: auth(tenant, **values),
        at=st.integers(AT, AT + 10**9),
        site_id=UUIDS,
        nas_id=UUIDS,
        nas_address=ADDRESSES,
        nas_identifier=TEXT,
        nas_port=TEXT,
        mac=MACS,
        identity=TEXT | MACS,
        method=st.sampled_from(["mab", "eap-tls", "peap", "unknown"]),
        permitted=st.booleans(),
        reason=st.sampled_from(sorted(REASONS)) | TEXT,
        detail=TEXT,
        rule_id=TEXT,
        rule_name=TEXT,
        policy_id=UUIDS,
        policy_version=st.integers(0, 2**31 - 1),
        vlan=TEXT,
        certificate_serial=SERIALS,
        tls_version=st.sampled_from(["", "1.2", "1.3"]),
        resumed=st.booleans(),
        pairs=st.lists(st.tuples(st.sampled_from(["Called-Station-Id", "NAS-Port-Type"]), TEXT), max_size=3).map(tuple),
        facts=st.dictionaries(
            st.sampled_from(["site.name", "nas.name", "certificate.common_name", "ssid"]), st.tuples(TEXT), max_size=4
        ),
        module_microseconds=NUMBERS,
        suppressed=NUMBERS,
        verdict=st.sampled_from(["", "permit", "quarantine", "deny"]),
        monitored=st.sampled_from(["", "rule", "site"]),
    )


def accounting_records(tenant) -> st.SearchStrategy[AccountingRecord]:
    return st.builds(
        lambda status, **values: accounting(tenant, status, **values),
        status=st.sampled_from(["Start", "Interim-Update", "Stop", "Accounting-On", "Accounting-Off", "Tunnel-Start"]),
        at=st.integers(AT, AT + 10**9),
        session=TEXT,
        seconds=NUMBERS,
        nas=TEXT,
        station=MACS | TEXT,
        User_Name=TEXT,
        Acct_Input_Octets=st.integers(0, 2**32 - 1).map(str),
        Acct_Output_Octets=TEXT,
        Acct_Output_Gigawords=st.integers(0, 2**33).map(str),
        Acct_Terminate_Cause=TEXT,
        NAS_Port_Id=TEXT,
        Framed_IP_Address=ADDRESSES,
        Framed_IPv6_Address=ADDRESSES,
        Delegated_IPv6_Prefix=st.ip_addresses(v=6).map(lambda address: f"{address}/56") | TEXT,
        Class=st.just("0x" + SECRET.hex()),
    )


SECRET = b"correct horse battery"
