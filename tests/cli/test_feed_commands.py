import json
from pathlib import Path

import pytest

from nac.logs.feeds.event_sources import EVENT_KINDS
from tests.cli.conftest import Admit
from tests.feeds.certificates import self_signed

URL = "https://siem.corp.example/events"
T = ("-t", "alpha")


def test_webhook_is_created_shown_and_deleted(alpha: Admit) -> None:
    made = alpha.json("feed", "add-webhook", "siem", URL, *T, "--kind", "audit", "--kind", "coa", "--batch", "50")
    assert made["secret"].startswith("whsec_")
    shown = alpha.json("feed", "show", "siem", *T)
    # The secret is shown once.
    assert "secret" not in shown
    assert (shown["kind"], shown["destination"], shown["state"]) == ("webhook", "https://siem.corp.example/...", "ok")
    assert shown["settings"]["kinds"] == ["audit", "coa"]
    assert shown["settings"]["batch"] == 50
    [listed] = alpha.json("feed", "list", *T)
    assert listed == {name: shown[name] for name in listed}
    renamed = alpha.json("feed", "rename", "siem", "log", *T)
    assert (renamed["name"], renamed["destination"]) == ("log", shown["destination"])
    assert alpha.json("feed", "remove", "log", *T) == {"removed": "log"}
    assert alpha.json("feed", "list", *T) == []
    again = alpha.run("feed", "show", "siem", *T)
    assert again.exit_code == 2
    assert "Unknown feed 'siem'" in again.output


def test_syslog_is_created_with_all_options(alpha: Admit, tmp_path: Path) -> None:
    mine = self_signed("nac.example")
    for name, text in (("ca", mine.certificate), ("certificate", mine.certificate), ("key", mine.key)):
        (tmp_path / name).write_text(text)
    made = alpha.json(
        *("feed", "add-syslog", "siem", "siem.corp.example", *T, "--port", "16514", "--facility", "local3"),
        *("--app-name", "nac", "--hostname", "nac.example", "--enterprise", "64512", "--bom", "--timeout", "2"),
        *("--severity", "authentication.failure=alert", "--network", "10.0.0.0/8", "--outcome", "failure"),
        *("--ca-file", str(tmp_path / "ca"), "--client-cert", str(tmp_path / "certificate")),
        *("--client-key", str(tmp_path / "key")),
    )
    assert made["secret"] is None
    assert made["destination"] == "siem.corp.example:16514"
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
    renewed = alpha.json(
        *("feed", "rotate-secret", "siem", *T, "--client-cert", str(tmp_path / "certificate")),
        *("--client-key", str(tmp_path / "key")),
    )
    assert renewed["secret"] is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("add-webhook", "siem", "http://siem.corp.example/"), ["https://host"]),
        (("add-webhook", "No Slug", "ftp:x", "--batch", "0", "--network", "x"), ["2 mistakes", "NAME", "--batch"]),
        (("add-syslog", "siem", "a b", "--port", "0", "--app-name", "a b"), ["--port"]),
        (("add-syslog", "siem", "siem.example", "--severity", "audit"), ["KEY=VALUE"]),
        (("add-syslog", "siem", "siem.example", "--kind", "decisions"), ["authentication"]),
        (("add-webhook", "siem", URL, "--kind", "audit", "--outcome", "failure"), ["nothing would be sent"]),
        (("replay", "siem", "--from", "soon"), ["neither an age"]),
    ],
)
def test_errors_are_printed(alpha: Admit, arguments: tuple[str, ...], told: list[str]) -> None:
    result = alpha.run("feed", *arguments, *T)
    assert result.exit_code == 2
    assert all(each in result.output for each in told), result.output
    assert alpha.json("feed", "list", *T) == []


@pytest.mark.parametrize("text", ["Authorization\n", "A: x\nA: y\n", "Host: x\n", "A:\n"])
def test_invalid_headers_are_rejected(alpha: Admit, tmp_path: Path, text: str) -> None:
    (tmp_path / "headers").write_text(text)
    result = alpha.run("feed", "add-webhook", "siem", URL, *T, "--header-file", str(tmp_path / "headers"))
    assert result.exit_code == 2
    assert alpha.json("feed", "list", *T) == []


def test_each_of_several_errors_is_an_object_in_json(alpha: Admit) -> None:
    result = alpha.run("feed", "add-webhook", "No Slug", "ftp:x", "--batch", "0", *T, "--json")
    told = json.loads(result.stdout)
    assert told["error"] == "invalid-input"
    assert {mistake["place"] for mistake in told["mistakes"]} == {"NAME", "--batch"}


def test_webhook_is_updated(alpha: Admit, tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("Authorization: Bearer s3cret\n\nX-Team:  network \n")
    made = alpha.json("feed", "add-webhook", "siem", URL, *T, "--header-file", str(tmp_path / "headers"))
    assert made["settings"]["headers"] == {"Authorization": "(sealed)", "X-Team": "(sealed)"}
    refused = alpha.run("feed", "set", "siem", *T, "--url", "https://elsewhere.example/key")
    assert refused.exit_code == 2
    assert "previous server" in refused.output
    result = alpha.run(
        *("feed", "set", "siem", *T, "--url", "https://elsewhere.example/key", "--no-headers"),
        *("--kind", "coa", "--kind", "audit", "--outcome", "failure", "--timeout", "2", "--json"),
    )
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert shown["destination"] == "https://elsewhere.example/..."
    assert shown["settings"] == {
        **made["settings"],
        "url": "https://elsewhere.example/...",
        "headers": {},
        "kinds": ["coa", "audit"],
        "outcomes": ["failure"],
        "timeout_seconds": 2.0,
    }
    again = alpha.json("feed", "set", "siem", *T, "--no-kinds", "--no-outcomes", "--batch", "7")
    assert (again["settings"]["kinds"], again["settings"]["batch"]) == (made["settings"]["kinds"], 7)
    assert "s3cret" not in str([made, shown, again])


def test_syslog_is_updated(alpha: Admit) -> None:
    alpha.json("feed", "add-syslog", "siem", "siem.corp.example", *T, "--bom")
    shown = alpha.json("feed", "set", "siem", *T, "--host", "other.example", "--port", "16514", "--no-bom")
    assert shown["destination"] == "other.example:16514"
    assert shown["settings"]["bom"] is False
    assert "secret" not in shown
    result = alpha.run("feed", "set", "siem", *T, "--batch", "5", "--url", "https://siem.example/")
    assert result.exit_code == 2
    assert "2 mistakes" in result.output


def test_address_or_headers_come_from_standard_input(alpha: Admit) -> None:
    result = alpha.run("feed", "add-webhook", "siem", "-", *T, "--json", text="https://siem.example/s3cret\n")
    assert json.loads(result.stdout)["destination"] == "https://siem.example/..."
    result = alpha.run("feed", "set", "siem", *T, "--header-file", "-", "--json", text="Authorization: x\n")
    assert json.loads(result.stdout)["settings"]["headers"] == {"Authorization": "(sealed)"}
    both = "https://elsewhere.example/\nAuthorization: y\n"
    shown = alpha.run("feed", "set", "siem", *T, "--url", "-", "--header-file", "-", "--json", text=both)
    assert json.loads(shown.stdout)["destination"] == "https://elsewhere.example/"
