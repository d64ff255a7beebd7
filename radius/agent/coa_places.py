"""How many requests to NASes are on their way at a time, so that those which do not answer hold up no others."""

from collections import Counter, OrderedDict
from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from radius.agent.coa_flight import Flight

MOST_IN_FLIGHT = 512
# Of a tenant, at NASes that answer or were not asked yet; and at all, while it is found out that many do not.
MOST_OF_TENANT, MOST_OF_TENANT_AT_ALL = 16, 64
# Of a tenant, at NASes that did not answer last, where there is a choice.
MOST_SILENT = 4
# Of a NAS, once it has answered; before that and when it does no more it has one.
MOST_OF_NAS = 4
# Taken at once, of a tenant.
MOST_AT_ONCE = 4
_MOST_REMEMBERED = 8_192


class Full(NamedTuple):
    # `Taken.nas`
    nases: list[str]
    tenants: list[UUID]


class Places:
    def __init__(self) -> None:
        # Whether a NAS answered last; what is not there was not asked yet.
        self._answers: OrderedDict[str, bool] = OrderedDict()

    def note(self, nas: str, *, answers: bool) -> None:
        self._answers[nas] = answers
        self._answers.move_to_end(nas)
        if len(self._answers) > _MOST_REMEMBERED:
            self._answers.popitem(last=False)

    def full(self, flights: Collection[Flight]) -> Full:
        """Who may have no more than these."""
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
