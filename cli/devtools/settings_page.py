"""Generates docs/reference/settings.md from nac/kit/settings.py: `python -m cli.devtools.settings_page [--write]`.

A test compares page and code.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from cli.devtools.generated_page import GeneratedPage
from nac.kit.settings import PREFIX, variables
from nac.kit.text_format import format_size

# Placeholder for the folder of the reader's installation.
_VAR_DIR = Path("/var-dir")
# Sections of the page by heading.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Installation": ("VAR_DIR", "LISTEN_ADDRESS", "DEMO"),
    "Cell": (
        "CELL_NAME",
        "CELL_SLOTS",
        "CELL_FIRST_PORT",
        "CELL_DIR",
        "CELL_MEMORY_BYTES",
        "CELL_TENANT_PACKETS_PER_SECOND",
        "RADIUS_HOST",
        "REJECT_DELAY_SECONDS",
        "JOURNAL_SYNC",
        "JOURNAL_MAX_BYTES",
    ),
    "API": (
        "API_PORT",
        "PORTAL_URL",
        "API_PROCESSES",
        "API_DATABASE_WAIT_SECONDS",
        "API_REQUESTS_PER_MINUTE",
        "API_OWNER_REQUESTS_PER_MINUTE",
        "API_FAILURES_PER_MINUTE",
        "TRUSTED_PROXIES",
    ),
    "Public and enrolment ports": (
        "PUBLIC_URL",
        "ENROLMENT_URL",
        "ENROLMENT_CERTIFICATE_FILE",
        "ENROLMENT_KEY_FILE",
        "PUBLIC_REQUESTS_PER_SECOND",
        "CONNECTIONS_PER_SOURCE",
        "ENROLMENT_PROXIES",
    ),
    "Outbound connections": ("OUTBOUND_NETWORKS",),
    "Keys": ("MASTER_KEY_FILE", "AUTHORITY_KEY_STORE", "PKCS11_MODULE", "PKCS11_TOKEN", "PKCS11_PIN_FILE"),
    "Database and Redis": (
        "DATABASE_URL",
        "DATABASE_OWNER_URL",
        "DATABASE_CELL_URL",
        "DATABASE_WORKER_URL",
        "DATABASE_MAX_BYTES",
        "REDIS_URL",
    ),
    "Retention and exports": (
        "RETENTION_WINDOW",
        "EXPORT_DIR",
        "EXPORT_KEPT_DAYS",
        "EXPORT_LEAST_FREE_BYTES",
        "EXPORT_TENANT_MAX_BYTES",
    ),
    "Mail": ("MAIL_HOST", "MAIL_PORT", "MAIL_TLS", "MAIL_USER", "MAIL_PASSWORD_FILE", "MAIL_FROM"),
    "Trials": (
        "TRIALS",
        "TRIAL_DAYS",
        "TRIAL_GRACE_DAYS",
        "TRIAL_ENDPOINTS",
        "TRIAL_AUTHENTICATIONS_A_DAY",
        "TRIAL_SIGN_UPS_OF_ADDRESS",
        "TRIAL_SIGN_UPS_OF_DOMAIN",
        "TRIAL_SIGN_UPS",
        "TRIAL_TENANTS",
    ),
}
_HEAD = """\
# Settings

This page lists the environment variables that configure Admit.

Edit `var/admit.env`, then run `./admit up`:

    ADMIT_PUBLIC_URL=http://admit.example.com
    ADMIT_API_REQUESTS_PER_MINUTE=12000

* `./admit up` restarts all processes if a value has changed. Until then, the old values apply.
* `./admit up` rewrites `var/admit.env`. The file keeps your values, but not your comments.
* Variables of your shell override `var/admit.env`. `./admit up` saves the values of these variables
  to the file.
* `./admit up` always sets `ADMIT_MASTER_KEY_FILE`, `ADMIT_REDIS_URL` and the database URLs.
* Each process checks all settings when it starts, and reports every invalid value at once.
* If you set an unknown variable `ADMIT_...`, Admit reports an error with the closest known name.
* In the column `default`, `var/` stands for the folder `ADMIT_VAR_DIR`.
* Two variables apply only to `./admit api`: `ADMIT_API_URL` and `ADMIT_API_TOKEN`
  ([the API](api.md)).

`python -m cli.devtools.settings_page --write` generates this page from `nac/kit/settings.py`.
"""

# Texts below the table of a section, by heading.
_NOTES: Final[Mapping[str, str]] = {
    "API": """\
* For the limits of one address, Admit counts all addresses of an IPv6 /64 network together.
* Each process of the API counts requests in its memory, for the last 10,000 callers. A restart
  clears the counts. If you run several processes, divide the limits by the number of processes.
* Each process of the API uses up to 11 connections to PostgreSQL. The processes `public` and
  `enrolment` use up to 12 connections each.

If PostgreSQL does not respond, the following time limits apply. When PostgreSQL responds again, all
processes recover automatically.

| part | time limit |
|---|---|
| SQL statement of an HTTP request | `ADMIT_API_DATABASE_WAIT_SECONDS` + 1 s, then 503 |
| HTTP request, including waits | `ADMIT_API_DATABASE_WAIT_SECONDS` + 2 s, then 503; OCSP: `tryLater` |
| `/readyz` | 2 s, then 503 |
| agent and commands | 120 s for a statement |
| worker | 240 s for a statement; 1 hour for imports, exports and tenant files |
""",
}


def _lines() -> Iterator[str]:
    by_name = {variable.name: variable for variable in variables(_VAR_DIR)}
    yield _HEAD.rstrip("\n")
    for title, names in GROUPS.items():
        yield from ("", f"## {title}", "", "| variable | default | allowed | meaning |", "|---|---|---|---|")
        for name in names:
            variable = by_name[name]
            cells = (
                f"`{PREFIX}{name}`",
                _default(name, variable.default),
                _allowed(name, variable.allowed),
                variable.about,
            )
            yield f"| {' | '.join(cells)} |"
        if title in _NOTES:
            yield from ("", *_NOTES[title].splitlines())


def _default(name: str, text: str) -> str:
    # Texts for defaults that depend on other values.
    if not text or "`" in text:
        return text or "none"
    if name.endswith("_BYTES") and text != "0":
        return f"`{text}` ({format_size(int(text))})"
    return f"`{text.replace(str(_VAR_DIR), 'var')}`"


def _allowed(name: str, text: str) -> str:
    if name.endswith("_BYTES"):
        least, _, most = text.partition(" to ")
        return f"{format_size(int(least)) if int(least) else '0'} to {format_size(int(most))}, in bytes"
    return re.sub(r"'([^']+)'", r"`\1`", text)


PAGE = GeneratedPage("settings.md", "cli.devtools.settings_page", _lines)

if __name__ == "__main__":
    sys.exit(PAGE.run_command())
