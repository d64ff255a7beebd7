import json
from pathlib import Path

import pytest

from nac.logs.feeds.event_sources import EVENT_KINDS
from tests.cli.conftest import Admit
from tests.feeds.certificates import self_signed

URL = "https://siem.corp.example/events"
ELSEWHERE = "https://elsewhere.example/key"
T = ("-t", "alpha")


def test_webhook_is_created_updated_and_deleted(alpha: Admit, tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("Authorization: Bearer s3cret\n\nX-Team:  network \n")
    chosen = ("--kind", "audit", "--kind", "coa", "--batch", "50", "--header-file", str(tmp_path / "headers"))
    made = alpha.json("feed", "add-webhook", "siem", URL, *T, *chosen)
    assert made["secret"].startswith("whsec_")
    shown = alpha.json("feed", "show", "siem", *T)
    # The secret is shown once.
    assert "secret" not in shown
    assert (shown["kind"], shown["destination"], shown["state"]) == ("webhook", "https://siem.corp.example/...", "ok")
    assert (shown["settings"]["kinds"], shown["settings"]["batch"]) == (["audit", "coa"], 50)
    assert shown["settings"]["headers"] == {"Authorization": "(sealed)", "X-Team": "(sealed)"}
    [listed] = alpha.json("feed", "list", *T)
    assert listed == {name: shown[name] for name in listed}
    refused = alpha.run("feed", "set", "siem", *T, "--url", ELSEWHERE)
    assert (refused.exit_code, "previous server" in refused.output) == (2, True)
    options = ("--no-headers", "--kind", "coa", "--kind", "audit", "--outcome", "failure", "--timeout", "2")
    changed = alpha.json("feed", "set", "siem", *T, "--url", ELSEWHERE, *options)
    assert changed["destination"] == "https://elsewhere.example/..."
    assert changed["settings"] == shown["settings"] | {
        "url": "https://elsewhere.example/...",
        "headers": {},
        "kinds": ["coa", "audit"],
        "outcomes": ["failure"],
        "timeout_seconds": 2.0,
    }
    again = alpha.json("feed", "set", "siem", *T, "--no-kinds", "--no-outcomes", "--batch", "7")
    assert (again["settings"]["kinds"], again["settings"]["batch"]) == (list(EVENT_KINDS), 7)
    renamed = alpha.json("feed", "rename", "siem", "log", *T)
    assert (renamed["name"], renamed["destination"]) == ("log", changed["destination"])
    assert "s3cret" not in str([made, shown, changed, again, renamed])
    assert alpha.json("feed", "remove", "log", *T) == {"removed": "log"}
    assert alpha.json("feed", "list", *T) == []


def test_syslog_is_created_with_all_options(alpha: Admit, tmp_path: Path) -> None:
    mine = self_signed("nac.example")
    for name, text in (("ca", mine.certificate), ("certificate", mine.certificate), ("key", mine.key)):
        (tmp_path / name).write_text(text)
    own = ("--client-cert", str(tmp_path / "certificate"), "--client-key", str(tmp_path / "key"))
    made = alpha.json(
        *("feed", "add-syslog", "siem", "siem.corp.example", *T, "--port", "16514", "--facility", "local3"),
        *("--app-name", "nac", "--hostname", "nac.example", "--enterprise", "64512", "--bom", "--timeout", "2"),
        *("--severity", "authentication.failure=alert", "--network", "10.0.0.0/8", "--outcome", "failure"),
        *("--ca-file", str(tmp_path / "ca"), *own),
    )
    assert (made["secret"], made["destination"]) == (None, "siem.corp.example:16514")
    assert made["settings"] == {
        "kinds": list(EVENT_KINDS),
        "outcomes": ["failure"],
        "networks": ["10.0.0.0/8"],
        "ca_certificate": "(PEM)",
        "timeout_seconds": 2.0,
        "host": "siem.corp.example",
        "port": 16514,
        "facility": "local3",
        "app_name": "nac",
        "hostname": "nac.example",
        "enterprise": 64512,
        "severities": {"authentication.failure": "alert"},
        "bom": True,
        "client_certificate": "(PEM)",
    }
    assert alpha.json("feed", "rotate-secret", "siem", *T, *own)["secret"] is None
    shown = alpha.json("feed", "set", "siem", *T, "--host", "other.example", "--port", "16515", "--no-bom")
    assert (shown["destination"], shown["settings"]["bom"]) == ("other.example:16515", False)
    result = alpha.run("feed", "set", "siem", *T, "--batch", "5", "--url", "https://siem.example/")
    assert (result.exit_code, "2 mistakes" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "headers", "told"),
    [
        (("add-webhook", "No Slug", "ftp:x", "--batch", "0", "--network", "x"), "", ["2 mistakes", "NAME", "--batch"]),
        (("add-syslog", "siem", "siem.example", "--severity", "audit"), "", ["KEY=VALUE"]),
        (("add-syslog", "siem", "siem.example", "--kind", "decisions"), "", ["authentication"]),
        (("replay", "siem", "--from", "soon"), "", ["neither an age"]),
        *((("add-webhook", "siem", URL, "--header-file", "-"), text, []) for text in ("A\n", "A: x\nA: y\n", "A:\n")),
    ],
)
def test_errors_are_printed(alpha: Admit, arguments: tuple[str, ...], headers: str, told: list[str]) -> None:
    result = alpha.run("feed", *arguments, *T, text=headers)
    assert result.exit_code == 2
    assert all(each in result.output for each in told), result.output
    assert alpha.json("feed", "list", *T) == []


def test_address_or_headers_come_from_standard_input(alpha: Admit) -> None:
    result = alpha.run("feed", "add-webhook", "siem", "-", *T, "--json", text="https://siem.example/s3cret\n")
    assert json.loads(result.stdout)["destination"] == "https://siem.example/..."
    result = alpha.run("feed", "set", "siem", *T, "--header-file", "-", "--json", text="Authorization: x\n")
    assert json.loads(result.stdout)["settings"]["headers"] == {"Authorization": "(sealed)"}
    both = "https://elsewhere.example/\nX-Key: y\n"
    shown = json.loads(
        alpha.run("feed", "set", "siem", *T, "--url", "-", "--header-file", "-", "--json", text=both).stdout
    )
    assert shown["destination"] == "https://elsewhere.example/"
    assert shown["settings"]["headers"] == {"X-Key": "(sealed)"}
