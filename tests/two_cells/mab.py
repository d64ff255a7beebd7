"""MAB requests of devices to a tenant's cell."""

from cli.demo.tools import RadiusServer, run_radclient

MAC = "00:00:5e:00:53:01"
OPEN_POLICY = {
    "rules": [
        {
            "id": "known",
            "name": "Known",
            "when": {"attribute": "endpoint.known", "operator": "equals", "value": True},
            "then": {"verdict": "permit"},
        }
    ]
}


def ask(server: RadiusServer, mac: str = MAC, *, nas: str = "sw", seconds: int = 5) -> str:
    """The code of the response, "" without a response."""
    asked = (("User-Name", mac), ("User-Password", mac), ("Calling-Station-Id", mac), ("NAS-Identifier", nas))
    answer = run_radclient(server, "auth", asked, timeout_seconds=seconds)
    assert answer is None or answer.code in ("Access-Accept", "Access-Reject")
    return answer.code if answer else ""
