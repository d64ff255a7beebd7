"""Texts for results of policy tests, replays and simulations, and functions that read policy and request files."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, BinaryIO

from cli.output import Row
from nac.kit.errors import InvalidInput, SeveralMistakes
from nac.kit.mac import normalise_mac


def describe_test(row: Row) -> str:
    if row["passed"]:
        return f"{row['name']}: passed"
    unmet: Any = row["unmet"]
    differences = (f"{u['what']}: expected {u['expected'] or 'none'}, got {u['came'] or 'none'}" for u in unmet)
    return f"{row['place']} {row['name']!r}: {'; '.join(differences)}. {row['why']}"


def describe_replay(result: dict[str, Any]) -> Iterator[str]:
    from nac.engine.reasons import get_reason

    sites = result["sites"]
    where = f"site{'s' if len(sites) > 1 else ''} {', '.join(sites)}" if sites else "no site"
    since = f"{datetime.fromisoformat(result['since']):%Y-%m-%d %H:%M} UTC"
    yield f"{_count(result['total'], 'request')} at {where} since {since}, compared with {result['against']} results"
    yield f"{result['unchanged']:,} unchanged, {result['changed']:,} changed"
    for difference in result["differences"]:
        how_many = f"{_count(difference['requests'], 'request')} of {_count(difference['devices'], 'device')}"
        yield f"  {how_many}: {_describe_outcome(difference['from'])} -> {_describe_outcome(difference['to'])}"
        for example in difference["examples"]:
            # In MAB, the user name is the MAC address again.
            mac, identity = example["mac"], example["identity"]
            is_named = not mac or normalise_mac(identity) != normalise_mac(mac)
            who = " ".join(filter(None, (mac, identity if is_named else "")))
            at = " ".join(filter(None, (example["nas"], example["nas_port"] and f"port {example['nas_port']}")))
            yield f"    {example['at'][:19]} {who} from {at or 'an unknown NAS'} at {example['site']}: {example['why']}"
    if (more := result["groups"] - len(result["differences"])) > 0:
        yield f"  and {more} groups with fewer requests"
    for reason, count in result["not_replayable"].items():
        title = "Recorded in an older format" if reason == "older-format" else get_reason(reason).title
        yield f"{count:,} not replayed: {title} ({reason})"
    if result["suppressed"]:
        yield f"{result['suppressed']:,} more rejects were not recorded separately (too many failures)"
    yield from (f"Note: {each['sentence']}" for each in result["unrecorded"])
    if result["changed"]:
        yield f"digest {result['digest']}"


def _describe_outcome(outcome: dict[str, Any]) -> str:
    by = f"by {outcome['rule']}" if outcome["rule"] else "by no rule"
    vlan = f", VLAN {outcome['vlan']}" if outcome["vlan"] else ""
    vlan += f", pool {', '.join(outcome['pools'])}" if outcome["pools"] else ""
    if monitored := outcome["monitored_by"]:
        return f"admitted{vlan} because the {monitored} is in monitor mode (would be: {outcome['verdict']} {by})"
    return f"{outcome['verdict']} {by}{vlan}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def describe_simulation(simulation: dict[str, Any]) -> Iterator[str]:
    if recorded := simulation["recorded"]:
        by = f"by version {recorded['policy_version']}" if recorded["policy_version"] else "before any policy decision"
        yield f"recorded result: {_describe_verdict(recorded)} {by}"
    vlan = f", VLAN {simulation['vlan']}" if simulation["vlan"] else ""
    if monitored := simulation["monitored_by"]:
        answer = f"{simulation['verdict']} ({simulation['reason']})"
        yield f"admitted{vlan}, because the {monitored} is in monitor mode; otherwise: {answer}"
    else:
        yield _describe_verdict(simulation)
    if simulation["detail"]:
        yield simulation["detail"]
    at = f"{datetime.fromisoformat(simulation['at']):%Y-%m-%d %H:%M:%S}"
    where = f" at site {simulation['site']}" if simulation["site"] else ""
    yield f"by {_describe_policy(simulation)}{where}, at {at} UTC"
    yield from (tried["sentence"] for tried in simulation["trace"])
    if not simulation["rule"]:
        yield simulation["why"]
    yield from (f"reply: {each['attribute']} {each['operator']} {each['value']}" for each in simulation["reply"])
    if simulation["filled"]:
        stored = ", ".join(f"{name} = {simulation['request'][name]}" for name in simulation["filled"])
        yield f"added to the request: {stored}"
    yield from (f"Note: {note}" for note in simulation["notes"])


def _describe_verdict(row: dict[str, Any]) -> str:
    vlan = f", VLAN {row['vlan']}" if row["vlan"] else ""
    return f"{row['verdict']}{vlan} ({row['reason']})"


def _describe_policy(simulation: dict[str, Any]) -> str:
    if simulation["reason"] == "no-policy":
        return "no policy"
    if not simulation["trace"] and not simulation["reason"].startswith("fallback"):
        return "a check before the policy"
    slug, version = simulation["policy"], simulation["version"]
    return f"{slug} version {version}" if version else slug or "the draft"


@contextmanager
def report_mistakes(document: str = "") -> Iterator[None]:
    """Report mistakes in a local file in the same form as the API. Paths of fields begin with the name of the file."""
    from nac.engine import DocumentErrors

    try:
        yield
    except DocumentErrors as exc:
        places = [".".join(filter(None, (document, each.place))) for each in exc.mistakes]
        mistakes = [InvalidInput(each.message, place=at) for each, at in zip(exc.mistakes, places, strict=True)]
        raise (SeveralMistakes(mistakes) if len(mistakes) > 1 else mistakes[0]) from exc


def read_text(file: BinaryIO) -> bytes:
    """Return the content of a file within the size limit of policies. Raises PolicyErrors."""
    from nac.engine import DocumentMistake, PolicyErrors
    from nac.engine.document import MAX_DOCUMENT_BYTES

    text = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(text) > MAX_DOCUMENT_BYTES:
        limit = MAX_DOCUMENT_BYTES // 1024
        raise PolicyErrors([DocumentMistake("", f"larger than the limit of {limit} kB; use groups instead of lists")])
    return text


def read_document(file: BinaryIO | None) -> Any:  # noqa: ANN401 -- any JSON
    """Return the JSON object of a file; None without a file. Raises PolicyErrors."""
    return None if file is None else parse_text(read_text(file))


def parse_text(text: bytes) -> object:
    from nac.engine import DocumentMistake, PolicyErrors, parse_policy_text

    document = parse_policy_text(text)
    if not isinstance(document, dict):
        raise PolicyErrors([DocumentMistake("", "The document must be an object.")])
    return document
