"""Transactions of a sign-in.

A separate transaction counts each attempt before Admit checks the password or code. No transaction is open during the
check of a password, because this check is slow.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from fastapi import Request, Response
from sqlalchemy.orm import Session

from api import cookies
from api.application_state import get_signing
from api.response_headers import request_id_of
from nac.accounts import account_mails
from nac.accounts.people import repository as people
from nac.accounts.people import service as accounts
from nac.accounts.sign_in import attempts, failures, links, passkeys, passwords, second_factors, sign_ins
from nac.accounts.sign_in.attempts import CountedAttempt
from nac.accounts.sign_in.challenges import (
    ChallengeSealer,
    FactorsNeeded,
    KnownDevice,
    PasskeyChallenge,
    PasskeyRegistration,
)
from nac.accounts.sign_in.failures import NOBODY_ID, FailureReason
from nac.accounts.sign_in.passkeys import RelyingParty
from nac.accounts.sign_in.second_factors import Factor, list_second_factors
from nac.accounts.sign_in.secret_texts import LinkText, SignInText
from nac.accounts.sign_in.sign_ins import SignedInPerson, SignOnOrigin
from nac.accounts.sign_in_errors import LinkRefused, SignInRefused
from nac.accounts.sign_ons import service as sign_ons
from nac.core.audit import service as audit
from nac.core.audit.service import RequestOrigin
from nac.kit.clock import utc_now
from nac.kit.db import CredentialScope, PersonScope, session_scope
from nac.models import Passkey, Person, SignOn

_STEP_LIFETIME = timedelta(minutes=5)
_DEVICE_LIFETIME = timedelta(days=365)
_NOBODY_SCOPE = CredentialScope("")


@dataclass(frozen=True, slots=True)
class CompletedSignIn:
    """The person is signed in."""

    csrf_token: str


@dataclass(frozen=True, slots=True)
class PendingSignIn:
    """The person must use one of `methods`, with `challenge`."""

    methods: tuple[str, ...]
    challenge: str


class SignInFlow:
    """Steps of a sign-in. Each request has a separate object."""

    def __init__(self, request: Request, response: Response) -> None:
        self._request = request
        self._response = response
        self._signing = get_signing(request)
        self.challenges = ChallengeSealer(self._signing.sealer)
        self.party = RelyingParty(cookies.portal_origin(request.app.state.settings))
        self.address = request.client.host if request.client else ""
        self.now = utc_now()

    def by_password(self, email: str, password: str) -> CompletedSignIn | PendingSignIn:
        """Sign in with a password, or return the second factors. Raises SignInRefused and TooManyAttempts."""
        attempt = attempts.password_attempt(
            email_tag=attempts.make_email_tag(email), address=self.address, device_id=self._read_known_device_id(email)
        )
        self.count(attempt)
        found = _find_password_account(email)
        with self._recording_failure(found.subject_id, found.reason):
            if not passwords.is_correct_password(password, found.password_hash):
                raise SignInRefused(remedy="Check the e-mail address and the password.")
        needed = FactorsNeeded(found.person_id, passwords.make_password_tag(found.password_hash))
        with self.as_person(found.person_id) as session:
            person = _require_same_password(session, needed)
            attempt.succeed(session)
            methods = list_second_factors(session, person_id=person.id)
            text = None if methods else self.begin(session, person, {Factor.PASSWORD})
        if text is None:
            return PendingSignIn(methods, self.challenges.make(needed, now=self.now, good_for=_STEP_LIFETIME))
        return self.finish(person.email, text)

    def by_totp(self, challenge: str, code: str) -> CompletedSignIn:
        def use(session: Session, person: Person) -> bool:
            unseal = self._signing.sealer.open
            return second_factors.use_totp_code(session, person_id=person.id, code=code, unseal=unseal, now=self.now)

        return self._sign_in_by_code(challenge, Factor.TOTP, use)

    def by_recovery_code(self, challenge: str, code: str) -> CompletedSignIn:
        def use(session: Session, person: Person) -> bool:
            return second_factors.use_recovery_code(session, person=person, code=code, now=self.now)

        return self._sign_in_by_code(challenge, Factor.RECOVERY_CODE, use)

    def _sign_in_by_code(
        self, challenge: str, factor: Factor, use: Callable[[Session, Person], bool]
    ) -> CompletedSignIn:
        shown = self.challenges.read(FactorsNeeded, challenge, now=self.now)
        person_id = shown.content.person_id
        with self.as_person(person_id) as session:
            device_id = self._read_known_device_id(_require_same_password(session, shown.content).email)
        attempt = attempts.code_attempt(person_id=person_id, address=self.address, device_id=device_id)
        self.count(attempt)
        with self._recording_failure(person_id, FailureReason.CODE), self.as_person(person_id) as session:
            person = _require_same_password(session, shown.content)
            if not use(session, person):
                raise SignInRefused("Wrong code.", place="code", remedy="Enter the newest code.")
            shown.spend(session)
            attempt.succeed(session)
            text = self.begin(session, person, {Factor.PASSWORD, factor})
        return self.finish(person.email, text)

    def create_passkey_challenge(self, challenge: str | None) -> tuple[dict[str, Any], str]:
        """Return the browser's options for a passkey, and the challenge to send with the passkey's response."""
        nonce = passkeys.make_nonce()
        if challenge is None:
            return passkeys.build_authentication_options(self.party, nonce=nonce), self._asked(PasskeyChallenge(nonce))
        shown = self.challenges.read(FactorsNeeded, challenge, now=self.now)
        with self.as_person(shown.content.person_id) as session:
            _require_same_password(session, shown.content)
            found = passkeys.list_passkeys(session, person_id=shown.content.person_id)
            options = passkeys.build_authentication_options(self.party, nonce=nonce, passkeys=found)
        return options, self._asked(PasskeyChallenge(nonce, after=shown.content))

    def _asked(self, asked: PasskeyChallenge) -> str:
        return self.challenges.make(asked, now=self.now, good_for=_STEP_LIFETIME)

    def by_passkey(self, challenge: str, credential: dict[str, Any]) -> CompletedSignIn:
        shown = self.challenges.read(PasskeyChallenge, challenge, now=self.now)
        after = shown.content.after
        if shown.content.sign_in_id is not None:
            raise SignInRefused(remedy="Start the sign-in again.")
        attempt = attempts.address_attempt(address=self.address)
        self.count(attempt)
        found = after.person_id if after is not None else _find_passkey_owner(credential)
        person_id = found or uuid4()
        with self._recording_failure(found or NOBODY_ID, FailureReason.PASSKEY), self.as_person(person_id) as session:
            person = (
                _require_same_password(session, after)
                if after is not None
                else require_active_person(session, person_id)
            )
            factor = passkeys.use_passkey(
                session,
                person=person,
                party=self.party,
                nonce=shown.content.nonce,
                credential=credential,
                alone=after is None,
                now=self.now,
            )
            shown.spend(session)
            attempt.succeed(session)
            factors = {factor} if after is None else {Factor.PASSWORD, factor}
            text = self.begin(session, person, factors)
        return self.finish(person.email, text)

    def ask_for_link(self, email: str) -> None:
        """Request a password link, without a lookup of the person. Raises TooManyAttempts."""
        device_id = self._read_known_device_id(email)
        self.count(
            attempts.link_attempt(email_tag=attempts.make_email_tag(email), address=self.address, device_id=device_id)
        )
        with self._open_nobody_session() as session:
            account_mails.request_password_link(session, email=email, is_known=device_id is not None)

    def require_valid_link(self, token: str) -> None:
        """Raises LinkRefused."""
        text = _parse_link(token)
        with session_scope(CredentialScope(text.public_id)) as session:
            links.require_valid_link(session, text=text)

    def set_password(self, token: str, password: str) -> None:
        """Set the password with a link, and end all sign-ins. The browser of the request becomes a known browser.

        Raises LinkRefused.
        """
        text = _parse_link(token)
        attempt = attempts.address_attempt(address=self.address)
        self.count(attempt)
        with session_scope(CredentialScope(text.public_id)) as session:
            self.note_origin(session)
            person = links.set_password(session, text=text, password=password)
            attempt.succeed(session)
        self._remember_device(person.email)

    def confirm_by_password(self, signed_in: SignedInPerson, password: str) -> None:
        """Confirm the person's identity with a password. Raises AccountOfAnother, SignInRefused and TooManyAttempts."""
        signed_in.require_own(has_second=False)
        attempt = attempts.confirmation_attempt(sign_in_id=signed_in.sign_in_id)
        self.count(attempt)
        with self.as_person(signed_in.person_id) as session:
            password_hash = require_active_person(session, signed_in.person_id).password_hash
        with self._recording_failure(signed_in.person_id, FailureReason.CONFIRMATION):
            if not passwords.is_correct_password(password, password_hash):
                raise SignInRefused("Wrong password.", place="password")
        with self.as_person(signed_in.person_id) as session:
            attempt.succeed(session)
            sign_ins.confirm_sign_in(session, signed_in=signed_in, factor=Factor.PASSWORD, now=self.now)

    def create_confirmation_challenge(self, signed_in: SignedInPerson) -> tuple[dict[str, Any], str]:
        """Return options and challenge for confirming the person's identity with a passkey. Raises AccountOfAnother."""
        signed_in.require_own(has_second=False)
        nonce = passkeys.make_nonce()
        with self.as_person(signed_in.person_id) as session:
            found = passkeys.list_passkeys(session, person_id=signed_in.person_id)
            options = passkeys.build_authentication_options(self.party, nonce=nonce, passkeys=found)
        return options, self._asked(PasskeyChallenge(nonce, sign_in_id=signed_in.sign_in_id))

    def confirm_by_passkey(self, signed_in: SignedInPerson, challenge: str, credential: dict[str, Any]) -> None:
        shown = self.challenges.read(PasskeyChallenge, challenge, now=self.now)
        if shown.content.sign_in_id != signed_in.sign_in_id:
            raise SignInRefused(remedy="Start the confirmation again.")
        noting = self._recording_failure(signed_in.person_id, FailureReason.CONFIRMATION)
        with noting, self.as_person(signed_in.person_id) as session:
            factor = passkeys.use_passkey(
                session,
                person=require_active_person(session, signed_in.person_id),
                party=self.party,
                nonce=shown.content.nonce,
                credential=credential,
                alone=True,
                now=self.now,
            )
            shown.spend(session)
            sign_ins.confirm_sign_in(session, signed_in=signed_in, factor=factor, now=self.now)

    def count_confirmation(self, signed_in: SignedInPerson) -> None:
        """Count an attempt to confirm the person's identity. Raises TooManyAttempts."""
        self.count(attempts.confirmation_attempt(sign_in_id=signed_in.sign_in_id))

    def create_passkey_registration(
        self, session: Session, signed_in: SignedInPerson, person: Person
    ) -> tuple[dict[str, Any], str]:
        nonce = passkeys.make_nonce()
        present = passkeys.list_passkeys(session, person_id=person.id)
        options = passkeys.build_registration_options(self.party, person=person, present=present, nonce=nonce)
        offered = PasskeyRegistration(nonce, signed_in.sign_in_id)
        return options, self.challenges.make(offered, now=self.now, good_for=_STEP_LIFETIME)

    def add_passkey(
        self,
        session: Session,
        signed_in: SignedInPerson,
        person: Person,
        challenge: str,
        credential: dict[str, Any],
        name: str,
    ) -> tuple[Passkey, Factor]:
        """Add a passkey to the account. Raises SignInRefused and PasskeyRefused."""
        shown = self.challenges.read(PasskeyRegistration, challenge, now=self.now)
        if shown.content.sign_in_id != signed_in.sign_in_id:
            raise SignInRefused(remedy="Start to add the passkey again.")
        shown.spend(session)
        return passkeys.create_passkey(
            session,
            actor=signed_in.actor,
            person=person,
            party=self.party,
            nonce=shown.content.nonce,
            credential=credential,
            name=name,
        )

    def count(self, attempt: CountedAttempt) -> None:
        """Count an attempt of a person who is not signed in yet. Raises TooManyAttempts."""
        with session_scope(_NOBODY_SCOPE) as session:
            attempt.begin(session)

    @contextmanager
    def as_person(self, person_id: UUID) -> Iterator[Session]:
        with session_scope(PersonScope(person_id)) as session:
            self.note_origin(session)
            yield session

    @contextmanager
    def _open_nobody_session(self) -> Iterator[Session]:
        with session_scope(_NOBODY_SCOPE) as session:
            self.note_origin(session)
            yield session

    @contextmanager
    def _recording_failure(self, subject_id: UUID, reason: str) -> Iterator[None]:
        try:
            yield
        except SignInRefused:
            self.note_failure(subject_id, reason)
            raise

    def note_failure(self, subject_id: UUID, reason: str) -> None:
        """Record a failure in a new transaction, because the transaction of the attempt rolls back."""
        with self._open_nobody_session() as session:
            failures.record_failure(session, subject_id=subject_id, reason=reason, user_agent=self._user_agent)

    @property
    def _user_agent(self) -> str:
        return self._request.headers.get("user-agent", "")

    def note_origin(self, session: Session) -> None:
        audit.set_origin(session, RequestOrigin(self.address or None, request_id_of(self._request)))

    def begin(
        self, session: Session, person: Person, factors: Iterable[str], via: SignOnOrigin | None = None
    ) -> SignInText:
        """Create a sign-in, which replaces the person's previous sign-in in this browser."""
        before = SignInText.parse(cookies.read_cookie(self._request, cookies.SESSION_COOKIE))
        if before is not None:
            sign_ins.end_previous(session, person=person, text=before)
        _, text = sign_ins.create_sign_in(
            session,
            person=person,
            factors=frozenset(factors),
            address=self.address or None,
            user_agent=self._user_agent,
            now=self.now,
            via=via,
        )
        return text

    def open_client_secret(self, row: SignOn) -> str:
        return sign_ons.open_secret(row, unseal=self._signing.sealer.open)

    def finish(self, email: str, text: SignInText) -> CompletedSignIn:
        """Set the cookies of the sign-in. Call this method after the commit."""
        cookies.set_session_cookie(self._request, self._response, text)
        self._remember_device(email)
        return CompletedSignIn(text.csrf_token())

    def _remember_device(self, email: str) -> None:
        """Remember that the person has signed in with this browser."""
        if self._read_known_device_id(email) is None:
            device = KnownDevice(attempts.make_email_tag(email), secrets.token_bytes(16))
            value = self.challenges.make(device, now=self.now, good_for=_DEVICE_LIFETIME)
            cookies.set_cookie(self._request, self._response, cookies.DEVICE_COOKIE, value, good_for=_DEVICE_LIFETIME)

    def _read_known_device_id(self, email: str) -> bytes | None:
        """Return the id of this browser if the person has used this browser to sign in before; otherwise None."""
        value = cookies.read_cookie(self._request, cookies.DEVICE_COOKIE)
        if not value:
            return None
        try:
            device = self.challenges.read(KnownDevice, value, now=self.now).content
        except SignInRefused:
            return None
        return device.device_id if device.email_tag == attempts.make_email_tag(email) else None


@dataclass(frozen=True, slots=True)
class _PasswordAccount:
    """Account that belongs to an e-mail address. For an unknown address, `person_id` is a random id.

    `password_hash` is "" if the address is unknown or the person cannot sign in.
    """

    person_id: UUID
    password_hash: str = field(repr=False)
    subject_id: UUID
    # Reason to record if the sign-in fails.
    reason: FailureReason


def _find_password_account(email: str) -> _PasswordAccount:
    """Find the account of an address. Known and unknown addresses need the same SQL statements."""
    with session_scope(_NOBODY_SCOPE) as session:
        person_id = accounts.find_person_id(session, email=email)
    wanted = person_id or uuid4()
    with session_scope(PersonScope(wanted)) as session:
        person = people.get(session, wanted)
    if person is not None and person.status == "active":
        return _PasswordAccount(wanted, person.password_hash, wanted, FailureReason.PASSWORD)
    return _PasswordAccount(
        wanted, "", person_id or NOBODY_ID, FailureReason.PASSWORD if person is None else FailureReason.DISABLED
    )


def _parse_link(token: str) -> LinkText:
    text = LinkText.parse(token)
    if text is None:
        raise LinkRefused(remedy="Request a new link.")
    return text


def _find_passkey_owner(credential: dict[str, Any]) -> UUID | None:
    credential_id = passkeys.require_credential_id(credential)
    with session_scope(CredentialScope(credential_id)) as session:
        return passkeys.get_person_id(session, credential_id=credential_id)


def require_active_person(session: Session, person_id: UUID) -> Person:
    """Return the person if the account is active. Call this function in a PersonScope. Raises SignInRefused."""
    person = people.get(session, person_id)
    if person is None or person.status != "active":
        raise SignInRefused(remedy="Start the sign-in again.")
    return person


def _require_same_password(session: Session, needed: FactorsNeeded) -> Person:
    """Return the person if the password has not changed since the first step. Raises SignInRefused."""
    person = require_active_person(session, needed.person_id)
    if passwords.make_password_tag(person.password_hash) != needed.password_tag:
        raise SignInRefused(remedy="Start the sign-in again.")
    return person
