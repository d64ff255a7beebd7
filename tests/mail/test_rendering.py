"""Mail rendering with any values."""

from email import message_from_bytes, policy
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import meta

from nac.core.mail import rendering
from nac.core.mail.mailbox import MAX_MAILS, Mailbox
from nac.core.mail.smtp import build_message

HEADERS = {
    *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Type", "MIME-Version"),
}


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
    message = build_message(
        written, mail_id=UUID(int=1), sender="Admit <admit@admit.example>", recipient="ann@acme.example"
    )
    read = message_from_bytes(message.as_bytes(), policy=policy.default)
    assert set(read.keys()) <= HEADERS
    assert read["To"] == "ann@acme.example"


def test_mailbox_keeps_the_newest(tmp_path, monkeypatch):
    monkeypatch.setattr("nac.core.mail.mailbox.MAX_MAILS", 3)
    mailbox = Mailbox(tmp_path)
    ids = [mailbox.put(f"Subject: {number}\n\n".encode()) for number in range(5)]
    assert [kept.id for kept in mailbox.list_mails()] == ids[-3:]
    assert mailbox.get("../" + ids[-1]) is None
    assert MAX_MAILS > 3
