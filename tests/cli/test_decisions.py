"""`./admit decisions`: how a help desk sees a rejection. `./admit watch` where it cannot start.

tests/two_cells/test_live_agent.py covers `watch` with a real agent.
"""

import re
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from cli.commands.watch import _sentence
from cli.remote.results import name_commands
from nac.engine.reasons import REASONS
from nac.kit.clock import utc_now
from nac.logs.events.live_stream import StreamNotice
from nac.models import AuthLog, Site, Tenant
from tests.cli.conftest import Admit
from tests.factories.rows import make_row


def remedy_of(code: str) -> str:
    """Advice of a reason, with commands."""
    return str(name_commands({"remedy": str(REASONS[code].advice)})["remedy"])


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def log_decisions(owner_engine: Engine, *rows: dict[str, Any]) -> None:
    with Session(owner_engine) as session, session.begin():
        tenant_id = session.scalars(select(Tenant.id)).one()
        for row in rows:
            make_row(session, AuthLog.__table__, tenant_id, **row)


@pytest.fixture
def logged(alpha: Admit, owner_engine: Engine) -> Admit:
    common = {"rule_name": "", "vlan": "", "suppressed": 0}
    blocked = {"permitted": False, "reason": "endpoint-blocked", "detail": "at the door", "method": "mab"}
    blocked |= {"mac": "001122334455", "identity": "0011.2233.4455", "nas_identifier": "core-1", "nas_port": ""}
    permitted = {"permitted": True, "reason": "rule-permitted", "detail": "", "method": "pap"}
    permitted |= {"identity": "Ann\x1b[2J", "vlan": "40", "rule_name": "Staff"}
    permitted["reply"] = [["Tunnel-Type:1", ":=", "VLAN"], ["Framed-IP-Address", ":=", "10.1.0.21"]]
    ages = ((blocked, timedelta(minutes=90)), (permitted, timedelta(minutes=1)))
    log_decisions(owner_engine, *(common | row | {"at": utc_now() - age} for row, age in ages))
    return alpha


def test_rejection_has_title_detail_and_advice(logged: Admit) -> None:
    shown = logged.run("decisions", "-t", "alpha", "--mac", "00-11-22-33-44-55").stdout
    first, why, *advice = shown.splitlines()
    assert "deny    00:11:22:33:44:55  mab, from core-1" in first
    assert why.strip() == "Device is blocked (endpoint-blocked), at the door"
    assert " ".join(map(str.strip, advice)) == f"-> {remedy_of('endpoint-blocked')}"


def test_newest_come_first_and_control_characters_are_escaped(logged: Admit) -> None:
    shown = logged.run("decisions", "-t", "alpha").stdout
    assert "VLAN 40, 10.1.0.21, pap, Ann\\x1b[2J" in shown.splitlines()[0]
    assert "\x1b" not in shown
    assert "rule 'Staff'" in shown.splitlines()[1]


def test_json_has_advice_only_for_rejections(logged: Admit) -> None:
    permitted, rejected = logged.json("decisions", "-t", "alpha")
    assert (permitted["addresses"], rejected["addresses"]) == (["10.1.0.21"], [])
    assert (rejected["verdict"], rejected["title"]) == ("deny", "Device is blocked")
    assert rejected["remedy"] == remedy_of("endpoint-blocked")
    shown = [permitted[name] for name in ("verdict", "vlan", "rule", "remedy")]
    assert shown == ["permit", "40", "Staff", ""]


def test_options_filter_the_list(logged: Admit) -> None:
    for options, count in {
        "--limit 1": 1,
        "--since 1h": 1,
        "--since 2h": 2,
        "--since 2001-02-03": 2,
        "--reason endpoint-blocked": 1,
        "--user nobody": 0,
        "--rejects": 1,
        "--nas CORE-1": 1,
        "--site main": 0,
    }.items():
        assert len(logged.json("decisions", "-t", "alpha", *options.split())) == count, options


def test_eap_tls_shows_certificate_and_port(alpha: Admit, owner_engine: Engine) -> None:
    row = {"method": "eap-tls", "identity": "anonymous", "certificate_serial": "0a1b", "nas_identifier": "core-1"}
    facts = {"certificate.common_name": ["laptop-1\x1b[2J"]}
    log_decisions(owner_engine, row | {"nas_port": "ge-0/0/1", "request": facts})
    first, certificate, *_ = alpha.run("decisions", "-t", "alpha", "--user", "0A:1B").stdout.splitlines()
    assert first.endswith("eap-tls, anonymous, from core-1 port ge-0/0/1")
    assert certificate.strip() == "certificate laptop-1\\x1b[2J, serial 0a1b"
    assert alpha.json("decisions", "-t", "alpha")[0]["certificate"] == "laptop-1\x1b[2J"


def test_outer_name_is_shown_if_different(alpha: Admit, owner_engine: Engine) -> None:
    row = {"method": "eap-ttls-pap", "nas_identifier": "core-1", "nas_port": ""}
    row |= {"request": {"radius.User-Name": ["anonymous"]}}
    log_decisions(owner_engine, *(row | {"identity": identity} for identity in ("anna", "anonymous")))
    first = alpha.run("decisions", "-t", "alpha", "--user", "anna").stdout.splitlines()[0]
    assert first.endswith("eap-ttls-pap, anna (anonymous outside), from core-1")
    assert alpha.json("decisions", "-t", "alpha", "--user", "anna")[0]["outer_user"] == "anonymous"
    first = alpha.run("decisions", "-t", "alpha", "--user", "anonymous").stdout.splitlines()[0]
    assert first.endswith("eap-ttls-pap, anonymous, from core-1")


def test_limit_beyond_a_page_returns_all_decisions(logged: Admit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.commands.decisions._PAGE", 1)
    assert len(logged.json("decisions", "-t", "alpha")) == 2
    assert len(logged.json("decisions", "-t", "alpha", "--limit", "1")) == 1


def test_invalid_option_value_names_the_option(alpha: Admit) -> None:
    for option, value in (("--since", "yesterday"), ("--reason", "x"), ("--limit", "0")):
        result = alpha.run("decisions", "-t", "alpha", option, value)
        assert (result.exit_code, option.strip("-") in result.stderr) == (2, True), option


MONITORED = [
    ("deny", "site", "Guests", "would be denied by rule 'Guests'; admitted because site main is in monitor mode"),
    ("deny", "rule", "Guests", "would be denied by rule 'Guests'; admitted because rule 'Guests' is in monitor mode"),
    ("deny", "site", "", "would be denied; admitted because site main is in monitor mode"),
    ("permit", "site", "Staff", "would be admitted by rule 'Staff'; admitted because site main is in monitor mode"),
    ("quarantine", "site", "S", "would be put into quarantine by rule 'S'; admitted because site main is in monitor"),
]


@pytest.mark.parametrize(("verdict", "by", "rule", "words"), MONITORED)
def test_monitor_mode_shows_the_would_be_result(alpha: Admit, owner_engine: Engine, verdict, by, rule, words) -> None:
    with Session(owner_engine) as session:
        site_id = session.scalars(select(Site.id)).one()
    values = {"permitted": True, "verdict": verdict, "monitored": by, "rule_name": rule, "reason": "rule-denied"}
    log_decisions(owner_engine, values | {"site_id": site_id}, {"permitted": True, "verdict": "permit"})
    first, *more = alpha.run("decisions", "-t", "alpha", "--monitored").stdout.splitlines()
    assert "  permit  " in first
    assert words in " ".join(line.strip() for line in more)
    (row,) = alpha.json("decisions", "-t", "alpha", "--monitored")
    assert (row["verdict"], row["permitted"], row["monitored_by"]) == (verdict, True, by)
    assert alpha.json("decisions", "-t", "alpha", "--rejects") == []


def test_quarantine_is_shown(alpha: Admit, owner_engine: Engine) -> None:
    values = {"permitted": True, "verdict": "quarantine", "reason": "rule-quarantined", "rule_name": "Sick"}
    log_decisions(owner_engine, values)
    first, why, *_ = alpha.run("decisions", "-t", "alpha").stdout.splitlines()
    assert "  quarantine  " in first
    assert why.strip().startswith("Put into quarantine by a rule (rule-quarantined), rule 'Sick'")
    (row,) = alpha.json("decisions", "-t", "alpha")
    assert (row["verdict"], row["permitted"], row["monitored_by"], row["remedy"]) == ("quarantine", True, None, "")


def test_empty_result_is_reported(alpha: Admit) -> None:
    assert alpha.run("decisions", "-t", "alpha").stdout == "none\n"


def test_help_desk_texts_avoid_jargon() -> None:
    jargon = re.compile(r"OpenSSL|FreeRADIUS|radiusd|handshake|\bEKU\b|\bX509|TLS alert|unknown_ca|rlm_")
    # Technical terms may stand in parentheses.
    plain = {code: re.sub(r"\([^)]*\)", "", f"{each.title}. {each.advice}") for code, each in REASONS.items()}
    assert [code for code, text in plain.items() if jargon.search(text)] == []
    assert "certificate" in REASONS["fallback-denied"].advice


def test_watch_is_rejected_before_it_starts(alpha: Admit, monkeypatch: pytest.MonkeyPatch) -> None:
    without = alpha.run("watch", "-t", "alpha")
    assert (without.exit_code, "ADMIT_REDIS_URL" in without.stderr) == (1, True)
    monkeypatch.setenv("ADMIT_REDIS_URL", "unix:///nonexistent/redis.sock")
    for option, value in (("--mac", "aa:bb"), ("--site", "nowhere"), ("--kind", "prophecy")):
        result = alpha.run("watch", "-t", "alpha", option, value)
        assert (result.exit_code, value in result.stderr) == (2, True), option


@pytest.mark.parametrize(
    ("notice", "said"),
    [
        (StreamNotice("listening"), "Listening to alpha."),
        (StreamNotice("silent"), "./admit status"),
        (StreamNotice("lost"), "Lost"),
        (StreamNotice("back"), "Reconnected"),
        (StreamNotice("left-out", count=37), "37 events were skipped"),
        (StreamNotice("left-out"), "may be missing"),
    ],
)
def test_watch_status_messages_are_printed(notice: StreamNotice, said: str) -> None:
    assert said in _sentence(notice, "alpha")
