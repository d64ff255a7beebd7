"""Accounts of people."""

from tests.isolation.noun import Noun, Operation, unknown_ids

NOUN = Noun(
    operations={
        "listPeople": Operation(2),
        "createPerson": Operation(10, {"email": "$new_email"}),
        "getPerson": Operation(7),
        "updatePerson": Operation(26, {"status": "disabled"}),
        "deletePersonSessions": Operation(6),
        "resetPersonFactors": Operation(10),
        "createPasswordLink": Operation(22, {"mail": False}),
    },
    unknown=unknown_ids("person_id"),
)
