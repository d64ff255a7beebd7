"""Tests of `./admit test --quick`: at least one file of each folder of `tests/`, except slow folders."""

import subprocess

from cli.layout import CHECKOUT

# Slow folders: their tests start an installation, two cells or the whole API.
SLOW_FOLDERS = {"clients", "isolation", "two_cells", "whole"}
# Patterns of files and folders below tests/. Together with the linters, these tests take at most 90 s on two cores.
PATTERNS = (
    "test_*.py",
    "*/test_service.py",
    "dictionary",
    "engine",
    "imports",
    "mail",
    "outbound",
    "pools",
    "profiling",
    "replica",
    "secrets",
    "snippets",
    "users",
    "vendors",
    "verifier",
    "accounts/test_grants.py",
    "agent/test_sync.py",
    "api/test_description.py",
    "api/test_forms.py",
    "api/test_proxy_protocol.py",
    "api/test_route_*.py",
    "audit/test_chains.py",
    "certificates/test_revoking.py",
    "cli/test_lint.py",
    "cli/test_output.py",
    "db/test_row_security.py",
    "db/test_sql_files.py",
    "demo/test_answers.py",
    "enrolment/test_enrolling.py",
    "events/test_documents.py",
    "exports/test_formats.py",
    "feeds/test_syslog_message.py",
    "identities/test_names.py",
    "identities/test_settings.py",
    "jobs/test_running.py",
    "journal/test_*.py",
    "links",
    "loadtest/test_tally.py",
    "pki/test_[bc]*.py",
    "pki/test_issuing.py",
    "pki/test_names.py",
    "pki/test_ocsp.py",
    "pki/test_profiles.py",
    "policies/test_schema.py",
    "policies/test_vendor_support.py",
    "radius/test_callbacks.py",
    "radius/test_failure.py",
    "radius/test_limiter.py",
    "radius/test_mab.py",
    "radius/test_requests.py",
    "redecisions/test_single_sessions.py",
    "retention/test_terms.py",
    "scep/test_fuzz.py",
    "self_tests/test_ticket.py",
    "sign_in/test_credentials.py",
    "sign_ons/test_provider_concurrency.py",
    "supplicants",
    "templates/test_document.py",
    "tenant_files/test_sealing.py",
    "trials/test_page_input.py",
    "worker/test_schedule.py",
)


def quick_files() -> list[str]:
    """Return test files that match the patterns or have uncommitted changes, as paths in the checkout."""
    return sorted({path for pattern in PATTERNS for path in files_of(pattern)} | changed_files())


def files_of(pattern: str) -> set[str]:
    """Return test files that match the pattern, or are in a matching folder."""
    places = CHECKOUT.glob(f"tests/{pattern}")
    files = [file for place in places for file in (place.rglob("test_*.py") if place.is_dir() else [place])]
    return {file.relative_to(CHECKOUT).as_posix() for file in files}


def changed_files() -> set[str]:
    """Return test files that are new or differ from the last commit; none without git."""
    command = ("git", "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", "tests")
    try:
        status = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return set()
    names = {entry[3:] for entry in status.split("\0")}
    return {name for name in names if (CHECKOUT / name).is_file() and (CHECKOUT / name).match("test_*.py")}
