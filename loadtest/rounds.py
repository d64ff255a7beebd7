"""Interleaved rounds: A B C A B C, so that a busy minute of a shared machine meets every system alike."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from loadtest.systems import SystemUnderTest, WorkResult, measure_round, rehearse

# (work, system's name) -> its rounds.
Results = dict[tuple[str, str], WorkResult]


def run_rounds(
    plan: Mapping[str, Sequence[SystemUnderTest]], *, rounds: int, seconds: float, tell: Callable[[str], None]
) -> Results:
    """`plan` names for each work the systems to give it to, in turns."""
    for system, works in _works_by_system(plan):
        tell(f"rehearsing {system.name}: {', '.join(works)}")
        rehearse(system, works)
    results: Results = {}
    for work, systems in plan.items():
        for number in range(1, rounds + 1):
            for system in systems:
                sample = measure_round(system, work, seconds)
                result = results.setdefault((work, system.name), WorkResult(work, system.name))
                result.samples.append(sample)
                tell(f"{work} {number}/{rounds} {system.name}: {sample.rate:,.0f}/s")
    return results


def _works_by_system(plan: Mapping[str, Sequence[SystemUnderTest]]) -> Iterable[tuple[SystemUnderTest, Sequence[str]]]:
    systems = {system.name: system for systems in plan.values() for system in systems}
    for name, system in systems.items():
        yield system, [work for work, chosen in plan.items() if any(one.name == name for one in chosen)]
