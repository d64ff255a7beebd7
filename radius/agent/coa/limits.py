"""Limits on requests in flight, so that NASes that do not respond do not delay requests to other NASes."""

from collections import Counter, OrderedDict
from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from radius.agent.coa.transmission import CoaTransmission

MAX_IN_FLIGHT = 512
# Requests in flight for one tenant: to NASes that responded last time or are untested, and to all NASes.
MAX_PER_TENANT, MAX_PER_TENANT_WITH_SILENT = 16, 64
# Requests in flight for one tenant to NASes that did not respond last time.
MAX_SILENT_PER_TENANT = 4
# Requests in flight to a NAS that responded last time. To any other NAS, only one request is in flight.
MAX_PER_NAS = 4
# Requests of one tenant that one read of the queue takes.
MAX_TAKEN_PER_TENANT = 4
_MAX_REMEMBERED = 8_192


class SaturatedTargets(NamedTuple):
    # Keys of NASes, as in `ClaimedRequest.nas`.
    nases: list[str]
    tenants: list[UUID]


class ConcurrencyLimits:
    def __init__(self) -> None:
        # Whether each NAS responded last time. Untested NASes have no entry.
        self._answers: OrderedDict[str, bool] = OrderedDict()

    def note(self, nas: str, *, answers: bool) -> None:
        self._answers[nas] = answers
        self._answers.move_to_end(nas)
        if len(self._answers) > _MAX_REMEMBERED:
            self._answers.popitem(last=False)

    def full(self, flights: Collection[CoaTransmission]) -> SaturatedTargets:
        """Return the NASes and tenants that have reached their limit."""
        at_nas = Counter(flight.taken.nas for flight in flights)
        every, silent = Counter[UUID](), Counter[UUID]()
        for flight in flights:
            every[flight.taken.row.tenant_id] += 1
            silent[flight.taken.row.tenant_id] += self._is_silent(flight.taken.nas)
        nases = {nas for nas, count in at_nas.items() if count >= (MAX_PER_NAS if self._answers.get(nas) else 1)}
        crowded = tuple(str(tenant) for tenant, count in silent.items() if count >= MAX_SILENT_PER_TENANT)
        if crowded:
            nases.update(nas for nas in self._answers if self._is_silent(nas) and nas.startswith(crowded))
        tenants = [
            tenant
            for tenant, count in every.items()
            if count - silent[tenant] > MAX_PER_TENANT - MAX_TAKEN_PER_TENANT
            or count > MAX_PER_TENANT_WITH_SILENT - MAX_TAKEN_PER_TENANT
        ]
        return SaturatedTargets(sorted(nases), tenants)

    def _is_silent(self, nas: str) -> bool:
        return self._answers.get(nas) is False
