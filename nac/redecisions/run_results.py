"""What a run found, for people; and what is kept of that once its items are deleted: they may be millions."""

from collections import Counter
from typing import Any

from sqlalchemy.orm import Session

from nac.models import Redecision
from nac.redecisions import repository
from nac.redecisions.tallies import RedecisionTallies


def results_row(session: Session, run: Redecision) -> dict[str, Any]:
    """For JSON: by NAS, site and change, and how far it was sent."""
    if run.found is not None:
        return dict(run.found)
    tallies = RedecisionTallies(undecidable=Counter(run.undecidable))
    for found in repository.iter_found_changes(session, run):
        tallies.add(found)
    # Of the sessions that differ: found, asked, settled, withdrawn.
    return {**tallies.row(), "items": repository.count_states(session, run)}


def fold_items(session: Session, run: Redecision) -> int:
    """Keep the counts of a run that is over, without its items; returns how many these were."""
    run.found = results_row(session, run)
    session.flush()
    return repository.delete_items(session, run)
