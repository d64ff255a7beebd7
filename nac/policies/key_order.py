"""Policies as people write them: jsonb, in which they are stored, keeps keys by their length."""

# Each object of a policy has its keys in this order.
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
    """The same document with its keys in the order of the documentation."""
    if isinstance(document, list):
        return [order_keys(entry) for entry in document]
    if not isinstance(document, dict):
        return document
    # Another version may know keys that this one does not.
    keys = sorted(document, key=lambda key: _KEY_POSITIONS.get(key, len(_KEY_ORDER)))
    return {key: order_keys(document[key]) for key in keys}


def decode_policy_text(text: bytes) -> str | None:
    """None for what is JSON, but not UTF-8 (RFC 8259 8.1): it is kept as an object alone."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return None
