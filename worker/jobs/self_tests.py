"""Runs the self-tests of tenants. Self-tests wait in the database, so a broker failure loses no self-test."""

from celery import shared_task

from nac.certificates.signing import SigningContext
from nac.kit.settings import load_settings
from nac.onboarding.self_tests import runner


@shared_task(name="self_tests.run")
def run() -> None:
    settings = load_settings()
    platform = runner.SelfTestPlatform(
        SigningContext.from_settings(settings), settings.radius_host, settings.reject_delay_seconds
    )
    runner.run_waiting(platform)
