"""A process that is killed with SIGKILL, directly before or after a commit."""

import os
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from itertools import count

from sqlalchemy import event
from sqlalchemy.orm import Session

from tests import run_depth

BEFORE, AFTER = "before_commit", "after_commit"
_MOST = 60


def killed_at_commit(work: Callable[[], object], *, at: int, when: str) -> bool:
    """Run `work`, with its own engines, in a process that is killed at commit number `at`.

    Returns whether the process reached this commit.
    """
    with tempfile.TemporaryDirectory(prefix="admit-killed-") as left:
        return _dies(work, at=at, when=when, left=left)


def _dies(work: Callable[[], object], *, at: int, when: str, left: str) -> bool:
    child = os.fork()
    if child == 0:
        # The files of the killed process are deleted with this folder.
        tempfile.tempdir = left
        commits = count(1)

        def look(_: Session) -> None:
            if next(commits) == at:
                os.kill(os.getpid(), signal.SIGKILL)

        event.listen(Session, when, look)
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            # After any error, only the parent process continues with the tests.
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "it failed by itself"
    return False


def deaths(work: Callable[[], object], *, is_whole: bool = False) -> Iterator[tuple[int, str]]:
    """Yield after each kill of `work`, until it completes.

    It is killed before and after its first commit, its second commit, and so on. Unless `is_whole` is set or the run is
    long (tests.run_depth), before and after alternate.
    """
    for at in range(1, _MOST):
        for when in (BEFORE, AFTER) if is_whole or run_depth.is_whole() else ((BEFORE, AFTER)[at % 2],):
            if not killed_at_commit(work, at=at, when=when):
                return
            yield at, when
    raise AssertionError("it does not come to an end")
