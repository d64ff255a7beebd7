"""Key order of policies for display: jsonb sorts keys by length."""

# Order of the keys of each object.
_KEY_ORDER = (
    *("conditions", "profiles", "pinned_denies", "rules", "fallback", "tests"),
    *("id", "name", "monitor", "when", "then"),
    *("request", "at", "site", "expect"),
    *("all", "any", "not", "condition", "attribute", "operator", "value", "ignore_case", "tag"),
    *("days", "from", "to", "dates"),
    *("verdict", "rule", "reason", "profile", "vlan", "acl", "downloadable_acl", "entries", "role", "session_timeout"),
    *("reauthenticate", "psk", "ip_pool", "ipv6_pool", "delegated_pool", "monitored", "reply"),
)
_KEY_POSITIONS = {key: place for place, key in enumerate(_KEY_ORDER)}


def order_keys(document: object) -> object:
    """Return the document with its keys in the documented order."""
    if isinstance(document, list):
        return [order_keys(entry) for entry in document]
    if not isinstance(document, dict):
        return document
    # Another version may have more keys.
    keys = sorted(document, key=lambda key: _KEY_POSITIONS.get(key, len(_KEY_ORDER)))
    return {key: order_keys(document[key]) for key in keys}


def decode_policy_text(text: bytes) -> str | None:
    """Return the original text; None if it is not UTF-8 (RFC 8259 8.1) and only the object is kept."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return None
