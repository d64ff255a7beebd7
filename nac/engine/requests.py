"""Requests from outside (simulation, replay, cases): checked and brought into the form that `decide` takes."""

from nac.engine.attributes import NAS_VENDOR, RADIUS_PREFIX, Attribute, find_attribute, normalise_text
from nac.engine.decision import Request
from nac.engine.document import check_text
from nac.engine.matchers import Scalar
from nac.engine.mistakes import Mistake, Report, RequestErrors, at_index

# What the engine works something out from that is no attribute.
_SOURCES = {"at": "the time of the request"}


def read_request(document: object, *, at: int) -> Request:
    """A request of `{"attribute": value or [values], ...}`. Raises RequestErrors with every mistake and its place."""
    report = Report()
    attributes: dict[str, tuple[Scalar, ...]] = {}
    if not isinstance(document, dict):
        raise RequestErrors([Mistake("", "must be an object of attributes and their values")])
    for name, value in document.items():
        place = str(name)[:128]
        attribute = find_attribute(name) if isinstance(name, str) else None
        if attribute is None:
            report.add(place, f"unknown attribute; {_remedy(name)}`policy attributes` lists those there are")
            continue
        if attribute.derived_from:
            report.add(
                place, f"follows from {_SOURCES.get(attribute.derived_from, attribute.derived_from)}; say that instead"
            )
            continue
        values = value if isinstance(value, list) else [value]
        if len(values) > 1 and not attribute.many:
            report.add(place, "has one value only")
        read = (_value(attribute, each, at_index(place, index), report) for index, each in enumerate(values))
        attributes[name] = tuple(each for each in read if each is not None)
    if report:
        raise RequestErrors(report.mistakes)
    return Request(attributes, at)


def _remedy(name: object) -> str:
    # Attributes of the packet are named as RADIUS does, and begin with a capital letter.
    known = isinstance(name, str) and name[:1].isupper() and find_attribute(RADIUS_PREFIX + name) is not None
    return f"{RADIUS_PREFIX}{name} is that of the packet; " if known else ""


def _value(attribute: Attribute, value: object, place: str, report: Report) -> Scalar | None:
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
