"""Producer: the interface of io.BufferedWriter, and lent memory."""

import csv
import errno
import gc
import hashlib
import io
import os
import pickle
import shutil
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fullbore
from conftest import Reader, resident, stream, wait_until, wait_until_full

GIB = 1 << 30


def test_it_is_a_buffered_file_object(pair: tuple[int, int]) -> None:
    out = fullbore.Producer(pair[1])
    assert isinstance(out, io.BufferedIOBase)
    assert out.writable() and not out.readable() and not out.seekable() and not out.isatty()
    assert (out.fileno(), out.name, out.mode, out.closed) == (pair[1], pair[1], "wb", False)
    assert out.write(b"one") == 3
    assert out.write(bytearray(b" two")) == 4
    assert out.write(memoryview(b" three")) == 6
    out.writelines([b" four", b" five"])
    assert (out.sent, out.unsent) == (0, 23)
    with pytest.raises(io.UnsupportedOperation):
        out.read()
    with pytest.raises(OSError) as error:
        out.tell()
    assert error.value.errno == errno.ESPIPE
    with pytest.raises(TypeError, match="bytes-like"):
        out.write("text")  # type: ignore[arg-type]
    out.flush()
    assert os.read(pair[0], 100) == b"one two three four five"
    out.close()
    out.close()
    assert out.closed
    assert os.read(pair[0], 1) == b""
    for call in (out.flush, out.fileno, lambda: out.write(b""), lambda: out.reserve(1), out.writable):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_closefd_and_detach_leave_the_file_open(pair: tuple[int, int]) -> None:
    with fullbore.Producer(pair[1], closefd=False) as out:
        out.write(b"a")
    os.write(pair[1], b"b")
    file = os.fdopen(os.dup(pair[1]), "wb")
    out = fullbore.Producer(file)
    out.write(b"c")
    assert out.raw is file
    assert out.detach() is file
    file.write(b"d")
    file.close()
    assert os.read(pair[0], 9) == b"abcd"


def test_what_a_file_object_has_gathered_comes_first(pair: tuple[int, int]) -> None:
    file = os.fdopen(os.dup(pair[1]), "wb")
    file.write(b"first ")
    with fullbore.Producer(file) as out:
        out.write(b"second")
    assert file.closed
    assert os.read(pair[0], 99) == b"first second"


def test_without_close_it_sends_what_it_has_when_nobody_refers_to_it(pair: tuple[int, int]) -> None:
    out = fullbore.Producer(pair[1])
    out.write(b"gathered")
    del out
    gc.collect()
    assert os.read(pair[0], 99) == b"gathered"
    assert os.read(pair[0], 99) == b""


def test_standard_modules_write_to_it(reader: Callable[..., Reader]) -> None:
    rows = [[str(i), "é" * (i % 7)] for i in range(20_000)]
    value = {"rows": rows, "big": os.urandom(3 << 20)}
    ends = os.pipe()
    got = reader(ends[0])
    with fullbore.Producer(ends[1]) as out:
        text = io.TextIOWrapper(out, encoding="utf-8", newline="")
        csv.writer(text).writerows(rows)
        text.flush()
        text.detach()
        pickle.dump(value, out)
        shutil.copyfileobj(io.BytesIO(value["big"]), out)  # type: ignore[arg-type]
    expected = io.StringIO(newline="")
    csv.writer(expected).writerows(rows)
    first = expected.getvalue().encode()
    all = bytes(got.join().bytes)
    assert all[: len(first)] == first
    rest = io.BytesIO(all[len(first) :])
    assert pickle.load(rest) == value
    assert rest.read() == value["big"]


def test_numpy_and_arrow_write_to_it(tmp_path: Path, reader: Callable[..., Reader]) -> None:
    numpy = pytest.importorskip("numpy", reason="skipped: numpy cannot be had")
    array = numpy.arange(1_000_000, dtype="u8").reshape(1000, 1000)
    ends = os.pipe()
    got = reader(ends[0])
    with fullbore.Producer(ends[1]) as out:
        numpy.save(out, array)
        out.write(array)
    file = io.BytesIO(got.join().bytes)
    assert (numpy.load(file) == array).all()
    assert file.read() == array.tobytes()
    # ndarray.tofile() queries the position, which only a file has.
    with fullbore.Producer(open(tmp_path / "array", "wb")) as out:
        out.write(b"head")
        array.tofile(out)
    assert (tmp_path / "array").read_bytes() == b"head" + array.tobytes()

    arrow = pytest.importorskip("pyarrow", reason="skipped: pyarrow cannot be had")
    table = arrow.table({"a": array.ravel(), "b": [str(i) for i in range(array.size)]})
    ends = os.pipe()

    def write() -> None:
        with fullbore.Producer(ends[1]) as out, arrow.ipc.new_stream(out, table.schema) as sink:
            sink.write_table(table)

    writer = threading.Thread(target=write)
    writer.start()
    with fullbore.Consumer(ends[0]) as source:
        assert arrow.ipc.open_stream(source).read_all().equals(table)
    writer.join()


def test_a_file_has_positions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with fullbore.Producer(open(path, "wb")) as out:
        assert out.seekable()
        out.write(b"0123456789")
        assert out.tell() == 10
        assert out.seek(2) == 2
        out.write(b"ab")
        assert out.tell() == 4
        assert out.truncate(6) == 6
        with pytest.raises(ValueError, match="whence"):
            out.seek(0, 7)
        with pytest.raises(ValueError, match="negative"):
            out.seek(-1)
    assert path.read_bytes() == b"01ab45"


def test_a_gibibyte_arrives_by_write(reader: Callable[..., Reader]) -> None:
    ends = os.pipe()
    got = reader(ends[0], keep=False)
    total = hashlib.blake2b()
    with fullbore.Producer(ends[1]) as out:
        for piece in stream(GIB):
            # Some pieces are one bytearray that is reused at once.
            total.update(piece)
            out.write(piece)
        assert out.sent + out.unsent == GIB
    got.join()
    assert (got.size, got.hash.digest()) == (GIB, total.digest())


def test_a_gibibyte_arrives_by_reserve_and_commit_behind_a_reader_that_splices(
    reader: Callable[..., Reader],
) -> None:
    # The bytes are passed on by reference into a pipe that is read late.
    ends, further = os.pipe(), os.pipe()
    got = reader(further[0], keep=False)
    splicing = threading.Thread(
        target=lambda: fullbore.copy(ends[0], further[1], "reference"), daemon=True
    )
    splicing.start()
    total = hashlib.blake2b()
    with fullbore.Producer(ends[1]) as out:
        for piece in stream(GIB // 4, 2):
            while piece:
                n = min(len(piece), out.chunk)
                with out.reserve(n) as view:
                    view[:] = piece[:n]
                out.commit(n)
                total.update(piece[:n])
                piece = piece[n:]
    splicing.join()
    os.close(ends[0])
    os.close(further[1])
    assert (got.join().size, got.hash.digest()) == (GIB // 4, total.digest())


def test_lent_memory_is_dead_after_commit(pair: tuple[int, int]) -> None:
    out = fullbore.Producer(pair[1])
    view = out.reserve(100)
    assert (len(view), view.readonly, view.format) == (100, False, "B")
    view[:5] = b"hello"
    lender = view.obj
    out.commit(5)
    for use in (lambda: view[0], lambda: view.tobytes(), lambda: memoryview(view)):
        with pytest.raises(ValueError, match="released"):
            use()
    with pytest.raises(BufferError):
        memoryview(lender)
    with pytest.raises(TypeError):
        type(lender)()
    assert os.read(pair[0], 99) == b"hello"
    with pytest.raises(ValueError, match="without reserve"):
        out.commit(1)


def test_any_other_call_ends_the_loan(pair: tuple[int, int]) -> None:
    out = fullbore.Producer(pair[1])
    for call in (lambda: out.write(b"x"), out.flush, lambda: out.reserve(1), out.close):
        view = out.reserve(10)
        call()
        with pytest.raises(ValueError, match="released"):
            view[0]
    assert os.read(pair[0], 99) == b"x"


def test_nothing_is_sent_as_long_as_slices_of_lent_memory_exist(pair: tuple[int, int]) -> None:
    out = fullbore.Producer(pair[1])
    view = out.reserve(100)
    view[:3] = b"abc"
    part = view[1:50]
    for call in (lambda: out.commit(3), lambda: out.write(b"no"), out.flush, out.close):
        with pytest.raises(BufferError, match="still used"):
            call()
    part[0:1] = b"B"
    part.release()
    out.commit(3)
    assert os.read(pair[0], 99) == b"aBc"


def test_arrays_of_lent_memory_are_counted(pair: tuple[int, int]) -> None:
    numpy = pytest.importorskip("numpy", reason="skipped: numpy cannot be had")
    out = fullbore.Producer(pair[1])
    array = numpy.frombuffer(out.reserve(80), "u8")
    array[:] = range(10)
    with pytest.raises(BufferError, match="still used"):
        out.commit(80)
    expected = array.tobytes()
    del array
    out.commit(80)
    assert os.read(pair[0], 99) == expected


def test_a_view_keeps_its_memory_when_the_producer_is_forgotten(pair: tuple[int, int]) -> None:
    view = fullbore.Producer(pair[1]).reserve(1 << 16)
    gc.collect()
    view[:] = bytes(1 << 16)
    assert view[1 << 15] == 0
    del view
    gc.collect()
    assert os.read(pair[0], 1) == b""


def test_too_much_is_refused_and_named(pair: tuple[int, int]) -> None:
    out = fullbore.Producer(pair[1], chunk="64K")
    assert out.chunk == 1 << 16
    with pytest.raises(ValueError, match="at most 65536"):
        out.reserve((1 << 16) + 1)
    view = out.reserve(10)
    with pytest.raises(ValueError, match=r"commit\(11\) after reserve\(10\)"):
        out.commit(11)
    view[:] = b"0123456789"
    out.commit(10)
    assert os.read(pair[0], 99) == b"0123456789"
    with pytest.raises(ValueError, match="chunk of 0"):
        fullbore.Producer(pair[1], chunk=0)


def test_errors_have_number_and_file(tmp_path: Path, pair: tuple[int, int]) -> None:
    with pytest.raises(OSError) as error:
        with fullbore.Producer(open("/dev/full", "wb", buffering=0)) as out:
            out.write(b"x" * (2 << 20))
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, "/dev/full")
    os.close(pair[0])
    out = fullbore.Producer(pair[1])
    with pytest.raises(BrokenPipeError) as broken:
        out.write(b"x" * (2 << 20))
    assert broken.value.filename == pair[1]
    with pytest.raises(BrokenPipeError):
        out.close()
    assert out.closed
    with pytest.raises(OSError) as closed:
        fullbore.Producer(9999)
    assert (closed.value.errno, closed.value.filename) == (errno.EBADF, 9999)
    with pytest.raises(TypeError, match="not a path"):
        fullbore.Producer(str(tmp_path))  # type: ignore[arg-type]


def test_several_threads_write_whole_pieces(reader: Callable[..., Reader]) -> None:
    ends = os.pipe()
    got = reader(ends[0])
    out = fullbore.Producer(ends[1])
    size = 700

    def write(letter: bytes) -> None:
        for _ in range(3000):
            out.write(letter * size)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    out.close()
    all = bytes(got.join().bytes)
    pieces = [all[at : at + size] for at in range(0, len(all), size)]
    assert len(pieces) == 9000 and all.count(b"b") == 3000 * size
    assert all and {len(set(piece)) for piece in pieces} == {1}


def test_other_threads_run_while_it_waits(pair: tuple[int, int]) -> None:
    out = fullbore.Producer(pair[1])
    data = os.urandom(20 << 20)
    done = threading.Event()

    def write() -> None:
        out.write(data)
        out.close()
        done.set()

    threading.Thread(target=write, daemon=True).start()
    wait_until(lambda: fullbore.queued(pair[0]) >= 4096)
    got = bytearray()
    while piece := os.read(pair[0], 1 << 20):
        got += piece
    assert done.wait(60) and bytes(got) == data


def test_memory_is_bounded_under_a_reader_that_stops(pair: tuple[int, int]) -> None:
    out = fullbore.Producer(pair[1])
    piece = bytes(1 << 20)
    most = 0
    stop = threading.Event()

    def write() -> None:
        try:
            while not stop.is_set():
                out.write(piece)
        except BrokenPipeError:
            pass

    writer = threading.Thread(target=write, daemon=True)
    before = resident()
    writer.start()
    for _ in range(8):
        # The writer fills the pipe; then the reader reads a little and stops again.
        wait_until_full(pair[0])
        most = max(most, resident() - before)
        os.read(pair[0], 1 << 16)
    stop.set()
    os.close(pair[0])
    writer.join(60)
    assert not writer.is_alive()
    assert most < 64 << 20, most


def test_subclasses_and_weak_references() -> None:
    class Counting(fullbore.Producer):
        total = 0

        def write(self, data: Any) -> int:
            n = super().write(data)
            self.total += n
            return n

    ends = os.pipe()
    with Counting(ends[1]) as out:
        print("hello", file=io.TextIOWrapper(out, write_through=True))
        assert out.total == 6
    assert os.read(ends[0], 9) == b"hello\n"
    os.close(ends[0])
    weak = weakref.ref(out)
    del out
    gc.collect()
    assert weak() is None


def test_what_is_left_at_the_end_of_the_interpreter_is_sent() -> None:
    program = """
import fullbore, os, sys
out = fullbore.Producer(1)
out.write(b"sent")
view = out.reserve(10)
part = view[1:2]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"sent", b"")


def test_a_build_without_the_ring_refuses_to_share() -> None:
    try:
        with fullbore.Producer(open("/dev/null", "wb", buffering=0), shared=True):
            pytest.skip("this build has the feature `ring`")
    except ValueError as refused:
        assert "feature" in str(refused)
