"""Summary of a run's differences, kept after its items (up to millions) are deleted."""

from collections import Counter
from typing import Any

from sqlalchemy.orm import Session

from nac.models import Redecision
from nac.redecisions import repository
from nac.redecisions.tallies import RedecisionTallies


def results_row(session: Session, run: Redecision) -> dict[str, Any]:
    """Return counts by NAS, site, change and state, for JSON."""
    if run.found is not None:
        return dict(run.found)
    tallies = RedecisionTallies(undecidable=Counter(run.undecidable))
    for found in repository.iter_found_changes(session, run):
        tallies.add(found)
    # Sessions with differences: found, asked, settled, withdrawn.
    return {**tallies.row(), "items": repository.count_states(session, run)}


def fold_items(session: Session, run: Redecision) -> int:
    """Store the counts of a finished run and delete its items. Returns their number."""
    run.found = results_row(session, run)
    session.flush()
    return repository.delete_items(session, run)
