"""Policies and their results as JSON, shared by command line and API."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from nac.engine import DocumentMistake
from nac.policies.differences import ComparedOutcome
from nac.policies.replays import Replay

JsonRow = dict[str, Any]
# Order in which the keys of an object are displayed. PostgreSQL's jsonb sorts them by length instead.
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


def mistake_rows(mistakes: Iterable[DocumentMistake]) -> list[JsonRow]:
    return [{"place": mistake.place, "message": mistake.message} for mistake in mistakes]


def reply_rows(reply: Sequence[tuple[str, str, str]]) -> list[JsonRow]:
    return [{"attribute": name, "operator": operator, "value": value} for name, operator, value in reply]


def pool_rows(pools: Sequence[tuple[str, str]]) -> list[JsonRow]:
    """Return attributes with the pools from which the cell assigns their values."""
    return [{"attribute": attribute, "pool": name} for attribute, name in pools]


def replay_row(replay: Replay) -> JsonRow:
    return {
        "since": replay.since.isoformat(),
        "until": replay.until.isoformat(),
        "sites": list(replay.sites),
        "against": replay.against,
        "total": replay.total,
        "unchanged": replay.unchanged,
        "changed": replay.changed,
        "not_replayable": dict(replay.not_replayable),
        "suppressed": replay.suppressed,
        "groups": replay.groups,
        "differences": difference_rows(replay),
        "unrecorded": [
            {
                "attribute": each.attribute,
                "rules": list(each.rules),
                "held_by": each.held_by,
                "first_held": each.first_held and each.first_held.isoformat(),
                "sentence": str(each),
            }
            for each in replay.unrecorded
        ],
        "digest": replay.digest,
    }


def difference_rows(replay: Replay) -> list[JsonRow]:
    return [
        {
            "from": _answer_row(difference.before),
            "to": _answer_row(difference.after),
            "requests": difference.requests,
            "devices": difference.devices,
            "examples": [asdict(example) for example in difference.examples],
        }
        for difference in replay.differences
    ]


def order_keys(document: object) -> object:
    """Return the document with its keys in the documented order."""
    if isinstance(document, list):
        return [order_keys(entry) for entry in document]
    if not isinstance(document, dict):
        return document
    # A document of another version of Admit can have more keys. The additional keys come last.
    keys = sorted(document, key=lambda key: _KEY_POSITIONS.get(key, len(_KEY_ORDER)))
    return {key: order_keys(document[key]) for key in keys}


def decode_policy_text(text: bytes) -> str | None:
    """Return the original text of the policy; None if the text is not UTF-8 (RFC 8259 8.1).

    If the text is not UTF-8, only the parsed document is stored.
    """
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _answer_row(answer: ComparedOutcome) -> JsonRow:
    return {
        "verdict": answer.verdict,
        "permitted": answer.permitted,
        "monitored": bool(answer.monitored),
        "monitored_by": answer.monitored,
        "rule": answer.rule_id,
        "vlan": answer.vlan,
        "pools": list(answer.pools),
    }
