"""Parsing of requests from outside (simulation, replay, policy tests)."""

from nac.engine.attributes import NAS_VENDOR, RADIUS_PREFIX, PolicyAttribute, find_attribute, normalise_text
from nac.engine.decision import PolicyRequest
from nac.engine.document import check_text
from nac.engine.matchers import Scalar
from nac.engine.mistakes import DocumentMistake, MistakeReport, RequestErrors, at_index

# Sources of derived attributes, if the source is not itself an attribute of the request.
_SOURCES = {"at": "the time of the request"}


def parse_request(document: object, *, at: int) -> PolicyRequest:
    """Parse `{"attribute": value or [values], ...}`. Raises RequestErrors with every mistake."""
    report = MistakeReport()
    attributes: dict[str, tuple[Scalar, ...]] = {}
    if not isinstance(document, dict):
        raise RequestErrors([DocumentMistake("", "must be an object of attributes and their values")])
    for name, value in document.items():
        place = str(name)[:128]
        attribute = find_attribute(name) if isinstance(name, str) else None
        if attribute is None:
            report.add(place, f"unknown attribute; {_remedy(name)}docs/reference/policy.md lists the attributes")
            continue
        if attribute.derived_from:
            report.add(
                place,
                f"is derived from {_SOURCES.get(attribute.derived_from, attribute.derived_from)}; set the attribute"
                " from which it is derived",
            )
            continue
        values = value if isinstance(value, list) else [value]
        if len(values) > 1 and not attribute.many:
            report.add(place, "can have only one value")
        read = (_parse_value(attribute, each, at_index(place, index), report) for index, each in enumerate(values))
        attributes[name] = tuple(each for each in read if each is not None)
    if report:
        raise RequestErrors(report.mistakes)
    return PolicyRequest(attributes, at)


def _remedy(name: object) -> str:
    # Names of RADIUS attributes begin with a capital letter.
    known = isinstance(name, str) and name[:1].isupper() and find_attribute(RADIUS_PREFIX + name) is not None
    return f"for the RADIUS attribute use {RADIUS_PREFIX}{name}; " if known else ""


def _parse_value(attribute: PolicyAttribute, value: object, place: str, report: MistakeReport) -> Scalar | None:
    if attribute.kind == "boolean" or (attribute.kind == "open" and isinstance(value, bool)):
        if isinstance(value, bool):
            return value
        report.add(place, "must be true or false")
        return None
    if attribute.kind in ("number", "open") and isinstance(value, int) and not isinstance(value, bool):
        return value
    if attribute.kind == "number":
        report.add(place, "must be a whole number")
        return None
    if not isinstance(value, str):
        report.add(place, "must be text")
        return None
    if not check_text(value, place, report):
        return None
    if attribute.kind in ("text", "open") and attribute.name != NAS_VENDOR:
        return value
    try:
        return normalise_text(attribute, value, whole=True)
    except ValueError as error:
        report.add(place, str(error))
        return None
