"""The commands of the page about the first tenant, exactly as printed, with a complete installation and a real
supplicant.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from cli.layout import CHECKOUT
from tests.polling import until
from tests.whole.instance import Instance

pytestmark = pytest.mark.early

PAGE = CHECKOUT / "docs" / "how-to" / "first-tenant.md"
_SECONDS = 150


def commands() -> str:
    (block,) = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return block


def test_commands_of_the_page_lead_to_a_rejected_device(instance: Instance, tmp_path: Path) -> None:
    assert instance.admit("msp", "create", "acme").returncode == 0
    made = instance.admit("token", "create", "walk", "--msp", "acme", "--role", "msp-admin", "--days", "1", "--json")
    token = re.search(r"admit_[a-z0-9]+_[a-z0-9]+", made.stdout)
    assert token is not None, made.stdout + made.stderr
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "TOKEN": token[0]}
    environment |= {"API": f"http://127.0.0.1:{instance.api_port}"}
    walked = subprocess.run(
        ["bash", "-c", commands()],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    told = walked.stdout + walked.stderr
    assert walked.returncode == 0, told
    for line in (
        "laptop: SUCCESS",
        "printer: Access-Accept",
        "resumed: Handshake finished - resumed=1, then Access-Reject",
        "laptop: Access-Reject",
    ):
        assert line in walked.stdout.splitlines(), told
    instance.wait_until_shipped()
    until(lambda: instance.query("SELECT 1 FROM sessions WHERE mac = '00005e005301'"), "the printer's session")
    laptop = instance.query(
        "SELECT verdict, reason, resumed FROM auth_log WHERE mac = '00005e005302' GROUP BY 1, 2, 3 ORDER BY 1, 3"
    )
    assert laptop == [
        ("deny", "certificate-revoked", False),
        ("deny", "certificate-revoked", True),
        ("permit", "rule-permitted", False),
        ("permit", "rule-permitted", True),
    ]
    audited = {action for (action,) in instance.query("SELECT action FROM audit_log WHERE actor LIKE 'token:%%'")}
    assert {"secret.reveal", "policy.publish", "certificate.issue", "certificate.revoke"} <= audited
