"""Users in addition to those that every tenant of the cell has."""

from nac.cellformat.replica.records import UserRecord
from nac.cellformat.replica.store import WriteBatch
from nac.kit.passwords import hash_password
from tests.radius.pbkdf2_hashes import earlier_hash
from tests.radius.standalone import StandaloneCell


def put_user(batch: WriteBatch, cell: StandaloneCell, name: str, password: str) -> None:
    """Write a user of alpha's group staff, who may use CHAP. The record has the format of an earlier version."""
    sealed = cell.sealer.seal(password.encode(), "user:0")
    batch.put_user(cell.alpha.number, UserRecord("0", name, False, ("staff",), earlier_hash(password), sealed, 0))


def put_argon2_user(
    batch: WriteBatch, cell: StandaloneCell, name: str, password: str, *, disabled: bool = False
) -> None:
    batch.put_user(cell.alpha.number, UserRecord("0", name, disabled, ("staff",), hash_password(password), b"", 0))
