"""The outbox with real mail servers, and the rendering of mails with any values."""

from datetime import timedelta
from email import message_from_bytes, policy
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError, meta
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from nac.core.mail import outbox, rendering, service
from nac.core.mail.mailbox import MAX_MAILS, Mailbox
from nac.core.mail.smtp import MailServer, build_message
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.errors import InvalidInput
from nac.models import Mail
from tests.factories.certificates import SIGNING
from tests.mail.servers import LOOPBACK, ScriptedHandler, mailbox_server, serving

ANN = "ann@acme.example"
VALUES = {"organisation": "Acme <b>&</b> Söhne", "link": "https://admit.example/sign-up/secret", "until": "noon"}


def _queue_in(session: Session, **changed: object) -> bool:
    mail = {"key": "k", "template": "sign-up-confirm", "recipient": ANN, "values": VALUES}
    return service.queue_mail(session, **mail | changed, seal=SIGNING.sealer.seal)


def _queue(engine: Engine, **changed: object) -> bool:
    with session_scope(PlatformScope(), engine=engine) as session:
        return _queue_in(session, **changed)


def _send(server: MailServer, engine: Engine) -> int:
    return outbox.send_due(server, unseal=SIGNING.sealer.open, engine=engine)


def _mails(engine: Engine) -> list[Mail]:
    with session_scope(PlatformScope(), engine=engine) as session:
        return list(session.scalars(select(Mail).order_by(Mail.created_at)))


def _make_due(engine: Engine) -> None:
    with session_scope(PlatformScope(), engine=engine) as session:
        session.execute(update(Mail).values(due_at=utc_now() - timedelta(seconds=1)))


def test_mail_is_sent_once_as_text_and_html(app_engine, worker_engine, tmp_path):
    mailbox = Mailbox(tmp_path / "mail")
    with mailbox_server(mailbox) as server:
        assert _queue(app_engine)
        assert _queue(app_engine), "asked for twice"
        assert VALUES["link"].encode() not in (_mails(worker_engine)[0].values_sealed or b"")
        assert (_send(server, worker_engine), _send(server, worker_engine)) == (1, 0)
    (kept,) = mailbox.list_mails()
    assert kept.message["To"] == ANN
    assert kept.message["Auto-Submitted"] == "auto-generated"
    assert "Acme <b>&</b> Söhne" in kept.part("plain")
    assert "Acme &lt;b&gt;&amp;&lt;/b&gt; Söhne" in kept.part("html")
    assert VALUES["link"] in kept.part("plain")
    (row,) = _mails(worker_engine)
    assert (row.state, row.values_sealed) == ("sent", None)


def test_failed_transaction_sends_nothing(app_engine, worker_engine):
    with session_scope(PlatformScope(), engine=app_engine) as session:
        assert _queue_in(session)
        session.rollback()
    assert not _mails(worker_engine)


@pytest.mark.parametrize(
    ("answers", "state"), [(["451 4.3.0 Later"], "queued"), (["550 5.1.1 No such mailbox\x00"], "failed")]
)
def test_rejection_is_temporary_or_permanent(app_engine, worker_engine, answers, state):
    saying = ScriptedHandler(answers)
    with serving(saying) as server:
        _queue(app_engine)
        assert _send(server, worker_engine) == 0
        (row,) = _mails(worker_engine)
        assert row.state == state
        assert row.error.startswith(("451", "550"))
        _make_due(worker_engine)
        assert _send(server, worker_engine) == (state == "queued")


def test_unreachable_server_delays_mails_until_they_expire(app_engine, worker_engine):
    away = MailServer(LOOPBACK, 9, "none", "admit@admit.example")
    _queue(app_engine)
    for attempt in range(len(outbox.RETRY_AFTER) + 1):
        assert _mails(worker_engine)[0].state == "queued", attempt
        _make_due(worker_engine)
        assert _send(away, worker_engine) == 0
    (row,) = _mails(worker_engine)
    assert (row.state, row.values_sealed) == ("failed", None)


def test_resent_mail_has_the_same_message_id(app_engine, worker_engine):
    """The worker was killed between the response of the server and its own commit."""
    saying = ScriptedHandler()
    with serving(saying) as server, session_scope(PlatformScope(), engine=worker_engine) as session:
        _queue(app_engine)
        session.rollback()
        for _ in range(2):
            _send(server, worker_engine)
            with session_scope(PlatformScope(), engine=worker_engine) as again:
                sealed = SIGNING.sealer.seal(b'{"organisation": "a", "link": "b", "until": "c"}', _context(again))
                again.execute(update(Mail).values(state="queued", due_at=utc_now(), values_sealed=sealed))
    first, second = (message_from_bytes(content, policy=policy.default) for content in saying.taken)
    assert first["Message-ID"] == second["Message-ID"]


def _context(session) -> str:
    return f"mail:{session.scalars(select(Mail.id)).one()}"


@pytest.mark.parametrize("recipient", ["ann@acme.example\r\nBcc: bob@acme.example", "ann", "a b@acme.example", ""])
def test_recipient_cannot_inject_a_header(app_engine, recipient):
    with pytest.raises(InvalidInput):
        _queue(app_engine, recipient=recipient)


def test_missing_value_is_reported_to_the_caller(app_engine):
    with pytest.raises(UndefinedError), session_scope(PlatformScope(), engine=app_engine) as session:
        _queue_in(session, values={})


def test_mails_per_address_and_day_are_limited(app_engine):
    sent = [_queue(app_engine, key=str(number)) for number in range(service.MAX_PER_DAY + 2)]
    assert sent.count(True) == service.MAX_PER_DAY
    assert _queue(app_engine, key="other", recipient="bob@acme.example")


def test_old_sent_mails_are_deleted(app_engine, worker_engine):
    with serving(ScriptedHandler()) as server:
        _queue(app_engine)
        _send(server, worker_engine)
    assert outbox.prune(engine=worker_engine) == 0
    with session_scope(PlatformScope(), engine=worker_engine) as session:
        session.execute(update(Mail).values(ended_at=utc_now() - outbox.RETENTION - timedelta(days=1)))
    assert outbox.prune(engine=worker_engine) == 1


HEADERS = {"From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Type", "MIME-Version"}


def _variables(name: str) -> set[str]:
    environment = rendering._environment(escapes=True)
    source = (rendering._FOLDER / name).read_text()
    return meta.find_undeclared_variables(environment.parse(source))


@pytest.mark.parametrize("name", rendering.list_templates())
def test_each_template_has_a_subject_and_both_formats(name):
    values = dict.fromkeys(_variables(f"{name}.txt") | _variables(f"{name}.html"), 2)
    written = rendering.render(name, values)
    assert written.subject
    assert not written.subject.startswith("Subject")
    assert "{{" not in written.text + written.html
    assert max(map(len, written.text.splitlines())) < 140


@given(st.text(max_size=200))
def test_no_value_injects_a_header(value):
    written = rendering.RenderedMail(rendering.to_one_line(value), value, value)
    message = build_message(written, mail_id=UUID(int=1), sender="Admit <admit@admit.example>", recipient=ANN)
    read = message_from_bytes(message.as_bytes(), policy=policy.default)
    assert set(read.keys()) <= HEADERS
    assert read["To"] == ANN


def test_mailbox_keeps_the_newest(tmp_path, monkeypatch):
    monkeypatch.setattr("nac.core.mail.mailbox.MAX_MAILS", 3)
    mailbox = Mailbox(tmp_path)
    ids = [mailbox.put(f"Subject: {number}\n\n".encode()) for number in range(5)]
    assert [kept.id for kept in mailbox.list_mails()] == ids[-3:]
    assert mailbox.get("../" + ids[-1]) is None
    assert MAX_MAILS > 3
