"""Whole pipelines over many files, as tasks of Dask's distributed scheduler.

    from distributed import Client
    import fullbore.dask

    client = Client("tcp://scheduler:8786")
    futures = fullbore.dask.map_pipelines(
        client, ["zstd -dc {input}", "grep -F 404", "gzip"], inputs, [f"{path}.404.gz" for path in inputs])
    reports = client.gather(futures)
    print(fullbore.dask.summary(reports))

Each input is one task. Its output appears in one step when all stages have succeeded, or not at all, however often Dask
runs the task. Until then it is in a folder beside its place, in `.NAME.fullbore`, which belongs to one attempt and is locked
(flock(2)) as long as that attempt runs: the next attempt and clean() remove those of attempts that were killed.

Every worker needs the package with its command. Inputs and outputs are paths on a file system that the workers share, or
URLs of fsspec: an input is downloaded first, and an output is uploaded in a transaction, which ends with the success. Until
then both are in the local directory of the worker, which Dask removes if the worker was killed. Outputs on a file system of
fsspec without transactions (as hdfs://) are refused.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from subprocess import TimeoutExpired
from typing import Any, Literal

from ._moving import _size
from ._pipeline import Pipeline, PipelineError, _words
from ._report import PipelineReport
from ._whole import Whole, command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._whole import Accept

__all__ = ["Summary", "TaskReport", "bench", "clean", "map_pipelines", "summary"]

#: How often a task looks whether it was cancelled, in seconds. Its end is an event, for which it does not look.
_LOOK_EVERY = 0.1

#: The programs that parse the word after -c.
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")

_NAMES = ("{input}", "{output}", "{index}", "{name}")

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
    #: Bytes of the output; None if a file system does not say it.
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
    at_least: int
    pipe_size: int
    grace: float
    done: Done
    sync: bool


class _Pipeline(Pipeline):
    """A pipeline whose stages are ended, and reported on, by the command, also if its worker is killed."""

    _by_command = True


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
    output if none has {output}. Paths are relative to the working directory of the caller.

    `accept`, `at_least` (bytes of the output) and `stalled` are as in Pipeline, `retries` and `resources` as in
    Client.submit(). With whole=False, a stage may see an end that a failure caused; the output appears only after a
    success all the same. With `sync`, an output is on the disk before it gets its name.

    A task whose output is there is skipped: with done='newer' if the output is not older than the input; with 'sealed' if
    it is a complete sealed stream (`fullbore copy --seal` as the last stage); with 'never' it is made again. So the same
    call continues what was stopped. Other stages make no difference: give 'never' if you have changed them.

    A task that fails raises PipelineError, or OSError if its input changed meanwhile. Cancelling a future ends its pipeline
    on its worker, by SIGTERM and after `grace` seconds by SIGKILL; so does the death of the worker.
    """
    asked = Whole(whole, None, accept, None, stalled)
    asked.check()
    least = 0 if at_least is None else _size("at_least", at_least)
    if done not in ("newer", "sealed", "never"):
        raise ValueError(f"done: expected 'newer', 'sealed' or 'never', not {done!r}")
    sources = [_absolute(path) for path in inputs]
    targets = [_absolute(path) for path in outputs]
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} inputs and {len(targets)} outputs: each input needs one output")
    if len(set(targets)) < len(targets):
        raise ValueError("two inputs have the same output")
    for path in set(sources) & set(targets):
        raise ValueError(f"{path} is an input and an output")
    split = tuple(_checked(number, stage) for number, stage in enumerate(stages, 1))
    if not split:
        raise ValueError("expected at least one stage")
    size = _size("pipe_size", pipe_size)
    if not grace >= 0:
        raise ValueError(f"grace: expected a number of seconds from 0, not {grace!r}")
    run = uuid.uuid4().hex[:12]
    tasks = [
        _Task(index, source, target, split, asked, least, size, grace, done, sync)
        for index, (source, target) in enumerate(zip(sources, targets))
    ]
    keys = [f"fullbore-{run}-{task.index}" for task in tasks]
    # One graph for all of them costs a fraction of a call of submit() for each.
    futures: list[Any] = client.map(_run, tasks, key=keys, retries=retries, resources=resources, pure=False) if tasks else []
    return futures


def _absolute(path: str | os.PathLike[str]) -> str:
    """Returns a path that does not depend on the working directory of a worker."""
    path = os.fsdecode(path)
    if not _is_url(path):
        return os.path.abspath(path)
    if path.split("://")[0] in ("file", "local"):
        # A transaction of fsspec may copy it to its place; a rename never shows a part.
        from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

        return str(LocalFileSystem._strip_protocol(path))
    return path


def _checked(number: int, stage: str | Sequence[str]) -> tuple[str, ...]:
    """Returns the words of a stage, none of which lets a shell parse the name of a file."""
    words = [os.fsdecode(word) for word in _words(number, stage)[0]]
    for at, word in enumerate(words[1:-1], 1):
        if any(os.path.basename(one) in _SHELLS for one in words[:at]) and re.fullmatch(r"-\w*c", word):
            for name in _NAMES:
                if name in words[at + 1] and name != "{index}":
                    raise ValueError(
                        f"stage {number} has {name} in the text of a shell, which would parse the name of the file: give it "
                        f"""to the text as an argument, as in ['sh', '-c', 'sort "$1"', 'sh', '{name}']"""
                    )
    return tuple(words)


def clean(outputs: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Removes what killed attempts have left beside these outputs, and returns the folders. Never those of an attempt
    that is running, on whatever machine, if the file system has locks for all of them (NFS has).
    """
    paths = [_absolute(output) for output in outputs]
    return [folder for path in paths if not _is_url(path) for folder in _clean(_attempts(path))]


def _is_url(path: str) -> bool:
    return re.match(r"([A-Za-z][\w+.-]*::)*[A-Za-z][\w+.-]*://", path) is not None


def _look() -> None:
    """Raises an exception if the scheduler does not want the current task any more, or its worker is closing."""
    from distributed import Reschedule, Status, get_worker

    try:
        worker = get_worker()
    except ValueError:
        return  # It is called outside of a worker.
    task = worker.state.tasks.get(worker.get_current_task())
    if task is None or task.state == "cancelled":
        raise CancelledError("the task was cancelled")
    if worker.status in (Status.closing, Status.closed):
        raise Reschedule("the worker is closing")


def _run(task: _Task) -> TaskReport:
    """Runs one task on a worker."""
    began = time.monotonic()

    def report(*found: Any) -> TaskReport:
        seconds = time.monotonic() - began
        return TaskReport(task.index, task.input, task.output, socket.gethostname(), seconds, *found)

    _check_place(task.output)
    given = _changed(task.input)
    if _is_done(task, given):
        return report(True, _bytes_of(task.output))
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(_local(task.input))
        made_by: Any = _Upload if _is_url(task.output) else _Attempt
        target: Any = stack.enter_context(made_by(task.output))
        values = dict(zip(_NAMES, (source, target.path, str(task.index), os.path.basename(task.input))))
        words = [word for stage in task.stages for word in stage]
        reads = not any("{input}" in word for word in words)
        writes = not any("{output}" in word for word in words)
        stdin: Any = stack.enter_context(open(source, "rb")) if reads else subprocess.DEVNULL
        stdout: Any = stack.enter_context(open(target.path, "wb")) if writes else None
        pipeline = _Pipeline(
            [[_filled(word, values) for word in stage] for stage in task.stages],
            stdin=stdin,
            stdout=stdout,
            pipe_size=task.pipe_size,
            grace=task.grace,
            check=True,
            whole=task.asked.whole,
            accept=task.asked.accept,
            stalled=task.asked.stalled,
        )
        try:
            with pipeline:
                _wait(pipeline)
        except PipelineError as error:
            error.add_note(f"The input was {task.input}, on {socket.gethostname()}.")
            raise
        try:
            made = os.lstat(target.path)
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, "the stages have succeeded without making {output}", task.output) from None
        if not stat.S_ISREG(made.st_mode):
            raise OSError(errno.EINVAL, "the stages have made something else than a regular file", task.output)
        if made.st_size < task.at_least:
            raise EOFError(
                f"the output of {task.input} has {made.st_size} bytes, and at_least is {task.at_least}: {task.output} is as it was"
            )
        if _changed(task.input) != given:
            # The next call would take the output for one of the new input.
            raise OSError(errno.EBUSY, "the input changed while it was read", task.input)
        target.put_in_place(task.sync)
        return report(False, made.st_size, tuple(pipeline.returncodes), pipeline._found)


def _check_place(output: str) -> None:
    """Refuses an output that is no regular file, which would not be replaced, or replaced by one; and a file system on
    which a part of an output could be seen.
    """
    if _is_url(output):
        _check_transactions(*_file_system(output))
        return
    if not os.path.isdir(os.path.dirname(output)):
        raise FileNotFoundError(errno.ENOENT, "the folder of the output is missing", os.path.dirname(output))
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(output).st_mode):
            raise OSError(errno.EEXIST, "the output is there, and is no regular file", output)


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
            # Leaving the block of the pipeline by an exception ends it.
            _look()


def _is_done(task: _Task, given: float | None) -> bool:
    if task.done == "never":
        return False
    if task.done == "sealed":
        return _is_sealed(task.output)
    made = _changed(task.output)
    return made is not None and given is not None and made >= given and (_bytes_of(task.output) or 0) >= task.at_least


def _changed(path: str) -> float | None:
    """Returns when a file was changed last; None if there is none, or that is not known."""
    try:
        if not _is_url(path):
            return os.stat(path).st_mtime
        fs, inner = _file_system(path)
        return float(fs.modified(inner).timestamp())
    except (OSError, NotImplementedError):
        return None


def _bytes_of(path: str) -> int | None:
    if not _is_url(path):
        return os.stat(path).st_size
    fs, inner = _file_system(path)
    size = fs.size(inner)
    return None if size is None else int(size)


def _is_sealed(path: str) -> bool:
    with contextlib.ExitStack() as stack:
        try:
            source = stack.enter_context(_local(path))
        except OSError:
            return False
        if not os.path.exists(source):
            return False
        # Not by subprocess, which takes a process of which nobody knows how it ended for a success.
        words, nowhere = [command(), "copy", "--unseal", source], subprocess.DEVNULL
        with Pipeline([words], stdout=nowhere, stderr=nowhere, watch=False) as check:
            return check.wait() == 0


_held = threading.local()


def _file_system(url: str) -> tuple[Any, str]:
    """Returns a file system of this thread, which has forgotten what it knew: a transaction belongs to one, and threads
    share some of those that fsspec holds.
    """
    from fsspec.core import url_to_fs  # type: ignore[import-untyped]

    shared, inner = url_to_fs(url)
    token = shared._fs_token
    if token not in _held.__dict__:
        setattr(_held, token, url_to_fs(url, skip_instance_cache=True)[0])
    fs = getattr(_held, token)
    fs.invalidate_cache()
    return fs, inner


#: File systems of fsspec that have shown that they have transactions.
_with_transactions: set[type] = set()


class _Undo(Exception):
    """Ends a transaction without its files."""


def _check_transactions(fs: Any, inner: str) -> None:
    """Refuses a file system that shows a file before its transaction ends: an upload that is cut short would stay there.

    fsspec leaves it to each file system, and its base class does nothing in commit() (fsspec/spec.py).
    """
    if type(fs) in _with_transactions:
        return
    from fsspec.spec import AbstractBufferedFile  # type: ignore[import-untyped]

    # A name beside the output, as the file may be there as soon as it is opened.
    probe, found = f"{inner}.fullbore-{secrets.token_hex(4)}", False
    try:
        with fs.transaction, fs.open(probe, "wb") as sink:
            commit = getattr(sink, "commit", None)
            held = any(file is sink for file in fs.transaction.files)
            found = held and commit is not None and getattr(commit, "__func__", None) is not AbstractBufferedFile.commit
            raise _Undo
    except (_Undo, AttributeError):
        pass
    if not found:
        with contextlib.suppress(OSError):
            fs.rm(probe)
        raise OSError(errno.EOPNOTSUPP, f"{type(fs).__name__} of fsspec has no transactions, so a part could be seen", inner)
    _with_transactions.add(type(fs))


def _copy(source: Any, sink: Any) -> None:
    while data := source.read(8 << 20):
        sink.write(data)
        _look()


def _folder() -> tempfile.TemporaryDirectory[str]:
    """Returns a folder for files of this task: when a worker was killed, Dask removes its local directory."""
    from distributed import get_worker

    try:
        return tempfile.TemporaryDirectory(prefix="fullbore-", dir=get_worker().local_directory)
    except ValueError:
        return tempfile.TemporaryDirectory(prefix="fullbore-")


@contextlib.contextmanager
def _local(path: str) -> Iterator[str]:
    """Yields a path of a local file with the bytes of an input, whose name ends like that of the input."""
    if not _is_url(path):
        yield path
        return
    fs, inner = _file_system(path)
    with _folder() as folder:
        local = os.path.join(folder, os.path.basename(inner) or "input")
        with fs.open(inner, "rb") as source, open(local, "wb") as sink:
            _copy(source, sink)
        yield local


class _Upload:
    """An output of fsspec: it is made locally, and uploaded in a transaction."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._folder = _folder()
        self.path = os.path.join(self._folder.name, os.path.basename(url) or "output")

    def put_in_place(self, sync: bool) -> None:
        fs, inner = _file_system(self._url)
        with fs.transaction, open(self.path, "rb") as source, fs.open(inner, "wb") as sink:
            _copy(source, sink)

    def __enter__(self) -> _Upload:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


class _Attempt:
    """The folder of one attempt, beside the place of its output."""

    def __init__(self, output: str) -> None:
        # As the command does, it replaces the file that a symbolic link leads to.
        self._output = os.path.realpath(output)
        attempts = _attempts(output)
        _clean(attempts)
        while True:
            self._folder = os.path.join(attempts, f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}")
            with contextlib.suppress(FileExistsError):
                os.mkdir(attempts)
            # Another attempt may take it for one that was killed, and remove it, before it is locked.
            with contextlib.suppress(FileNotFoundError):
                os.mkdir(self._folder)
                try:
                    self._lock = _lock(self._folder)
                    break
                except BaseException:
                    self._remove()
                    raise
        #: Programs see from the end of a name what to make.
        self.path = os.path.join(self._folder, os.path.basename(self._output))

    def put_in_place(self, sync: bool) -> None:
        if sync:
            with open(self.path, "rb") as file:
                os.fsync(file.fileno())
        os.replace(self.path, self._output)
        if sync:
            folder = os.open(os.path.dirname(self._output), os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _remove(self) -> None:
        _remove(self._folder)

    def __enter__(self) -> _Attempt:
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()
        os.close(self._lock)


def _lock(folder: str, how: int = 0) -> int:
    """Locks a folder of an attempt. Raises FileNotFoundError if another one has removed it, BlockingIOError if `how` is
    LOCK_NB and it is locked.
    """
    path = os.path.join(folder, ".fullbore.lock")
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | how)
        if os.path.samestat(os.stat(path), os.fstat(lock)):
            return lock
        raise FileNotFoundError(errno.ENOENT, "it was removed", path)
    except BaseException:
        os.close(lock)
        raise


def _attempts(output: str) -> str:
    """Returns the folder of the folders of all attempts at an output."""
    folder, name = os.path.split(os.path.realpath(output))
    encoded = os.fsencode(name)
    if len(encoded) > 200:
        # Names may have 255 bytes.
        name = hashlib.sha256(encoded).hexdigest()
    return os.path.join(folder, f".{name}.fullbore")


def _clean(attempts: str) -> list[str]:
    """Removes the folders of attempts that were killed."""
    removed = []
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(attempts):
            folder = os.path.join(attempts, name)
            # It is running, has gone meanwhile, or belongs to another user.
            with contextlib.suppress(OSError):
                lock = _lock(folder, fcntl.LOCK_NB)
                try:
                    _remove(folder)
                    removed.append(folder)
                finally:
                    os.close(lock)
        with contextlib.suppress(OSError):
            os.rmdir(attempts)
    return removed


def _remove(folder: str) -> None:
    """Removes a folder of an attempt, and the folder of the attempts if that was the last one."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(folder))


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
    inputs and why, and the machine that is the odd one out. Tasks without a report, as skipped ones, are only counted.
    """
    if not reports:
        raise ValueError("expected at least one report")
    with tempfile.TemporaryDirectory(prefix="fullbore-") as folder:
        file, page = os.path.join(folder, "reports"), os.path.join(folder, "page.html")
        with open(file, "w") as opened:
            for task in reports:
                found = {"skipped": True} if task.json is None else json.loads(task.json)
                # As text for people: a name may have bytes that are no UTF-8.
                name = task.input.encode(errors="replace").decode()
                print(json.dumps({**found, "input": name, "host": task.host}), file=opened)
        run = [command(), "run", "--summary", file]
        text = subprocess.run([*run, f"--html={page}"], check=True, capture_output=True, text=True).stdout
        found = subprocess.run([*run, "--json"], check=True, capture_output=True, text=True).stdout
        with open(page) as opened:
            return Summary(text, found, opened.read())


def bench(client: Any, *words: str) -> str:
    """Runs `fullbore bench WORDS` once on the machine of every worker, never two at once on one, and returns the
    comparison of all (`bench --compare`); the run as JSON if there is one machine.
    """
    workers: dict[str, tuple[str, str]] = {}
    for address, (machine, host) in sorted(client.run(_machine).items()):
        workers.setdefault(machine, (host, address))
    futures = [
        (host, client.submit(_bench, words, workers=[address], allow_other_workers=False, pure=False))
        for host, address in sorted(workers.values())
    ]
    runs = [(host, future.result()) for host, future in futures]
    if len(runs) == 1:
        return str(runs[0][1])
    with tempfile.TemporaryDirectory(prefix="fullbore-") as folder:
        files = []
        for number, (host, run) in enumerate(runs):
            # Two machines may have the same name.
            name = f"{host}-{number}" if host in [other for other, _ in runs[:number]] else host
            files.append(f"{name}.json")
            with open(os.path.join(folder, files[-1]), "w") as file:
                file.write(run)
        return subprocess.run(
            [command(), "bench", "--compare", *files], check=True, capture_output=True, text=True, cwd=folder
        ).stdout


def _machine() -> tuple[str, str]:
    """Returns what identifies a machine, in whatever containers its workers are, and its name."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip(), socket.gethostname()
    except OSError:
        return socket.gethostname(), socket.gethostname()


def _bench(words: tuple[str, ...]) -> str:
    with open(os.path.join(tempfile.gettempdir(), f"fullbore-bench-{os.getuid()}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run([command(), "bench", "--json", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"fullbore bench on {socket.gethostname()}: {done.stderr.strip()}")
    return done.stdout
