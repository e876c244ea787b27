"""The functions pipe, capacity, grow and queued."""

import os
import socket

import pytest

import fullbore


def test_a_pipe_has_the_capacity_that_was_asked_for() -> None:
    for size, at_least in [("256K", 256 << 10), (131072, 131072), (None, 4096)]:
        reader, writer = fullbore.pipe(size)
        try:
            # A user at the limit on pipes gets less.
            assert fullbore.capacity(reader) == fullbore.capacity(writer)
            assert fullbore.capacity(reader) >= min(at_least, 4096)
            assert not os.get_inheritable(reader) and not os.get_inheritable(writer)
        finally:
            os.close(reader)
            os.close(writer)


def test_a_pipe_grows_and_never_shrinks(pair: tuple[int, int]) -> None:
    before = fullbore.capacity(pair[1])
    grown = fullbore.grow(pair[1], "512K")
    assert grown == fullbore.capacity(pair[0]) >= before
    assert fullbore.grow(pair[1], 4096) == grown


def test_queued_bytes_are_seen_at_both_ends(pair: tuple[int, int]) -> None:
    os.write(pair[1], b"x" * 5000)
    assert fullbore.queued(pair[0]) == fullbore.queued(pair[1]) == 5000
    with os.fdopen(os.dup(pair[0]), "rb") as file:
        assert fullbore.queued(file) == 5000


def test_what_is_no_pipe_is_refused_with_a_sentence() -> None:
    with socket.socket() as one:
        with pytest.raises(ValueError, match="is not a pipe"):
            fullbore.capacity(one)
    with pytest.raises(OSError) as error:
        fullbore.queued(9999)
    assert (error.value.errno, error.value.filename) == (9, 9999)
    with pytest.raises(OSError):
        fullbore.queued(-1)
    with pytest.raises(TypeError, match="fileno"):
        fullbore.capacity("path")  # type: ignore[arg-type]


@pytest.mark.parametrize("size", ["10x", "", -1, 1 << 70])
def test_an_invalid_size_is_named(size: object) -> None:
    with pytest.raises(ValueError, match="invalid size"):
        fullbore.pipe(size)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a size"):
        fullbore.pipe(1.5)  # type: ignore[arg-type]
