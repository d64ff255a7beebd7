"""Transactions about the caller's own account, which cannot read other accounts."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Depends
from sqlalchemy.orm import Session

from api.access import RequiresSelf
from api.caller import Caller
from nac.accounts.people import service as people
from nac.accounts.sign_in.second_factors import list_second_factors
from nac.accounts.sign_in.sign_ins import SignedInPerson
from nac.core.audit import service as audit
from nac.kit.clock import utc_now
from nac.kit.db import PersonScope, session_scope
from nac.kit.errors import Forbidden
from nac.models import Person


class NoPerson(Forbidden):
    """This operation needs a signed-in person, not a token."""


class OwnAccount:
    """Dependency of routes about the caller's own account."""

    def __init__(self, asked: Annotated[Caller, Depends(RequiresSelf())]) -> None:
        if asked.signed_in is None:
            raise NoPerson(remedy="Sign in. Use listMyGrants for the permissions of a token.")
        self.asked = asked
        self.signed_in: SignedInPerson = asked.signed_in

    def located(self, path: str = "") -> None:
        """Set `Location` of the created resource."""
        self.asked.response.headers["Location"] = f"/v1/me{path}"

    @contextmanager
    def session(self) -> Iterator[Session]:
        with session_scope(PersonScope(self.signed_in.person_id)) as session:
            audit.set_origin(session, self.asked.origin)
            yield session

    @contextmanager
    def account(self, *, confirmed: bool = True) -> Iterator[tuple[Session, Person]]:
        """Open a transaction that changes the account.

        Raises AccountOfAnother, SecondFactorNeeded and ConfirmationNeeded.
        """
        with self.session() as session:
            has_second = bool(list_second_factors(session, person_id=self.signed_in.person_id))
            self.signed_in.require_own(has_second=has_second)
            if confirmed:
                self.signed_in.require_confirmed(now=utc_now())
            yield session, people.require_person(session, person_id=self.signed_in.person_id)
