"""The demo's policy, and the VLANs of the policy."""

PRINTER_VLAN = "20"
DEVICE_VLAN = "30"
STAFF_VLAN = "40"
SESSION_SECONDS = "3600"

PRINTERS = "printers"
QUARANTINE = "quarantine"
STAFF = "staff"


def _is(attribute: str, value: str) -> dict[str, str]:
    return {"attribute": attribute, "operator": "equals", "value": value}


POLICY_DOCUMENT: dict[str, object] = {
    "pinned_denies": [],
    "rules": [
        {
            "id": "quarantine",
            "name": "Quarantined devices stay out",
            "when": _is("endpoint.group", QUARANTINE),
            "then": {"verdict": "deny"},
        },
        {
            "id": "printers",
            "name": "Printers by MAC address",
            "when": {"all": [_is("method", "mab"), _is("endpoint.group", PRINTERS)]},
            "then": {"verdict": "permit", "vlan": PRINTER_VLAN},
        },
        {
            # Admit knows the profile only for certificates of the tenant's own authority.
            "id": "devices",
            "name": "Our own devices by certificate",
            "when": {"all": [_is("method", "eap-tls"), _is("certificate.profile", "eap-client-device")]},
            "then": {
                "verdict": "permit",
                "vlan": DEVICE_VLAN,
                "reply": [{"attribute": "Session-Timeout", "value": SESSION_SECONDS}],
            },
        },
        {
            "id": "staff",
            "name": "Staff by password",
            "when": _is("user.group", STAFF),
            "then": {"verdict": "permit", "vlan": STAFF_VLAN},
        },
    ],
    "fallback": {"verdict": "deny"},
}
