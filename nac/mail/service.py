"""Mails leave by an outbox: the row is written in the transaction of what it tells of, and the worker sends it."""

import json
from collections.abc import Mapping
from datetime import timedelta
from uuid import uuid4

from sqlalchemy.orm import Session

from nac.clock import utc_now
from nac.ids import TenantId
from nac.mail import repository
from nac.mail.rendering import render
from nac.models.mail import mail_context
from nac.people.service import require_email
from nac.sealing import Seal

# To one address within a day: what is more is not sent, whoever asks for it.
MAX_PER_DAY = 20
_DAY = timedelta(days=1)

TemplateValue = str | int | bool


def queue_mail(
    session: Session,
    *,
    key: str,
    template: str,
    recipient: str,
    values: Mapping[str, TemplateValue],
    seal: Seal,
    tenant_id: TenantId | None = None,
) -> bool:
    """Has the mail sent after the commit, once for each `key`; False where the address has had enough of them today.

    In PlatformScope, or in that of the tenant. `values` are those of the template, and may be secret. Raises
    InvalidInput for an address that is none, and what Jinja2 raises where a value is missing.
    """
    recipient = require_email(recipient, place="recipient")
    # What cannot be written is told to who asks for it, not to the worker.
    render(template, values)
    if repository.count_since(session, recipient, utc_now() - _DAY) >= MAX_PER_DAY:
        return False
    mail_id = uuid4()
    sealed = seal(json.dumps(dict(values)).encode(), mail_context(mail_id))
    repository.create(
        session,
        {
            "id": mail_id,
            "tenant_id": tenant_id,
            "key": key,
            "template": template,
            "recipient": recipient,
            "values_sealed": sealed,
        },
    )
    return True
