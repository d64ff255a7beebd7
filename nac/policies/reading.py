"""Policies as people write them: jsonb, in which they are stored, keeps keys by their length."""

# Each object of a policy has its keys in this order.
_KEYS = (
    *("conditions", "profiles", "pinned_denies", "rules", "fallback", "tests"),
    *("id", "name", "monitor", "when", "then"),
    *("request", "at", "site", "expect"),
    *("all", "any", "not", "condition", "attribute", "operator", "value", "ignore_case", "tag"),
    *("days", "from", "to", "dates"),
    *("verdict", "rule", "reason", "profile", "vlan", "acl", "downloadable_acl", "entries", "role", "session_timeout"),
    *("reauthenticate", "psk", "ip_pool", "ipv6_pool", "delegated_pool", "monitored", "reply"),
)
_PLACES = {key: place for place, key in enumerate(_KEYS)}


def in_reading_order(document: object) -> object:
    """The same document with its keys in the order of the documentation."""
    if isinstance(document, list):
        return [in_reading_order(entry) for entry in document]
    if not isinstance(document, dict):
        return document
    # Another version may know keys that this one does not.
    keys = sorted(document, key=lambda key: _PLACES.get(key, len(_KEYS)))
    return {key: in_reading_order(document[key]) for key in keys}


def as_written(text: bytes) -> str | None:
    """None for what is JSON, but not UTF-8 (RFC 8259 8.1): it is kept as an object alone."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return None
