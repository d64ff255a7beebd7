"""Calls of a real API through the generated package `admit_client`.

Run round_trip.py URL TOKEN PLATFORM_TOKEN.
"""

import importlib
import pkgutil
import sys

import admit_client
from admit_client import AuthenticatedClient
from admit_client.api.cells import list_cells
from admit_client.api.secret import reveal_radius_secret
from admit_client.api.sites import create_site, delete_site, get_site, update_site
from admit_client.models import CellPage, CellStatus, Problem, RadiusSecretRequest, RadiusServer, SiteInput, SiteUpdate


def main(url: str, token: str, platform_token: str) -> None:
    for module in pkgutil.walk_packages(admit_client.__path__, "admit_client."):
        importlib.import_module(module.name)
    with AuthenticatedClient(url, token) as api, AuthenticatedClient(url, platform_token) as platform:
        _sites(api)
        # The body is optional: one call without it, one with it.
        for given in ({}, {"body": RadiusSecretRequest(next_=False)}):
            secret = reveal_radius_secret.sync_detailed("alpha", client=api, **given)
            assert isinstance(secret.parsed, RadiusServer), secret
            assert (secret.parsed.secret, secret.parsed.text) == ("the-secret-of-alpha-01", ""), secret
        # The name of this schema resembles a field of another schema.
        cells = list_cells.sync(client=platform)
        assert isinstance(cells, CellPage), cells
        assert [cell.status for cell in cells.items] == [CellStatus.ACTIVE], cells


def _sites(api: AuthenticatedClient) -> None:
    # Location contains the address of the created resource.
    made = create_site.sync_detailed("alpha", client=api, body=SiteInput(slug="north", name="North"))
    assert made.status_code == 201, made
    assert made.headers["location"] == "/v1/tenants/alpha/sites/north"
    read = get_site.sync_detailed("alpha", "north", client=api)
    assert read.parsed == made.parsed, read
    # Omitted fields of an update do not change.
    change = SiteUpdate(time_zone="Europe/Berlin")
    changed = update_site.sync("alpha", "north", client=api, body=change, if_match=read.headers["etag"])
    assert (changed.name, changed.time_zone) == ("North", "Europe/Berlin"), changed
    # A body with an unknown reference returns a problem with the field's path.
    refused = update_site.sync_detailed("alpha", "north", client=api, body=SiteUpdate(policy="unknown"))
    assert refused.status_code == 422, refused
    assert isinstance(refused.parsed, Problem)
    assert (refused.parsed.code, refused.parsed.place) == ("policy-not-found", "policy")
    assert delete_site.sync_detailed("alpha", "north", client=api).status_code == 204


if __name__ == "__main__":
    main(*sys.argv[1:])
