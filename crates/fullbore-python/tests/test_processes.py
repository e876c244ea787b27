"""Signals, fork, imports, and the types."""

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import fullbore
from conftest import LIMIT


def run(program: str, **more: object) -> "subprocess.CompletedProcess[bytes]":
    words = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.run(words, capture_output=True, timeout=LIMIT, **more)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize(
    "call",
    [
        "fullbore.Consumer(r).read()",
        "fullbore.Consumer(r).readline()",
        "next(fullbore.Consumer(r))",
        "fullbore.Consumer(r).readinto(bytearray(9))",
        "fullbore.Consumer(r).discard(9)",
        "fullbore.Producer(w).write(bytes(30 << 20))",
        "out = fullbore.Producer(w)\n            while out.write(bytes(1000)): pass",
        "fullbore.copy(r, os.pipe()[1])",
        "fullbore.copy('/dev/zero', w)",
        "fullbore.copy('/dev/zero', '/dev/null')",
        "fullbore.tee(r, os.pipe()[1])",
        "fullbore.tee('/dev/zero', '/dev/null', '/dev/null')",
        "with fullbore.Pipeline(['sleep 1000', 'cat']) as p: p.wait()",
        "with fullbore.Pipeline(['sleep 1000', 'cat'], stdout=fullbore.PIPE) as p: p.communicate()",
        "asyncio.run(fullbore.acopy(r, os.pipe()[1]))",
    ],
)
def test_ctrl_c_ends_every_wait(call: str) -> None:
    # SIGINT is repeated: one that arrives before the wait begins is handled only after it, as with all
    # files of Python.
    done = run(
        f"""
        import asyncio, os, signal, threading, time, fullbore
        r, w = os.pipe()
        over = threading.Event()
        def handler(*_):
            if not over.is_set():
                over.set()
                raise KeyboardInterrupt
        signal.signal(signal.SIGINT, handler)
        def shoot():
            while not over.wait(0.02):
                os.kill(os.getpid(), signal.SIGINT)
        try:
            threading.Thread(target=shoot, daemon=True).start()
            {call}
        except KeyboardInterrupt:
            os.write(1, b"interrupted")
            os._exit(0)
        """
    )
    assert done.stdout == b"interrupted", done.stderr.decode()


def test_a_handler_that_raises_nothing_ends_no_wait_and_loses_nothing() -> None:
    done = run(
        """
        import hashlib, os, signal, threading, fullbore
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        a, b = os.pipe(), os.pipe()
        data = os.urandom(1 << 20) * 64
        def middle():
            fullbore.copy(a[0], b[1])
            os.close(b[1])
        def feed():
            os.write(a[1], data[:10]); signal.sigwait([signal.SIGUSR1])
        threading.Thread(target=middle).start()
        got = []
        def read():
            with fullbore.Consumer(b[0]) as source:
                got.append(source.read())
        reader = threading.Thread(target=read)
        reader.start()
        with fullbore.Producer(a[1]) as out:
            for at in range(0, len(data), 777_777):
                out.write(data[at:at + 777_777])
        reader.join()
        print(got[0] == data)
        """
    )
    assert done.stdout == b"True\n", done.stderr.decode()


def test_keyboard_interrupts_at_random_moments_leave_no_process() -> None:
    done = run(
        """
        import os, random, signal, threading, time, fullbore
        signal.signal(signal.SIGINT, signal.default_int_handler)
        begun = set()
        class Noted(fullbore.Pipeline):
            def _start(self, *more):
                try:
                    super()._start(*more)
                finally:
                    begun.update(self.pids)
        def one(random):
            main = threading.main_thread().ident
            timer = threading.Timer(random.random() * 0.03, signal.pthread_kill, (main, signal.SIGINT))
            try:
                try:
                    timer.start()
                    with Noted(["yes", "cat", "cat"], stdout=fullbore.PIPE, grace=5) as p:
                        while p.stdout.read(100_000):
                            pass
                finally:
                    timer.join()
            except KeyboardInterrupt:
                return 1
            return 0
        seeds = random.Random(1)
        count = rounds = 0
        while rounds < 60 or len(begun) <= 30:
            rounds += 1
            try:
                count += one(seeds)
            except KeyboardInterrupt:
                count += 1
        def running(pid):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    return file.read().rpartition(")")[2].split()[0] not in "ZX"
            except OSError:
                return False
        until = time.monotonic() + 60
        while any(map(running, begun)) and time.monotonic() < until:
            time.sleep(0.01)
        print(count == rounds, [pid for pid in begun if running(pid)])
        """
    )
    assert done.stdout == b"True []\n", (done.stdout, done.stderr.decode())


def test_what_an_interrupted_read_had_taken_is_read_again() -> None:
    for call in ("source.read()", "source.read(100)", "source.readline()", "source.readinto(target)"):
        done = run(
            f"""
            import os, signal, threading, fullbore
            signal.signal(signal.SIGINT, signal.default_int_handler)
            r, w = os.pipe()
            source = fullbore.Consumer(r)
            target = bytearray(100)
            os.write(w, b"begun ")
            over = threading.Event()
            def shoot():
                while fullbore.queued(r) or not over.wait(0.02):
                    if not fullbore.queued(r):
                        os.kill(os.getpid(), signal.SIGINT)
            try:
                threading.Thread(target=shoot, daemon=True).start()
                {call}
            except KeyboardInterrupt:
                over.set()
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            os.write(w, b"and ended")
            os.close(w)
            print(source.read().decode(), flush=True)
            os._exit(0)
            """
        )
        assert done.stdout == b"begun and ended\n", (call, done.stderr.decode())


def test_a_signal_handler_cannot_use_the_object_that_it_interrupts() -> None:
    done = run(
        """
        import os, signal, threading, fullbore
        r, w = os.pipe()
        source = fullbore.Consumer(r)
        def handler(*_):
            signal.setitimer(signal.ITIMER_REAL, 0)
            try:
                source.read(1)
            except RuntimeError as error:
                print(error, flush=True)
            os.close(w)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        source.read()
        """
    )
    assert done.stdout.startswith(b"reentrant call"), done.stderr.decode()


def test_a_child_of_fork_cannot_use_and_sends_nothing_of_its_parent() -> None:
    done = run(
        """
        import gc, os, sys, threading, fullbore
        out = fullbore.Producer(sys.stdout.buffer)
        source_ends = os.pipe()
        source = fullbore.Consumer(source_ends[0])
        busy = threading.Thread(target=source.read, daemon=True)
        busy.start()
        pipeline = fullbore.Pipeline(["sleep 1000"])
        out.write(b"once ")
        pid = os.fork()
        if pid == 0:
            refused = 0
            for call in (lambda: out.write(b"x"), out.flush, lambda: source.read(1), lambda: out.reserve(1),
                         pipeline.wait, pipeline.report):
                try:
                    call()
                except ValueError as error:
                    refused += "parent process" in str(error)
            out.close()
            with pipeline:
                pass
            del out, source, pipeline
            gc.collect()
            # An object that it creates works.
            with fullbore.Producer(os.dup(1)) as mine:
                mine.write(b"child:%d " % refused)
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert pipeline.poll() is None
        pipeline.kill()
        pipeline.wait()
        out.write(b"parent")
        out.close()
        os._exit(0)
        """
    )
    assert done.stdout == b"child:6 once parent", done.stderr.decode()


def test_an_error_while_it_is_forgotten_is_printed_and_raises_nothing() -> None:
    done = run(
        """
        import os, fullbore
        r, w = os.pipe()
        out = fullbore.Producer(w)
        out.write(b"x")
        os.close(r)
        del out
        print("on")
        """
    )
    assert done.stdout == b"on\n" and b"BrokenPipeError" in done.stderr


def test_import_loads_nothing_slow() -> None:
    done = run(
        """
        import sys
        before = set(sys.modules)
        import fullbore
        slow = {"asyncio", "ctypes", "dataclasses", "inspect", "json", "subprocess", "typing"} - before
        print(slow & set(sys.modules))
        assert set(fullbore.__all__) <= set(dir(fullbore))
        for name in fullbore.__all__:
            getattr(fullbore, name)
        try:
            fullbore.nothing
        except AttributeError as error:
            print(error)
        """
    )
    assert done.stdout == b"set()\nmodule 'fullbore' has no attribute 'nothing'\n", done.stderr.decode()


def test_every_public_name_has_a_docstring() -> None:
    for name in fullbore.__all__:
        if name not in ("PIPE", "STDOUT", "DEVNULL"):
            assert getattr(fullbore, name).__doc__, name


def test_the_types_are_right(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="skipped: mypy cannot be had")
    package = Path(fullbore.__file__).parent
    assert (package / "py.typed").exists() and (package / "_fullbore.pyi").exists()
    (tmp_path / "use.py").write_text(
        textwrap.dedent(
            """
            import io
            import sys
            import fullbore

            def f(out: io.BufferedIOBase) -> None:
                out.write(b"x")

            producer = fullbore.Producer(sys.stdout.buffer, pipe_size="1M")
            f(producer)
            view: memoryview = producer.reserve(10)
            producer.commit(5)
            for line in fullbore.Consumer(0):
                text: bytes = line
            report: fullbore.Report = fullbore.copy("a", 1, progress=print)
            with fullbore.Pipeline(["cat", ["wc", "-l"]], stdout=fullbore.PIPE) as p:
                words: str = p.report().bottleneck.words
                p.stdout.read_view(8)
                p.stdout.no_such_method()  # type: ignore[union-attr]
            fullbore.copy("a", 1, "fast")  # type: ignore[arg-type]
            fullbore.Producer(1.5)  # type: ignore[arg-type]
            """
        )
    )
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    for what in (["-p", "fullbore"], [str(tmp_path / "use.py")]):
        done = subprocess.run([*mypy, *what], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_say_what_is_there(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="skipped: mypy cannot be had")
    # Names that only type checkers see, and the list that PyO3 generates.
    only_types = ["_files.File", "_files.HasFileno", "_files.Path", "_moving.Guarantee"]
    only_types += ["_whole.Accept", "_whole.Codes", "dask.Done"]
    allowed = [f"fullbore.{name}" for name in [*only_types, "_fullbore.__all__"]]
    (tmp_path / "allowed").write_text("\n".join(allowed))
    stubtest = [sys.executable, "-m", "mypy.stubtest", "--allowlist", "allowed", "fullbore"]
    done = subprocess.run(stubtest, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_threads_that_share_an_object_take_turns() -> None:
    ends = os.pipe()
    source = fullbore.Consumer(ends[0])
    total = 2_000_000
    counts = [0, 0, 0]

    def read(number: int) -> None:
        while data := source.read(997):
            counts[number] += len(data)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    with fullbore.Producer(ends[1]) as out:
        for _ in range(total // 1000):
            out.write(bytes(1000))
    for thread in threads:
        thread.join(LIMIT)
    assert sum(counts) == total


def test_close_in_one_thread_and_use_in_another() -> None:
    # A thread that uses an object without a pause does not block the others.
    for _ in range(100):
        ends = os.pipe()
        source = fullbore.Consumer(ends[0])
        raised: list[BaseException] = []

        def read(source: fullbore.Consumer = source, raised: list[BaseException] = raised) -> None:
            try:
                while True:
                    source.read(1)
            except ValueError as error:
                raised.append(error)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        os.write(ends[1], b"some")
        os.close(ends[1])
        source.close()
        for thread in threads:
            thread.join(LIMIT)
        assert ["closed" in str(error) for error in raised] == [True] * 3


@pytest.mark.parametrize(
    "call",
    [
        "fullbore.Producer(w).write(bytes(4 << 20))",
        "out = fullbore.Producer(w)\n            while out.write(bytes(1000)): pass",
        "fullbore.Consumer(r).readlines()",
    ],
)
def test_one_signal_that_comes_once_ends_a_wait(call: str) -> None:
    done = run(
        f"""
        import os, signal, fullbore
        r, w = os.pipe()
        def handler(*_): raise TimeoutError
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 1)
        try:
            {call}
        except TimeoutError:
            os._exit(7)
        """
    )
    assert done.returncode == 7, done.stderr


def test_lines_that_were_read_before_an_exception_are_read_again() -> None:
    done = run(
        """
        import os, signal, fullbore
        r, w = os.pipe()
        source = fullbore.Consumer(r)
        os.write(w, b"a\\nb\\nc")
        def handler(*_): raise TimeoutError
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            source.readlines()
        except TimeoutError:
            os.close(w)
            print(source.read())
        """
    )
    assert done.stdout == b"b'a\\nb\\nc'\n", done.stderr


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
def test_a_pipeline_starts_and_ends_where_pidfd_open_is_refused(error: str) -> None:
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject=pidfd_open:error={error}"]
    try:
        traced = subprocess.run([*strace, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        traced = False
    if not traced:
        pytest.skip("skipped: strace is not there or may not trace")
    program = """
        import os, subprocess, time
        from fullbore import DEVNULL, PIPE, Pipeline

        p = Pipeline(["echo hi", "cat"], stdout=PIPE)
        print(p.stdout.read(), p.wait(timeout=60))
        p = Pipeline(["sleep 1000", "cat"], stdout=DEVNULL)
        try:
            p.wait(timeout=0.05)
        except subprocess.TimeoutExpired:
            print("late")
        p.kill()
        print(p.wait(timeout=60) != 0)
        with Pipeline(["sleep 1000", "cat"], stdout=DEVNULL) as p:
            pids = p.pids
            try:
                raise KeyError
            except KeyError:
                p.terminate()
        p = Pipeline(["sleep 1000", "sleep 1000"])
        pids += p.pids
        del p
        until = time.monotonic() + 60
        while any(os.path.exists(f"/proc/{pid}/exe") for pid in pids):
            assert time.monotonic() < until
            time.sleep(0.01)
        print("ended")
    """
    words = [*strace, sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(words, capture_output=True, timeout=LIMIT)
    assert done.stdout == b"b'hi\\n' 0\nlate\nTrue\nended\n", done
