"""Queue of mails. The transaction that causes a mail also queues the mail. The worker sends the mail later."""

import json
from collections.abc import Mapping
from datetime import timedelta
from uuid import uuid4

from sqlalchemy.orm import Session

from nac.core.mail import repository
from nac.core.mail.rendering import render
from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.kit.sealing import Seal
from nac.kit.validation import require_email
from nac.models.mail import mail_context

# Maximum number of mails to one address within a day. Admit drops further mails.
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
    """Queue a mail, unless a mail with this `key` exists. Returns False if the address has reached its daily limit.

    Needs PlatformScope or the tenant's scope. `values` are the values of the template and may be secret.
    Raises InvalidInput if the address is invalid, and jinja2.UndefinedError if a value is missing.
    """
    recipient = require_email(recipient, place="recipient")
    # Render the mail here only to raise errors of the template in the caller.
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
