"""`./admit watch` where it cannot start. tests/two_cells/test_live_agent.py covers a real agent."""

import pytest

from cli.commands.watch import _sentence
from nac.logs.events.live_stream import StreamNotice

OF = ("watch", "-t", "alpha")


def test_without_redis_watch_fails_with_a_remedy(alpha):
    result = alpha.run(*OF)
    assert result.exit_code == 1
    assert "ADMIT_REDIS_URL" in result.stderr


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--mac", "aa:bb"), 2, "aa:bb"),
        (("--site", "nowhere"), 2, "nowhere"),
        (("--kind", "prophecy"), 2, "prophecy"),
    ],
)
def test_invalid_option_is_reported_before_the_start(alpha, monkeypatch, options, status, said):
    monkeypatch.setenv("ADMIT_REDIS_URL", "unix:///nonexistent/redis.sock")
    result = alpha.run(*OF, *options)
    assert (result.exit_code, said in result.stderr) == (status, True)


@pytest.mark.parametrize(
    ("notice", "said"),
    [
        (StreamNotice("listening"), "Listening to alpha."),
        (StreamNotice("silent"), "./admit status"),
        (StreamNotice("lost"), "Lost"),
        (StreamNotice("back"), "Reconnected"),
        (StreamNotice("left-out", count=37), "37 events were skipped"),
        (StreamNotice("left-out"), "may be missing"),
    ],
)
def test_watch_status_messages_are_printed(notice, said):
    assert said in _sentence(notice, "alpha")
