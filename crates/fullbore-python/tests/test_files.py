"""Accepted files: only objects that add nothing to their descriptors, with their buffered bytes."""

import asyncio
import bz2
import copy as copies
import fcntl
import gc
import gzip
import http.client
import io
import lzma
import multiprocessing
import os
import pickle
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fullbore
from conftest import wait_until_full

LINES = b"hello\n" * 10_000
README = Path(__file__).parent.parent / "README.md"


def python(code: str, **options: Any) -> "subprocess.CompletedProcess[bytes]":
    """Runs a program."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, **options)


class Upper(io.FileIO):
    """A file object of a program, which changes the bytes that it reads."""

    def readall(self) -> bytes:
        return super().readall().upper()


def layered(path: Path, mode: str) -> list[Any]:
    plain = "rb" if mode == "r" else "wb"
    made: list[Any] = [
        gzip.open(path, plain),
        bz2.open(path, plain),
        lzma.open(path, plain),
        Upper(path, mode),
        tempfile.SpooledTemporaryFile(),
    ]
    if mode == "r":
        made += [io.BufferedReader(Upper(path, mode)), io.TextIOWrapper(gzip.open(path, plain))]
    return made


def test_objects_that_change_the_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(LINES))
    out = tmp_path / "out"
    tries: list[Callable[[Any], object]] = [
        lambda file: fullbore.copy(file, out),
        lambda file: fullbore.tee(file, out),
        fullbore.Consumer,
        lambda file: fullbore.Pipeline(["cat"], stdin=file),
        lambda file: asyncio.run(fullbore.acopy(file, out)),
    ]
    for file in layered(path, "r"):
        for attempt in tries:
            with pytest.raises(TypeError, match=type(file).__name__):
                attempt(file)
        file.close()
    assert not out.exists()
    other = tmp_path / "other"
    other.write_bytes(LINES)
    for file in layered(path, "w"):
        for attempt in [
            lambda file: fullbore.copy(other, file),
            lambda file: fullbore.tee(other, file),
            fullbore.Producer,
            lambda file: fullbore.Pipeline(["cat"], stdout=file),
            lambda file: fullbore.Pipeline(["cat"], stderr=file),
        ]:
            with pytest.raises(TypeError, match=type(file).__name__):
                attempt(file)


def test_connections_with_a_protocol_are_refused(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    secure = context.wrap_socket(ours, do_handshake_on_connect=False)
    secret = tmp_path / "secret"
    secret.write_bytes(b"SECRET")
    for attempt in [fullbore.Producer, fullbore.Consumer, lambda file: fullbore.copy(secret, file)]:
        with pytest.raises(TypeError, match="SSLSocket"):
            attempt(secure)  # type: ignore[operator]
    theirs.setblocking(False)
    with pytest.raises(BlockingIOError):
        theirs.recv(1)

    web, server = socket.socketpair()
    server.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    answer = http.client.HTTPResponse(web)
    answer.begin()
    with pytest.raises(TypeError, match="HTTPResponse"):
        fullbore.copy(answer, tmp_path / "body")
    assert answer.read() == b"abc"

    one, _other = multiprocessing.Pipe()
    with pytest.raises(TypeError, match="Connection"):
        fullbore.Consumer(one)


def test_what_means_the_descriptor_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "file"
    out = tmp_path / "out"
    path.write_bytes(LINES)
    for file in [open(path), open(path, "rb"), open(path, "rb", 0), open(path, "r+b"), open(path, "r+")]:
        with file, open(out, "w") as sink:
            fullbore.copy(file, sink)
        assert out.read_bytes() == LINES
    with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryFile() as other:
        fullbore.copy(path, file)
        file.seek(0)
        fullbore.copy(file, other)
        other.seek(0)
        assert other.read() == LINES
    a, b = socket.socketpair()
    with a, b:
        fullbore.copy(path, a, limit=100)
        received = b.makefile("rb")
        assert received.read(10) == LINES[:10]
        a.close()
        fullbore.copy(received, out)
        assert out.read_bytes() == LINES[10:100]
    raw = gzip.open(tmp_path / "x.gz", "wb")
    fullbore.copy(path, raw.fileno())


@pytest.mark.parametrize("size", [8192, 300_000])
def test_what_a_reader_has_read_ahead_comes_first(size: int, tmp_path: Path) -> None:
    expected = b"".join(b"%d\n" % number for number in range(2, 100_001))

    def started() -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(["seq", "100000"], stdout=subprocess.PIPE, bufsize=size)
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        return process

    with started() as process:
        assert fullbore.copy(process.stdout, tmp_path / "rest").bytes == len(expected)
    assert (tmp_path / "rest").read_bytes() == expected
    with started() as process:
        report = fullbore.copy(process.stdout, tmp_path / "rest", limit=5)
        assert report.bytes == 5
        assert process.stdout is not None
        assert process.stdout.read(5) == expected[5:10]
    with started() as process:
        assert fullbore.Consumer(process.stdout).read() == expected
    with started() as process:
        consumer = fullbore.Consumer(process.stdout)
        consumer.readline()
        fullbore.copy(consumer, tmp_path / "rest")
    assert (tmp_path / "rest").read_bytes() == expected[2:]
    with started() as process:
        with pytest.raises(ValueError, match="bytes ahead"):
            fullbore.tee(process.stdout, tmp_path / "rest")
        with pytest.raises(ValueError, match="bytes ahead"):
            fullbore.Pipeline(["cat"], stdin=process.stdout)
        assert process.stdout is not None
        assert process.stdout.read() == expected
    # It does not wait for bytes that were never sent.
    end, other = os.pipe()
    with open(end, "rb") as file:
        os.write(other, b"first\nsecond\n")
        assert file.readline() == b"first\n"
        assert fullbore.copy(file, tmp_path / "rest", limit=7).bytes == 7
        os.close(other)
    assert (tmp_path / "rest").read_bytes() == b"second\n"


def test_a_text_file_that_cannot_seek_is_taken_before_anything_was_read(tmp_path: Path) -> None:
    for reads_first in (False, True):
        with subprocess.Popen(["seq", "1000"], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            if not reads_first:
                assert fullbore.copy(process.stdout, tmp_path / "out").bytes == 3893
                continue
            assert process.stdout.readline() == "1\n"
            with pytest.raises(ValueError, match="decoded"):
                fullbore.copy(process.stdout, tmp_path / "out")
            with pytest.raises(ValueError, match="decoded"):
                fullbore.Consumer(process.stdout)
            assert process.stdout.readline() == "2\n"


def test_a_consumer_begins_where_its_file_object_is(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(LINES)
    for mode in ("rb", "r"):
        with open(path, mode) as file:
            file.readline()
            consumer = fullbore.Consumer(file, closefd=False)
            assert consumer.read(12) == LINES[:12]
            assert consumer.tell() == 18


def test_posix_locks_survive_a_copy(tmp_path: Path) -> None:
    source, ledger = tmp_path / "source", tmp_path / "ledger"
    source.write_bytes(LINES)
    probe = f"""
import fcntl
file = open({str(ledger)!r}, 'ab')
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print('free')
except OSError:
    print('held')
"""
    with open(ledger, "ab") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        fullbore.copy(source, file)
        fullbore.tee(source, file, file.fileno())
        assert python(probe).stdout == b"held\n"
    assert python(probe).stdout == b"free\n"


def test_print_comes_before_what_is_written_next() -> None:
    for code in (
        "p = fullbore.Producer(sys.stdout.buffer); p.write(b'body\\n'); p.close()",
        "p = fullbore.Producer(1); p.write(b'body\\n'); p.close()",
        "open('x', 'w').write('body\\n'); fullbore.copy('x', '/dev/stdout')",
        "open('x', 'w').write('body\\n'); fullbore.copy('x', sys.stdout)",
        "open('x', 'w').write('body\\n'); fullbore.tee('x', sys.stdout.buffer)",
        "fullbore.Pipeline([['echo', 'body']]).wait()",
    ):
        with tempfile.TemporaryDirectory() as directory:
            done = python(f"import sys, fullbore; print('header'); {code}", cwd=directory)
        assert done.stdout == b"header\nbody\n", (code, done)


def test_names_of_descriptors_are_the_descriptors() -> None:
    code = "import fullbore, os; os.write(1, b'a'); fullbore.copy('/dev/stdin', '/dev/stdout'); os.write(1, b'c')"
    a, b = socket.socketpair()
    with a, b, tempfile.TemporaryFile() as out:
        a.sendall(b"b")
        a.shutdown(socket.SHUT_WR)
        subprocess.run([sys.executable, "-c", code], stdin=b, stdout=out, check=True, timeout=120)
        out.seek(0)
        assert out.read() == b"abc"


def test_a_program_without_standard_descriptors_gets_none_from_here(tmp_path: Path) -> None:
    code = """
import os
out = os.open('fds', os.O_WRONLY | os.O_CREAT)
out = os.dup2(out, 50)
os.closerange(0, 10)
import fullbore
ends = [*fullbore.pipe(), *fullbore.pipe('1M')]
open_ones = lambda: {int(n) for n in os.listdir('/proc/self/fd')} & {0, 1, 2}
os.write(50, repr((min(ends) >= 3)).encode())
for way in (lambda: fullbore.Producer(ends[1], closefd=False), lambda: fullbore.Consumer(ends[0], closefd=False)):
    kept = way()
    # The listing itself takes the lowest number.
    os.write(50, repr(len(open_ones()) <= 1).encode())
"""
    done = python(code, cwd=tmp_path)
    assert (tmp_path / "fds").read_bytes() == b"TrueTrueTrue", done


def test_stderr_of_a_pipeline_holds_nobody_up() -> None:
    talk = ["sh", "-c", "head -c 3000000 /dev/zero >&2; seq 3"]
    with fullbore.Pipeline([talk, "cat"], stdout=fullbore.PIPE, stderr=fullbore.PIPE) as p:
        assert p.stdout.read() == b"1\n2\n3\n"
        assert p.stderr.read() == bytes(3_000_000)
    # Without reading it, the end is reported all the same.
    with fullbore.Pipeline([talk], stdout=fullbore.DEVNULL, stderr=fullbore.PIPE, check=True):
        pass
    p = fullbore.Pipeline([talk], stdout=fullbore.PIPE, stderr=fullbore.PIPE)
    assert p.communicate(timeout=120) == (b"1\n2\n3\n", bytes(3_000_000))


def test_who_has_read_enough_is_no_failure_of_the_last_stage() -> None:
    with fullbore.Pipeline(["yes", "cat"], stdout=fullbore.PIPE, check=True) as p:
        assert p.stdout.readline() == b"y\n"
    assert p.returncode == 0
    with pytest.raises(fullbore.PipelineError, match="SIGPIPE"):
        with fullbore.Pipeline([["sh", "-c", "kill -PIPE $$"]], check=True):
            pass


def test_sizes_may_be_texts_everywhere(tmp_path: Path) -> None:
    assert fullbore.copy("/dev/zero", tmp_path / "a", limit="64K").bytes == 65536
    assert fullbore.tee("/dev/zero", tmp_path / "a", limit="1M").bytes == 1 << 20
    with pytest.raises(ValueError, match="limit 'many'"):
        fullbore.copy("/dev/zero", tmp_path / "a", limit="many")


def test_errors_name_what_is_wrong(tmp_path: Path) -> None:
    out = tmp_path / "out"
    wrong: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (OSError, "Bad file descriptor: 9999", lambda: fullbore.copy(9999, out)),
        (TypeError, "src: .*BytesIO", lambda: fullbore.copy(io.BytesIO(), out)),
        (TypeError, "dst: .*StringIO", lambda: fullbore.copy("/dev/null", io.StringIO())),
        (TypeError, "sink 2: .*float", lambda: fullbore.tee("/dev/null", out, 1.5)),
        (TypeError, "not a path", lambda: fullbore.Producer("path")),
        (ValueError, "stage 2 \\(echo 'a\\): No closing quotation", lambda: fullbore.Pipeline(["ls", "echo 'a"])),
        (TypeError, "stage 2: .*not int", lambda: fullbore.Pipeline(["seq 10", 5])),
        (TypeError, "stage 1: .*5", lambda: fullbore.Pipeline([["seq", 5]])),
        (ValueError, "grace: .*-1", lambda: fullbore.Pipeline(["ls"], grace=-1)),
        (ValueError, "pipe_size 'x'", lambda: fullbore.Pipeline(["ls"], pipe_size="x")),
        (TypeError, "stdin: .*list", lambda: fullbore.Pipeline(["ls"], stdin=[])),
    ]
    for kind, words, call in wrong:
        with pytest.raises(kind, match=words):
            call()
    with open(os.devnull, "wb") as file, fullbore.Producer(file) as producer:
        with pytest.raises(ValueError, match="-1"):
            producer.reserve(-1)
        producer.reserve(1)
        with pytest.raises(ValueError, match="-1"):
            producer.commit(-1)


def test_reports_can_be_copied_and_pickled(tmp_path: Path) -> None:
    report = fullbore.copy("/dev/zero", tmp_path / "a", limit=10)
    split = fullbore.tee("/dev/zero", tmp_path / "a", tmp_path / "b", limit=10)
    for one in (report, split, split.sinks[0]):
        for again in (pickle.loads(pickle.dumps(one)), copies.deepcopy(one)):
            assert repr(again) == repr(one)
    assert pickle.loads(pickle.dumps(report)).unsent == report.unsent
    assert re.fullmatch(r"\d+\.\d+\.\d+", fullbore.__version__)


def test_a_cancelled_acopy_tells_what_was_under_way() -> None:
    source, feed = os.pipe()
    full, sink = os.pipe()
    data = os.urandom(300_000)

    async def cancelled() -> fullbore.Report:
        task = asyncio.create_task(fullbore.acopy(source, sink, pipe_size=0))
        # As much as both pipes hold: it fits, however few bytes the copy has in flight.
        await asyncio.to_thread(lambda: [os.write(feed, data[at : at + 4096]) for at in range(0, 131_072, 4096)])
        await asyncio.to_thread(wait_until_full, full)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        report: fullbore.Report = caught.value.report  # type: ignore[attr-defined]
        return report

    report = asyncio.run(cancelled())
    assert report.ended == "interrupted"
    os.close(sink)
    os.close(feed)
    arrived = open(full, "rb").read()
    left = open(source, "rb").read()
    assert len(arrived) == report.bytes
    assert arrived + report.unsent + left == data[: len(arrived) + len(report.unsent) + len(left)]
    assert len(arrived) + len(report.unsent) + len(left) == 131_072


def test_a_producer_that_is_collected_and_fails_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    done = python("import fullbore; p = fullbore.Producer(open('/dev/full', 'wb')); p.write(b'x'); del p")
    assert b"Exception ignored in" in done.stderr and b"/dev/full" in done.stderr, done.stderr
    assert b"No space left" in done.stderr
    gc.collect()


def test_the_examples_write_the_bytes_that_they_promise(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    (tmp_path / "big.img").write_bytes(os.urandom(3_000_000))
    writing = [block for block in blocks if "sys.stdout.buffer" in block]
    assert len(writing) >= 3
    checked = 0
    for block in writing:
        code = block if "import fullbore" in block else "import sys\nimport fullbore\n" + block
        source = tmp_path / "big.img"
        if "numpy" in code:
            pytest.importorskip("numpy")
            expected = b"".join(n.to_bytes(8, "little") * 65536 for n in range(1000))
        elif "fullbore.copy" in code:
            expected = source.read_bytes()
        else:
            continue
        if "grow(sys.stdin" in code:
            code = code.replace("\nfullbore.copy", "\nfullbore.copy")
        process = subprocess.Popen(["cat", str(source)], stdout=subprocess.PIPE)
        done = subprocess.run(
            [sys.executable, "-c", code], stdin=process.stdout, capture_output=True, cwd=tmp_path, timeout=120
        )
        assert process.stdout is not None
        process.stdout.close()
        process.wait()
        assert done.returncode == 0, done.stderr
        assert done.stdout == expected, block
        checked += 1
    assert checked >= 3


def test_two_threads_may_look_at_what_one_reader_holds(tmp_path: Path) -> None:
    end, other = os.pipe()
    with open(end, "rb") as file:
        os.write(other, b"a\n" + LINES[:4000])
        os.close(other)
        file.readline()
        counts: list[int] = []

        def copied(name: str) -> None:
            counts.append(fullbore.copy(file, tmp_path / name).bytes)

        threads = [threading.Thread(target=copied, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(counts) == 4000
