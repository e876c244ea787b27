"""Whole pipelines over many files, as tasks of Dask's distributed scheduler.

    from distributed import Client
    import fullbore.dask

    client = Client("tcp://scheduler:8786")
    futures = fullbore.dask.map_pipelines(
        client, ["zstd -dc {input}", "grep -F 404", "gzip"], inputs, [f"{path}.404.gz" for path in inputs])
    reports = client.gather(futures)
    print(fullbore.dask.summary(reports))

Each input is one task. Its output appears in one step when all stages have succeeded, or not at all, however often Dask
runs the task. Until then it is in a folder beside its place, `.NAME.fullbore-…`, which belongs to one attempt and is locked
(flock(2)) as long as that attempt runs: the next attempt and clean() remove those of attempts that were killed.

Every worker needs the package with its command. Inputs and outputs are paths on a file system that the workers share, or
URLs of fsspec: an input is downloaded first, and an output is uploaded in a transaction, which ends with the success.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from subprocess import TimeoutExpired
from typing import Any, Literal

from ._moving import _size
from ._pipeline import Pipeline, _words
from ._report import PipelineReport
from ._whole import Whole, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._whole import Accept

__all__ = ["Summary", "TaskReport", "bench", "clean", "map_pipelines", "summary"]

#: How often a task looks whether it was cancelled, in seconds.
_LOOK_EVERY = 0.1

Done = Literal["newer", "sealed", "never"]


@dataclass(frozen=True)
class TaskReport:
    """What one task did."""

    index: int
    input: str
    output: str
    #: The machine that it ran on.
    host: str
    seconds: float
    #: The output was there, and nothing was run.
    skipped: bool
    #: Bytes of the output; None for one of fsspec that was there.
    bytes: int | None
    #: How the stages ended, as Pipeline.returncodes.
    returncodes: tuple[int | None, ...] = ()
    #: The report of `fullbore run` as JSON; None if it was skipped, or the machine has no /proc.
    json: str | None = None

    @property
    def report(self) -> PipelineReport | None:
        from ._report import read_report

        return None if self.json is None else read_report(self.json)


@dataclass(frozen=True)
class _Task:
    index: int
    input: str
    output: str
    stages: tuple[tuple[str, ...], ...]
    asked: Whole
    pipe_size: int
    grace: float
    done: Done
    sync: bool


def map_pipelines(
    client: Any,
    stages: Sequence[str | Sequence[str]],
    inputs: Sequence[str | os.PathLike[str]],
    outputs: Sequence[str | os.PathLike[str]],
    *,
    whole: bool = True,
    accept: Accept | None = None,
    at_least: int | str | None = None,
    stalled: float | None = None,
    retries: int = 0,
    resources: dict[str, float] | None = None,
    pipe_size: int | str = "1M",
    grace: float = 2.0,
    done: Done = "newer",
    sync: bool = False,
) -> list[Any]:
    """Submits one task for each input, and returns their futures, in order. The result of each is a TaskReport.

    A stage is a sequence of words, or a text that is split like a shell command, as in Pipeline. In its words, {input},
    {output}, {index} (from 0) and {name} (the file name of the input) are replaced after that, so no shell ever parses
    them. The first stage reads the input from stdin if no stage has {input}, and the stdout of the last stage is the
    output if none has {output}.

    `accept`, `at_least` (bytes of the output) and `stalled` are as in Pipeline, `retries` and `resources` as in
    Client.submit(). With whole=False, a stage may see an end that a failure caused; the output appears only after a
    success all the same. With `sync`, an output is on the disk before it gets its name.

    A task whose output is there is skipped: with done='newer' if the output is not older than the input; with 'sealed' if
    it is a complete sealed stream (`fullbore copy --seal` as the last stage); with 'never' it is made again. So the same
    call continues what was stopped.

    A task that fails raises PipelineError. Cancelling a future ends its pipeline on its worker, by SIGTERM and after
    `grace` seconds by SIGKILL; so does the death of the worker.
    """
    asked = Whole(whole, None, accept, None, stalled)
    asked.check()
    least = 0 if at_least is None else _size("at_least", at_least)
    if done not in ("newer", "sealed", "never"):
        raise ValueError(f"done: expected 'newer', 'sealed' or 'never', not {done!r}")
    sources = [os.fspath(path) for path in inputs]
    targets = [os.fspath(path) for path in outputs]
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} inputs and {len(targets)} outputs: each input needs one output")
    if len(set(targets)) < len(targets):
        raise ValueError("two inputs have the same output")
    split = tuple(
        tuple(os.fsdecode(word) for word in _words(number, stage)[0])
        for number, stage in enumerate(stages, 1)
    )
    if not split:
        raise ValueError("expected at least one stage")
    run = uuid.uuid4().hex[:12]
    futures = []
    for index, (source, target) in enumerate(zip(sources, targets)):
        task = _Task(index, source, target, split, asked, _size("pipe_size", pipe_size), grace, done, sync)
        futures.append(
            client.submit(
                _run,
                task,
                least,
                key=f"fullbore-{run}-{index}",
                retries=retries,
                resources=resources,
                pure=False,
            )
        )
    return futures


def clean(outputs: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Removes what killed attempts have left beside these outputs, and returns the folders. Never those of an attempt
    that is running, on whatever machine, if the file system has locks for all of them (NFS has).
    """
    removed = []
    for output in outputs:
        if not _is_url(os.fspath(output)):
            removed += _clean(os.fspath(output))
    return removed


def _is_url(path: str) -> bool:
    return "://" in path


def _is_cancelled() -> bool:
    """Returns whether the scheduler does not want the result of the current task any more."""
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:
        return False  # It is called outside of a worker.
    task = worker.state.tasks.get(worker.get_current_task())
    return task is None or task.state == "cancelled"


def _run(task: _Task, least: int) -> TaskReport:
    """Runs one task on a worker."""
    began = time.monotonic()
    if _is_done(task):
        size = None if _is_url(task.output) else os.stat(task.output).st_size
        return TaskReport(
            task.index, task.input, task.output, socket.gethostname(), time.monotonic() - began, True, size
        )
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(_local(task.input))
        target: _Upload | _Attempt
        if _is_url(task.output):
            target = stack.enter_context(_Upload(task.output))
        else:
            target = stack.enter_context(_Attempt(task.output))
        values = {
            "{input}": source,
            "{output}": target.path,
            "{index}": str(task.index),
            "{name}": os.path.basename(task.input),
        }
        stages = [[_filled(word, values) for word in stage] for stage in task.stages]
        words = [word for stage in task.stages for word in stage]
        reads = not any("{input}" in word for word in words)
        writes = not any("{output}" in word for word in words)
        stdin: Any = stack.enter_context(open(source, "rb")) if reads else subprocess.DEVNULL
        stdout: Any = stack.enter_context(open(target.path, "wb")) if writes else None
        pipeline = Pipeline(
            stages,
            stdin=stdin,
            stdout=stdout,
            pipe_size=task.pipe_size,
            grace=task.grace,
            check=True,
            whole=task.asked.whole,
            accept=task.asked.accept,
            stalled=task.asked.stalled,
        )
        with pipeline:
            _wait(pipeline)
        size = os.stat(target.path).st_size
        if size < least:
            raise EOFError(f"the output of {task.input} has {size} bytes, and at_least is {least}: {task.output} is as it was")
        target.put_in_place(task.sync)
        return TaskReport(
            task.index,
            task.input,
            task.output,
            socket.gethostname(),
            time.monotonic() - began,
            False,
            size,
            tuple(pipeline.returncodes),
            pipeline._found,
        )


def _filled(word: str, values: dict[str, str]) -> str:
    """Replaces the names in a word, once: what is filled in is not searched again."""
    return re.sub("|".join(map(re.escape, values)), lambda found: values[found.group()], word)


def _wait(pipeline: Pipeline) -> None:
    """Waits for a pipeline, or ends it when its task is cancelled."""
    while True:
        try:
            pipeline.wait(_LOOK_EVERY)
            return
        except TimeoutExpired:
            if _is_cancelled():
                # Leaving the block of the pipeline by an exception ends it.
                raise CancelledError("the task was cancelled") from None


def _is_done(task: _Task) -> bool:
    if task.done == "never":
        return False
    if task.done == "sealed":
        return _is_sealed(task.output)
    made, given = _changed(task.output), _changed(task.input)
    return made is not None and given is not None and made >= given


def _changed(path: str) -> float | None:
    """Returns when a file was changed last; None if there is none, or that is not known."""
    if not _is_url(path):
        try:
            return os.stat(path).st_mtime
        except OSError:
            return None
    fs, inner = _file_system(path)
    try:
        changed = fs.modified(inner)
    except (OSError, NotImplementedError):
        return None
    return float(changed.timestamp())


def _is_sealed(path: str) -> bool:
    with contextlib.ExitStack() as stack:
        try:
            source = stack.enter_context(_local(path))
        except OSError:
            return False
        if not os.path.exists(source):
            return False
        done = subprocess.run(
            [command(), "copy", "--unseal", source], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
        return done.returncode == 0


def _file_system(url: str) -> tuple[Any, str]:
    """Returns a file system of its own: a transaction belongs to one, and threads share those that are cached."""
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]

    fs, inner = url_to_fs(url, skip_instance_cache=True)
    return fs, inner


@contextlib.contextmanager
def _local(path: str) -> Iterator[str]:
    """Yields a path of a local file with the bytes of an input."""
    if not _is_url(path):
        yield path
        return
    fs, inner = _file_system(path)
    with tempfile.TemporaryDirectory(prefix="fullbore-") as folder:
        local = os.path.join(folder, "input")
        fs.get_file(inner, local)
        yield local


class _Upload:
    """An output of fsspec: it is made locally, and uploaded in a transaction."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._folder = tempfile.TemporaryDirectory(prefix="fullbore-")
        self.path = os.path.join(self._folder.name, "output")

    def put_in_place(self, sync: bool) -> None:
        fs, inner = _file_system(self._url)
        with fs.transaction, open(self.path, "rb") as source, fs.open(inner, "wb") as sink:
            shutil.copyfileobj(source, sink, 8 << 20)

    def __enter__(self) -> _Upload:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


class _Attempt:
    """The folder of one attempt, beside the place of its output."""

    def __init__(self, output: str) -> None:
        self._output = output
        _clean(output)
        while True:
            self._folder = f"{_prefix(output)}{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
            os.mkdir(self._folder)
            lock = os.path.join(self._folder, "lock")
            # Another attempt may take it for one that was killed, and remove it, before it is locked.
            with contextlib.suppress(FileNotFoundError):
                self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    fcntl.flock(self._lock, fcntl.LOCK_EX)
                    if os.path.samestat(os.stat(lock), os.fstat(self._lock)):
                        break
                except BaseException:
                    os.close(self._lock)
                    raise
                os.close(self._lock)
        self.path = os.path.join(self._folder, "output")

    def put_in_place(self, sync: bool) -> None:
        if sync:
            with open(self.path, "rb") as file:
                os.fsync(file.fileno())
        os.replace(self.path, self._output)
        if sync:
            folder = os.open(os.path.dirname(self._output) or ".", os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def __enter__(self) -> _Attempt:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)


def _prefix(output: str) -> str:
    folder, name = os.path.split(output)
    return os.path.join(folder, f".{name}.fullbore-")


def _clean(output: str) -> list[str]:
    removed = []
    for folder in glob.glob(glob.escape(_prefix(output)) + "*"):
        try:
            lock = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            continue  # It has gone meanwhile.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # It is running.
        else:
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
        finally:
            os.close(lock)
    return removed


@dataclass(frozen=True)
class Summary:
    """One verdict about many pipelines. str() is the text of `fullbore run --summary`."""

    text: str
    #: The same as JSON; docs/run.md describes its fields.
    json: str
    #: The same as one page.
    html: str

    def __str__(self) -> str:
        return self.text


def summary(reports: Sequence[TaskReport]) -> Summary:
    """Returns which stage was slow on how many machines, the throughput and the CPU seconds of each stage, the slowest
    inputs and why, and the machine that is the odd one out. Tasks without a report, such as skipped ones, are only counted.
    """
    with tempfile.TemporaryDirectory(prefix="fullbore-") as folder:
        files = []
        for number, task in enumerate(reports):
            if task.json is not None:
                report = {**json.loads(task.json), "input": task.input, "host": task.host}
                files.append(os.path.join(folder, f"{number}.json"))
                with open(files[-1], "w") as file:
                    json.dump(report, file)
        if not files:
            raise ValueError("none of these tasks has a report: all were skipped, or have run without /proc")
        page = os.path.join(folder, "page.html")
        run = [command(), "run", "--summary"]
        text = subprocess.run([*run, f"--html={page}", *files], check=True, capture_output=True, text=True).stdout
        found = subprocess.run([*run, "--json", *files], check=True, capture_output=True, text=True).stdout
        with open(page) as opened:
            return Summary(text, found, opened.read())


def bench(client: Any, *words: str) -> str:
    """Runs `fullbore bench WORDS` once on the machine of every worker, never two at once on one, and returns the
    comparison of all (`bench --compare`).
    """
    workers: dict[str, str] = {}
    for address, host in client.run(socket.gethostname).items():
        workers.setdefault(host, address)
    futures = {
        host: client.submit(_bench, words, workers=[address], allow_other_workers=False, pure=False)
        for host, address in sorted(workers.items())
    }
    with tempfile.TemporaryDirectory(prefix="fullbore-") as folder:
        files = []
        for host, future in futures.items():
            files.append(os.path.join(folder, f"{host}.json"))
            with open(files[-1], "w") as file:
                file.write(future.result())
        if len(files) == 1:
            with open(files[0]) as only:
                return only.read()
        return subprocess.run(
            [command(), "bench", "--compare", *files], check=True, capture_output=True, text=True
        ).stdout


def _bench(words: tuple[str, ...]) -> str:
    with open(os.path.join(tempfile.gettempdir(), f"fullbore-bench-{os.getuid()}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run([command(), "bench", "--json", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"fullbore bench on {socket.gethostname()}: {done.stderr.strip()}")
    return done.stdout
