"""`./admit tenant-move`: output of each step for users and scripts, and exit statuses."""

from datetime import timedelta
from pathlib import Path
from unittest.mock import ANY

import pytest
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.models import AuditEntry, Cell, Slot
from tests.factories.tenancy import make_cell

BEFORE = "cell-1, ports 18120 and 18121"
AFTER = "cell-2, ports 19120 and 19121"


@pytest.fixture
def move(alpha, cell_engine: Engine, tmp_path: Path):
    sealer = Sealer(MasterKeyFile(tmp_path / "master.key"))
    make_cell(cell_engine, name="cell-2", slots=2, first_port=19120, seal_with=sealer.seal)
    return lambda *arguments: alpha.json("tenant-move", *arguments)


@pytest.fixture
def refused(alpha):
    def refused(*arguments: str) -> tuple[int, str]:
        result = alpha.run("tenant-move", *arguments)
        return result.exit_code, result.output

    return refused


@pytest.fixture
def answers(owner_engine: Engine):
    """Report as the agent of the new cell does once radiusd has the tenant's secret."""

    def answers() -> None:
        with Session(owner_engine) as session, session.begin():
            session.execute(update(Slot).where(Slot.status == "reserved").values(status="ready"))

    return answers


def test_tenant_moves_in_three_steps(move, refused, answers, alpha, owner_engine: Engine):
    places = {"before": BEFORE, "after": AFTER}
    assert move("prepare", "alpha", "--to", "cell-2") == {"state": "prepared", "ready": False} | places | {
        "at_nases": ANY,
        "next": "Wait up to half a minute for radiusd of the new cell. Then: ./admit tenant-move switch alpha",
    }
    exit_code, told = refused("switch", "alpha")
    assert (exit_code, "does not answer with the tenant's secret yet" in told) == (1, True), told
    answers()
    shown = move("show", "alpha")
    assert shown.items() >= ({"state": "prepared", "ready": True} | places).items()
    assert shown["next"].startswith("./admit tenant-move switch alpha, ")
    switched = move("switch", "alpha")
    assert switched.items() >= ({"state": "switched", "ready": True} | places).items()
    assert switched["next"].startswith("./admit tenant-move finish alpha, ")
    assert alpha.json("tenant", "show", "alpha")["auth_port"] == 19120
    finished = {"at_nases": "Remove the old address.", "next": "None: the move is complete."}
    assert move("finish", "alpha") == {"state": "finished", "ready": None} | places | finished
    assert move("show", "alpha")["state"] == "finished"
    assert "not moving" in refused("cancel", "alpha")[1]
    told = alpha.run("tenant-move", "show", "alpha").output
    assert AFTER in told
    assert "ready     -" in told
    with Session(owner_engine) as session:
        moves = select(AuditEntry.action).where(AuditEntry.action.like("tenant.%-move"))
        actions = session.scalars(moves.order_by(AuditEntry.id)).all()
    assert actions == ["tenant.prepare-move", "tenant.switch-move", "tenant.finish-move"]


def test_switched_tenant_moves_back(move, answers, alpha):
    move("prepare", "alpha", "--to", "cell-2")
    answers()
    move("switch", "alpha")
    assert move("cancel", "alpha")["state"] == "cancelled"
    assert alpha.json("tenant", "show", "alpha")["auth_port"] == 18120


def test_silent_cell_is_left_only_with_force(move, refused, answers, owner_engine: Engine):
    move("prepare", "alpha", "--to", "cell-2")
    answers()
    with Session(owner_engine) as session, session.begin():
        long_ago = utc_now() - timedelta(hours=1)
        session.execute(update(Cell).where(Cell.name == "cell-1").values(agent_seen_at=long_ago))
    assert "--although-silent" in refused("switch", "alpha")[1]
    assert move("switch", "alpha", "--although-silent")["state"] == "switched"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("prepare", "alpha", "--to", "nowhere"), "Cell 'nowhere' does not exist"),
        (("prepare", "alpha", "--to", "cell-1"), "already in this cell"),
        (("prepare", "nobody", "--to", "cell-2"), "nobody"),
        (("switch", "alpha"), "not moving"),
        (("finish", "alpha"), "not moving"),
        (("cancel", "alpha"), "not moving"),
        (("show", "alpha"), "not moving"),
    ],
)
def test_invalid_move_is_reported(move, refused, arguments, words):
    exit_code, told = refused(*arguments)
    assert exit_code != 0
    assert words in told
