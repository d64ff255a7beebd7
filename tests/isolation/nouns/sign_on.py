"""Sign-on through a provider, and rules for signing in."""

from nac.core.access.grants import Owner
from tests.isolation.noun import Filler, Noun, Operation, Things, at_levels, unknown_ids


def _fill_owner(filler: Filler, things: Things, owner: Owner) -> None:
    if owner != Owner():
        things["sign_on_id"] = filler.ask_at(owner, "update{}SignOn", things)["id"]
    filler.ask_at(owner, "update{}SignInRules", things)


NOUN = Noun(
    operations={
        **at_levels("list{}SignOnSessions", (2, 3)),
        **at_levels("delete{}SignOnSession", (7, 6), path={"session_id": "sign_on_session"}),
        **at_levels("get{}SignOn", (2, 3)),
        **at_levels(
            "update{}SignOn",
            (10, 9),
            {
                "issuer": "https://login.$domain",
                "client_id": "admit",
                "client_secret": "hush",
                "joins": [{"domain": "$domain", "role": "$slug_of_role"}],
            },
        ),
        **at_levels("delete{}SignOn", (10, 9)),
        "startSignOn": Operation(),
        "finishSignOn": Operation(),
        **at_levels("get{}SignInRules", (2, 3, 2)),
        **at_levels("update{}SignInRules", (8, 7, 6), {"two_factors": True}),
    },
    unknown=unknown_ids("sign_on_id"),
    after=("roles",),
    fill_owner=_fill_owner,
)
