"""Consumer: the interface of io.BufferedReader, and views of its buffer."""

import csv
import errno
import hashlib
import io
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import fullbore
from conftest import stream

GIB = 1 << 30


def filled(data: bytes) -> int:
    """Returns the reader of a pipe into which a thread writes these bytes."""
    reader, writer = os.pipe()

    def write() -> None:
        with os.fdopen(writer, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]

    threading.Thread(target=write, daemon=True).start()
    return reader


def test_it_is_a_buffered_file_object(pair: tuple[int, int]) -> None:
    os.write(pair[1], b"one\ntwo\nthree")
    os.close(pair[1])
    source = fullbore.Consumer(pair[0])
    assert isinstance(source, io.BufferedIOBase)
    assert source.readable() and not source.writable() and not source.seekable()
    assert (source.fileno(), source.name, source.mode, source.isatty()) == (
        pair[0],
        pair[0],
        "rb",
        False,
    )
    assert source.peek() == b"one\ntwo\nthree"
    assert source.taken == 13
    assert source.read(2) == b"on"
    assert source.readline() == b"e\n"
    assert source.readline(2) == b"tw"
    assert source.read1(1) == b"o"
    target = bytearray(3)
    assert source.readinto(target) == 3 and target == b"\nth"
    assert source.readinto1(target) == 3 and target == b"ree"
    assert source.read() == source.read(5) == source.read1() == source.readline() == b""
    assert source.peek() == b"" and source.readinto(target) == 0 and list(source) == []
    with pytest.raises(io.UnsupportedOperation):
        source.write(b"x")
    with pytest.raises(TypeError):
        source.readinto(b"not writable")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="writable"):
        source.readinto(memoryview(b"not writable"))
    source.close()
    source.close()
    for call in (source.read, source.peek, source.readline, source.fileno, lambda: next(source)):
        with pytest.raises(ValueError, match="closed"):
            call()


def lines_like(size: int) -> bytes:
    return b"".join(b"x" * (i * 37 % 300) + b"\n" for i in range(size)) + b"no end"


@pytest.mark.parametrize("buffer", [1, 7, "64K", None])
def test_lines_are_those_of_a_buffered_reader(buffer: int | str | None) -> None:
    data = lines_like(200 if buffer == 1 else 5000)
    expected = io.BytesIO(data).readlines()
    with fullbore.Consumer(filled(data), buffer=buffer) as source:
        assert list(source) == expected
    with fullbore.Consumer(filled(data), buffer=buffer) as source:
        assert source.readlines() == expected
    with fullbore.Consumer(filled(data), buffer=buffer) as source:
        assert source.readlines(1000) == io.BytesIO(data).readlines(1000)
        limited = io.BytesIO(data)
        limited.readlines(1000)
        while line := limited.readline(90):
            assert source.readline(90) == line


def test_reads_of_all_sizes_are_those_of_a_buffered_reader() -> None:
    data = os.urandom(3 << 20)
    like = io.BytesIO(data)
    with fullbore.Consumer(filled(data), buffer=1000) as source:
        for size in [0, 1, 999, 1000, 1001, 5000, 100_000, 1 << 20]:
            assert source.read(size) == like.read(size)
            part = source.read1(size)
            assert part == like.read(len(part)) and len(part) <= max(size, 0)
            view = source.read_view(size)
            assert len(view) <= size and view == like.read(len(view))
        assert source.discard(12345) == 12345
        like.seek(12345, io.SEEK_CUR)
        assert source.read() == like.read()
        assert source.discard(5) == 0


def test_standard_modules_read_from_it(tmp_path: Path) -> None:
    rows = [[str(i), "é" * (i % 7)] for i in range(20_000)]
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    with fullbore.Consumer(filled(text.getvalue().encode())) as source:
        wrapped = io.TextIOWrapper(source, encoding="utf-8", newline="")
        assert list(csv.reader(wrapped)) == rows
    data = pickle.dumps(rows, protocol=5)
    with fullbore.Consumer(filled(data + data)) as source:
        assert pickle.load(source) == pickle.load(source) == rows
    with fullbore.Consumer(filled(data)) as source:
        copied = io.BytesIO()
        shutil.copyfileobj(source, copied)  # type: ignore[arg-type]
        assert copied.getvalue() == data
    path = tmp_path / "data"
    path.write_bytes(data)
    with fullbore.Consumer(open(path, "rb")) as source:
        assert source.seekable() and source.read(10) == data[:10]
        assert source.tell() == 10
        assert source.seek(-5, io.SEEK_CUR) == 5 and source.read(3) == data[5:8]
        assert source.seek(-4, io.SEEK_END) == len(data) - 4 and source.read() == data[-4:]
        assert source.seek(0) == 0 and source.read() == data
        with pytest.raises(ValueError):
            source.seek(-1)


def test_a_gibibyte_arrives_by_every_way_of_reading() -> None:
    total = hashlib.blake2b()
    for piece in stream(GIB):
        total.update(piece)
    read: list[tuple[str, object]] = []

    def by_read(source: fullbore.Consumer, got: "hashlib._Hash") -> None:
        while data := source.read(3_000_000):
            got.update(data)

    def by_lines(source: fullbore.Consumer, got: "hashlib._Hash") -> None:
        for line in source:
            got.update(line)

    def by_view(source: fullbore.Consumer, got: "hashlib._Hash") -> None:
        while view := source.read_view():
            got.update(view)

    def by_readinto(source: fullbore.Consumer, got: "hashlib._Hash") -> None:
        target = bytearray(1 << 20)
        while n := source.readinto(target):
            got.update(memoryview(target)[:n])

    ways = [by_read, by_lines, by_view, by_readinto]
    for way in ways:
        ends = os.pipe()

        def write(fd: int = ends[1]) -> None:
            # Its memory is reused for the next piece.
            with fullbore.Producer(fd) as out:
                for piece in stream(GIB):
                    out.write(piece)

        writer = threading.Thread(target=write)
        writer.start()
        got = hashlib.blake2b()
        with fullbore.Consumer(ends[0]) as source:
            way(source, got)
            assert source.taken == GIB
        writer.join()
        read.append((way.__name__, got.digest() == total.digest()))
    assert read == [(way.__name__, True) for way in ways]


def test_a_view_is_dead_after_the_next_call(pair: tuple[int, int]) -> None:
    os.write(pair[1], b"0123456789")
    source = fullbore.Consumer(pair[0], buffer=4)
    view = source.read_view(3)
    assert view == b"012" and view.readonly
    with pytest.raises(TypeError):
        view[0] = 1
    part = view[1:]
    for call in (source.read1, source.peek, source.readline, source.close, lambda: next(source)):
        with pytest.raises(BufferError, match="still used"):
            call()
    assert part == b"12"
    del part
    assert source.read(2) == b"34"
    with pytest.raises(ValueError, match="released"):
        view[0]
    assert source.read_view() == b"567"
    os.close(pair[1])
    assert source.read_view(0) == b"" and source.read_view() == b"89" and source.read_view() == b""


def test_a_view_keeps_its_memory_when_the_consumer_is_forgotten(pair: tuple[int, int]) -> None:
    os.write(pair[1], b"0123456789")
    view = fullbore.Consumer(pair[0]).read_view()
    assert view == b"0123456789"


def test_errors_have_number_and_file(pair: tuple[int, int], tmp_path: Path) -> None:
    with pytest.raises(OSError) as error:
        fullbore.Consumer(pair[1]).read(1)
    assert (error.value.errno, error.value.filename) == (errno.EBADF, pair[1])
    folder = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(IsADirectoryError) as is_folder:
        fullbore.Consumer(folder).read()
    assert is_folder.value.filename == folder
    with pytest.raises(ValueError, match="buffer of 0"):
        fullbore.Consumer(pair[0], buffer=0)


def test_it_waits_also_where_another_program_has_set_o_nonblock() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    threading.Timer(0.05, lambda: (os.write(writer, b"late"), os.close(writer))).start()
    with fullbore.Consumer(reader) as source:
        assert source.read() == b"late"


def test_standard_input_is_read_by_lines() -> None:
    program = (
        "import sys, fullbore\n"
        "print(sum(len(line) for line in fullbore.Consumer(sys.stdin.buffer)))"
    )
    data = lines_like(10_000)
    done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True)
    assert (done.stdout, done.stderr) == (b"%d\n" % len(data), b"")
