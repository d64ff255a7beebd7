"""Queue of limited size for the live events of all tenants.

If the queue is full, the tenant with the most data loses its oldest events.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    def __init__(self, *, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        # Items by tenant, as (bytes, item), oldest first. Tenants without items have no entry.
        self._waiting: dict[str, deque[tuple[int, T]]] = {}
        self._bytes: Counter[str] = Counter()
        self._length = 0
        self.size = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        """Iterate over the items by tenant, oldest first."""
        return (item for queue in self._waiting.values() for _, item in queue)

    def put(self, tenant_id: str, size: int, item: T) -> int:
        """Add an item of `size` bytes. Returns the number of dropped items.

        The dropped items are the oldest items of the tenant with the most data.
        """
        self._waiting.setdefault(tenant_id, deque()).append((size, item))
        self._bytes[tenant_id] += size
        self._length += 1
        self.size += size
        before = self._length
        while self._length > self._most:
            self._pop(max(self._waiting, key=self._length_of))
        while self.size > self._most_bytes:
            self._pop(max(self._bytes, key=self._bytes.__getitem__))
        return before - self._length

    def take(self, most: int) -> list[T]:
        """Remove and return up to `most` items. Takes the oldest item of each tenant in turn."""
        taken: list[T] = []
        while self._waiting and len(taken) < most:
            tenant_id = next(iter(self._waiting))
            taken.append(self._pop(tenant_id))
            if tenant_id in self._waiting:
                self._waiting[tenant_id] = self._waiting.pop(tenant_id)
        return taken

    def oldest(self, tenant_id: str) -> T | None:
        queue = self._waiting.get(tenant_id)
        return queue[0][1] if queue else None

    def clear(self) -> None:
        self._waiting.clear()
        self._bytes.clear()
        self._length = self.size = 0

    def _length_of(self, tenant_id: str) -> int:
        return len(self._waiting[tenant_id])

    def _pop(self, tenant_id: str) -> T:
        queue = self._waiting[tenant_id]
        size, item = queue.popleft()
        self._bytes[tenant_id] -= size
        self._length -= 1
        self.size -= size
        if not queue:
            del self._waiting[tenant_id], self._bytes[tenant_id]
        return item
