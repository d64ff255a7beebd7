"""NASes that ask with a secret that is none of their tenant's: they get no answer, and nobody else would tell why."""

import time
from collections.abc import Callable, Set
from datetime import timedelta

from sqlalchemy import Engine, and_, or_, select

from nac.clock import utc_now
from nac.db import CellScope, session_scope
from nac.ids import CellId
from nac.models import SelfTest, Slot, Tenant
from nac.sources import OWN_TRIALS
from radius.agent.alarms import Alarms

# An alarm stands for so long after the last such packet.
STANDS_SECONDS = 600.0
# Addresses in a sentence, and that are kept of a slot.
_MOST_NAMED, _MOST_KEPT = 3, 100
# Of all slots, while the database does not answer.
_MOST_WAITING = 1_000
_CODE = "wrong-secret:"
# A self-test asks with a wrong secret, too, and radiusd may tell of it late. Others ask again.
_AFTER_SELF_TESTS = timedelta(minutes=1)


class WrongSecrets:
    def __init__(
        self,
        engine: Engine,
        cell_id: CellId,
        alarms: Alarms,
        take: Callable[[], Set[tuple[int, str]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`take` gives slots and addresses, each once."""
        self._engine, self._cell_id, self._alarms = engine, cell_id, alarms
        self._take = take
        self._clock = clock
        # When last, by address.
        self._seen: dict[int, dict[str, float]] = {}
        self._heard: set[tuple[int, str]] = set()

    def tell(self) -> None:
        """Raises AdmitError where the database does not answer."""
        now = self._clock()
        for slot, address in self._take():
            if len(self._heard) < _MOST_WAITING and address != str(OWN_TRIALS):
                self._heard.add((slot, address))
        tested = self._slots_under_test() if self._heard else set()
        # Kept until here: the database may not have answered.
        heard, self._heard = self._heard, set()
        for slot, address in heard:
            if slot in tested:
                continue
            seen = self._seen.setdefault(slot, {})
            if address in seen or len(seen) < _MOST_KEPT:
                seen[address] = now
        for slot, seen in list(self._seen.items()):
            self._seen[slot] = {address: at for address, at in seen.items() if now - at < STANDS_SECONDS}
            if not self._seen[slot]:
                del self._seen[slot]
        told = self._tell_of_tenants() if self._seen else set()
        for alarm in self._alarms.standing():
            if alarm.code.startswith(_CODE) and alarm.code not in told:
                self._alarms.clear(alarm.code)

    def _slots_under_test(self) -> set[int]:
        test = SelfTest
        now = utc_now()
        # Whoever does one says so again and again (`due_at`): what nobody does is over.
        is_done = and_(test.state == "running", test.due_at > now - _AFTER_SELF_TESTS)
        is_near = or_(is_done, test.ended_at > now - _AFTER_SELF_TESTS)
        query = select(Slot.number).join(test, test.tenant_id == Slot.tenant_id)
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            return set(session.scalars(query.where(Slot.cell_id == self._cell_id, is_near)))

    def _tell_of_tenants(self) -> set[str]:
        query = (
            select(Slot.number, Tenant.slug, Tenant.number)
            .join(Tenant, Tenant.id == Slot.tenant_id)
            .where(Slot.cell_id == self._cell_id)
        )
        with session_scope(CellScope(self._cell_id), engine=self._engine) as session:
            tenants = {int(slot): (slug, number) for slot, slug, number in session.execute(query)}
        told: set[str] = set()
        for slot, seen in self._seen.items():
            if slot not in tenants:
                continue
            slug, number = tenants[slot]
            code = f"{_CODE}{slug}"
            told.add(code)
            named = ", ".join(sorted(seen)[:_MOST_NAMED]) + (" and others" if len(seen) > _MOST_NAMED else "")
            self._alarms.tell_of_row(
                code,
                f"Packets from {named} to tenant {slug} are hidden with another RADIUS secret than it has, and are not "
                "answered. Enter its secret there anew: POST /v1/tenants/"
                f"{slug}/radius-secret/reveal, while one changes over ./admit secret-rotation reveal -t {slug}",
                tenant=number,
            )
        return told
