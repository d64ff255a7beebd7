"""Checks whether Admit can send results: renders the results for every vendor, and checks the attributes with radiusd's
dictionaries.

A mistake is a value that the dictionaries reject, that is too long for the packet, or that no vendor supports.
`Policy.refusals` checks results that only some vendors support.
"""

from collections.abc import Iterator
from typing import Protocol

from nac.engine.mistakes import MistakeReport
from nac.engine.results import UNREADABLE_ATTRIBUTE
from nac.engine.vendors import Rendering, ReplyAttribute, Results, Vendor, all_vendors
from nac.engine.vendors.vendor import MAX_PASSPHRASE_LENGTH

# RFC 2865 3: a packet has at most 4096 octets. Reserve 500 for EAP, keys, State and attributes of radiusd.
MAX_REPLY_BYTES = 4096 - 500
_LONGEST_PASSPHRASE_TEXT = "x" * MAX_PASSPHRASE_LENGTH


class ReplyDictionary(Protocol):
    """The dictionaries of radiusd; implemented by `nac.engine.dictionary.Dictionary`."""

    def check(self, attribute: str, value: str, tag: int | None) -> None:
        """Raise ValueError, with a message for the author of the policy, unless radiusd accepts this value in a
        reply."""

    def encoded_bytes(self, attribute: str, value: str, tag: int | None) -> int:
        """Return the encoded length in octets of an attribute that `check` accepts."""

    def knows(self, attribute: str) -> bool:
        """Whether a request can have this attribute."""


# Path within the results, and message.
_Problem = tuple[str, str]


class ReplyCheck:
    """Checks the results of one document. Equal results are checked only once."""

    def __init__(self, report: MistakeReport, replies: ReplyDictionary | None) -> None:
        self._report = report
        self._replies = replies
        self._good: set[Results] = set()
        self._measured: dict[tuple[str, str, int | None], int | str] = {}

    def check(self, results: Results, place: str) -> None:
        if results in self._good:
            return
        mistakes: dict[_Problem, list[Vendor]] = {}
        refused: dict[str, list[_Problem]] = {}
        groups = _group_alike_vendors(results)
        for vendors in groups:
            rendering = vendors[0].render(results)
            for refusal in rendering.refusals:
                refused.setdefault(refusal.place, []).append((refusal.place, refusal.why))
            for problem in self._problems(rendering):
                mistakes.setdefault(problem, []).extend(vendors)
        of_all = [found[0] for found in refused.values() if len(found) == len(groups)]
        if not mistakes and not of_all:
            self._good.add(results)
        for where, why in of_all:
            self._report.add(f"{place}.{where}", why)
        every = sum(map(len, groups))
        for (where, why), vendors in mistakes.items():
            of = "" if len(vendors) == every or where.startswith("reply") else f" ({_join_names(vendors)})"
            self._report.add(f"{place}.{where}", f"{why}{of}")

    def _problems(self, rendering: Rendering) -> Iterator[_Problem]:
        octets: dict[str, int] = {}
        refused = {refusal.place for refusal in rendering.refusals}
        sent = [
            *rendering.attributes,
            *(("psk", item.fill_passphrase(_LONGEST_PASSPHRASE_TEXT, "")) for item in rendering.passphrase),
        ]
        for source, item in sent:
            measured = self._measure(item)
            if isinstance(measured, str):
                yield source, measured
                continue
            key = source.partition("[")[0]
            octets[key] = octets.get(key, 0) + measured
        if sum(octets.values()) > MAX_REPLY_BYTES and not refused:
            largest = max(octets, key=lambda key: octets[key])
            yield (
                largest,
                f"too large: {sum(octets.values())} octets; the limit of a reply is {MAX_REPLY_BYTES} (RFC 2865 3)",
            )

    def _measure(self, item: ReplyAttribute) -> int | str:
        """Return the encoded length in octets, or a message if the attribute is invalid."""
        if self._replies is None or item is UNREADABLE_ATTRIBUTE:
            return 0
        key = item.attribute, item.value, item.tag
        found = self._measured.get(key)
        if found is None:
            try:
                self._replies.check(*key)
                found = self._replies.encoded_bytes(*key)
            except ValueError as error:
                found = str(error)
            self._measured[key] = found
        return found


def _group_alike_vendors(results: Results) -> list[list[Vendor]]:
    """Group the vendors that render these results equally."""
    keys = tuple(results.used_keys())
    acl = results.downloadable_acl
    own = {name for name, _ in acl.by_vendor} if acl is not None else set()
    groups: dict[tuple[object, ...], list[Vendor]] = {}
    for vendor in all_vendors().values():
        forms = tuple(id(vendor.forms[key]) for key in keys)
        groups.setdefault((*forms, vendor.name if vendor.name in own else ""), []).append(vendor)
    return list(groups.values())


def _join_names(vendors: list[Vendor]) -> str:
    return ", ".join(vendor.name for vendor in vendors)
