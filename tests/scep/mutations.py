"""Valid messages with small random changes."""

from hypothesis import strategies as st

# Lengths that are indefinite, too long or zero, and other types.
_TELLING = (b"\x30\x80", b"\x84\xff", b"\x04\x00", b"\x02\x01", b"\xa0\x80", b"\x00\x00", b"\x30\x84")


@st.composite
def mutations(draw: st.DrawFn, good: bytes) -> bytes:
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.integers(0, 4)):
            case 0:
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case 1:
                del data[at : at + draw(st.integers(1, 40))]
            case 2:
                # Truncated.
                del data[at:]
            case 3:
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
            case _:
                data[at : at + 2] = draw(st.sampled_from(_TELLING))
    return bytes(data)
