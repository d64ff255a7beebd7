"""Output of `./admit trial`."""

from datetime import timedelta

from cli.commands.trial import _row
from nac.kit.clock import utc_now
from nac.models import Tenant, Trial


def test_converted_trial_shows_no_deletion_day() -> None:
    ends_at = utc_now()
    for state, is_purged in (("running", True), ("ended", True), ("converted", False)):
        trial = Trial(state=state, ends_at=ends_at, purged_at=ends_at + timedelta(days=14))
        assert (_row(trial, Tenant(slug="acme"))["purged_at"] is not None) is is_purged
