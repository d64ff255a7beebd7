"""Counts the right, wrong and missing responses of a run, and their latencies, for each kind of exchange."""

from collections import Counter
from dataclasses import dataclass, field
from math import exp, log

# Each bucket is 2 % larger than the previous one, from 1 us to 100 s. So a computed percentile is at most 2 % too high.
_BUCKETS_PER_E = 50
_BUCKETS = int(log(1e8) * _BUCKETS_PER_E) + 1


class LatencyHistogram:
    """Latencies in 921 counters, so that memory does not grow with the length of the run."""

    __slots__ = ("count", "counts", "max_seconds")

    def __init__(self) -> None:
        self.counts = [0] * _BUCKETS
        self.count = 0
        self.max_seconds = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        if seconds > self.max_seconds:
            self.max_seconds = seconds
        self.counts[min(int(log(max(seconds * 1e6, 1.0)) * _BUCKETS_PER_E), _BUCKETS - 1)] += 1

    def percentile(self, share: float) -> float:
        """Return the latency in seconds that `share` of the responses (0 to 1) did not exceed; 0 without responses."""
        wanted, seen = share * self.count, 0
        for bucket, count in enumerate(self.counts):
            seen += count
            if count and seen >= wanted:
                return min(exp((bucket + 1) / _BUCKETS_PER_E) / 1e6, self.max_seconds)
        return self.max_seconds

    def merge(self, other: "LatencyHistogram") -> None:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.count += other.count
        self.max_seconds = max(self.max_seconds, other.max_seconds)


@dataclass(slots=True)
class Tally:
    """Counters of one kind of exchange, such as "mab", "acct-start" or "eap-tls-resumed"."""

    right: int = 0
    # Number of unexpected responses by fault text.
    wrong: Counter[str] = field(default_factory=Counter)
    # Number of requests without a response after all retransmissions.
    unanswered: int = 0
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)

    @property
    def finished(self) -> int:
        return self.right + self.wrong.total() + self.unanswered

    def merge(self, other: "Tally") -> None:
        self.right += other.right
        self.wrong.update(other.wrong)
        self.unanswered += other.unanswered
        self.latency.merge(other.latency)


@dataclass(slots=True)
class RunResult:
    seconds: float = 0.0
    requests: int = 0
    retransmissions: int = 0
    # Number of invalid replies by fault, and number of replies that arrived too late.
    forged: Counter[str] = field(default_factory=Counter)
    late: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict)

    def tally(self, kind: str) -> Tally:
        tally = self.tallies.get(kind)
        if tally is None:
            tally = self.tallies[kind] = Tally()
        return tally

    @property
    def right(self) -> int:
        return sum(tally.right for tally in self.tallies.values())

    @property
    def finished(self) -> int:
        return sum(tally.finished for tally in self.tallies.values())

    @property
    def rate(self) -> float:
        """Return the correct responses per second."""
        return self.right / self.seconds if self.seconds else 0.0

    def faults(self) -> Counter[str]:
        """Return the number of faults by fault text; empty if every response was as expected."""
        found: Counter[str] = Counter()
        for kind, tally in self.tallies.items():
            found.update({f"{kind}: {fault}": count for fault, count in tally.wrong.items()})
            if tally.unanswered:
                found[f"{kind}: unanswered"] = tally.unanswered
        found.update({f"reply dropped: {fault}": count for fault, count in self.forged.items()})
        return found

    def merge(self, other: "RunResult", *, parallel: bool = False) -> None:
        """Add the counters of another run to this run.

        With `parallel`, the other run was in another process at the same time. Otherwise the two runs were one after
        the other.
        """
        self.seconds = max(self.seconds, other.seconds) if parallel else self.seconds + other.seconds
        self.requests += other.requests
        self.retransmissions += other.retransmissions
        self.forged.update(other.forged)
        self.late += other.late
        for kind, tally in other.tallies.items():
            self.tally(kind).merge(tally)
