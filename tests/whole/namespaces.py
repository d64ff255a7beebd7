"""Two network namespaces with one cable between them; nothing outside them is touched.

They have no names: the kernel takes a namespace away, and its interfaces with it, once no process is left in it. The
daemons that `start` starts end with this process, however that ends, so nothing has to be cleaned up by hand.
"""

import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_OURS = Path("/proc/thread-self/ns/net")


class Namespace:
    """A network namespace with a loopback interface of its own."""

    def __init__(self) -> None:
        # Ends when its standard input does.
        self._holder = subprocess.Popen(
            ["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._holder.stdin
        assert self._holder.stdout
        assert self._holder.stderr
        self._holder.stdin.write(b"\n")
        self._holder.stdin.flush()
        # An answer comes once `unshare` has become `cat`.
        if not self._holder.stdout.readline():
            said = self._holder.stderr.read().decode()
            self.close()
            raise AssertionError(f"no network namespace can be made here: {said}")
        self.run("ip", "link", "set", "lo", "up")

    def close(self) -> None:
        self._holder.communicate()

    @property
    def pid(self) -> int:
        """Of the process that holds it."""
        return self._holder.pid

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This thread, and what it starts, is in the namespace; sockets that it has stay where they are (setns(2))."""
        before = os.open(_OURS, os.O_RDONLY)
        try:
            _enter(Path(f"/proc/{self.pid}/ns/net"))
            yield
        finally:
            _enter(Path(f"/proc/thread-self/fd/{before}"))
            os.close(before)

    def run(self, *command: str) -> str:
        """Runs it in the namespace; what it printed."""
        with self.entered():
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, command: Sequence[str | Path], log: Path) -> subprocess.Popen[bytes]:
        """A process in the namespace that does not outlive this one."""
        with self.entered(), log.open("wb") as output:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )


def _enter(namespace: Path) -> None:
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        if _libc.setns(descriptor, _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, f"{namespace} cannot be entered: {os.strerror(number)}")
    finally:
        os.close(descriptor)


class Cable:
    """Joins an interface of one namespace to one of another; it can be pulled."""

    def __init__(self, left: Namespace, left_name: str, right: Namespace, right_name: str) -> None:
        self._left, self._left_name = left, left_name
        peer = ("peer", "name", right_name, "netns", str(right.pid))
        left.run("ip", "link", "add", left_name, "type", "veth", *peer)
        right.run("ip", "link", "set", right_name, "up")
        self.plug_in()

    def plug_in(self) -> None:
        self._left.run("ip", "link", "set", self._left_name, "up")

    def pull(self) -> None:
        """Both ends lose their carrier."""
        self._left.run("ip", "link", "set", self._left_name, "down")

    def remove(self) -> None:
        self._left.run("ip", "link", "delete", self._left_name)
