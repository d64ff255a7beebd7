"""`./admit endpoint` and `endpoint-group`: output for users and scripts, and exit statuses."""

import json

import psycopg
import pytest

from cli.commands._endpoint_rows import posture_rows

OF = ("-t", "alpha")
BROTHER, AXIS, PHONE = "00:1b:a9:01:02:03", "00:40:8c:01:02:03", "02:aa:bb:cc:dd:ee"


@pytest.fixture
def seen(alpha, database):
    """Three devices that the worker has turned into endpoints."""
    with psycopg.connect(database.owner_url) as connection:
        for mac, vendor, profile in ((BROTHER, "Brother", "printer"), (AXIS, "Axis", "camera"), (PHONE, "", "mobile")):
            connection.execute(
                "INSERT INTO endpoints (tenant_id, mac, status, vendor, found_profile, found_confidence, found_why) "
                "SELECT id, %s, 'discovered', %s, %s, 75, %s FROM tenants",
                (
                    mac,
                    vendor,
                    profile,
                    json.dumps([{"profile": profile, "field": "vendor", "value": vendor, "weight": 75}]),
                ),
            )
            connection.execute(
                "INSERT INTO endpoint_sightings "
                "(tenant_id, mac, last_seen_at, site_id, nas_port, method, identity, permitted, times) "
                "SELECT tenant_id, %s, now(), id, 'Gi1/0/7', 'mab', 'x', false, 3 FROM sites",
                (mac,),
            )
        connection.execute(
            "INSERT INTO endpoint_evidence SELECT id, %s, 'dhcp', 'hostname', 'BRW1', now() FROM tenants", (BROTHER,)
        )
    return alpha


def macs(found):
    return [row["mac"] for row in found]


def test_inbox_shows_what_decisions_use(seen):
    rows = seen.json("endpoint", "inbox", *OF)
    assert macs(rows) == [BROTHER, AXIS, PHONE]
    assert [row["random"] for row in rows] == [False, False, True]
    first = {
        name: rows[0][name]
        for name in ("vendor", "profile", "confidence", "site", "port", "method", "permitted", "times")
    }
    assert first == {
        "vendor": "Brother",
        "profile": "printer",
        "confidence": 75,
        "site": "main",
        "port": "Gi1/0/7",
        "method": "mab",
        "permitted": False,
        "times": 3,
    }
    assert macs(seen.json("endpoint", "inbox", *OF, "--profile", "camera", "--site", "main")) == [AXIS]
    assert macs(seen.json("endpoint", "inbox", *OF, "--after", BROTHER, "--limit", "1")) == [AXIS]
    assert seen.json("endpoint", "list", *OF) == []
    assert macs(seen.json("endpoint", "list", *OF, "--status", "discovered")) == [BROTHER, AXIS, PHONE]


def test_many_are_classified_after_a_preview(seen):
    seen.json("endpoint-group", "add", "things", *OF)
    wanted = ("endpoint", "classify", *OF, "--no-random", "--approve", "--group", "things")
    assert macs(seen.json(*wanted, "--dry-run")) == [BROTHER, AXIS]
    assert len(seen.json("endpoint", "inbox", *OF)) == 3
    assert macs(seen.json(*wanted)) == [BROTHER, AXIS]
    assert macs(seen.json("endpoint", "inbox", *OF)) == [PHONE]
    assert macs(seen.json("endpoint", "list", *OF, "--group", "things")) == [BROTHER, AXIS]
    seen.json("endpoint", "classify", PHONE, *OF, "--ignore")
    assert seen.json("endpoint", "inbox", *OF) == []


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("classify", PHONE, *OF, "--approve"), 2, "random"),
        (("add", PHONE, *OF), 2, "--allow-random"),
        (("classify", *OF, "--approve"), 2, "No device selected"),
        (("classify", BROTHER, *OF), 2, "--approve, --block or --ignore"),
        (("classify", "00:1b:a9:09:09:09", *OF, "--block"), 2, "Not in the inbox"),
        (("set", "00:1b:a9:09:09:09", *OF, "--name", "x"), 2, "does not exist"),
        (("set", BROTHER, *OF, "--psk", "short"), 2, "8 to 63"),
        (("set", BROTHER, *OF, "--psk", "long enough", "--no-psk"), 2, "one of --psk"),
        (("set", BROTHER, *OF, "--attribute", "floor"), 2, "KEY=VALUE"),
        (("posture", "set", BROTHER, *OF, "compliant=true"), 2, "mdm.compliant"),
        (("posture", "set", BROTHER, *OF, "mdm.compliant"), 2, "NAME=VALUE"),
        (("posture", "set", BROTHER, *OF, "mdm.x=1", "--lifetime", "long"), 2, "is not a duration"),
        (("list", *OF, "--after", "x"), 2, "after"),
        (("show", "x", *OF), 2, "MAC address"),
    ],
)
def test_failed_operations_have_their_exit_status(seen, arguments, status, said):
    done = seen.run("endpoint", *arguments)
    assert done.exit_code == status
    assert said in done.stderr
    assert "long enough" not in done.stderr


def test_show_prints_all_known_values_and_sources(seen):
    seen.json("endpoint", "posture", "set", BROTHER, *OF, "mdm.compliant=true", "mdm.build=7", "--source", "intune")
    shown = seen.json("endpoint", "show", BROTHER, *OF)
    assert (shown["profile"], shown["confidence"], shown["identity"], shown["psk"]) == ("printer", 75, "x", False)
    assert shown["why"] == [{"profile": "printer", "field": "vendor", "value": "Brother", "weight": 75}]
    assert [(each["key"], each["value"]) for each in shown["evidence"]] == [("hostname", "BRW1")]
    assert {name: each["value"] for name, each in shown["posture"].items()} == {"mdm.compliant": True, "mdm.build": 7}
    table = seen.run("endpoint", "show", BROTHER, *OF).stdout
    for line in ("printer: vendor 'Brother' (75 %)", "dhcp hostname", "BRW1", "true, from intune, valid until 20"):
        assert line in table


def test_unrepeated_posture_is_shown_as_stale():
    shown = posture_rows({"mdm.compliant": {"value": True, "source": "intune", "at": 0, "until": 60}})
    assert shown == {"mdm.compliant": "true, from intune, stale since 1970-01-01T00:01:00+00:00"}


def test_set_updates_only_given_fields(seen):
    seen.json("endpoint", "add", BROTHER, *OF, "--owner", "IT", "--attribute", "floor=2")
    seen.json("endpoint", "set", BROTHER, *OF, "--name", "Printer", "--until", "2099-01-31", "--profile", "camera")
    shown = seen.json("endpoint", "show", BROTHER, *OF)
    assert (shown["name"], shown["owner"], shown["attributes"]) == ("Printer", "IT", {"floor": "2"})
    assert (shown["profile"], shown["confidence"], shown["profile_set"]) == ("camera", 100, True)
    assert shown["valid_until"] == "2099-01-31T00:00:00+00:00"
    seen.json("endpoint", "set", BROTHER, *OF, "--no-until", "--attribute", "floor=", "--profile", "")
    shown = seen.json("endpoint", "show", BROTHER, *OF)
    assert (shown["valid_until"], shown["attributes"], shown["profile"]) == (None, {}, "printer")


def test_generated_passphrase_is_shown_once(seen, database):
    seen.json("endpoint", "add", BROTHER, *OF)
    made = seen.json("endpoint", "set", BROTHER, *OF, "--generate-psk")["psk"]
    assert len(made) == 20
    shown = seen.json("endpoint", "show", BROTHER, *OF)
    assert shown["psk"] is True
    assert made not in json.dumps(shown)
    with psycopg.connect(database.owner_url) as connection:
        (sealed, audited) = connection.execute(
            "SELECT psk_sealed, (SELECT string_agg(a::text, ' ') FROM audit_log a) FROM endpoints WHERE mac = %s",
            (BROTHER,),
        ).fetchone()
    assert made.encode() not in sealed
    assert made not in audited
    asked = seen.run("endpoint", "set", BROTHER, *OF, "--psk", text="typed by hand\n")
    assert asked.exit_code == 0
    assert "typed by hand" not in asked.stdout


def test_group_has_a_rule_and_a_passphrase(seen, tmp_path):
    rule = tmp_path / "rule.json"
    rule.write_text('{"attribute": "endpoint.profile", "operator": "equals", "value": "printer"}')
    seen.json("endpoint-group", "add", "printers", *OF)
    made = seen.json("endpoint-group", "set", "printers", *OF, "--rule", str(rule), "--generate-psk")
    assert (json.loads(made["rule"])["value"], len(made["psk"])) == ("printer", 20)
    (listed,) = seen.json("endpoint-group", "list", *OF)
    assert (listed["name"], listed["psk"]) == ("printers", True)
    rule.write_text('{"attribute": "endpoint.group", "operator": "equals", "value": "printers"}')
    refused = seen.run("endpoint-group", "set", "printers", *OF, "--rule", str(rule))
    assert refused.exit_code == 2
    assert "cannot read groups" in refused.stderr
    rule.write_text("{")
    assert seen.run("endpoint-group", "set", "printers", *OF, "--rule", str(rule)).exit_code == 2
    assert seen.json("endpoint-group", "set", "printers", *OF, "--no-rule", "--no-psk")["rule"] == ""


def test_exported_file_can_be_imported(seen, tmp_path):
    file = tmp_path / "devices.csv"
    file.write_text(f"mac,name,groups,attribute.floor\n{BROTHER},Printer,printers;all,2\n{AXIS},Camera,,\n")
    refused = seen.run("endpoint", "import", str(file), *OF)
    assert refused.exit_code == 2
    assert "file: 2 mistakes; nothing was stored\n  line 2: groups: Unknown group 'all'" in refused.stderr
    refused = seen.run("endpoint", "import", str(file), *OF, "--json")
    assert refused.exit_code == 2
    told = json.loads(refused.stdout)
    assert told["valid"] is False
    assert [mistake["place"] for mistake in told["mistakes"]] == ["line 2: groups"] * 2
    done = seen.json("endpoint", "import", str(file), *OF, "--make-groups")
    assert done == {"added": 0, "changed": 2, "groups_made": ["all", "printers"]}
    for form in ("csv", "jsonl"):
        exported = seen.run("endpoint", "export", *OF, "--format", form)
        assert exported.exit_code == 0
        file.write_text(exported.stdout)
        for mac in (BROTHER, AXIS):
            seen.json("endpoint", "remove", mac, *OF)
        assert seen.json("endpoint", "import", str(file), *OF)["added"] == 2
        shown = seen.json("endpoint", "show", BROTHER, *OF)
        assert (shown["name"], shown["groups"], shown["attributes"]) == ("Printer", ["all", "printers"], {"floor": "2"})


def test_non_text_file_is_rejected(seen, tmp_path):
    file = tmp_path / "devices.csv"
    file.write_bytes(b"mac\n\xff\n")
    done = seen.run("endpoint", "import", str(file), *OF)
    assert (done.exit_code, "not UTF-8" in done.stderr) == (2, True)
