"""A valid value of each neutral key for every vendor, and its expected output. None means unsupported."""

from nac.engine.vendors import DownloadableAcl, Results

PASSPHRASE, SSID = "correct horse battery", "IoT"
# The output of `wpa_passphrase IoT "correct horse battery"` (wpa_supplicant).
PMK = "e4b2d76d53c696564750d4eb4f8f9bff5ece7fd8c4f15f0aef991068c356c638"

_TUNNEL = [("Tunnel-Type", "VLAN"), ("Tunnel-Medium-Type", "IEEE-802")]
_BY_RFC = [*_TUNNEL, ("Tunnel-Private-Group-Id", "guests")]
_BY_ID = [*_TUNNEL, ("Tunnel-Private-Group-Id", "40")]
_IP_RULES = ("permit in ip from any to 192.0.2.0/24", "deny in ip from any to any")
_FILTER_RULES = [("NAS-Filter-Rule", rule) for rule in _IP_RULES]

# Results by key. Each row is one vendor.
COMMON = {
    "session_timeout": (Results(session_timeout=3600), [("Session-Timeout", "3600")]),
    "reauthenticate": (
        Results(session_timeout=3600, reauthenticate=True),
        [("Session-Timeout", "3600"), ("Termination-Action", "RADIUS-Request")],
    ),
}


def _row(vlan, acl, entries, acl_lines, role, psk):
    named = Results(vlan="40" if vlan is _BY_ID or ("Mikrotik-Wireless-VLANID", "40") in vlan else "guests")
    return COMMON | {
        "vlan": (named, vlan),
        "acl": (Results(acl="GUEST"), acl),
        "downloadable_acl": (Results(downloadable_acl=DownloadableAcl("guests", entries)), acl_lines),
        "role": (Results(role="staff"), role),
        "psk": (Results(psk="endpoint"), psk),
    }


def _avpairs(*values):
    return [("Cisco-AVPair", value) for value in values]


_ACES = ("permit udp any any eq 53", "deny ip any any")
_TERMS = ("match destination-ip 192.0.2.0/24 action allow", "Match Ip-protocol 6, Destination-port 443 Action allow")
_RULES = ("dst-address 192.0.2.0/24 action allow", "action drop")
_HEX = "0x" + PASSPHRASE.encode().hex()

EXPECTED = {
    "default": _row(
        _BY_RFC, [("Filter-Id", "GUEST")], _IP_RULES, _FILTER_RULES, [("Filter-Id", "staff")],
        [("Tunnel-Password", PASSPHRASE)],
    ),
    "cisco": _row(
        _BY_RFC, [("Filter-Id", "GUEST.in")], _ACES,
        _avpairs("ip:inacl#10=permit udp any any eq 53", "ip:inacl#20=deny ip any any"),
        _avpairs("subscriber:service-name=staff"), None,
    ),
    "cisco-wlc": _row(
        _BY_RFC, [("Airespace-ACL-Name", "GUEST")], _ACES, None, _avpairs("role=staff"),
        _avpairs("psk-mode=ascii", f"psk={PASSPHRASE}"),
    ),
    "meraki": _row(_BY_RFC, None, _ACES, None, [("Filter-Id", "staff")], [("Tunnel-Password", PASSPHRASE)]),
    "aruba": _row(
        _BY_RFC, None, _IP_RULES, [("Aruba-NAS-Filter-Rule", rule) for rule in _IP_RULES],
        [("Aruba-User-Role", "staff")], [("Aruba-MPSK-Passphrase", _HEX)],
    ),
    "hpe": _row(
        _BY_RFC, [("Filter-Id", "GUEST")], _IP_RULES, _FILTER_RULES,
        [("HP-User-Role", "staff")], None,
    ),
    "juniper": _row(
        _BY_RFC, [("Filter-Id", "GUEST")], _TERMS, [("Juniper-Switching-Filter", term) for term in _TERMS], None, None
    ),
    "mist": _row(_BY_RFC, None, _ACES, None, [("Filter-Id", "staff")], None),
    "unifi": _row(_BY_ID, None, _ACES, None, None, None),
    "mikrotik": _row(
        [*_BY_ID, ("Mikrotik-Wireless-VLANID", "40"), ("Mikrotik-Wireless-VLANIDtype", "0")],
        None, _RULES, [("Mikrotik-Switching-Filter", "dst-address 192.0.2.0/24 action allow, action drop")],
        [("Mikrotik-Group", "staff")], [("Mikrotik-Wireless-PSK", PASSPHRASE)],
    ),
    "fortinet": _row(
        _BY_RFC, [("Filter-Id", "GUEST")], _IP_RULES, _FILTER_RULES, [("Fortinet-Group-Name", "staff")],
        [("Tunnel-Password", PASSPHRASE)],
    ),
    "ruckus": _row(_BY_RFC, None, _ACES, None, [("Ruckus-User-Groups", "staff")], [("Ruckus-DPSK", f"0x00{PMK}")]),
    "ruckus-icx": _row(_BY_RFC, [("Filter-Id", "ip.GUEST.in")], _ACES, None, None, None),
    "extreme": _row(_BY_RFC, None, _ACES, None, [("Filter-Id", "Enterasys:version=1:policy=staff")], None),
}  # fmt: skip
