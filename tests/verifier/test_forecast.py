"""Responses that the verifier delays, because radiusd would not delay the reject."""

import pytest

from nac.cellformat.replica.store import ReplicaReader, ReplicaWriter
from nac.inventory.identity_sources.verifier_messages import (
    UnreadablePairs,
    VerificationResult,
    decode_pairs,
    encode_pairs,
)
from nac.kit.secrets import MasterKeyFile, Sealer
from radius.verifier.forecast import RejectForecast
from radius.verifier.packet import Login
from tests.radius.client_certificates import Authorities
from tests.radius.tenants import Tenant

STAFF = VerificationResult(source="directory", name="zoe", groups=("staff",))
GUEST = VerificationResult(source="directory", name="zoe", groups=("guests",))
WRONG = VerificationResult("wrong-password")
DELAY_SECONDS = 1.0


@pytest.fixture(scope="module")
def replica(tmp_path_factory):
    root = tmp_path_factory.mktemp("forecast")
    authorities = Authorities(root / "alpha", "Alpha")
    tenant = Tenant("alpha", 41, 0, authorities, authorities.server(), {}, "", 0, 0, baked=False)
    writer = ReplicaWriter(root / "replica", fresh=True)
    with writer.begin() as batch:
        tenant.fill(batch, Sealer(MasterKeyFile.create(root / "key")))
    writer.close()
    reader = ReplicaReader(root / "replica")
    yield reader
    reader.close()


@pytest.fixture
def forecast(replica):
    return RejectForecast(replica)


def request(name="zoe", mac="02-00-00-00-00-01", **more):
    pairs = {"Admit-Slot": "slot_0", "Admit-Source": "127.0.0.1", "User-Name": name, "Calling-Station-Id": mac} | more
    return tuple(piece.encode() for piece in encode_pairs(tuple(pairs.items())))


def is_delayed(forecast, answer, pairs, arrived_at=10.0):
    login = Login(1, bytes(16), 0, b"", b"", (), pairs)
    return forecast.is_reject(login, answer, arrived_at, arrived_at + DELAY_SECONDS)


@pytest.mark.parametrize(("answer", "held"), [(STAFF, False), (GUEST, True), (WRONG, True)])
def test_policy_and_password_determine_the_delay(forecast, answer, held):
    assert is_delayed(forecast, answer, request()) == held


@pytest.mark.parametrize(("answer", "held"), [(STAFF, False), (GUEST, False), (WRONG, True)])
def test_only_the_password_counts_inside_a_tunnel(forecast, answer, held):
    assert is_delayed(forecast, answer, ()) == held


@pytest.mark.parametrize("pairs", [(b"-",), (b"AAAA",), (b"x" * 200,), request(**{"Admit-Slot": "x"})])
def test_unreadable_request_is_delayed(forecast, pairs):
    assert is_delayed(forecast, STAFF, pairs)


@pytest.mark.parametrize(
    ("other", "held"),
    [
        (request(name="ZOE", mac="02-00-00-00-00-02"), True),
        (request(name="otto"), True),
        (request(name="otto", mac="02-00-00-00-00-02"), False),
    ],
)
def test_correct_password_is_delayed_while_a_wrong_one_is(forecast, other, held):
    is_delayed(forecast, WRONG, request(), arrived_at=10.0)
    assert is_delayed(forecast, STAFF, other, arrived_at=10.9) == held
    assert not is_delayed(forecast, STAFF, other, arrived_at=11.1)


def test_attributes_round_trip_to_the_verifier():
    pairs = (("User-Name", "zoé\\"), ("Class", "a"), ("Class", "b"))
    assert decode_pairs([piece.encode() for piece in encode_pairs(pairs)]) == pairs


def test_attributes_too_long_for_a_packet_are_unreadable():
    pairs = tuple(("Class", f"{number * 7919:x}" * 20) for number in range(400))
    with pytest.raises(UnreadablePairs):
        decode_pairs([piece.encode() for piece in encode_pairs(pairs)])
