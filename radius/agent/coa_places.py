"""Limits on requests in flight, so that NASes that do not respond delay no others."""

from collections import Counter, OrderedDict
from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from radius.agent.coa_flight import Flight

MOST_IN_FLIGHT = 512
# Of a tenant, at NASes that respond or are untested, and in total while many turn out silent.
MOST_OF_TENANT, MOST_OF_TENANT_AT_ALL = 16, 64
# Of a tenant, at NASes that did not respond last time, if it also has others.
MOST_SILENT = 4
# Of a NAS that responds. A silent or untested one has one.
MOST_OF_NAS = 4
# Taken at a time, of a tenant.
MOST_AT_ONCE = 4
_MOST_REMEMBERED = 8_192


class Full(NamedTuple):
    # `Taken.nas`
    nases: list[str]
    tenants: list[UUID]


class Places:
    def __init__(self) -> None:
        # Whether each NAS responded last time; untested ones are absent.
        self._answers: OrderedDict[str, bool] = OrderedDict()

    def note(self, nas: str, *, answers: bool) -> None:
        self._answers[nas] = answers
        self._answers.move_to_end(nas)
        if len(self._answers) > _MOST_REMEMBERED:
            self._answers.popitem(last=False)

    def full(self, flights: Collection[Flight]) -> Full:
        """NASes and tenants that have reached their limit."""
        at_nas = Counter(flight.taken.nas for flight in flights)
        every, silent = Counter[UUID](), Counter[UUID]()
        for flight in flights:
            every[flight.taken.row.tenant_id] += 1
            silent[flight.taken.row.tenant_id] += self._is_silent(flight.taken.nas)
        nases = {nas for nas, count in at_nas.items() if count >= (MOST_OF_NAS if self._answers.get(nas) else 1)}
        crowded = tuple(str(tenant) for tenant, count in silent.items() if count >= MOST_SILENT)
        if crowded:
            nases.update(nas for nas in self._answers if self._is_silent(nas) and nas.startswith(crowded))
        tenants = [
            tenant
            for tenant, count in every.items()
            if count - silent[tenant] > MOST_OF_TENANT - MOST_AT_ONCE or count > MOST_OF_TENANT_AT_ALL - MOST_AT_ONCE
        ]
        return Full(sorted(nases), tenants)

    def _is_silent(self, nas: str) -> bool:
        return self._answers.get(nas) is False
