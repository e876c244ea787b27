"""Code that the tests share."""

import gc
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import fullbore

#: Longer than any wait of a correct program.
LIMIT = 120


@pytest.fixture
def pair() -> Iterator[tuple[int, int]]:
    """The ends of a pipe, which the test may close."""
    ends = os.pipe()
    pipe = os.fstat(ends[0]).st_ino
    yield ends
    # Objects of the test close their ends first.
    gc.collect()
    for fd in ends:
        try:
            if os.fstat(fd).st_ino == pipe:
                os.close(fd)
        except OSError:
            pass


class Reader:
    """Reads a descriptor to its end in a thread, and closes it."""

    def __init__(self, fd: int, *, keep: bool = True) -> None:
        self.hash = hashlib.blake2b()
        self.size = 0
        self.bytes = bytearray()
        self._fd, self._keep = fd, keep
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while data := os.read(self._fd, 1 << 20):
            self.hash.update(data)
            self.size += len(data)
            if self._keep:
                self.bytes += data
        os.close(self._fd)

    def join(self) -> "Reader":
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        return self


@pytest.fixture
def reader() -> Callable[..., Reader]:
    return Reader


def stream(size: int, seed: int = 1) -> Iterator[bytes]:
    """Pieces of different lengths of a stream without repetitions, all in the same memory."""
    block = bytearray(1 << 20)
    words = memoryview(block).cast("Q")
    n = seed
    while size > 0:
        take = min(size, (n * 7919) % (1 << 20) + 1)
        for at in range(0, len(words), 512):
            words[at] = n * 0x9E3779B97F4A7C15 % (1 << 64) + at
        yield bytes(memoryview(block)[:take]) if n % 2 else block[:take]
        size -= take
        n += 1


def resident() -> int:
    """The resident memory of this process in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_until_full(pipe: int) -> None:
    """Waits until a writer has filled a pipe whose reader does not read."""
    full = -1
    while (queued := fullbore.queued(pipe)) != full or queued < 4096:
        full = queued
        time.sleep(0.05)


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    until = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < until, "the condition did not come true"
        time.sleep(0.005)

