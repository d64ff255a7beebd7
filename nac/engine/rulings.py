"""The decisions of a policy: made once for each rule and vendor of NAS, when one is first asked for."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from nac.engine.decision import Decision, Monitored
from nac.engine.outcome import Outcome
from nac.vendors import Vendor, find_vendor

# Spellings of vendors that are remembered; NASes of one cell have a few.
_MAX_SPELLINGS = 256


class Ruling(NamedTuple):
    """What a rule, or the fallback, says wherever it is asked."""

    outcome: Outcome
    reason: str
    rule_id: str = ""
    rule_name: str = ""
    monitored: Monitored = ""


class Decisions:
    """One for each ruling; the last is the fallback's, to which -1 (no rule matched) points."""

    __slots__ = ("_by_spelling", "_made", "_rulings", "_tables")

    def __init__(self, rulings: Sequence[Ruling]) -> None:
        self._rulings = tuple(rulings)
        self._tables: dict[str, _Table] = {}
        self._by_spelling: dict[object, _Table] = {}
        # Most vendors take a VLAN in the same form: one decision for all of them.
        self._made: dict[Decision, Decision] = {}

    def of(self, vendor: Sequence[object], index: int) -> Decision:
        """That of the ruling with this index for a NAS whose `nas.vendor` has these values.

        Always the same object for the same vendor and index, for as long as this lives.
        """
        table = self._by_spelling.get(vendor)
        if table is None:
            table = self._table(vendor)
        return table.decisions[index] or self._make(table, index)

    def _table(self, spelling: Sequence[object]) -> "_Table":
        vendor = find_vendor(spelling[0] if spelling else "")
        table = self._tables.setdefault(vendor.name, _Table(vendor, [None] * len(self._rulings)))
        if len(self._by_spelling) < _MAX_SPELLINGS:
            self._by_spelling[spelling] = table
        return table

    def _make(self, table: "_Table", index: int) -> Decision:
        ruling = self._rulings[index]
        decision = _decide(ruling, table.vendor)
        if ruling.monitored:
            otherwise = self._rulings[-1]
            given = _decide(otherwise, table.vendor)
            if given.verdict == otherwise.outcome.verdict:
                decision = _monitored(decision, given, ruling.monitored)
            else:
                # What the fallback gives cannot be given: a bare permit would be more than it.
                why = f"fallback: {given.detail}"
                decision = Decision("deny", given.reason, decision.rule_id, decision.rule_name, detail=why)
        decision = table.decisions[index] = self._made.setdefault(decision, decision)
        return decision


class _Table(NamedTuple):
    vendor: Vendor
    decisions: list[Decision | None]


def _decide(ruling: Ruling, vendor: Vendor) -> Decision:
    outcome, reason, rule_id, rule_name, _ = ruling
    if outcome.verdict == "deny":
        return Decision("deny", reason, rule_id, rule_name)
    rendering = vendor.render(outcome.results)
    if rendering.refusals:
        # To admit without an ACL or role that the rule gives would be to admit with more than it gives.
        why = "; ".join(map(str, rendering.refusals))
        return Decision("deny", "result-not-supported", rule_id, rule_name, detail=why)
    return Decision(
        outcome.verdict,
        reason,
        rule_id,
        rule_name,
        outcome.results.vlan,
        rendering.pairs(),
        passphrase=rendering.passphrase,
        needs_passphrase=bool(rendering.passphrase),
        pools=outcome.results.pools(),
    )


def _monitored(would: Decision, given: Decision, by: Monitored) -> Decision:
    """The verdict that would be, and what the fallback gives: a bare permit where that denies."""
    return replace(
        would, vlan=given.vlan, reply=given.reply, passphrase=given.passphrase, pools=given.pools, monitored=by
    )
