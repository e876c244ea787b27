"""Pipeline and pipelines()."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

import fullbore
from conftest import LIMIT, wait_until
from fullbore import PIPE, Pipeline, PipelineError, TimeoutExpired


def is_running(pid: int) -> bool:
    """Returns whether a process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_readme_s_example(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\ny\nxx\n")
    with Pipeline([f"cat {tmp_path / 'a'}", ["grep", "-c", "x"]], stdout=PIPE, check=True) as p:
        assert isinstance(p.stdout, fullbore.Consumer)
        assert p.stdout.read() == b"2\n"
    assert (p.returncodes, p.returncode) == ([0, 0], 0)
    assert p.stdout.closed


def test_pipes_are_roomy_and_stages_inherit_nothing_else() -> None:
    program = (
        "import fcntl; print(fcntl.fcntl(0, 1032), fcntl.fcntl(1, 1032), "
        "sorted(__import__('os').listdir('/proc/self/fd')))"
    )
    reader, writer = fullbore.pipe("256K")
    size = fullbore.capacity(reader)
    os.close(reader)
    os.close(writer)
    with Pipeline(
        ["true", [sys.executable, "-c", program], "cat"], stdout=PIPE, pipe_size="256K"
    ) as p:
        found = p.stdout.read().decode().split(maxsplit=2)
    # One limit applies to all pipes of a user.
    assert [int(one) for one in found[:2]] == [size, size]
    # 3 is the directory that is being listed.
    assert found[2].strip() == "['0', '1', '2', '3']"


def test_descriptors_are_closed() -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    runs = 8
    for _ in range(runs):
        with Pipeline(["true", "cat", "cat"], stdout=PIPE) as p:
            assert p.stdout.read() == b""
    # The first observation opens a directory of /proc that stays open.
    assert len(os.listdir("/proc/self/fd")) < before + runs


def test_communicate_feeds_and_reads_at_the_same_time() -> None:
    data = os.urandom(20 << 20)
    with Pipeline(["cat", "cat", "cat"], stdin=PIPE, stdout=PIPE) as p:
        assert p.communicate(data) == (data, None)
    assert p.returncode == 0
    with Pipeline(["cat", "tr a b"], stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as p:
        assert p.communicate("aé\n") == ("bé\n", "")
    loud = ["sh", "-c", "echo out; echo err >&2"]
    with Pipeline([loud, ["sh", "-c", "cat; echo two >&2"]], stdout=PIPE, stderr=PIPE) as p:
        out, err = p.communicate()
    assert (out, sorted(err.split())) == (b"out\n", [b"err", b"two"])
    with Pipeline([loud], stdout=PIPE, stderr=fullbore.STDOUT) as p:
        assert p.communicate() == (b"out\nerr\n", None)
    # The first stage stops reading, as with subprocess.
    with Pipeline(["head -c 3"], stdin=PIPE, stdout=PIPE) as p:
        assert p.communicate(data) == (data[:3], None)
    with pytest.raises(ValueError, match="stdin=PIPE"):
        with Pipeline(["true"]) as p:
            p.communicate(b"x")


@pytest.mark.parametrize("nth", [1, 2])
def test_communicate_loses_nothing_when_it_is_interrupted_and_called_again(nth: int) -> None:
    """Also where the handler of a signal raises an exception just when one of its threads was started."""
    data = b"line\n" * 100_000
    started = []

    def interrupt(frame: FrameType, event: str, arg: object) -> None:
        if event == "c_return" and getattr(arg, "__name__", "") in ("start_new_thread", "start_joinable_thread"):
            started.append(arg)
            if len(started) == nth:
                sys.setprofile(None)
                raise KeyboardInterrupt

    with Pipeline(["cat"], stdin=PIPE, stdout=PIPE) as p:
        sys.setprofile(interrupt)
        with pytest.raises(KeyboardInterrupt):
            p.communicate(data)
        assert p.communicate(data) == (data, None)


def test_files_and_descriptors_are_the_ends(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"in\n")
    with open(tmp_path / "in", "rb") as source, open(tmp_path / "out", "wb") as sink:
        with Pipeline(["cat", "cat"], stdin=source, stdout=sink.fileno()) as p:
            assert (p.stdin, p.stdout, p.stderr) == (None, None, None)
            assert p.wait() == 0
    assert (tmp_path / "out").read_bytes() == b"in\n"
    with Pipeline(["cat", "pwd"], stdin=fullbore.DEVNULL, stdout=PIPE, cwd=tmp_path) as p:
        assert p.stdout.read().decode().strip() == os.path.realpath(tmp_path)


def test_statuses_are_those_of_a_shell_with_pipefail() -> None:
    for stages, codes, code in [
        ([["sh", "-c", "exit 3"], "true"], [3, 0], 3),
        ([["sh", "-c", "exit 3"], ["sh", "-c", "exit 4"], "true"], [3, 4, 0], 4),
        ([["sh", "-c", "exit 3"], ["sh", "-c", "exit 5"]], [3, 5], 5),
        (["yes", "head -n 1"], [-signal.SIGPIPE, 0], 0),
        ([["sh", "-c", "kill -9 $$"], "true"], [-9, 0], -9),
    ]:
        with Pipeline(stages, stdout=fullbore.DEVNULL) as p:
            assert p.wait() == code
        assert p.returncodes == codes and p.poll() == code
        if code:
            with pytest.raises(PipelineError, match="stage [123] of"):
                Pipeline(stages, stdout=fullbore.DEVNULL, check=True).wait()
    with pytest.raises(PipelineError) as error:
        with Pipeline(["true", ["sh", "-c", "exit 7"], "cat"], stdout=PIPE, check=True) as p:
            p.stdout.read()
    assert isinstance(error.value, subprocess.CalledProcessError)
    assert (error.value.stage, error.value.returncode) == (2, 7)
    assert str(error.value) == "stage 2 of 3 (sh -c 'exit 7') exited with 7"


def test_what_cannot_be_started_leaves_nothing_running() -> None:
    before = threading.active_count()
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    # Other tests may have left a process for the whole run, such as multiprocessing's.
    older = set(children.read_text().split()) if children.exists() else set()
    with pytest.raises(FileNotFoundError) as missing:
        Pipeline(["sleep 1000", "no-such-program-anywhere x"])
    assert missing.value.filename == "no-such-program-anywhere"
    with pytest.raises(PermissionError):
        Pipeline(["sleep 1000", [os.devnull]])
    if children.exists():
        wait_until(lambda: not any(map(is_running, map(int, set(children.read_text().split()) - older))))
    wait_until(lambda: threading.active_count() <= before)


def test_what_needs_a_shell_is_refused() -> None:
    for stage in ["cat a | wc", "cat > b", "a && b", "echo $HOME", "echo `x`", "(a)"]:
        with pytest.raises(ValueError, match="stage 2 has a"):
            Pipeline(["true", stage])
    for stage in ["", []]:
        with pytest.raises(ValueError, match="stage 1 is empty"):
            Pipeline([stage, "true"])
    with pytest.raises(ValueError, match="at least one"):
        Pipeline([])
    with pytest.raises(TypeError, match="not one text"):
        Pipeline("cat a")
    with pytest.raises(TypeError, match="expected None, PIPE"):
        Pipeline(["cat"], stdin=b"text")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="invalid pipe_size"):
        Pipeline(["cat"], pipe_size="big")
    with Pipeline([r"""printf '%s|' "a;b" c\>d"""], stdout=PIPE) as p:
        assert p.stdout.read() == b"a;b|c>d|"


def test_a_timeout_leaves_everything_as_it_is() -> None:
    with Pipeline(["cat", "cat"], stdin=PIPE, stdout=PIPE) as p:
        with pytest.raises(TimeoutExpired):
            p.wait(0.01)
        assert p.poll() is None and p.returncodes == [None, None]
        p.stdin.write(b"some")
        p.stdin.flush()
        p.stdin.close()
        assert p.communicate(timeout=60) == (b"some", None)
    slow = ["sh", "-c", "echo first; read line; echo $line"]
    with Pipeline([slow], stdin=PIPE, stdout=PIPE) as p:
        reader, writer = os.pipe()
        with pytest.raises(TimeoutExpired):
            # The first communicate() gets the input, and begins to read.
            with Pipeline(["cat"], stdin=reader, stdout=PIPE) as waits:
                try:
                    waits.communicate(timeout=0.01)
                finally:
                    os.close(writer)
                    os.close(reader)
        assert p.communicate(b"second\n", timeout=60) == (b"first\nsecond\n", None)


@pytest.mark.parametrize("stubborn", [False, True])
def test_an_exception_leaves_nothing_running(stubborn: bool) -> None:
    ignore = "trap '' TERM; " if stubborn else ""
    script = f"{ignore}sh -c '{ignore}echo $$; while :; do sleep 0.05; done' & wait"
    with pytest.raises(ZeroDivisionError):
        with Pipeline(
            [["sh", "-c", script], "cat"], stdout=PIPE, grace=0.2 if stubborn else 60
        ) as p:
            inner = int(p.stdout.readline())
            assert is_running(inner)
            began = time.monotonic()
            1 / 0
    assert not any(map(is_running, [*p.pids, inner]))
    assert None not in p.returncodes
    assert time.monotonic() - began < 50


def test_terminate_and_kill() -> None:
    with Pipeline(["sleep 1000", "sleep 1000"]) as p:
        p.terminate()
        assert p.wait(60) == -signal.SIGTERM
    with Pipeline([["sh", "-c", "trap '' TERM; echo; while :; do sleep 0.05; done"]], stdout=PIPE) as p:
        p.stdout.readline()
        p.terminate()
        p.kill()
        assert p.wait(60) == -signal.SIGKILL
        with pytest.raises(ValueError, match="invalid signal"):
            p.send_signal(4711)
    assert p.pids and p.returncode == -9


def test_a_report_has_stages_pipes_and_a_bottleneck() -> None:
    program = "import sys\nwhile data := sys.stdin.buffer.read(1000):\n  for _ in range(300): hash(str(data))"
    with Pipeline(["head -c 3M /dev/zero", "cat", [sys.executable, "-c", program]], check=True) as p:
        p.wait()
    report = p.report()
    assert [stage.text for stage in report.stages][:2] == ["head -c 3M /dev/zero", "cat"]
    assert [stage.exit_code for stage in report.stages] == [0, 0, 0]
    assert [(pipe.writer, pipe.reader) for pipe in report.pipes] == [(1, 2), (2, 3)]
    assert all(pipe.capacity > 0 and pipe.wanted == 1 << 20 for pipe in report.pipes)
    assert report.seconds > 0 and str(report.bottleneck).startswith(report.bottleneck.words)
    assert str(report).endswith(str(report.bottleneck))
    assert repr(report).startswith("<fullbore.PipelineReport of 3 stages, ")
    assert repr(report).endswith(f" s; {report.bottleneck.words}>")
    page = report._repr_html_()
    assert page.startswith("<table><tr><th>stage</th>") and page.count("<tr>") == 4
    # A text of a stage is no markup.
    assert "&lt;" in replace(report, stages=(replace(report.stages[0], text="<b>"),))._repr_html_()
    next_step = replace(report.bottleneck, next="pigz")
    assert str(next_step) == f"{report.bottleneck.words}\nnext: pigz"
    assert report.bottleneck.sure in ("sure", "likely", "not_sure")
    # No other stage does anything. On a busy machine the verdict may be less sure, or missing.
    assert report.bottleneck.kind in ("stage", "too_short", "nobody", "cpus")
    if report.bottleneck.kind == "stage":
        assert report.bottleneck.stages == (3,)
    with Pipeline(["true"], watch=False) as p:
        pass
    with pytest.raises(RuntimeError, match="watch=False"):
        p.report()


def test_a_running_pipeline_is_in_the_overview() -> None:
    with Pipeline(["cat", "cat"], stdin=PIPE, stdout=fullbore.DEVNULL) as p:
        overview = fullbore.pipelines(0.1, pid=os.getpid())
        with pytest.raises(ValueError, match="not both"):
            fullbore.pipelines(pid=1, name="x")
        pids = [
            {process.pid for stage in one.stages for process in stage.processes}
            for one in overview.pipelines
        ]
    assert any(set(p.pids) <= found for found in pids)
    pipe = next(pipe for one in overview.pipelines for pipe in one.pipes if pipe.capacity)
    assert "cat | cat" in str(overview) and "<td>cat | cat</td>" in overview._repr_html_()
    assert repr(overview).startswith("<fullbore.Overview pipelines: 1; ")
    assert pipe.writers and pipe.readers and pipe.queued is not None
    with pytest.raises(OSError):
        fullbore.pipelines(0.1, pid=p.pids[0])


def test_a_pipeline_that_is_forgotten_is_killed() -> None:
    p = Pipeline(["sleep 1000", "sleep 1000"])
    pids = p.pids
    del p
    wait_until(lambda: not any(map(is_running, pids)))


def test_stages_that_the_kernel_waits_for_are_no_error() -> None:
    program = """
import os, signal, subprocess, time, fullbore
signal.signal(signal.SIGCHLD, signal.SIG_IGN)

class Late(subprocess.Popen):
    "A process that has ended and was reaped before it is examined."
    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        while os.path.exists(f"/proc/{self.pid}"):
            time.sleep(0.001)

subprocess.Popen = Late
p = fullbore.Pipeline(["true", "true"])
while None in p.returncodes:
    p.poll()
    time.sleep(0.01)
p.wait(timeout=10)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr


def test_wait_closes_nothing_twice_when_it_is_interrupted_and_called_again() -> None:
    def interrupt(frame: FrameType, event: str, arg: object) -> None:
        if event == "c_return" and arg is os.close and frame.f_code.co_name in ("_settle", "close"):
            sys.setprofile(None)
            raise KeyboardInterrupt

    with Pipeline(["true"], whole=True) as p:
        for _ in range(2):
            sys.setprofile(interrupt)
            with pytest.raises(KeyboardInterrupt):
                p.wait()
        assert p.wait() == 0


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("other", ["signal.signal(signal.SIGCHLD, signal.SIG_IGN)", "reap()"])
def test_a_stage_of_which_nobody_knows_how_it_ended_has_failed(whole: bool, other: str) -> None:
    program = f"""
import os, signal, fullbore
from fullbore import dask

def reap():
    "Waits for every process before the pipeline does."
    own = os.waitid
    def taken(*arguments):
        own(*arguments)
        os.waitpid(arguments[1], 0)
    os.waitid = taken

{other}
for leave in (False, True):
    try:
        with fullbore.Pipeline(["true", "false"], check=True, whole={whole}, stderr=fullbore.DEVNULL) as p:
            if leave:
                raise LookupError
    except fullbore.PipelineError as error:
        assert not leave and error.returncode == 255 and "SIGCHLD" in error.__notes__[0], error
    except LookupError:
        assert leave and p.returncode != 0, p.returncode
    else:
        raise AssertionError(p.returncodes)
assert not dask._is_sealed("/etc/passwd")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr


def test_a_process_that_keeps_stdout_open_holds_up_nobody() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutExpired):
        with Pipeline([["sh", "-c", f"sleep {LIMIT} & exit 0"]], stdout=PIPE) as pipeline:
            pipeline.communicate(timeout=0.2)
    assert time.monotonic() - began < LIMIT / 2


def test_a_view_that_is_still_there_at_the_end_hides_no_exception() -> None:
    for expected in (BufferError, LookupError):
        with pytest.raises(expected):
            with Pipeline(["yes"], stdout=PIPE) as pipeline:
                view = memoryview(pipeline.stdout.read_view())[:2]
                if expected is LookupError:
                    raise LookupError
        assert bytes(view) == b"y\n"
        assert None not in pipeline.returncodes


def test_a_pipeline_that_is_being_ended_can_be_killed() -> None:
    line = "trap '' TERM; echo; while :; do sleep 0.1; done"
    pipeline = Pipeline([["sh", "-c", line]], stdout=PIPE, grace=LIMIT)
    assert pipeline.stdout.read(1) == b"\n"

    def leave() -> None:
        with contextlib.suppress(LookupError), pipeline:
            raise LookupError

    leaving = threading.Thread(target=leave)
    began = time.monotonic()
    leaving.start()
    while leaving.is_alive() and time.monotonic() - began < LIMIT / 2:
        time.sleep(0.05)
        pipeline.kill()
    leaving.join()
    assert time.monotonic() - began < LIMIT / 2
