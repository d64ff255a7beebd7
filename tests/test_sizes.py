import pytest

from nac.kit.text_format import format_size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1_023, "1023 bytes"),
        (1_024, "1 KB"),
        (1_536, "1.5 KB"),
        (10 * 1_024 + 600, "11 KB"),
        (20 << 30, "20 GB"),
        ((1 << 60) - 1, "1048576 TB"),
    ],
)
def test_size_has_its_unit(size, text):
    assert format_size(size) == text
