from datetime import datetime
from typing import Any, Literal, get_args

from sqlalchemy import Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from nac.kit.db.base import Base, CreatedAt, TenantOwned, UuidKey
from nac.kit.db.declarations import FileExclusion

SelfTestState = Literal["queued", "running", "done", "failed"]
SELF_TEST_STATES: tuple[SelfTestState, ...] = get_args(SelfTestState)


class SelfTest(UuidKey, TenantOwned, CreatedAt, Base):
    """A test of a tenant's ports with simulated devices, and its result."""

    __tablename__ = "self_tests"
    __table_args__ = (
        Index("ix_self_tests_tenant_id_created_at", "tenant_id", "created_at", "id"),
        Index("ix_self_tests_waiting", "due_at", postgresql_where=text("state IN ('queued', 'running')")),
    )
    tenant_file = FileExclusion("results of the original installation")
    effects = ()

    state: Mapped[str] = mapped_column(server_default="queued")
    requested_by: Mapped[str]
    # Time from which a worker can start the test. While the test runs: time when another worker can take over.
    due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    # Whether all results are as expected; null until the test is done.
    passed: Mapped[bool | None]
    # Results: a list with the fields of nac.onboarding.self_tests.board.BoardRow.
    board: Mapped[list[Any]] = mapped_column(server_default=text("'[]'"))
    error: Mapped[str] = mapped_column(server_default="")
