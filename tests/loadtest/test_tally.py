import pytest

from loadtest.tally import LatencyHistogram, RunResult


@pytest.mark.parametrize(("share", "seconds"), [(0.5, 0.05), (0.99, 0.099), (1.0, 0.1)])
def test_percentile_is_at_most_two_percent_too_high(share, seconds):
    histogram = LatencyHistogram()
    for milliseconds in range(1, 101):
        histogram.add(milliseconds / 1000)
    assert seconds <= histogram.percentile(share) <= seconds * 1.021


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 500.0])
def test_latency_outside_the_buckets_is_kept_at_their_ends(seconds):
    histogram = LatencyHistogram()
    histogram.add(seconds)
    assert histogram.percentile(0.5) <= histogram.max_seconds == seconds


@pytest.mark.parametrize(("parallel", "seconds", "rate"), [(False, 3.0, 2.0), (True, 2.0, 3.0)])
def test_merged_runs_add_counts_and_share_or_add_seconds(parallel, seconds, rate):
    first, second = RunResult(seconds=2.0, requests=5), RunResult(seconds=1.0, requests=4)
    first.tally("mab").right = 4
    second.tally("mab").right = 2
    second.tally("mab").wrong["reject instead of accept"] = 1
    second.tally("acct-start").unanswered = 1
    first.merge(second, parallel=parallel)
    assert (first.seconds, first.requests, first.right, first.finished, first.rate) == (seconds, 9, 6, 8, rate)
    assert first.faults() == {"mab: reject instead of accept": 1, "acct-start: unanswered": 1}
