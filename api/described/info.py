"""What the API is, its nouns, and how one says who asks."""

import tomllib
from pathlib import Path
from typing import Any, Final

from api.cookies import CSRF_HEADER, SESSION
from api.described.permissions import BEARER, COOKIE, CSRF

_TAGS = Path(__file__).with_name("tags.toml")
SUMMARY: Final = "Network access control for many tenants: devices, policies, certificates, sessions, logs."
DESCRIPTION: Final = """\
Admit decides which devices get onto the networks of many tenants, and how. Everything that it keeps is a noun below.

* **Who asks**: an API token (`Authorization: Bearer admit_...`), or a person's sign-in by cookie, whose changes carry
  the sign-in's token as `Admit-CSRF`. Each operation names its permission (`x-permission`).
* **Lists** are pages: `limit`, and `after`, which is `next` of the page before.
* **Changes** can be named by `Idempotency-Key`, then they are done once; `If-Match` refuses what was changed meanwhile.
  Of a tenant's change `Admit-Live` tells whether its cell decides by it already; `wait=live` waits for that.
* **Refusals** are problem details (RFC 9457): `code` is for programs and stays. A field or a query parameter that
  there is none of is refused.
* **Moments** are RFC 3339 with an offset, told in UTC. null means that there is none; "" is text that is empty.
"""


def tell_info(document: dict[str, Any]) -> None:
    document["info"] |= {
        "summary": SUMMARY,
        "description": DESCRIPTION,
        "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
    }
    document["servers"] = [{"url": "/", "description": "The installation that this was read from."}]
    words: dict[str, str] = tomllib.loads(_TAGS.read_text(encoding="utf-8"))
    used = {tag for path in document["paths"].values() for operation in path.values() for tag in operation["tags"]}
    document["tags"] = [{"name": name, "description": told} for name, told in words.items() if name in used]


def tell_security(document: dict[str, Any]) -> None:
    document["components"]["securitySchemes"] = {
        BEARER: {"type": "http", "scheme": "bearer", "description": "An API token: admit_<id>_<secret>."},
        COOKIE: {
            "type": "apiKey",
            "in": "cookie",
            "name": f"__Host-{SESSION}",
            "description": f"A person's sign-in, as signIn sets it; over plain http its name is `{SESSION}`.",
        },
        CSRF: {
            "type": "apiKey",
            "in": "header",
            "name": CSRF_HEADER,
            "description": "Beside the cookie, for each change: `csrf_token` of the sign-in or of GET /v1/me.",
        },
    }
