"""Maintenance of trials."""

from celery import shared_task

from nac.certificates.signing import SigningContext
from nac.kit.settings import load_settings
from nac.onboarding.trials.lifecycle import TrialEnvironment, process_trials
from nac.onboarding.trials.service import SignUpContext


@shared_task(name="trials.keep")
def keep() -> None:
    """Create missing tenants of confirmed sign-ups, send reminders, enforce limits, and end expired trials."""
    settings = load_settings()
    signing = SigningContext.from_settings(settings)
    desk = SignUpContext(settings.trials, settings.portal_url, signing.sealer.seal)
    process_trials(TrialEnvironment(desk, signing, settings.radius_host))
