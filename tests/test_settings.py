from pathlib import Path

import pytest

from nac.kit.settings import SettingsError, load_settings


def test_var_dir_alone_gives_the_defaults():
    settings = load_settings({"ADMIT_VAR_DIR": "/srv/admit"})
    assert settings.cell_dir == Path("/srv/admit/cells/cell-1")
    assert settings.master_key_file == Path("/srv/admit/keys/master.key")
    assert settings.cell_ports == range(18120, 18184)
    assert (settings.journal_sync, settings.pkcs11_module) == ("50ms", None)
    assert "loopback" in settings.outbound_reach.why_not("127.0.0.1")
    settings = load_settings({"ADMIT_VAR_DIR": "/x", "ADMIT_OUTBOUND_NETWORKS": "127.0.0.1 !10.0.0.0/8"})
    assert str(settings.outbound_reach) == "127.0.0.1/32 !10.0.0.0/8"


@pytest.mark.parametrize(
    ("given", "are_offered"),
    [
        ({}, False),
        ({"DEMO": "yes"}, True),
        ({"DEMO": "yes", "LISTEN_ADDRESS": "::1"}, True),
        ({"DEMO": "no"}, False),
        ({"DEMO": "yes", "LISTEN_ADDRESS": "198.51.100.1"}, False),
        ({"DEMO": "yes", "LISTEN_ADDRESS": "192.0.2.1"}, False),
        ({"DEMO": "yes", "PORTAL_URL": "https://admit.example"}, False),
        ({"DEMO": "yes", "TRIALS": "no"}, False),
        ({"DEMO": "no", "LISTEN_ADDRESS": "198.51.100.1", "TRIALS": "yes"}, True),
    ],
)
def test_trials_need_a_private_demo(given: dict[str, str], are_offered: bool):
    variables = {f"ADMIT_{name}": value for name, value in given.items()}
    assert load_settings({"ADMIT_VAR_DIR": "/x"} | variables).trials.offered is are_offered


def test_all_errors_are_reported_at_once():
    wrong = {
        "API_PORT": "70000",
        "CELL_NAME": "Cell 1",
        "DATABASE_URL": "mysql://x",
        "JOURNAL_SYNC": "never",
        "LISTEN_ADDRESS": "localhost",
        "OUTBOUND_NETWORKS": "10.1.0.0/16 !10.1.0.9/24",
        "REJECT_DELAY_SECONDS": "-1",
        "VAR_DIR": "relative",
    }
    with pytest.raises(SettingsError) as caught:
        load_settings({f"ADMIT_{name}": value for name, value in wrong.items()}, required=("REDIS_URL",))
    named = [mistake.split()[0].removeprefix("ADMIT_") for mistake in caught.value.mistakes]
    assert sorted(named) == sorted([*wrong, "REDIS_URL"])


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("CELL_SLOTS", "300", "301"),
        ("RETENTION_WINDOW", "22:00-04:30", "22-4"),
        ("RETENTION_WINDOW", "00:00-23:59", "01:00-24:00"),
        ("EXPORT_KEPT_DAYS", "365", "0"),
        ("CELL_SLOTS", "1", "0"),
        ("CELL_SLOTS", "8", "8.0"),
        ("CELL_FIRST_PORT", "1024", "1023"),
        ("REJECT_DELAY_SECONDS", "2", "0.5"),
        ("REJECT_DELAY_SECONDS", "10", "10.1"),
        ("LISTEN_ADDRESS", "::1", "1.2.3"),
        ("REDIS_URL", "unix:///run/redis.sock", "tcp://x"),
        ("JOURNAL_MAX_BYTES", "1048576", "1048575"),
        ("CELL_MEMORY_BYTES", "0", "-1"),
        ("CELL_TENANT_PACKETS_PER_SECOND", "0", "-1"),
        ("PUBLIC_REQUESTS_PER_SECOND", "0", "-1"),
        ("TRUSTED_PROXIES", "10.0.0.0/8, 2001:db8::1", "10.0.0.1/8"),
        ("TRUSTED_PROXIES", "127.0.0.1", "localhost"),
        ("ENROLMENT_PROXIES", "", "all"),
        ("CONNECTIONS_PER_SOURCE", "0", "many"),
    ],
)
def test_value_at_the_limit_passes_and_beyond_fails(name: str, good: str, bad: str):
    load_settings({"ADMIT_VAR_DIR": "/x", f"ADMIT_{name}": good})
    with pytest.raises(SettingsError, match=f"ADMIT_{name} is {bad!r}"):
        load_settings({"ADMIT_VAR_DIR": "/x", f"ADMIT_{name}": bad})


@pytest.mark.parametrize(
    ("variables", "name", "good", "bad", "message"),
    [
        # radiusd's descriptors, and the port range.
        ({"ADMIT_LISTEN_ADDRESS": "::"}, "ADMIT_CELL_SLOTS", "190", "191", "at most 190"),
        ({}, "ADMIT_CELL_FIRST_PORT", "65470", "65472", "ports up to 65537"),
    ],
)
def test_slots_beyond_descriptors_or_ports_are_rejected(variables, name, good, bad, message):
    load_settings({"ADMIT_VAR_DIR": "/x", name: good, **variables})
    with pytest.raises(SettingsError, match=message):
        load_settings({"ADMIT_VAR_DIR": "/x", name: bad, **variables})


def test_key_store_location_needs_all_of_its_settings():
    token = {
        "ADMIT_PKCS11_MODULE": "/usr/lib/softhsm/libsofthsm2.so",
        "ADMIT_PKCS11_TOKEN": "admit",
        "ADMIT_PKCS11_PIN_FILE": "/etc/admit/pin",
    }
    whole = token | {"ADMIT_VAR_DIR": "/x", "ADMIT_AUTHORITY_KEY_STORE": "pkcs11"}
    assert load_settings(whole).pkcs11_module == Path("/usr/lib/softhsm/libsofthsm2.so")
    for missing in token:
        with pytest.raises(SettingsError, match="must be set together"):
            load_settings({name: value for name, value in whole.items() if name != missing})


def test_unknown_setting_error_names_the_nearest():
    others = {"ADMIT_OUTBOUND_NETWORK": "!10.0.0.0/8", "ADMIT_ZZZZZZ": "1", "ADMITTED": "yes"}
    with pytest.raises(SettingsError) as caught:
        load_settings({"ADMIT_VAR_DIR": "/x", **others})
    assert caught.value.mistakes == (
        "ADMIT_OUTBOUND_NETWORK is not a setting; did you mean ADMIT_OUTBOUND_NETWORKS?",
        "ADMIT_ZZZZZZ is not a setting",
    )
