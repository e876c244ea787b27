"""copy, tee and acopy."""

import asyncio
import contextlib
import errno
import hashlib
import io
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import pytest

import fullbore
from fullbore import _fullbore
from conftest import LIMIT, Reader, resident, stream, wait_until, wait_until_full

GIB = 1 << 30


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A file of 1 GiB, and its hash."""
    path = tmp_path_factory.mktemp("big") / "big"
    total = hashlib.blake2b()
    with open(path, "wb") as file:
        for piece in stream(GIB):
            file.write(piece)
            total.update(piece)
    return path, total.digest()


def hash_of(path: Path) -> bytes:
    total = hashlib.blake2b()
    with open(path, "rb") as file:
        while data := file.read(1 << 20):
            total.update(data)
    return total.digest()


def test_a_gibibyte_goes_from_file_to_file(big: tuple[Path, bytes], tmp_path: Path) -> None:
    seen: list[int] = []
    report = fullbore.copy(big[0], tmp_path / "copy", progress=seen.append)
    assert (report.bytes, report.taken, report.ended, report.unsent) == (GIB, GIB, "end", b"")
    assert sum(n for _, n in report.methods) == GIB and report.calls > 0 and report.seconds > 0
    assert seen == sorted(seen) and seen[-1] == GIB
    assert hash_of(tmp_path / "copy") == big[1]
    (tmp_path / "copy").unlink()
    assert repr(report).startswith("Report(bytes=1073741824, ")


@pytest.mark.parametrize("guarantee", ["snapshot", "reference"])
def test_a_gibibyte_goes_through_pipes_and_sockets(
    big: tuple[Path, bytes], reader: Callable[..., Reader], guarantee: str
) -> None:
    first, second = os.pipe(), os.pipe()
    near, far = socket.socketpair()
    got = reader(second[0], keep=False)

    def to_the_first() -> None:
        fullbore.copy(str(big[0]), first[1], guarantee)  # type: ignore[arg-type]
        os.close(first[1])

    def to_the_socket() -> None:
        fullbore.copy(first[0], near, guarantee)  # type: ignore[arg-type]
        near.close()

    threads = [threading.Thread(target=one) for one in (to_the_first, to_the_socket)]
    for thread in threads:
        thread.start()
    report = fullbore.copy(far, second[1], guarantee)  # type: ignore[arg-type]
    for thread in threads:
        thread.join()
    os.close(second[1])
    far.close()
    os.close(first[0])
    got.join()
    assert report.bytes == got.size == GIB
    assert got.hash.digest() == big[1]


def test_a_gibibyte_is_split(
    big: tuple[Path, bytes], reader: Callable[..., Reader], tmp_path: Path
) -> None:
    ends = [os.pipe(), os.pipe()]
    got = [reader(one[0], keep=False) for one in ends]
    report = fullbore.tee(big[0], ends[0][1], ends[1][1], tmp_path / "copy")
    for one in ends:
        os.close(one[1])
    assert report.bytes == GIB
    assert [(sink.bytes, sink.error) for sink in report.sinks] == [(GIB, None)] * 3
    assert [one.join().hash.digest() for one in got] == [big[1]] * 2
    assert hash_of(tmp_path / "copy") == big[1]
    (tmp_path / "copy").unlink()


def test_a_limit_takes_no_more(pair: tuple[int, int], tmp_path: Path) -> None:
    os.write(pair[1], b"0123456789")
    report = fullbore.copy(pair[0], tmp_path / "a", limit=4)
    assert (report.bytes, report.ended) == (4, "limit")
    assert fullbore.copy(pair[0], tmp_path / "b", limit=0).bytes == 0
    assert fullbore.tee(pair[0], tmp_path / "c", tmp_path / "d", limit=3).bytes == 3
    assert os.read(pair[0], 99) == b"789"
    assert [(tmp_path / name).read_bytes() for name in "abcd"] == [b"0123", b"", b"456", b"456"]


def test_positions_of_file_objects_count(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with open(path, "rb") as source, open(tmp_path / "copy", "wb") as sink:
        assert source.read(2) == b"01"
        sink.write(b"head ")
        assert fullbore.copy(source, sink, limit=5).bytes == 5
        assert source.read() == b"789"
        sink.write(b" tail")
    assert (tmp_path / "copy").read_bytes() == b"head 23456 tail"


def test_a_path_is_emptied_first(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"new")
    for before in (b"", b"longer than the new contents"):
        for name, call in (("copied", fullbore.copy), ("split", fullbore.tee)):
            (tmp_path / name).write_bytes(before)
            call(tmp_path / "source", tmp_path / name)
            assert (tmp_path / name).read_bytes() == b"new"


def test_closed_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"contents")
    for closed in (open(path, "rb"), open(path, "ab"), fullbore.Consumer(open(path, "rb"))):
        closed.close()
        for call in (
            lambda: fullbore.copy(closed, tmp_path / "other"),
            lambda: fullbore.copy(path, closed),
            lambda: fullbore.tee(path, tmp_path / "other", closed),
            lambda: fullbore.Producer(closed),
            lambda: fullbore.Consumer(closed),
            lambda: fullbore.capacity(closed),
        ):
            with pytest.raises(ValueError, match="closed file"):
                call()
    assert path.read_bytes() == b"contents"


@pytest.mark.parametrize(
    ("sinks", "guarantee"), [(1, "snapshot"), (1, "reference"), (2, "snapshot")]
)
def test_memory_is_bounded_under_a_reader_that_stops(
    sinks: int, guarantee: Literal["snapshot", "reference"]
) -> None:
    source, sink, other = os.pipe(), os.pipe(), os.pipe()

    def write() -> None:
        piece = bytes(1 << 20)
        try:
            while True:
                os.write(source[1], piece)
        except BrokenPipeError:
            pass

    def move() -> None:
        with contextlib.suppress(BrokenPipeError):
            if sinks == 1:
                fullbore.copy(source[0], sink[1], guarantee)
            else:
                fullbore.tee(source[0], sink[1], other[1])
        os.close(source[0])

    before = resident()
    drain = Reader(other[0], keep=False)
    threads = [threading.Thread(target=one, daemon=True) for one in (write, move)]
    for thread in threads:
        thread.start()
    most = 0
    for _ in range(8):
        wait_until_full(sink[0])
        most = max(most, resident() - before)
        for _ in range(16):
            os.read(sink[0], 1 << 20)
    os.close(sink[0])
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    for fd in (source[1], sink[1], other[1]):
        os.close(fd)
    drain.join()
    assert most < 64 << 20, most


def test_a_file_is_never_emptied_by_a_copy_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"precious")
    (tmp_path / "link").hardlink_to(path)
    for sink in (path, tmp_path / "link"):
        with pytest.raises(ValueError, match="same file"):
            fullbore.copy(path, sink)
        with pytest.raises(ValueError, match="same file"):
            fullbore.tee(path, tmp_path / "other", sink)
    assert path.read_bytes() == b"precious"


def test_errors_name_the_file_that_failed(tmp_path: Path, pair: tuple[int, int]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100_000)
    with pytest.raises(OSError) as full:
        fullbore.copy(path, "/dev/full")
    assert (full.value.errno, full.value.filename) == (errno.ENOSPC, "/dev/full")
    report = full.value.report  # type: ignore[attr-defined]
    assert report.ended == "failed" and report.bytes == 0
    assert report.unsent == b"x" * report.taken
    with pytest.raises(FileNotFoundError) as missing:
        fullbore.copy(tmp_path / "missing", path)
    assert missing.value.filename == str(tmp_path / "missing") or missing.value.filename == (
        tmp_path / "missing"
    )
    assert path.stat().st_size == 100_000
    with pytest.raises(OSError) as not_open:
        fullbore.copy(pair[1], path)
    assert (not_open.value.errno, not_open.value.filename) == (errno.EBADF, pair[1])
    for move in (fullbore.copy, fullbore.tee):
        with pytest.raises(IsADirectoryError) as folder:
            move(tmp_path, path)
        assert folder.value.filename == tmp_path
    # No sink was emptied for a source that cannot be read.
    assert path.read_bytes() == b"x" * 100_000
    os.close(pair[0])
    with pytest.raises(BrokenPipeError) as broken:
        fullbore.copy(path, pair[1])
    assert broken.value.filename == pair[1]
    report = fullbore.tee(path, pair[1], tmp_path / "copy", on_error="drop")
    assert isinstance(report.sinks[0].error, BrokenPipeError)
    assert report.sinks[1].bytes == 100_000
    with pytest.raises(BrokenPipeError):
        fullbore.tee(path, pair[1], tmp_path / "copy")


def test_wrong_arguments_are_refused_with_what_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with pytest.raises(ValueError, match="'snapshot' or 'reference'"):
        fullbore.copy(path, tmp_path / "b", "fast")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="invalid limit -1"):
        fullbore.copy(path, tmp_path / "b", limit=-1)
    with pytest.raises(TypeError, match="a path, a file descriptor"):
        fullbore.copy(path, 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="src: .*BytesIO"):
        fullbore.copy(io.BytesIO(b"x"), tmp_path / "b")
    with pytest.raises(ValueError, match="at least one sink"):
        fullbore.tee(path)
    with pytest.raises(ValueError, match="'fail' or 'drop'"):
        fullbore.tee(path, tmp_path / "b", on_error="maybe")  # type: ignore[arg-type]
    assert not (tmp_path / "b").exists() or (tmp_path / "b").stat().st_size == 0


def test_an_exception_of_progress_ends_the_copy(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def stop(done: int) -> None:
        raise Enough

    stopped = threading.Event()
    ends = os.pipe()

    def write() -> None:
        try:
            while True:
                os.write(ends[1], b"x" * 100_000)
        except BrokenPipeError:
            stopped.set()

    threading.Thread(target=write, daemon=True).start()
    with pytest.raises(Enough) as enough:
        fullbore.copy(ends[0], "/dev/null", progress=stop)
    assert enough.value.report.ended == "interrupted"  # type: ignore[attr-defined]
    os.close(ends[0])
    assert stopped.wait(60)
    os.close(ends[1])


def test_acopy_lets_other_tasks_run_and_can_be_cancelled(tmp_path: Path) -> None:
    async def both() -> None:
        first, second = os.pipe(), os.pipe()
        copying = asyncio.create_task(fullbore.acopy(first[0], second[1]))
        others = [asyncio.create_task(fullbore.acopy(os.pipe()[0], tmp_path / str(i))) for i in range(40)]
        await asyncio.sleep(0.01)
        os.write(first[1], b"hello")
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[None] = loop.create_future()
        loop.add_reader(second[0], lambda: arrived.done() or arrived.set_result(None))
        await asyncio.wait_for(arrived, 60)
        loop.remove_reader(second[0])
        assert os.read(second[0], 9) == b"hello"
        os.close(first[1])
        report = await copying
        assert (report.bytes, report.ended) == (5, "end")
        for other in others:
            other.cancel()
        done = await asyncio.gather(*others, return_exceptions=True)
        assert {type(one) for one in done} == {asyncio.CancelledError}
        with pytest.raises(FileNotFoundError):
            await fullbore.acopy(tmp_path / "missing", tmp_path / "a")
        seen: list[int] = []
        (tmp_path / "b").write_bytes(b"x" * 70_000)
        await fullbore.acopy(tmp_path / "b", tmp_path / "c", progress=seen.append)
        await asyncio.sleep(0)
        assert seen[-1] == 70_000

    asyncio.run(both())
    wait_until(
        lambda: not any(thread.name == "fullbore.acopy" for thread in threading.enumerate())
    )


def test_a_text_file_whose_position_is_not_known_is_refused(tmp_path: Path) -> None:
    source, sink = tmp_path / "source", tmp_path / "sink"
    source.write_text("first\nsecond\n")
    with open(source) as text:
        next(text)
        with pytest.raises(ValueError, match="position of .* is not known"):
            fullbore.copy(text, sink)
    with open(source) as text:
        text.readline()
        fullbore.copy(text, sink)
    assert sink.read_text() == "second\n"


@pytest.mark.parametrize("is_sink", [False, True])
def test_acopy_of_a_fifo_that_nobody_opens_can_be_cancelled(tmp_path: Path, is_sink: bool) -> None:
    fifo, other = tmp_path / "fifo", tmp_path / "other"
    os.mkfifo(fifo)
    other.write_bytes(b"kept")

    async def main() -> None:
        ends = (other, fifo) if is_sink else (fifo, other)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(fullbore.acopy(*ends), 0.2)

    asyncio.run(main())
    # Now the thread opens it, and changes nothing.
    os.close(os.open(fifo, os.O_RDWR))
    assert other.read_bytes() == b"kept"


def test_a_cancelled_acopy_makes_no_file_later(tmp_path: Path) -> None:
    fifo, other = tmp_path / "fifo", tmp_path / "other"
    os.mkfifo(fifo)

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(fullbore.acopy(fifo, other), 0.2)

    asyncio.run(main())
    writer = os.open(fifo, os.O_RDWR)
    threads = [t for t in threading.enumerate() if t.name == "fullbore.acopy"]
    for thread in threads:
        thread.join(LIMIT)
    os.close(writer)
    assert not other.exists()


def test_an_exception_of_the_last_progress_has_a_report(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"short")

    def progress(_: int) -> None:
        raise LookupError

    with pytest.raises(LookupError) as raised:
        fullbore.copy(source, tmp_path / "sink", progress=progress)
    assert raised.value.report.bytes == 5  # type: ignore[attr-defined]


def test_plain_copies_read_and_write_only(tmp_path: Path) -> None:
    data = os.urandom(300_001)
    (tmp_path / "source").write_bytes(data)
    report = fullbore.copy(tmp_path / "source", tmp_path / "sink", plain=True)
    assert (tmp_path / "sink").read_bytes() == data
    assert report.methods == [("copy", len(data))]
    sinks = [tmp_path / name for name in ("first", "second")]
    fullbore.tee(tmp_path / "source", *sinks, plain=True)
    assert all(sink.read_bytes() == data for sink in sinks)
    report = asyncio.run(fullbore.acopy(tmp_path / "source", tmp_path / "sink", plain=True))
    assert report.methods == [("copy", len(data))]


@pytest.mark.parametrize("move", [fullbore.copy, fullbore.tee])
@pytest.mark.parametrize("sink", ["/dev/null", "/dev/full"])
@pytest.mark.parametrize("moment", ["made", "returned"])
def test_an_exception_in_the_last_moment_has_the_report(move: Callable[..., Any], sink: str, moment: str) -> None:
    """As that of a handler of a signal that comes when all is done, or while the report is made."""
    source, other = os.pipe()
    os.write(other, b"bytes")
    os.close(other)

    def interrupt(frame: FrameType, event: str, arg: object) -> None:
        is_made = event == "call" and type(frame.f_locals.get("self")).__name__ in ("Report", "TeeReport")
        is_returned = event in ("c_return", "c_exception") and arg in (_fullbore.transfer, _fullbore.split)
        if is_made if moment == "made" else is_returned:
            sys.setprofile(None)
            raise KeyboardInterrupt

    with open(sink, "wb", buffering=0) as file:
        sys.setprofile(interrupt)
        with pytest.raises(KeyboardInterrupt) as raised:
            move(source, file)
    os.close(source)
    report = raised.value.report  # type: ignore[attr-defined]
    report = report if move is fullbore.copy else report.sinks[0]
    assert (report.bytes, report.unsent) == ((5, b"") if sink == "/dev/null" else (0, b"bytes"))


@pytest.mark.parametrize("call", ["link", "rename"])
def test_an_exception_while_a_file_is_put_in_place_leaves_no_other_name(tmp_path: Path, call: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupt(frame: FrameType, event: str, arg: object) -> None:
        if event == "c_return" and arg is getattr(os, call):
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    with pytest.raises(KeyboardInterrupt) as raised:
        fullbore.copy("/proc/self/cmdline", path, atomic=True)
    assert raised.value.report.ended == "end"  # type: ignore[attr-defined]
    assert os.listdir(tmp_path) == ["file"]
    assert (path.read_bytes() == b"old") == (call == "link")
