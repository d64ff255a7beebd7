"""Sign-up for a trial: a user requests a trial, and confirms the request by a mailed link.

Requires a session in PlatformScope. Responses do not reveal whether an address has an account. Users choose the
password after they open the link. If people chose the password in the sign-up request, an attacker could sign up with
another person's address. The owner of the address would then confirm an account whose password the attacker knows.

PUBLIC_DOMAINS are the domains of public mail providers. The limit of sign-ups per mail domain does not apply to these
domains, because their users are unrelated.
"""

import hashlib
import ipaddress
import re
import secrets
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

from sqlalchemy.orm import Session

from nac.accounts.people import service as people
from nac.core.audit import service as audit
from nac.core.mail import service as mail
from nac.kit import validation
from nac.kit.clock import utc_now
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import AdmitError, InvalidInput, NotFound
from nac.kit.ids import TenantId
from nac.kit.sealing import Seal
from nac.kit.settings import TrialSettings
from nac.kit.validation import MAX_MAILED_CHARACTERS, is_mailable_name, require_name
from nac.models import SignUp, Trial
from nac.models.trial import TrialState
from nac.onboarding.trials import repository
from nac.onboarding.trials.repository import ORDERS as ORDERS

PUBLIC_DOMAINS = frozenset(
    {
        "126.com",
        "163.com",
        "aol.com",
        "att.net",
        "bluewin.ch",
        "btinternet.com",
        "comcast.net",
        "fastmail.com",
        "free.fr",
        "freenet.de",
        "gmail.com",
        "gmx.at",
        "gmx.ch",
        "gmx.com",
        "gmx.de",
        "gmx.net",
        "googlemail.com",
        "hey.com",
        "hotmail.co.uk",
        "hotmail.com",
        "hotmail.fr",
        "icloud.com",
        "laposte.net",
        "libero.it",
        "live.com",
        "mac.com",
        "mail.de",
        "mail.ru",
        "mailbox.org",
        "me.com",
        "msn.com",
        "naver.com",
        "orange.fr",
        "outlook.com",
        "outlook.de",
        "outlook.fr",
        "posteo.de",
        "proton.me",
        "protonmail.com",
        "qq.com",
        "t-online.de",
        "tutanota.com",
        "verizon.net",
        "virgilio.it",
        "wanadoo.fr",
        "web.de",
        "yahoo.co.uk",
        "yahoo.com",
        "yahoo.fr",
        "yandex.com",
        "zoho.com",
    }
)


ACTOR = "system:trials"
LINK_LIFETIME = timedelta(hours=24)
# Maximum number of links that Admit mails to an address per day.
MAX_LINKS = 3
# Retention of sign-ups. The retention is short, because sign-ups contain addresses of people who may never confirm.
SIGN_UP_RETENTION = timedelta(days=30)
_DAY = timedelta(days=1)
# Factor by which the limits for requests exceed the limits for confirmations. A request costs only a mail.
_SIGN_UPS_PER_CONFIRMED = 10
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_SLUG_WORD = re.compile(r"[a-z0-9]+")
_MAX_SLUG_CHARACTERS = 40
_SLUG_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"


class TrialsNotOffered(NotFound):
    """This installation has no sign-up."""


class TooManySignUps(AdmitError):
    """Too many recent sign-ups."""

    status = 429
    retry_after_seconds = 3_600


class LinkRefused(AdmitError):
    """The link is invalid."""

    status = 410


class NoTrialLeft(AdmitError):
    """No trial is available."""

    status = 503
    retry_after_seconds = 86_400


class TrialNotFound(NotFound):
    """The tenant is not a trial."""


@dataclass(frozen=True, slots=True)
class SignUpContext:
    """Data that sign-ups need: settings, the function that seals mails, and the URL of the portal."""

    terms: TrialSettings
    portal_url: str
    seal: Seal

    def require_offered(self) -> None:
        if not self.terms.offered:
            raise TrialsNotOffered(remedy="Ask the operator of this installation for a tenant.")


def request_sign_up(
    session: Session, context: SignUpContext, *, email: str, organisation: str, address: str | None
) -> None:
    """Mail a link that confirms the sign-up. If the address has an account, mail a notice that the account exists.

    Raises InvalidInput, TooManySignUps and TrialsNotOffered.
    """
    context.require_offered()
    email, organisation = validation.require_email(email), _require_organisation(organisation)
    now = utc_now()
    domain, source = email.rpartition("@")[2], _source_address(address)
    repository.lock_sign_ups(session)
    _require_room(session, context.terms, domain, source)
    is_known = people.has_account(session, email=email)
    token = secrets.token_urlsafe(32)
    row = SignUp(
        id=uuid4(),
        email=email,
        domain=domain,
        organisation=organisation,
        token_sha256=None if is_known else _hash_token(token),
        from_address=source,
        expires_at=now + LINK_LIFETIME,
        state="known" if is_known else "requested",
    )
    asked_before = repository.count_sign_ups(session, now - _DAY, SignUp.email == email)
    session.add(row)
    session.flush()
    if asked_before >= MAX_LINKS:
        return
    link = {
        "organisation": organisation,
        "link": f"{context.portal_url}/sign-up/{token}",
        "until": f"{row.expires_at:%Y-%m-%d %H:%M}",
    }
    mail.queue_mail(
        session,
        key=f"sign-up:{row.id}",
        template="sign-up-known" if is_known else "sign-up-confirm",
        recipient=email,
        values={"portal_url": context.portal_url} if is_known else link,
        seal=context.seal,
    )


def require_open_sign_up(session: Session, context: SignUpContext, *, token: str) -> SignUp:
    """Return the sign-up of a link, without using the link. Raises LinkRefused."""
    context.require_offered()
    return _require_sign_up(session, token, lock=False)


def confirm_sign_up(session: Session, context: SignUpContext, *, token: str, password: str, name: str = "") -> SignUp:
    """Confirm the sign-up of a link, and set the password.

    After the confirmation, `nac.onboarding.trials.provisioning` creates the tenant. Raises LinkRefused and
    InvalidInput. Raises NoTrialLeft if no trial is available; the link remains valid.
    """
    context.require_offered()
    row = _require_sign_up(session, token, lock=True)
    people.require_password(password, email=row.email)
    repository.lock_sign_ups(session)
    _require_room_to_confirm(session, context.terms, row.domain)
    if repository.count_open(session) >= context.terms.most:
        raise NoTrialLeft(remedy="Try again tomorrow with the same link, if the link has not expired by then.")
    if people.has_account(session, email=row.email):
        # Another link or an invitation created the account meanwhile.
        raise LinkRefused("This address already has an account.", remedy="Sign in with this account.")
    row.person_id = people.get_or_create_person(session, email=row.email)
    if name.strip():
        people.rename_person(session, actor=ACTOR, person_id=row.person_id, name=name)
    people.set_password(session, actor=ACTOR, person_id=row.person_id, password=password)
    row.state, row.confirmed_at, row.token_sha256 = "provisioning", utc_now(), None
    row.slug = _generate_slug(row.organisation)
    # The caller creates the tenant next. If that fails, the worker tries again at `due_at`.
    row.due_at, row.attempts = utc_now() + timedelta(minutes=2), 1
    session.flush()
    audit.append(session, actor=ACTOR, action="sign-up.confirm", target=row.email, after={"tenant": row.slug})
    return row


def find_trial(session: Session, *, tenant_id: TenantId) -> Trial | None:
    """Return the tenant's trial, or None. Also works in the tenant's scope."""
    return repository.get(session, tenant_id)


def require_trial(session: Session, *, tenant_id: TenantId, lock: bool = False) -> Trial:
    row = repository.get(session, tenant_id, lock=lock)
    if row is None:
        raise TrialNotFound(place="tenant")
    return row


def list_trials(
    session: Session, *, span: PageSpan | None = None, text: str = "", states: Collection[TrialState] = ()
) -> Sequence[Trial]:
    """List trials. `text` filters by a part of the organisation's name or of the mail address."""
    return repository.list_page(session, span=span or ORDERS.first(), text=text, states=states)


def slugs_by_tenant(session: Session, rows: Sequence[Trial]) -> dict[TenantId, str]:
    return repository.slugs_by_tenant(session, [row.tenant_id for row in rows])


def _require_sign_up(session: Session, token: str, *, lock: bool) -> SignUp:
    row = repository.get_by_token(session, _hash_token(token), lock=lock) if _TOKEN.fullmatch(token) else None
    if row is None or row.state != "requested" or row.expires_at <= utc_now():
        raise LinkRefused("The link was already used or has expired.", remedy="Sign up again.")
    return row


def _require_room(session: Session, terms: TrialSettings, domain: str, source: str | None) -> None:
    since = utc_now() - _DAY
    # All requests without a valid source address count as one source.
    of_source = repository.count_sign_ups(session, since, SignUp.from_address.is_not_distinct_from(source))
    full = (
        of_source >= terms.a_day_of_address,
        _is_organisation_domain(domain)
        and repository.count_sign_ups(session, since, SignUp.domain == domain)
        >= terms.a_day_of_domain * _SIGN_UPS_PER_CONFIRMED,
        repository.count_sign_ups(session, since) >= terms.a_day * _SIGN_UPS_PER_CONFIRMED,
    )
    if any(full):
        raise TooManySignUps(remedy="Try again tomorrow.")
    _require_room_to_confirm(session, terms, domain)


def _require_room_to_confirm(session: Session, terms: TrialSettings, domain: str) -> None:
    """Check the limits for the confirmation of a sign-up. Raises TooManySignUps."""
    since = utc_now() - _DAY
    of_domain = (
        repository.count_confirmed(session, since, SignUp.domain == domain) if _is_organisation_domain(domain) else 0
    )
    if of_domain >= terms.a_day_of_domain or repository.count_confirmed(session, since) >= terms.a_day:
        raise TooManySignUps(remedy="Try again tomorrow.")


def _is_organisation_domain(domain: str) -> bool:
    """Return whether the mail domain belongs to an organisation, and not to a public mail provider."""
    return domain not in PUBLIC_DOMAINS


def _require_organisation(text: str) -> str:
    """Return the checked name of an organisation. Raises InvalidInput.

    Admit mails the name to an unverified address, so the name must not contain a message or link.
    """
    name = require_name(text, place="organisation")
    if not is_mailable_name(name):
        raise InvalidInput(
            "Invalid name of an organisation.",
            place="organisation",
            remedy=f"Use at most {MAX_MAILED_CHARACTERS} characters and no URL.",
        )
    return name


def _source_address(address: str | None) -> str | None:
    """Return the source of a request: the IPv4 address or the IPv6 /64 network; None if the address is invalid.

    One person can use all addresses of a /64 network.
    """
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False).network_address)
    return str(found)


def _generate_slug(organisation: str) -> str:
    """Return a slug from the organisation's name, with a random suffix."""
    # Strip accents, so that "Söhne" becomes "sohne".
    plain = unicodedata.normalize("NFKD", organisation).encode("ascii", "ignore").decode()
    words = "-".join(_SLUG_WORD.findall(plain.lower()))[:_MAX_SLUG_CHARACTERS].strip("-")
    return f"{words or 'trial'}-{''.join(secrets.choice(_SLUG_LETTERS) for _ in range(6))}"


def _hash_token(token: str) -> bytes:
    return hashlib.sha256(b"admit sign-up\0" + token.encode()).digest()
