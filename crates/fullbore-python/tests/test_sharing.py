"""Producer and Consumer that share memory and bypass the pipe between them, in a build with the feature `ring`."""

# mypy: ignore-errors

import hashlib
import multiprocessing
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

import fullbore
from conftest import wait_until

CHUNK = 1 << 16

try:
    fullbore.Producer(open("/dev/null", "wb", buffering=0), shared=True).close()
except ValueError:
    pytest.skip("this build has no feature `ring`", allow_module_level=True)


def meet(out: fullbore.Producer, source: fullbore.Consumer) -> None:
    """Sends and receives in turns until both share memory."""

    def met() -> bool:
        out.write(b"x")
        out.flush()
        assert source.read(1) == b"x"
        return out.way == "ring" and source.shares

    wait_until(met)


def ends(pair: tuple[int, int]) -> tuple[fullbore.Producer, fullbore.Consumer]:
    out, source = fullbore.Producer(pair[1], shared=True), fullbore.Consumer(pair[0], shared=True)
    meet(out, source)
    return out, source


def test_both_ends_meet_and_every_byte_arrives(pair: tuple[int, int]) -> None:
    out, source = ends(pair)
    sent, received = hashlib.sha256(), hashlib.sha256()

    def receive() -> None:
        while piece := source.read(100_000):
            received.update(piece)

    reading = threading.Thread(target=receive)
    reading.start()
    for number in range(300):
        piece = os.urandom(CHUNK + number)
        sent.update(piece)
        if number % 2:
            out.write(piece)
        else:
            view = out.reserve(len(piece))
            view[:] = piece
            out.commit(len(piece))
    assert out.way == "ring"
    out.close()
    reading.join()
    assert received.digest() == sent.digest()


def test_only_what_is_asked_for_is_shared(monkeypatch: Any) -> None:
    monkeypatch.setenv("FULLBORE_RING", "1")
    for writer, reader in [({"shared": True}, {"shared": True}), ({}, {}), ({"shared": True}, {}), ({}, {"shared": True})]:
        meets = bool(writer and reader)
        read_end, write_end = os.pipe()
        with fullbore.Consumer(read_end, **reader) as source:
            with fullbore.Producer(write_end, **writer) as out:
                if meets:
                    meet(out, source)
                for _ in range(100):
                    out.write(b"y")
                    out.flush()
                    assert source.read(1) == b"y"
                assert (out.way == "ring", source.shares) == (meets, meets)


def test_lent_memory_is_dead_after_commit_and_survives_a_fork(pair: tuple[int, int]) -> None:
    out, source = ends(pair)
    view = out.reserve(4)
    view[:] = b"1234"
    pid = os.fork()
    if pid == 0:
        # The child has the view and may use it, without an effect on any other process.
        view[:] = b"evil"
        os._exit(0 if bytes(view) == b"evil" else 1)
    assert os.waitpid(pid, 0)[1] == 0
    part = view[1:2]
    with pytest.raises(BufferError):
        out.commit(4)
    part.release()
    out.commit(4)
    assert source.read(4) == b"1234"
    with pytest.raises(ValueError):
        view[0]
    with pytest.raises(ValueError):
        out.commit(1)


def test_what_the_consumer_leaves_is_in_the_pipe(pair: tuple[int, int]) -> None:
    next_reader = os.dup(pair[0])
    out, source = ends(pair)
    out.write(b"a" * 1000 + b"b" * 1000)
    out.flush()
    assert source.read(1000) == b"a" * 1000
    taken = len(source.peek())
    source.close()
    out.write(b"c")
    out.close()
    # The buffered bytes of the consumer are lost with it, as with any pipe.
    assert os.read(next_reader, 5000) == b"b" * (1000 - taken) + b"c"
    assert os.read(next_reader, 1) == b""
    os.close(next_reader)


def test_what_nobody_has_read_at_the_end_is_in_the_pipe() -> None:
    for end in ("close", "detach", "del"):
        read_end, write_end = os.pipe()
        next_reader = os.dup(read_end)
        out = fullbore.Producer(write_end, shared=True)
        source = fullbore.Consumer(read_end, shared=True)
        meet(out, source)
        out.write(b"rest")
        if end == "del":
            del out
        else:
            getattr(out, end)()
        assert fullbore.queued(next_reader) == 4, end
        assert source.read(4) == b"rest"
        source.close()
        os.close(next_reader)
        if end == "detach":
            os.close(write_end)


WRITER = """
import fullbore, sys
out = fullbore.Producer(sys.stdout.buffer, shared=True)
for number in range(200_000):
    out.write(b"%d\\n" % number)
print(out.way, file=sys.stderr)
out.close()
"""

READER = """
import fullbore, sys
total = 0
source = fullbore.Consumer(sys.stdin.buffer, shared=True)
for expected, line in enumerate(source):
    assert int(line) == expected
    total += 1
print(total)
"""


def test_two_programs_that_ask_for_it_meet() -> None:
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        reader = subprocess.Popen(
            [sys.executable, "-c", READER], stdin=writer.stdout, stdout=subprocess.PIPE
        )
        assert writer.stdout and writer.stderr
        writer.stdout.close()
        assert reader.communicate()[0] == b"200000\n"
        way = writer.stderr.read().split()
        writer.stderr.close()
        assert writer.wait() == 0 and reader.returncode == 0
        # Whether they connect before the end depends on when they start.
        assert way in ([b"ring"], [b"fresh"], [b"copy"], [b"socket"])


def read_half(source: Any) -> None:
    for _ in range(1000):
        source.read(1)
    os._exit(0)


def test_a_killed_reader_is_an_end_like_any_other(pair: tuple[int, int]) -> None:
    context = multiprocessing.get_context("fork")
    out = fullbore.Producer(pair[1], shared=True)

    def play() -> None:
        with fullbore.Consumer(pair[0], shared=True) as source:
            read_half(source)

    reader = context.Process(target=play)
    reader.start()
    os.close(pair[0])
    with pytest.raises(BrokenPipeError):
        while True:
            out.write(b"z" * 1000)
    reader.join()
    with pytest.raises(BrokenPipeError):
        out.close()
