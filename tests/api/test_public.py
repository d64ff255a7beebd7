from uuid import UUID

import httpx
import pytest

from tests.factories.certificates import Certified


def test_authority_is_handed_to_anybody(client: httpx.Client, alpha: Certified):
    issuing = alpha.authorities.issuing
    reply = client.get(f"/ca/{issuing.id}.cer")
    assert (reply.status_code, reply.content) == (200, issuing.certificate_der)
    assert reply.headers["content-type"] == "application/pkix-cert"
    assert client.head(f"/ca/{issuing.id}.cer").headers["content-length"] == str(len(issuing.certificate_der))


@pytest.mark.parametrize("path", [f"/ca/{UUID(int=1)}.cer", "/v1/tenants", "/openapi.json"])
def test_what_is_not_public_is_not_there(client: httpx.Client, path: str):
    reply = client.get(path)
    assert (reply.status_code, reply.headers["content-type"]) == (404, "application/problem+json")
