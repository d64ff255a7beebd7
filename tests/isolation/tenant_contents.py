"""Two MSPs with two tenants each, and one of every thing in each: created through the API, or as rows where time or
radiusd would create them."""

import base64
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import Engine, insert, select, update
from sqlalchemy.orm import Session

from nac.accounts.sign_in.secret_texts import SignInText
from nac.engine.dictionary import read_dictionary, to_json
from nac.kit.clock import utc_now
from nac.kit.db.base import Base
from nac.logs.exports.export_folder import MANIFEST, ExportFolder
from nac.models import (
    CoaRequest,
    Endpoint,
    ExportJob,
    Job,
    Person,
    RadiusSession,
    Redecision,
    SignIn,
    SignUp,
    Trial,
)
from nac.onboarding.tenant_files.file_jobs import get_path
from pki.issuance import issue_root
from pki.keys import generate_key
from pki.names import subject_name
from pki.profiles import PROFILES
from pki.serials import random_serial
from tests.dictionary.radiusd_library import FOLDER
from tests.factories.rows import make_row
from tests.isolation.request_examples import Things

# Send the operation of this name for these things, and return the successful response.
Ask = Callable[[str, Things], Any]

MSPS = ("acme", "bolt")
TENANTS = {f"{msp}-{number}": msp for msp in MSPS for number in (1, 2)}


@cache
def dictionary() -> bytes:
    return to_json(read_dictionary(FOLDER / "dictionary"))


@cache
def _root() -> str:
    given = {"key": generate_key(), "subject": subject_name("Root of nobody"), "serial": random_serial()}
    return issue_root(PROFILES["root"], now=utc_now(), **given).public_bytes(Encoding.PEM).decode()


def _new_root(name: str) -> str:
    given = {"key": generate_key(), "subject": subject_name(name), "serial": random_serial()}
    return issue_root(PROFILES["root"], now=utc_now(), **given).public_bytes(Encoding.PEM).decode()


def named(slug: str, number: int) -> dict[str, Any]:
    """Things that are identified by name; also unknown ones."""
    now = utc_now()
    return {
        "mark": slug,
        "log": "auth",
        "profile": "eap-client-device",
        "file": "manifest.json",
        "snippet": "cisco-iosxe-ibns2",
        "soon": (now + timedelta(days=1)).isoformat(),
        "lately": (now - timedelta(hours=1)).isoformat(),
        "domain": f"{slug}.example",
        "version": 1,
        "number": 1,
        "cell": "cell-1",
        "mac": f"00:00:5e:00:{number:02x}:01",
        "found_mac": f"00:00:5e:00:{number:02x}:02",
        "new_mac": f"00:00:5e:00:{number:02x}:03",
        "place": number,
        "new_range": f"10.{number + 100}.0.0/28",
        "lease": f"10.{number}.0.7",
        "free_address": f"10.{number}.0.9",
        "new_root": _root(),
        **{
            name: f"{name.replace('_', '-')}-{slug}"
            for name in (
                *("new_name", "new_slug", "site", "idle_site", "policy", "idle_policy", "drafted_policy", "group"),
                *("idle_group", "user_group", "feed", "paused_feed", "slug_of_role", "slug_of_idle_role", "template"),
                *("idle_template", "stopped_template", "user_name", "nas_name"),
            )
        },
        "new_email": f"new@{slug}.example",
    }


@cache
def nonexistent_values() -> dict[str, Any]:
    """Unknown ids, one for each kind of existing thing. Read only."""
    ids = (
        *(
            "member_id",
            "token_id",
            "sign_on_session",
            "session_id",
            "waiting_job",
            "failed_job",
            "job_id",
            "export_job",
        ),
        *("tenant_id", "rollout_id", "stopped_rollout", "secret", "nas", "user", "authority", "old_authority"),
        *(
            "group_id",
            "idle_group_id",
            "user_group_id",
            "external_authority",
            "self_test_id",
            "sign_on_id",
            "passkey_id",
            "person_id",
        ),
    )
    rows = (
        *("entry_id", "session", "request", "failed_request", "redecision", "held_redecision", "hold", "export"),
        *("waiting_export", "failed_export", "done_export"),
    )
    moment = "1767225600000000-1"
    return {
        **named("nobody", 99),
        "tenant": "nobody",
        "msp": "nobody",
        **{name: str(uuid4()) for name in ids},
        **dict.fromkeys(rows, 987_654_321),
        **dict.fromkeys(("decision", "record"), moment),
        **dict.fromkeys(("serial", "suspended_serial", "server_serial"), "7f" * 16),
        **dict.fromkeys(("still_tenant", "leaving_tenant", "second_tenant", "follower"), "nobody"),
        "tenant_file": base64.b64encode(b"none").decode(),
        "root_key": "none",
        "source": "source-nobody",
        "pool": "pool-nobody",
    }


class TenantFiller:
    """Creates the things. `ask` has all permissions, and `owner` reaches each table."""

    def __init__(self, ask: Ask, owner: Engine, cell_id: int, exports: Path) -> None:
        self._ask = ask
        self._owner = owner
        self._cell_id = cell_id
        self._exports = exports

    def member(self, level: str, things: dict[str, Any]) -> None:
        """Accounts and their data."""
        for role in ("slug_of_role", "slug_of_idle_role"):
            if level != "Platform":
                self._ask(f"create{level}Role", things | {"new_slug": things[role]})
        given = things if level != "Platform" else things | {"slug_of_role": "auditor"}
        things["slug_of_role"] = given["slug_of_role"]
        member = self._ask(f"create{level}Member", given | {"new_email": f"member@{given['domain']}"})
        things["member_id"] = member["id"]
        things["token_id"] = self._ask(f"create{level}Token", given | {"new_name": f"token-{given['mark']}"})["id"]
        if level != "Platform":
            things["sign_on_id"] = self._ask(f"update{level}SignOn", things)["id"]
        self._ask(f"update{level}SignInRules", things)

    def jobs(self, things: dict[str, Any], **owner: Any) -> None:
        now = utc_now()
        title = f"Work of {things['domain']}"
        rows = {
            "waiting_job": Job(kind="test.wait", title=title, asked_by="x", input_sealed=b"x", **owner),
            "failed_job": Job(
                kind="test.fail",
                title=title,
                asked_by="x",
                input_sealed=b"x",
                state="failed",
                started_at=now,
                ended_at=now,
                problem={"code": "x", "title": "x"},
                needs=[],
                **owner,
            ),
        }
        with Session(self._owner) as session, session.begin():
            session.add_all(rows.values())
            session.flush()
            things |= {name: str(row.id) for name, row in rows.items()}
        things["job_id"] = things["failed_job"]

    def person(self, things: dict[str, Any], **via: Any) -> None:
        """Two sign-ins of a member: one with a password, used below, and one through the owner's provider."""
        mail = f"member@{things['domain']}"
        made = SignInText.make()
        until = utc_now() + timedelta(days=1)
        with Session(self._owner) as session, session.begin():
            person = session.scalars(select(Person).where(Person.email == mail)).one()
            rows = [
                SignIn(
                    # Requests with it do not update its last use.
                    last_seen_at=until,
                    public_id=text_.public_id,
                    secret_sha256=text_.digest(),
                    person_id=person.id,
                    factors=["password", "totp"],
                    expires_at=until,
                    user_agent=mail,
                    **more,
                )
                for text_, more in (
                    (made, {}),
                    (SignInText.make(), {"sign_on_id": things["sign_on_id"], **via}),
                    (SignInText.make(), {}),
                )
            ]
            session.add_all(rows)
            session.flush()
            things["sign_on_session"], things["session_id"] = str(rows[1].id), str(rows[2].id)
            passkey = Base.metadata.tables["passkeys"]
            things["passkey_id"] = str(
                session.scalar(
                    insert(passkey)
                    .values(person_id=person.id, credential_id=mail, public_key=b"x", sign_count=0)
                    .values(name=f"key-{things['mark']}", backed_up=False)
                    .returning(passkey.c.id)
                )
            )
            things["person_id"] = str(person.id)
        things["cookie"], things["csrf"] = made.reveal(), made.csrf_token()

    def msp(self, things: dict[str, Any]) -> None:
        """Fill an MSP, after its tenants."""
        for slug in ("template", "idle_template", "stopped_template"):
            self._ask("createTemplate", things | {"new_slug": things[slug]})
        for slug, follower, rollout in (
            ("template", "follower", "rollout_id"),
            ("stopped_template", "second_tenant", "stopped_rollout"),
        ):
            given = things | {"template": things[slug], "stopped_template": things[slug]}
            self._ask("createTemplateVersion", given)
            self._ask("followTemplate", given | {"second_tenant": things[follower]})
            things[rollout] = self._ask("startRollout", given | {"second_tenant": things[follower]})["id"]
        self._ask(
            "pauseRollout", things | {"template": things["stopped_template"], "rollout_id": things["stopped_rollout"]}
        )
        things["export_job"] = self._ask("exportTenant", things | {"tenant": things["follower"]})["id"]
        with Session(self._owner) as session, session.begin():
            session.execute(update(Job).where(Job.id == UUID(things["export_job"])).values(state="done"))
        path = get_path(self._exports, things["export_job"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"Files of {things['mark']}")
        # A tenant whose deletion is pending.
        things["leaving_tenant"] = f"{things['mark']}-3"
        self._ask("createTenantOfMsp", things | {"new_slug": things["leaving_tenant"]})
        self._ask("deleteTenant", things | {"tenant": things["leaving_tenant"]})

    def tenant(self, things: dict[str, Any]) -> None:
        """Fill an existing tenant."""
        ask = self._ask
        ask("startSecretRotation", things)
        for name in ("site", "idle_site"):
            ask("createSite", things | {"new_slug": things[name]})
        for name in ("group", "idle_group"):
            things[f"{name}_id"] = ask("createEndpointGroup", things | {"new_name": things[name]})["id"]
        things["user_group_id"] = ask("createUserGroup", things | {"new_name": things["user_group"]})["id"]
        for name in ("policy", "idle_policy", "drafted_policy"):
            ask("createPolicy", things | {"new_slug": things[name]})
        for name in ("policy", "drafted_policy"):
            ask("updatePolicyDraft", things | {"policy": things[name]})
        for _ in range(2):
            ask("publishPolicy", things | {"drafted_policy": things["policy"]})
            ask("updatePolicyDraft", things)
        ask("updateSite", things)
        ask("createEndpoint", things | {"new_mac": things["mac"], "new_name": f"device-{things['mark']}"})
        ask("updateEndpointPosture", things)
        things["nas"] = ask("createNas", things | {"new_name": things["nas_name"]})["id"]
        things["user"] = ask("createUser", things | {"new_name": things["user_name"]})["id"]
        things["source"] = f"source-{things['mark']}"
        ask("createIdentitySource", things | {"new_name": things["source"]})
        things["pool"] = f"pool-{things['mark']}"
        ask("createPool", things | {"new_name": things["pool"], "new_range": f"10.{things['place']}.0.0/28"})
        for name in ("feed", "paused_feed"):
            ask("createFeed", things | {"new_slug": things[name]})
        ask("pauseFeed", things | {"feed": things["paused_feed"]})
        for change in (
            "updateScepWebhook",
            "updateRedecisionSettings",
            "updateKeyStore",
            "updateCertificateProfile",
            "updateRetention",
        ):
            ask(change, things)
        things["hold"] = ask("createRetentionHold", things)["id"]
        things["secret"] = ask("createEnrolmentSecret", things | {"new_name": f"secret-{things['mark']}"})["id"]
        self._certificates(things)
        things["export"] = ask("startExport", things)["id"]
        things["self_test_id"] = ask("startSelfTest", things)["id"]
        things["tenant_file"] = base64.b64encode(f"file of {things['mark']}".encode()).decode()
        self._rows(things)
        things["entry_id"] = ask("listTenantAudit", things)["items"][0]["id"]

    def _certificates(self, things: dict[str, Any]) -> None:
        ask = self._ask
        things["serial"] = ask("issueCertificate", things | {"new_name": f"cert-{things['mark']}"})["certificate"][
            "serial"
        ]
        suspended = ask("issueCertificate", things | {"new_name": f"idle-{things['mark']}"})["certificate"]["serial"]
        ask("suspendCertificate", things | {"serial": suspended})
        things["suspended_serial"] = suspended
        things["server_serial"] = ask("issueServerCertificate", things)["certificate"]["serial"]
        things["authority"] = "issuing"
        before = {each["kind"]: each["id"] for each in ask("listAuthorities", things)["items"]}
        ask("rollOverAuthorities", things)
        things["old_authority"] = before["issuing"]
        things["external_authority"] = ask("importAuthorities", things | {"new_root": _new_root(things["domain"])})[
            "items"
        ][0]["id"]
        things["root_key"] = ask("exportRootKey", things)["key"]

    def _rows(self, things: dict[str, Any]) -> None:
        tenant_id, mac = things["tenant_id"], things["mac"]
        now = utc_now()
        mark = {"identity": things["user_name"], "mac": mac}
        tables = Base.metadata.tables
        with Session(self._owner) as session, session.begin():
            for status, found in (("discovered", things["found_mac"]),):
                session.add(Endpoint(tenant_id=tenant_id, mac=found, name=f"found-{things['domain']}", status=status))
            live = RadiusSession(
                tenant_id=tenant_id,
                nas_key="n",
                session_id=f"s-{things['domain']}",
                mac_key=mac,
                **{"started_at": now, "updated_at": now, "nas_id": things["nas"], "nas_port": "1", **mark},
            )
            session.add(live)
            session.flush()
            asked = {
                "tenant_id": tenant_id,
                "session_row": live.id,
                "session_id": live.session_id,
                "mac": mac,
                "reason": "requested",
                "nas_id": things["nas"],
                "identity": things["user_name"],
                "expires_at": now + timedelta(hours=1),
            }
            waiting, failed = CoaRequest(**asked), CoaRequest(**asked, state="refused", kind="bounce")
            held = Redecision(tenant_id=tenant_id, scope="all", state="waiting", waits_for="preview", cause=mark["mac"])
            period = {"since": now - timedelta(days=1), "until": now, "done_until": now - timedelta(days=1)}
            job = {"tenant_id": tenant_id, "log": "auth", "format": "csv", "asked_by": things["domain"], **period}
            exports = [ExportJob(**job), *(ExportJob(**job, state=state, ended_at=now) for state in ("failed", "done"))]
            session.add_all((waiting, failed, held, *exports))
            session.flush()
            things |= {"session": live.id, "request": waiting.id, "failed_request": failed.id}
            things |= {
                "held_redecision": held.id,
                "redecision": held.id,
                "waiting_export": exports[0].id,
                "failed_export": exports[1].id,
            }
            things["done_export"] = exports[2].id
            folder = ExportFolder(self._exports).make(tenant_id, exports[2].id)
            (folder / MANIFEST).write_text(f"Export of {things['mark']}")
            for log, name in (("auth_log", "decision"), ("accounting_log", "record")):
                row = tables[log]
                more = {"at": now, "cell_id": self._cell_id, **mark}
                if log == "auth_log":
                    more |= {"method": "mab", "permitted": True, "reason": "rule-permitted"}
                else:
                    more |= {"status_type": "Start", "session_id": live.session_id, "attributes": []}
                make_row(session, row, tenant_id, **more)
                number = session.scalar(select(row.c.id).where(row.c.tenant_id == tenant_id))
                things[name] = f"{int(now.timestamp() * 1_000_000)}-{number}"
            session.execute(
                update(tables["pool_addresses"])
                .where(tables["pool_addresses"].c.tenant_id == tenant_id)
                .where(tables["pool_addresses"].c.address == things["lease"])
                .values(state="leased", mac=things["found_mac"], until=now + timedelta(hours=1), decided_at=now)
            )
            usage = tables["usage_hours"]
            make_row(session, usage, tenant_id, **({"identity": things["user_name"]} if "identity" in usage.c else {}))
            sign_up = SignUp(
                email=f"trial@{things['domain']}",
                domain=things["domain"],
                state="done",
                organisation=things["domain"],
                expires_at=now,
            )
            session.add(sign_up)
            session.flush()
            session.add(
                Trial(
                    tenant_id=tenant_id,
                    sign_up_id=sign_up.id,
                    organisation=things["domain"],
                    email=sign_up.email,
                    ends_at=now + timedelta(days=9),
                    most_endpoints=9,
                    purged_at=now + timedelta(days=30),
                    most_authentications=9,
                )
            )
