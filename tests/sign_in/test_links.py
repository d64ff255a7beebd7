"""Links for a password reset and for invitations: sent through the API and the worker into a mailbox."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import Engine, select, text

from nac.accounts.account_mails import MAX_LINKS_PER_HOUR, AccountMailer, AccountMailWriter
from nac.accounts.members import service as members
from nac.accounts.people import service as people
from nac.accounts.sign_in import attempts
from nac.accounts.sign_in.attempts import FREE_ANYWHERE, FREE_LINKS
from nac.core.mail import outbox
from nac.core.mail.mailbox import Mailbox, StoredMail
from nac.core.mail.service import MAX_PER_DAY
from nac.kit.db import CredentialScope, PlatformScope, get_process_engine, session_scope
from nac.models import AuditEntry, Person, SignOn
from tests.accounts.conftest import Field, whole
from tests.api.v1.conftest import MakeToken
from tests.factories.certificates import SIGNING
from tests.factories.tenancy import ACTOR
from tests.mail.servers import mailbox_server
from tests.sign_in.conftest import EMAIL, PASSWORD, Browser, code_of
from tests.sign_in.test_sign_in import with_totp
from tests.statements import counted

MakeBrowser = Callable[[], Browser]
NEW = "another horse battery"
WRITER = AccountMailWriter(AccountMailer("http://localhost:8460", SIGNING.sealer.seal))


class Post:
    """Mails that the worker renders and sends."""

    def __init__(self, engine: Engine, mailbox: Mailbox) -> None:
        self._engine = engine
        self._mailbox = mailbox

    def deliver(self) -> list[tuple[str, str, str]]:
        """The received mails as (recipient, subject, token of the link), oldest first."""
        there = {stored_mails.id for stored_mails in self._mailbox.list_mails()}
        WRITER.write_waiting(engine=self._engine)
        with mailbox_server(self._mailbox) as server:
            outbox.send_due(server, unseal=SIGNING.sealer.open, engine=self._engine)
        found = []
        for stored_mails in self._mailbox.list_mails():
            if stored_mails.id not in there:
                link = re.search(r"http://localhost:8460/new-password/(admitlink_\S+)", stored_mails.part("plain"))
                found.append((stored_mails.message["To"], stored_mails.message["Subject"], link[1] if link else ""))
        return found

    def stored_mails(self) -> Sequence[StoredMail]:
        return self._mailbox.list_mails()


@pytest.fixture
def post(worker_engine: Engine, tmp_path: Path) -> Post:
    return Post(worker_engine, Mailbox(tmp_path / "mail"))


def ask(mine: Browser, email: str = EMAIL) -> httpx.Response:
    return mine.ask("POST", "/sign-in/forgotten-password", {"email": email})


def test_password_is_reset_by_a_link_that_works_once(
    browser: MakeBrowser, ann: Person, post: Post, owner_engine: Engine
) -> None:
    there, mine = browser(), browser()
    there.sign_in()
    secret = with_totp(there)
    assert ask(mine, EMAIL.upper()).status_code == 202
    [(recipient, subject, token)] = post.deliver()
    assert (recipient, subject) == (EMAIL, "Reset your password at Admit")
    assert mine.ask("POST", "/sign-in/new-password", {"token": token, "password": NEW}).status_code == 204
    # All other sessions end, the old password is invalid, and the second factor is still required.
    assert there.refused("GET", "/me") == (401, "sign-in-over")
    assert browser().refused("POST", "/sign-in", {"email": EMAIL, "password": PASSWORD}) == (401, "sign-in-refused")
    needed = mine.sign_in(password=NEW)
    assert (needed["state"], needed["methods"]) == ("factors-needed", ["totp"])
    mine.good("POST", "/sign-in/totp", {"challenge": needed["challenge"], "code": code_of(secret, steps=1)})
    again = {"token": token, "password": PASSWORD}
    assert mine.refused("POST", "/sign-in/new-password", again) == (410, "link-refused")
    with owner_engine.connect() as connection:
        told = connection.execute(
            text("SELECT actor, action, request_id IS NOT NULL FROM audit_log WHERE target = :who"), {"who": EMAIL}
        ).all()
        assert connection.scalar(text("SELECT count(*) FROM account_mails")) == 0
    assert ("system:sign-in", "password-link.make", True) in told
    assert (f"person:{EMAIL}", "person.change-password", True) in told


@pytest.mark.parametrize("email", ["nobody@example.com", "invited@example.com", "gone@example.com"])
def test_reset_request_does_not_reveal_accounts(
    browser: MakeBrowser, ann: Person, make_person, app_engine: Engine, post: Post, email: str
) -> None:
    """The response and the statements are equal for unknown accounts.

    A user without a password, or a disabled user, cannot sign in by mail.
    """
    make_person("invited@example.com", "")
    gone = make_person("gone@example.com")
    with session_scope(PlatformScope(), engine=app_engine) as session:
        people.set_disabled(session, actor=ACTOR, person_id=gone.id, disabled=True)
    answers = []
    for each in (EMAIL, email):
        with counted(get_process_engine()) as statements:
            answer = ask(browser(), each)
        answers.append((answer.status_code, answer.content, set(answer.headers), statements))
    assert answers[0] == answers[1]
    came = post.deliver()
    assert came[0][0] == EMAIL
    assert came[1:] == (
        [("invited@example.com", "Your account at Admit has no password", "")] if "invited" in email else []
    )


def test_reset_requests_for_others_are_limited_and_harmless(browser: MakeBrowser, ann: Person, post: Post) -> None:
    mine, other = browser(), browser()
    mine.sign_in()
    assert [ask(other).status_code for _ in range(FREE_LINKS + 1)] == [202] * FREE_LINKS + [429]
    sent = post.deliver()
    assert len(sent) == MAX_LINKS_PER_HOUR
    # The user gets a mail from a known browser, and earlier links remain valid.
    assert ask(mine).status_code == 202
    assert len(post.deliver()) == 1
    body = {"token": sent[0][2], "password": NEW}
    assert browser().ask("POST", "/sign-in/new-password", body).status_code == 204
    # The first used link makes the other links invalid.
    body["token"] = sent[1][2]
    assert browser().refused("POST", "/sign-in/new-password", body) == (410, "link-refused")


def test_links_to_one_user_are_limited_from_all_addresses(
    browser: MakeBrowser, ann: Person, post: Post, owner_engine: Engine
) -> None:
    for number in range(3 * MAX_LINKS_PER_HOUR):
        with owner_engine.begin() as connection:
            connection.execute(text("DELETE FROM sign_in_attempts"))
        assert ask(browser()).status_code == 202, number
    assert len(post.deliver()) == MAX_LINKS_PER_HOUR


def test_attacked_user_signs_in_by_known_browser_or_mail(
    browser: MakeBrowser, ann: Person, post: Post, app_engine: Engine
) -> None:
    known, stranger = browser(), browser()
    known.sign_in()
    for number in range(FREE_ANYWHERE):
        with session_scope(CredentialScope(""), engine=app_engine) as session:
            address = f"198.51.100.{number}"
            attempts.password_attempt(email_tag=attempts.make_email_tag(EMAIL), address=address, device_id=None).begin(
                session
            )
    refused = stranger.ask("POST", "/sign-in", {"email": EMAIL, "password": PASSWORD})
    assert (refused.status_code, refused.json()["code"]) == (429, "place-not-known")
    assert "link by mail" in refused.json()["remedy"]
    assert known.sign_in()["state"] == "signed-in"
    assert ask(stranger).status_code == 202
    token = post.deliver()[-1][2]
    assert stranger.ask("POST", "/sign-in/new-password", {"token": token, "password": NEW}).status_code == 204
    assert stranger.sign_in(password=NEW)["state"] == "signed-in"


def test_pages_lead_to_a_new_password(client: httpx.Client, browser: MakeBrowser, ann: Person, post: Post) -> None:
    assert 'action="/new-password"' in client.get("/new-password").text
    assert client.post("/new-password", data={"email": '"><script>'}).status_code == 422
    assert client.post("/new-password", data={"email": EMAIL}).status_code == 202
    [(_, _, token)] = post.deliver()
    page = f"/new-password/{token}"
    # A view of the page changes nothing, and the page is not cached.
    for _ in range(2):
        shown = client.get(page)
        assert (shown.status_code, shown.headers["cache-control"]) == (200, "no-store")
    assert "do not match" in client.post(page, data={"password": NEW, "again": "x"}).text
    assert "too short" in client.post(page, data={"password": "x", "again": "x"}).text
    done = client.post(page, data={"password": NEW, "again": NEW})
    assert done.status_code == 200, done.text
    assert "admit-device" in done.headers["set-cookie"]
    assert client.get(page).status_code == 410
    assert client.get("/new-password/x").status_code == 410
    assert browser().sign_in(password=NEW)["state"] == "signed-in"


def test_new_members_are_invited(client, browser, ann, post, make_token, field, within, owner_engine) -> None:
    headers = {"Authorization": f"Bearer {make_token(field.acme)}"}

    def add(email: str, **more: object) -> dict:
        body = {"email": email, "role": "auditor"} | more
        answer = client.post("/v1/msps/acme/members", json=body, headers=headers)
        assert answer.status_code == 201, answer.text
        return answer.json()

    shapes = {frozenset(add(email)) for email in ("new@example.com", EMAIL)}
    assert len(shapes) == 1, "whether there is an account shows in no answer"
    add("quiet@example.com", invite=False)
    [(first, subject, token), (second, _, none)] = post.deliver()
    assert (first, second, none) == ("new@example.com", EMAIL, "")
    assert "acme" in subject.lower()
    mine = browser()
    assert mine.ask("POST", "/sign-in/new-password", {"token": token, "password": NEW}).status_code == 204
    mine.sign_in("new@example.com", NEW)
    assert mine.ask("GET", "/msps/acme").status_code == 200
    # Users who sign in through a provider cannot bypass it by mail.
    with within(field.bolt) as session:
        session.add(
            SignOn(id=uuid4(), settings={"issuer": "https://x.example"}, secret_sealed=b"", msp_id=field.bolt.msp_id)
        )
        member = members.create_member(session, **whole(field.bolt), email="late@example.com", role="auditor")
    bolt = {"Authorization": f"Bearer {make_token(field.bolt)}"}
    path = f"/members/{member.membership.id}/invitation"
    assert client.post(f"/v1/msps/acme{path}", headers=headers).status_code == 404
    assert client.post(f"/v1/msps/bolt{path}", headers=bolt).status_code == 204
    assert [(each[0], each[2]) for each in post.deliver()] == [("late@example.com", "")]
    with owner_engine.connect() as connection:
        assert connection.scalar(select(AuditEntry.id).where(AuditEntry.target == "late@example.com").limit(1))


def test_invitations_are_limited_and_contain_no_custom_text(
    client: httpx.Client, browser: MakeBrowser, ann: Person, post: Post, make_token: MakeToken, field: Field
) -> None:
    """Otherwise a tenant could send mail to anyone, and use up a user's mails of the day."""
    headers = {"Authorization": f"Bearer {make_token(field.alpha)}"}
    lure = "Your account is locked: https://evil.example/unlock"
    assert client.patch("/v1/tenants/alpha", json={"name": lure}, headers=headers).status_code == 200
    made = client.post("/v1/tenants/alpha/members", json={"email": EMAIL, "role": "auditor"}, headers=headers)
    path = f"/v1/tenants/alpha/members/{made.json()['id']}/invitation"
    for _ in range(MAX_PER_DAY + 2):
        assert client.post(path, headers=headers).status_code == 204
    came = post.deliver()
    assert [(to, subject) for to, subject, _ in came] == [(EMAIL, "You are a member of alpha at Admit")] * 5
    assert not any("evil" in mail.part("plain") or "token:" in mail.part("plain") for mail in post.stored_mails())
    assert ask(browser()).status_code == 202
    assert [subject for _, subject, _ in post.deliver()] == ["Reset your password at Admit"]
