"""The parser of each file format returns rows, notes about skipped parts, errors with lines, or a rejection."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nac.kit.bulk_rows import MAX_REPORTED, RowMistake, RowReader, select_reported
from nac.kit.errors import InvalidInput
from nac.onboarding.imports import service
from nac.onboarding.imports.document import MAX_FILE_BYTES, ImportDocument
from nac.onboarding.imports.table import escape_formula, unescape_formula
from tests.run_depth import examples

CLIENTS = """\
# Ours.
client north {
    ipaddr = 192.0.2.7   # the core
    secret = "a secret"
    nas_type = cisco
    limit {
        max_connections = 16
    }
    coa_server = home
}
client 192.0.2.8 { secret = 'long-enough-to-be-taken', shortname = sw-8 }
client everything {
    ipaddr = 198.51.100.0/24
    secret = testing123
}
client six {
    ipv6addr = 2001:db8::7
    secret = "another-long-enough-one"
    require_message_authenticator = no
}
clients per_socket {
    client inner { ipaddr = 192.0.2.9
                   secret = testing123 }
}
client named { ipaddr = switch.example.net
    secret = x
}
client any { ipaddr = *
    secret = x }
home_server other { type = auth }
"""
USERS = """\
# Ours.
steve   Cleartext-Password := "testing it", Expiration := "31 Jan 2099"
        Service-Type = Framed-User,
        Tunnel-Private-Group-Id:0 = 20,
        Reply-Message = "Hello, %{User-Name}"
"John Doe" Cleartext-Password := "say \\"please\\""
00-00-5E-00-53-01   Cleartext-Password := "00005e005301"
        Tunnel-Type = VLAN,
        Tunnel-Private-Group-Id = "30"
00005e005302 Auth-Type := Reject
hash    NT-Password := 0x0CB6948805F797BF2A82807973B89537
ssha    SSHA-Password := "cGFzc3dvcmQ="
gone    Cleartext-Password := "long enough", Auth-Type := Reject
nobody  Huntgroup-Name == "alphen"
DEFAULT Group == "disabled", Auth-Type := Reject
        Reply-Message = "No."
"""
NODES = """\
mac|computername|pid|category|status|bypass_vlan|voip|unregdate|notes
00:00:5e:00:53:01|printer-1|default|printers|reg|20|no|0000-00-00 00:00:00|2nd floor
00:00:5e:00:53:02||ann|staff|reg||yes|2099-01-31 00:00:00|
00:00:5e:00:53:03||default||unreg||no|0000-00-00 00:00:00|
00:00:5e:00:53:04||ann|guest|reg||no|2020-01-31 00:00:00|
"""
ISE = """\
MACAddress,EndPointPolicy,IdentityGroup,Description,PortalUser,StaticGroupAssignment,LogicalProfile
00:00:5E:00:53:01,HP-Device,Printers,Printer,,true,
00:00:5E:00:53:02,Apple-iPhone,RegisteredDevices,"Ann's, phone",ann,true,
00:00:5E:00:53:03,Unknown,Unknown,,,false,
00:00:5E:00:53:04,,Blocked List,,,true,
00:00:5E:00:53:05,Cisco-IP-Phone,Endpoint Identity Groups:Profiled:Cisco-IP-Phone,,,false,
"""


def read(form: str, text: str | bytes) -> ImportDocument:
    return service.read_document(form, text.encode() if isinstance(text, str) else text)


def skipped_notes(document: ImportDocument) -> str:
    return "\n".join(f"{note.line}: {note.text}" for note in document.notes)


def test_freeradius_clients_become_nases() -> None:
    found = read("freeradius-clients", CLIENTS)
    assert [(line.number, dict(line.values)) for line in found.nases] == [
        (2, {"name": "north", "address": "192.0.2.7", "vendor": "cisco"}),
        (11, {"name": "sw-8", "address": "192.0.2.8", "secret": "long-enough-to-be-taken"}),
        (16, {"name": "six", "address": "2001:db8::7", "secret": "another-long-enough-one"}),
        (22, {"name": "inner", "address": "192.0.2.9"}),
    ]
    assert found.mistakes == []
    told = skipped_notes(found)
    for part in (
        "2: client north: the secret is too short",
        "9: client north: coa_server was skipped",
        "12: client everything was skipped: 198.51.100.0/24 is a network",
        "16: client six did not require Message-Authenticator",
        "25: client named was skipped: switch.example.net is not an address",
        "28: client any was skipped",
        "30: section home_server was skipped",
    ):
        assert part in told
    for secret in ("a secret", "testing123", "long-enough"):
        assert secret not in told


@pytest.mark.parametrize(
    ("form", "text", "place"),
    [
        *(
            ("freeradius-clients", text, place)
            for text, place in (
                ("client a {\n  ipaddr = 192.0.2.1\n", "line 1"),
                ("client a {\n}\n}\n", "line 3"),
                ("\n{\n", "line 2"),
                ("$INCLUDE clients.d/\n", "line 1"),
                ("client a {\n $INCLUDE secrets\n}\n", "line 2"),
                ('client a {\n secret = "hush\n}\n', "line 2"),
                ("a { " * 20, "line 1"),
                ("client a {\n $-INCLUDE secrets\n}\n", "line 2"),
                ("", "file"),
            )
        ),
        ("freeradius-users", "\tReply-Message = x\n", "line 1"),
        ("freeradius-users", "a Cleartext-Password := x\n\tno list of pairs\n", "line 2"),
        ("freeradius-users", 'a Cleartext-Password := "hush\n', "line 1"),
        ("freeradius-users", "$INCLUDE other\n", "line 1"),
    ],
)
def test_unreadable_file_is_rejected_with_the_line(form: str, text: str, place: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(form, text)
    assert refused.value.place == place
    assert "hush" not in str(refused.value)


_ENDPOINT = '{"mac": "00:00:5e:00:53:01", "attributes": {"a": ['


@pytest.mark.parametrize(
    ("form", "text", "told"),
    [
        ("freeradius-clients", "a " * 3_000, "more than 1000 words"),
        ("freeradius-clients", "client x {" + "".join(f"\na{n} = 1" for n in range(200)) + "\n}", "more than 100 set"),
        ("freeradius-clients", "a\n" * 210_000, "too many parts"),
        ("freeradius-clients", "#\n" * 700_000, "too many parts"),
        ("freeradius-users", "a " + 'A = "b",' * 100_000, "line 1: The line has more than 65536 characters"),
        ("freeradius-users", 'a A = "' + '\\"' * 100_000, "line 1: The line has more than 65536 characters"),
        ("freeradius-users", 'a A := "b"\n' + '\tB = "c",\n' * 600_000, "line 500001: .* more than 500000 pairs"),
        ("endpoints", _ENDPOINT + "{}," * 100_000 + "{}]}}", "line 1: The line has more than 262144 characters"),
        ("endpoints", (_ENDPOINT + "{}," * 60_000 + "{}]}}\n") * 20, "more than 2000000 values"),
        (
            "endpoints",
            "mac," + ",".join(f"attribute.{n}" for n in range(200)) + "\n" + ("aa," * 200 + "aa\n") * 10_000,
            "line 99.*values",
        ),
    ],
)
def test_oversized_content_is_rejected_with_its_place(form: str, text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        read(form, text)


@pytest.mark.parametrize("secret", ["$ENV{RADIUS_SECRET_OF_THEM}", '"${a_variable_of_the_file}"'])
def test_variable_as_a_secret_is_skipped_and_reported(secret: str) -> None:
    found = read("freeradius-clients", f"client a {{\n ipaddr = 192.0.2.7\n secret = {secret}\n}}")
    assert [line.values.get("secret") for line in found.nases] == [None]
    assert "variables are not expanded" in found.notes[0].text


def test_unreadable_expiry_does_not_mean_no_expiry() -> None:
    text = (
        'ann Cleartext-Password := "testing it", Expiration := "99999 Foo"\n'
        '001122334455 Expiration := "some day"\n'
        '001122334456 Expiration := "31 Jan 2099"\n'
    )
    found = read("freeradius-users", text)
    assert found.users == []
    assert [line.values["valid_until"][:10] for line in found.endpoints] == ["2099-01-31"]
    assert [note.text.partition(":")[0] for note in found.notes] == ["ann was skipped", "001122334455 was skipped"]


def test_freeradius_users_become_users_and_endpoints() -> None:
    found = read("freeradius-users", USERS)
    assert [(line.number, dict(line.values)) for line in found.users] == [
        (2, {"name": "steve", "password": "testing it", "valid_until": "2099-01-31T00:00:00+00:00"}),
        (6, {"name": "John Doe", "password": 'say "please"'}),
        (11, {"name": "hash", "nt_hash": "0CB6948805F797BF2A82807973B89537"}),
        (13, {"name": "gone", "password": "long enough", "disabled": True}),
    ]
    assert [dict(line.values) for line in found.endpoints] == [
        {"mac": "00-00-5E-00-53-01", "attributes": {"vlan": "30"}},
        {"mac": "00005e005302", "attributes": {}, "status": "blocked"},
    ]
    told = skipped_notes(found)
    for part in (
        "4: steve got Tunnel-Private-Group-Id:0 20: set vlan in a rule",
        "5: steve: Reply-Message was skipped",
        "9: 00-00-5E-00-53-01 got Tunnel-Private-Group-Id 30",
        "11: hash has an NT hash",
        "12: ssha was skipped: the hash of the password is not supported (SSHA-Password)",
        "14: nobody was skipped: the user has no password",
        "15: DEFAULT was skipped",
    ):
        assert part in told
    for secret in ("testing it", "please", "0CB69", "cGFz"):
        assert secret not in told


def test_packetfence_nodes_become_endpoints_with_category() -> None:
    for text in (NODES, NODES.replace("|", ","), "\ufeff" + NODES.replace("\n", "\r\n")):
        found = read("packetfence-nodes", text)
        assert [dict(line.values) for line in found.endpoints] == [
            {"mac": "00:00:5e:00:53:01", "attributes": {"bypass_vlan": "20"}}
            | {"groups": ["printers"], "name": "printer-1", "notes": "2nd floor"},
            {"mac": "00:00:5e:00:53:02", "attributes": {"voip": "yes"}, "valid_until": "2099-01-31 00:00:00"}
            | {"groups": ["staff"], "owner": "ann"},
        ]
        assert [note.line for note in found.notes] == [2, 4, 5]


def test_ise_endpoints_with_a_static_group_are_imported() -> None:
    for text in (ISE, ISE.replace("MACAddress", "MAC Address").replace("IdentityGroup", "Identity Group", 1)):
        found = read("ise-endpoints", text)
        assert {line.values["mac"][-2:]: line.values.get("groups") for line in found.endpoints} == {
            "01": ["Printers"],
            "02": ["RegisteredDevices"],
            "04": None,
            "05": ["Cisco-IP-Phone"],
        }
        assert [line.values.get("status") for line in found.endpoints] == [None, None, "blocked", None]
        second = found.endpoints[1].values
        assert (second["name"], second["owner"]) == ("Ann's, phone", "ann")
        assert second["attributes"] == {"ise_profile": "Apple-iPhone"}
        assert [note.line for note in found.notes] == [4, 6]


@pytest.mark.parametrize(
    "content",
    [
        "\ufeffname;password\r\nJürgen;correct horse\r\n".encode(),
        "name\tpassword\nJürgen\tcorrect horse\n".encode("utf-16"),
        "name,password\nJürgen,correct horse\n".encode("cp1252"),
        b'"name","password"\nJ\xc3\xbcrgen,"correct horse"',
    ],
)
def test_delimiter_and_encoding_are_detected(content: bytes) -> None:
    found = read("users", content)
    assert [dict(line.values) for line in found.users] == [{"name": "Jürgen", "password": "correct horse"}]
    assert found.mistakes == []


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"", "file"),
        (b"name\n\0", "file"),
        (b'name,password\nx,"' + b"y" * 30_000 + b'"\n', "line 2"),
        (b"name,password\n" + b"," * 300, "line 2"),
        (b'name,password\n"x', "line 2"),
        (b"a," * 1_000_000, "line 1"),
        (b"name\n" + b"ab," * 1_000_000, "line 2"),
        (b'name\n"' + b"x" * 1_000_000, "line 2"),
        (b"name\n" + b'"\n",' * 200_000, "line 65538"),
        (b"name\n" + b"\n" * 2_000_001, "file"),
        (b"name,password\n" + b"x\n" * 100_001, "line 100002"),
        (b"name\n" + b"x\n" * 100_001, "line 100002"),
        (b"x" * (MAX_FILE_BYTES + 1), "file"),
        (b"\xff\xfe\x00", "file"),
    ],
)
def test_oversized_table_is_rejected(content: bytes, place: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read("users", content)
    assert refused.value.place == place


def test_invalid_columns_and_rows_are_reported_with_the_line() -> None:
    assert [(each.number, each.field) for each in read("nases", "name,colour\nx,y\n").mistakes] == [(1, "colour")]
    assert [(each.number, each.field) for each in read("endpoints", "name\nx\n").mistakes] == [(1, "mac")]
    found = read("nases", "name,behind_nat\nx,yes\ny\n")
    assert ([line.values["behind_nat"] for line in found.nases], found.mistakes[0].number) == ([True], 3)


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "'=1", "'x", "x", "", "x=1"])
def test_cell_is_no_formula_and_round_trips(cell: str) -> None:
    written = escape_formula(cell)
    assert not written.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert unescape_formula(written) == cell


_PIECES = st.sampled_from(
    (
        *("client a {", "client", "{", "}", "ipaddr = 192.0.2.1", "secret = x", '"', "'", "\\", "#", "=", ":="),
        *("$INCLUDE x", "\n", "\r\n", "\t", " ", ",", ";", "|", "\ufeff", "\0", "é", "\u2028", "DEFAULT"),
        *("mac", "status", "name", "password", "MACAddress", "IdentityGroup", "reg", "00:00:5e:00:53:01", '{"mac": 1}'),
        *("Tunnel-Private-Group-Id = 3", "limit {", "NT-Password := 0x", "unregdate", "2020-13-41", "9999-12-31"),
        "a Cleartext-Password := b",
    )
)
_TEXTS = st.text(max_size=200) | st.lists(_PIECES).map(" ".join) | st.lists(_PIECES).map("\n".join)


@pytest.mark.parametrize("form", service.FORMATS)
def test_any_file_gives_rows_or_a_rejection_with_a_place(form: str) -> None:
    @settings(max_examples=examples(150), deadline=None)
    @given(st.binary(max_size=200) | _TEXTS.map(str.encode))
    def parse(content: bytes) -> None:
        refused = None
        try:
            document = service.read_document(form, content)
        except InvalidInput as exc:
            refused = exc.place
        if refused is not None:
            assert re.fullmatch(r"file|line \d+", refused)
            return
        most = content.count(b"\n") + content.count(b"\r") + 1
        lines = [*document.endpoints, *document.nases, *document.users]
        assert all(1 <= line.number <= most for line in lines)
        assert all(note.line >= 1 and note.text.isprintable() for note in document.notes)

    parse()


def test_single_row_error_is_not_hidden_by_common_errors() -> None:
    of_all = [RowMistake(number, "groups", "Unknown group 'all'.") for number in range(1, 10 * MAX_REPORTED)]
    of_one = RowMistake(9 * MAX_REPORTED, "mac", "That is no address.")
    shown = select_reported([*of_all, of_one])
    assert (len(shown), shown[0], shown[-1]) == (MAX_REPORTED, of_all[0], of_one)
    assert shown == sorted(shown)
    assert select_reported(of_all[4::-1]) == of_all[:5]


def test_many_unknown_groups_are_reported_in_bounded_memory() -> None:
    rows, reader = range(1, 20_001), RowReader()
    for number in range(20):
        reader.add_mistake_in_lines(rows, "groups", f"Unknown group 'g{number}'.", "Add it.")
    # Each row is invalid, and is skipped if that is enabled. The list names few groups per row.
    assert {each.number for each in reader.mistakes} == set(rows)
    assert len(reader.mistakes) < 2 * len(rows)


def test_each_group_of_a_row_is_reported() -> None:
    reader = RowReader()
    for name in ("a", "b"):
        reader.add_mistake_in_lines([3, 4], "groups", f"Unknown group {name!r}.", "Add it.")
    assert len(reader.mistakes) == 4


def test_file_of_only_groups_is_rejected_before_the_lookup() -> None:
    rows = [(number, [f"{number}-{each}" for each in range(100)]) for number in range(1, 1_001)]
    assert len(RowReader.lines_naming(rows[:100])) == 10_000
    with pytest.raises(InvalidInput, match="more than 15000 groups"):
        RowReader.lines_naming(rows)
