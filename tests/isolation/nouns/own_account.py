"""The account, sign-ins and factors of the caller, and the sign-up."""

from datetime import timedelta

from sqlalchemy import insert, select

from nac.accounts.sign_in.secret_texts import SignInText
from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db.base import Base
from nac.models import Person, SignIn
from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_ids


def _fill_owner(filler: Filler, things: Things, owner: Owner) -> None:
    """Sign-ins of a member: one that requests use, one through the owner's provider, and another."""
    if owner == Owner():
        return
    mail = f"member@{things['domain']}"
    used = SignInText.make()
    via = {"sign_on_id": things["sign_on_id"], **{f"via_{name}": value for name, value in owner.columns().items()}}
    until = utc_now() + timedelta(days=1)
    with filler.session() as session:
        person = session.scalars(select(Person).where(Person.email == mail)).one()
        rows = [
            SignIn(
                # Requests with it do not update its last use.
                last_seen_at=until,
                public_id=text.public_id,
                secret_sha256=text.digest(),
                person_id=person.id,
                factors=["password", "totp"],
                expires_at=until,
                user_agent=mail,
                **more,
            )
            for text, more in ((used, {}), (SignInText.make(), via), (SignInText.make(), {}))
        ]
        session.add_all(rows)
        session.flush()
        things["sign_on_session"], things["session_id"] = str(rows[1].id), str(rows[2].id)
        passkeys = Base.metadata.tables["passkeys"]
        passkey = insert(passkeys).values(person_id=person.id, credential_id=mail, public_key=b"x", sign_count=0)
        named = passkey.values(name=f"key-{things['mark']}", backed_up=False)
        things["passkey_id"] = str(session.scalar(named.returning(passkeys.c.id)))
        things["person_id"] = str(person.id)
    things["cookie"], things["csrf"] = used.reveal(), used.csrf_token()


NOUN = Noun(
    operations={
        "getMe": Operation(7),
        "updateMe": Operation(),
        "listMyPlaces": Operation(5),
        "listMySessions": Operation(5),
        "deleteMySession": Operation(7),
        "deleteMyOtherSessions": Operation(10),
        "updateMyPassword": Operation(),
        "confirmByPassword": Operation(),
        "startPasskeyConfirmation": Operation(5),
        "confirmByPasskey": Operation(),
        "startMyTotp": Operation(10),
        "confirmMyTotp": Operation(),
        "deleteMyTotp": Operation(9),
        "listMyPasskeys": Operation(9),
        "startMyPasskey": Operation(9),
        "createMyPasskey": Operation(),
        "deleteMyPasskey": Operation(11),
        "createMyRecoveryCodes": Operation(12),
        "listMySignIns": Operation(5),
        "listMyGrants": Operation(5),
        "signIn": Operation(),
        "signInByTotp": Operation(),
        "signInByRecoveryCode": Operation(),
        "startPasskeySignIn": Operation(0),
        "signInByPasskey": Operation(),
        "requestPasswordLink": Operation(),
        "resetPassword": Operation(),
        "signOut": Operation(7),
        "signUp": Operation(),
        "confirmSignUp": Operation(),
    },
    unknown=unknown_ids("sign_on_session", "session_id", "passkey_id"),
    after=("members", "sign_on"),
    fill_owner=_fill_owner,
)
