"""Decisions of a policy by rule and NAS vendor. The engine builds a decision when a request first needs it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from nac.engine.decision import Decision, MonitorSource
from nac.engine.outcome import Outcome
from nac.engine.vendors import Vendor, find_vendor

# Limit of cached spellings of vendor names. The NASes of a cell use only a few spellings.
_MAX_SPELLINGS = 256


class Ruling(NamedTuple):
    """The outcome of a rule or fallback."""

    outcome: Outcome
    reason: str
    rule_id: str = ""
    rule_name: str = ""
    monitored: MonitorSource = ""


class DecisionTable:
    """One decision per ruling and vendor. The last ruling is the fallback; index -1 (no match) selects the fallback."""

    __slots__ = ("_by_spelling", "_made", "_rulings", "_tables")

    def __init__(self, rulings: Sequence[Ruling]) -> None:
        self._rulings = tuple(rulings)
        self._tables: dict[str, _VendorDecisions] = {}
        self._by_spelling: dict[object, _VendorDecisions] = {}
        # Most vendors get equal replies, so these vendors share one decision.
        self._made: dict[Decision, Decision] = {}

    def of(self, vendor: Sequence[object], index: int) -> Decision:
        """Return the decision of the ruling `index` for a NAS with these values of `nas.vendor`.

        Always returns the same object for the same vendor and index.
        """
        table = self._by_spelling.get(vendor)
        if table is None:
            table = self._table(vendor)
        return table.decisions[index] or self._make(table, index)

    def _table(self, spelling: Sequence[object]) -> "_VendorDecisions":
        vendor = find_vendor(spelling[0] if spelling else "")
        table = self._tables.setdefault(vendor.name, _VendorDecisions(vendor, [None] * len(self._rulings)))
        if len(self._by_spelling) < _MAX_SPELLINGS:
            self._by_spelling[spelling] = table
        return table

    def _make(self, table: "_VendorDecisions", index: int) -> Decision:
        ruling = self._rulings[index]
        decision = _render_decision(ruling, table.vendor)
        if ruling.monitored:
            otherwise = self._rulings[-1]
            fallback = _render_decision(otherwise, table.vendor)
            if fallback.verdict == otherwise.outcome.verdict:
                decision = _apply_monitor_mode(decision, fallback, ruling.monitored)
            else:
                # The NAS does not support the fallback's results. A permit without them would grant more access.
                why = f"fallback: {fallback.detail}"
                decision = Decision("deny", fallback.reason, decision.rule_id, decision.rule_name, detail=why)
        decision = table.decisions[index] = self._made.setdefault(decision, decision)
        return decision


class _VendorDecisions(NamedTuple):
    vendor: Vendor
    decisions: list[Decision | None]


def _render_decision(ruling: Ruling, vendor: Vendor) -> Decision:
    outcome, reason, rule_id, rule_name, _ = ruling
    if outcome.verdict == "deny":
        return Decision("deny", reason, rule_id, rule_name)
    rendering = vendor.render(outcome.results)
    if rendering.refusals:
        # A permit without the rule's ACL or role would grant more access than the rule.
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


def _apply_monitor_mode(would: Decision, fallback: Decision, by: MonitorSource) -> Decision:
    """Return the verdict of `would` with the reply of the fallback, which is empty if the fallback denies."""
    return replace(
        would,
        vlan=fallback.vlan,
        reply=fallback.reply,
        passphrase=fallback.passphrase,
        pools=fallback.pools,
        monitored=by,
    )
