"""Any input gets a SCEP reply or an HTTP error, and stores nothing."""

import base64

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.run_depth import examples
from tests.scep.client import PKCS_REQ, RENEWAL_REQ, Device, read_reply, signing_request
from tests.scep.conftest import Server, issued
from tests.scep.mutations import mutations

_FEW = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _check_response(server: Server, message: bytes) -> None:
    reply = server.http.post(server.path, content=message)
    if reply.status_code == 200:
        assert read_reply(reply.content).status == "2"
    else:
        assert reply.status_code in (400, 429)


def test_changed_contents_in_valid_envelopes_are_rejected(server, app_engine, alpha):
    """Anyone can sign and encrypt, so the content may be arbitrary bytes."""
    device, registration = Device(), server.registration()
    good = signing_request(device.key, "laptop", "a-challenge")

    @_FEW
    @given(st.data(), st.sampled_from([PKCS_REQ, RENEWAL_REQ]))
    def changed(data: st.DataObject, kind: str) -> None:
        content = data.draw(st.one_of(mutations(good), st.binary(max_size=100)))
        _check_response(server, device.message(content, registration, kind=kind))

    changed()
    assert issued(app_engine, alpha) == 0


def test_changed_or_truncated_message_is_rejected(server, app_engine, alpha):
    """The content is no request. So no message counts as a guess of a challenge, after which all get status 429."""
    device, registration = Device(), server.registration()
    good = device.message(b"no request", registration)

    @_FEW
    @given(st.one_of(mutations(good), st.integers(0, len(good) - 1).map(lambda end: good[:end])))
    def changed(message: bytes) -> None:
        _check_response(server, message)

    changed()
    assert server.ask(good).status == "2"
    assert issued(app_engine, alpha) == 0


def test_any_query_gets_a_response(server):
    @_FEW
    @given(
        st.sampled_from(["GetCACert", "PKIOperation", "GetCACaps", "x"]), st.binary(max_size=100), st.text(max_size=30)
    )
    def parameters(operation: str, message: bytes, text: str) -> None:
        for value in (base64.b64encode(message).decode(), text):
            reply = server.http.get(server.path, params={"operation": operation, "message": value})
            assert reply.status_code in (200, 400)

    parameters()
