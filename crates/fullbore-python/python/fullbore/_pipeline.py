"""Pipeline: a pipeline of unmodified programs, with roomy pipes."""

from __future__ import annotations

import io
import json
import os
import select
import shlex
import signal
import subprocess
import threading
import time
from subprocess import DEVNULL, PIPE, STDOUT, TimeoutExpired
from typing import IO, Any, Union

from . import _fullbore
from ._files import Opened, flush_standard, plain
from ._fullbore import Consumer, Producer
from ._moving import _size
from ._report import PipelineReport, read_report
from ._whole import Lifeline, Stdin, Text, Whole, report_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from ._whole import Accept

__all__ = ["DEVNULL", "PIPE", "STDOUT", "Pipeline", "PipelineError", "TimeoutExpired"]

Stage = Union[str, "Sequence[str | bytes | os.PathLike[str]]"]


#: The returncode of a process of which nobody knows how it ended, as in asyncio.
_UNKNOWN = 255


class PipelineError(subprocess.CalledProcessError):
    """A pipeline failed. `cmd` is the text of the stage that failed, and `stage` its number, from 1.

    If no stage did, because too few bytes came, or the pipeline stalled, or could not be started, `cmd` is the text of the
    whole pipeline, and `stage` is 0; a line on stderr says why.
    """

    def __init__(
        self, stage: int, stages: Sequence[str], returncodes: Sequence[int], code: int | None = None
    ) -> None:
        failed = returncodes[stage - 1] if code is None else code
        super().__init__(failed, stages[stage - 1] if stage else " | ".join(stages))
        self.stage = stage
        self.stages = list(stages)
        self.returncodes = list(returncodes)
        self._code = code

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle, which calls the class with the arguments of CalledProcessError otherwise."""
        # With its notes.
        return PipelineError, (self.stage, self.stages, self.returncodes, self._code), self.__dict__

    def __str__(self) -> str:
        if self.returncode < 0:
            try:
                how = f"died of {signal.Signals(-self.returncode).name}"
            except ValueError:
                how = f"died of signal {-self.returncode}"
        else:
            how = f"exited with {self.returncode}"
        if not self.stage:
            return f"the pipeline ({self.cmd}) {how}"
        return f"stage {self.stage} of {len(self.stages)} ({self.cmd}) {how}"


def _words(number: int, stage: Stage) -> tuple[list[str | bytes | os.PathLike[str]], str]:
    """Returns the words of a stage, and its text."""
    if isinstance(stage, (bytes, os.PathLike)) or not hasattr(stage, "__iter__"):
        raise TypeError(f"stage {number}: expected a str or a sequence, not {type(stage).__name__}")
    words: list[str | bytes | os.PathLike[str]] = []
    if isinstance(stage, str):
        _refuse_shell(number, stage)
        try:
            words.extend(shlex.split(stage))
        except ValueError as error:
            raise ValueError(f"stage {number} ({stage}): {error}") from None
        text = stage
    else:
        words.extend(stage)
        for word in words:
            if not isinstance(word, (str, bytes, os.PathLike)):
                raise TypeError(f"stage {number}: expected str, bytes or a path as word, not {word!r}")
        text = shlex.join(os.fsdecode(word) for word in words)
    if not words:
        raise ValueError(f"stage {number} is empty: expected a program and its arguments")
    return words, text


def _refuse_shell(number: int, stage: str) -> None:
    """Refuses shell syntax instead of passing it to the program."""
    quote = ""
    skip = False
    for char in stage:
        if skip:
            skip = False
        elif char == "\\" and quote != "'":
            skip = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "|&;<>()$`":
            raise ValueError(
                f"stage {number} has a '{char}' for a shell, and no shell runs it: give each stage as an item "
                "of its own, quote the character, or use ['sh', '-c', '...']"
            )


def _fileno(what: str, file: int | IO[Any] | None) -> int | None:
    """Returns the descriptor for the stages, or a value with the meaning of subprocess: negative, or None."""
    if isinstance(file, int) and not isinstance(file, bool):
        return file
    reads = what == "stdin"
    if file is None:
        if not reads:
            # Buffered output of print() comes before that of the stages.
            flush_standard(1 if what == "stdout" else 2)
        return None
    try:
        plain(file, "None, PIPE, DEVNULL, a file descriptor (int) or a file object")
        opened = Opened(file, writes=not reads)
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from None
    if opened.ahead():
        raise ValueError(
            f"{what}: {opened.name!r} has read {opened.ahead()} bytes ahead, which no stage would see: give them to "
            "communicate(), or pass the file before anything is read from it"
        )
    return opened.fd


class Pipeline:
    """Runs programs, each of which reads the output of the one before it, in pipes of `pipe_size` bytes.

        with Pipeline(["zstd -dc a.zst", ["grep", "-c", "x"]], stdout=PIPE, check=True) as p:
            print(p.stdout.read())

    A stage is a sequence of words, or a text that is split like a shell command. There is no shell, so
    variables, wildcards and redirections have no effect.

    `stdin` is for the first stage and `stdout` for the last: None (that of this process), PIPE, DEVNULL, a
    descriptor or a file object. `stderr` is for all, and may be STDOUT. With PIPE, the attributes `stdin`, a
    Producer, and `stdout` and `stderr`, Consumers, are the other ends; with `text`, `encoding` or `errors` they
    are text files. The stages' stderr is kept in memory until it is read. Writing to stdin while stdout is full
    can deadlock, as with subprocess.Popen: communicate() does not.

    With `check`, wait(), communicate() and the end of the block raise a PipelineError that names the stage that
    failed. A stage that SIGPIPE ended because a later one stopped reading has not failed. Without `whole`,
    SIGPIPE from a pipe that the stage has made itself is not seen as a failure.

    If an exception leaves the block, all processes and their descendants are terminated: by SIGTERM, and after
    `grace` seconds by SIGKILL. Otherwise the end of the block closes the pipes and waits.

    With `watch`, a thread samples the stages, for at most 1% of the time, for report().

    Raises OSError if a stage cannot be started; then no process is left running.

    All or nothing. With one of these, the command fullbore runs the stages, and they mean what its options do (docs/run.md):

    - `whole`: a stage sees the end of its input only after the stage before it has succeeded. If one fails, those behind
      it are ended without seeing an end. That includes the death of this process, and an exception in the block. With
      stdin=PIPE, close() of `stdin`, or the end of the block, is the end of the input, and nothing else is.
    - `output`: a path, which is replaced by the output of the last stage when all have succeeded; implies `whole`.
    - `at_least`: a size; with fewer bytes, `output` is not replaced, and the pipeline has failed.
    - `accept`: the failures that are successes, by the number of a stage, from 1, or the name of its program: exit codes
      and 'early', as in {"tar": 1, 2: ["early"]}.
    - `stalled`: seconds after which the pipeline has failed if no byte moved.

    `pids` has then one process, which runs the others and passes SIGTERM on to them; `returncodes` and report() are there
    when it has ended; a stage that cannot be started fails with 127 or 126.
    """

    #: Whether the command runs the stages, whatever they were asked for.
    _by_command = False

    def __init__(
        self,
        stages: Sequence[Stage],
        *,
        stdin: int | IO[Any] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        pipe_size: int | str = "1M",
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        text: bool = False,
        encoding: str | None = None,
        errors: str | None = None,
        check: bool = False,
        grace: float = 2.0,
        watch: bool = True,
        whole: bool = False,
        output: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None = None,
        accept: Accept | None = None,
        at_least: int | str | None = None,
        stalled: float | None = None,
    ) -> None:
        if isinstance(stages, (str, bytes)):
            raise TypeError("expected a sequence of stages, such as ['cat a', 'wc -l'], not one text")
        split = [_words(number, stage) for number, stage in enumerate(stages, 1)]
        if not split:
            raise ValueError("expected at least one stage")
        wanted = _size("pipe_size", pipe_size)
        if not grace >= 0:
            raise ValueError(f"grace: expected a number of seconds from 0, not {grace!r}")
        asked = Whole(whole, output, accept, at_least, stalled)
        asked.check()
        if output is not None and stdout is not None:
            raise ValueError("output and stdout exclude each other: both say where the last stage writes to")
        #: Runs the stages as one process, if that is needed.
        self._whole = asked if asked.is_wanted() or self._by_command else None
        #: Where that process writes its report, and what it wrote.
        self._report_file: int | None = None
        self._lifeline: Lifeline | None = None
        self._found: str | None = None
        self.stages: list[str] = [text for _, text in split]
        # None without PIPE, and a text file with `text`: Any stands for both, so that `p.stdout.read()` needs no cast.
        self.stdin: Producer | Any = None
        self.stdout: Consumer | Any = None
        self.stderr: Consumer | Any = None
        self._check = check
        self._grace = grace
        self._text = (encoding, errors) if text or encoding or errors else None
        self._processes: list[subprocess.Popen[bytes]] = []
        # This kills its processes when its last reference is dropped, whatever was raised where.
        self._children = _fullbore.Children()
        self._watcher: _fullbore.Watcher | None = None
        self._threads: dict[str, _Thread] = {}
        self._waiting = threading.RLock()
        self._is_unknown = False
        self._owner = os.getpid()
        given = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        files = {name: _fileno(name, file) for name, file in given.items()}
        starter = _Thread(
            lambda: self._start(
                [words for words, _ in split],
                files["stdin"],
                files["stdout"],
                files["stderr"],
                wanted,
                cwd,
                env,
                watch,
            )
        )
        try:
            # A signal handler raises its exception in the main thread, so not between starting a process and
            # recording it.
            starter.start()
            starter.finish()
        except BaseException:
            self._abort(starter)
            raise

    def _start(
        self,
        stages: list[list[str | bytes | os.PathLike[str]]],
        stdin: int | None,
        stdout: int | None,
        stderr: int | None,
        wanted: int,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str] | None,
        watch: bool,
    ) -> None:
        began = time.monotonic()
        ours: list[int] = []
        inherited: list[int] = []
        if self._whole is not None:
            self._report_file = report_file()
            self._lifeline = Lifeline()
            ours.append(self._lifeline.theirs)
            watch = False
        kept: list[int] = []
        ends: dict[str, int] = {}

        def pipe(size: int | None) -> tuple[int, int]:
            reader, writer = _fullbore.pipe(size)
            ours.extend((reader, writer))
            return reader, writer

        try:
            size = _fullbore.affordable(len(stages) - 1, wanted)
            first, last, errors = stdin, stdout, stderr
            if stdin == PIPE:
                first, ends["stdin"] = pipe(size)
            if self._whole is not None and self._lifeline is not None:
                held = ends.get("stdin") if self._whole.is_whole() else None
                passed = [self._lifeline.theirs, self._report_file, held]
                inherited = [fd for fd in passed if fd is not None]
                words = self._whole.words(stages, wanted, self._grace, self._report_file, self._lifeline.theirs, held)
                stages = [words]
            pipes = [pipe(size) for _ in stages[1:]]
            if stdout == PIPE:
                ends["stdout"], last = pipe(size)
            if stderr == PIPE:
                said, errors = pipe(None)
                ends["stderr"], passed_on = pipe(None)
            inputs = [first, *(reader for reader, _ in pipes)]
            outputs = [*(writer for _, writer in pipes), last]
            for number, words in enumerate(stages):
                try:
                    process = subprocess.Popen(
                        words,
                        stdin=inputs[number],
                        stdout=outputs[number],
                        stderr=errors,
                        cwd=cwd,
                        env=env,
                        pass_fds=inherited,
                    )
                except OSError as error:
                    if hasattr(error, "add_note"):
                        error.add_note(f"stage {number + 1} of {len(stages)} cannot be started")
                    raise
                self._processes.append(process)
                try:
                    self._children.add(process.pid)
                except ProcessLookupError:
                    pass  # It has ended, and was reaped already: SIGCHLD is ignored.
                except BaseException:
                    process.kill()
                    process.wait()
                    raise
            if watch:
                links = [(writer, _fullbore.capacity(writer), wanted) for _, writer in pipes]
                named = [(self.stages[i], p.pid) for i, p in enumerate(self._processes)]
                try:
                    self._watcher = _fullbore.Watcher(named, links, time.monotonic() - began)
                except OSError:
                    pass  # There is no /proc: report() says so.
            for name, fd in ends.items():
                is_held = name == "stdin" and self._whole is not None and self._whole.is_whole()
                kind: Any = (Stdin if is_held else Producer) if name == "stdin" else Consumer
                file: Any = kind(fd)
                kept.append(fd)
                if is_held:
                    file.lifeline = self._lifeline
                if self._text:
                    encoding, on_errors = self._text
                    file = (Text if is_held else io.TextIOWrapper)(
                        file,
                        encoding=encoding,
                        errors=on_errors,
                        line_buffering=False,
                        write_through=name == "stdin",
                    )
                setattr(self, name, file)
            if stderr == PIPE:
                _Thread(lambda: _pass_on(said, passed_on)).start()
                kept.extend((said, passed_on))
        finally:
            for fd in ours:
                if fd not in kept:
                    os.close(fd)

    def _abort(self, starter: _Thread) -> None:
        """Ends the processes of a start that was interrupted."""
        starter.wait()
        self._end()
        self._close()

    def _end(self) -> None:
        """Ends all processes, in one call, which no signal interrupts."""
        if self._owner != os.getpid():
            return
        if self._whole is not None:
            self._end_command()
        self._children.end(self._grace)
        for process in self._processes:
            # It has ended, unless it is in uninterruptible sleep.
            self._waited(process, os.WNOHANG)
        self._settle()

    def _end_command(self) -> None:
        """Lets the command end its stages, so that none of them sees an end that this causes."""
        self._children.signal(signal.SIGTERM)
        for number in range(len(self._processes)):
            # It kills them after `grace` seconds.
            self._reap(number, self._grace + 20)

    def _settle(self) -> None:
        """Releases what is needed only while a process exists."""
        if self._watcher is not None:
            self._watcher.stop()
        if all(process.returncode is not None for process in self._processes):
            self._children.forget()
            if self._lifeline is not None:
                self._lifeline.close()
                self._lifeline = None
            if self._report_file is not None:
                size = os.fstat(self._report_file).st_size
                self._found = os.pread(self._report_file, size, 0).decode()
                # In this order: a handler of a signal may raise an exception, and the number may be another file's then.
                file, self._report_file = self._report_file, None
                os.close(file)

    def _close(self) -> None:
        """Closes our ends and ignores errors, because the processes have ended."""
        for file in self._ends():
            try:
                file.close()
            except (OSError, ValueError, BufferError):
                pass

    def _ends(self) -> list[Any]:
        """Our ends that no thread of communicate() uses; it closes the others when it ends."""
        return [
            file
            for name in ("stdin", "stdout", "stderr")
            if (file := getattr(self, name)) is not None
            and (name not in self._threads or self._threads[name].wait(0))
        ]

    @property
    def pids(self) -> list[int]:
        """The PIDs of the processes, in order."""
        return [process.pid for process in self._processes]

    @property
    def returncodes(self) -> list[int | None]:
        """How each stage ended, like Popen.returncode; None for one that has not been waited for."""
        codes = [process.returncode for process in self._processes]
        if self._whole is None or not codes:
            return codes
        if not self._found:
            # It runs, or nobody knows more than that it has failed.
            return codes * len(self.stages)
        stages = json.loads(self._found)["stages"]
        return [-stage["signal"] if "signal" in stage else stage.get("exit_code") for stage in stages]

    @property
    def returncode(self) -> int | None:
        """How the pipeline ended: like the last stage that failed, or 0. None until all have been waited for.
        """
        failed = self._failed()
        return None if failed is None else failed[1]

    def _failed(self) -> tuple[int, int] | None:
        """Returns the index of the stage that determines the result, and the return code of the pipeline; None
        while a stage is running.
        """
        codes = [process.returncode for process in self._processes]
        if None in codes:
            return None
        if self._whole is not None:
            return self._failed_command(codes[0])
        last = len(codes) - 1
        # A shell exits with 141 if SIGPIPE has ended the program that it started.
        had_enough = (-signal.SIGPIPE, 128 + signal.SIGPIPE)
        # The last stage writes to this process, or to a reader outside the pipeline.
        is_ours = self.stdout is not None and self.stdout.closed
        failed = [
            number
            for number, code in enumerate(codes)
            if code and not (code in had_enough and (number < last or is_ours))
        ]
        return (failed[-1], codes[failed[-1]]) if failed else (last, 0)

    def _failed_command(self, code: int) -> tuple[int, int]:
        """Returns what _failed() does, with -1 for the index if no stage has failed with this code of the command."""
        codes = self.returncodes
        # It exits as a shell does.
        same = [number for number, one in enumerate(codes) if one == code or one is not None and 128 - one == code]
        if not code or not same or not self._found:
            return (len(codes) - 1 if not code else -1, code)
        assert self._whole is not None
        number = same[0 if self._whole.is_whole() else -1]
        return number, codes[number] or code

    def poll(self) -> int | None:
        """Returns the returncode if all stages have ended, and None otherwise. Does not wait."""
        self._own()
        for number in range(len(self._processes)):
            self._reap(number, 0.0)
        code = self.returncode
        if code is not None:
            self._settle()
        return code

    def wait(self, timeout: float | None = None) -> int:
        """Waits until all stages have ended, and returns the returncode.

        Raises TimeoutExpired after `timeout` seconds, and with `check` PipelineError if a stage failed.
        """
        self._own()
        until = None if timeout is None else time.monotonic() + timeout
        for number in range(len(self._processes)):
            left = None if until is None else max(0.0, until - time.monotonic())
            if not self._reap(number, left):
                assert timeout is not None
                raise TimeoutExpired(" | ".join(self.stages), timeout)
        self._settle()
        failed = self._failed()
        assert failed is not None
        stage, code = failed
        if self._check and code:
            codes = [code if one is None else one for one in self.returncodes]
            error = PipelineError(stage + 1, self.stages, codes, code)
            if self._is_unknown:
                error.add_note(
                    "nobody knows how it ended: SIGCHLD is ignored, which signal.signal(signal.SIGCHLD, signal.SIG_DFL)"
                    " changes, or other code has waited for it"
                )
            raise error
        return code

    def _reap(self, number: int, timeout: float | None) -> bool:
        """Waits for one process, and returns whether it has ended."""
        process = self._processes[number]
        if process.returncode is not None:
            return True
        try:
            if timeout is None:
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            elif not _ends_within(process.pid, timeout):
                return False
            if self._watcher is not None:
                # Until it is waited for, /proc has its final counters.
                self._watcher.ended(number)
        except (ChildProcessError, ProcessLookupError):
            pass  # SIGCHLD is ignored, or other code has waited for it.
        code = self._waited(process, 0)
        if self._watcher is not None and code is not None:
            self._watcher.status(number, code)
        return True

    def _waited(self, process: subprocess.Popen[bytes], options: int) -> int | None:
        """Waits for a process as its wait() and poll() do, which take it for a success if nobody knows how it ended."""
        with self._waiting:
            try:
                if process.returncode is None:
                    pid, status = os.waitpid(process.pid, options)
                    process.returncode = os.waitstatus_to_exitcode(status) if pid else None
            except ChildProcessError:
                process.returncode, self._is_unknown = _UNKNOWN, True
            return process.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal to every running stage."""
        self._own()
        self._children.signal(int(number))

    def terminate(self) -> None:
        """Sends SIGTERM to every running stage."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Sends SIGKILL to every running stage."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Writes `input` to stdin, closes it, reads stdout and stderr to their ends, and waits.

        Returns the contents of stdout and of stderr, each None without PIPE. After TimeoutExpired, or an exception that
        the handler of a signal has raised, the processes are still running, and it can be called again without losing
        output.
        """
        self._own()
        if input is not None and self.stdin is None:
            raise ValueError("communicate() has an input, and the pipeline no stdin: use stdin=PIPE")
        until = None if timeout is None else time.monotonic() + timeout
        stdin, stdout, stderr = self.stdin, self.stdout, self.stderr
        jobs: dict[str, Any] = {}
        if stdin is not None:
            jobs["stdin"] = lambda: _feed(stdin, input)
        if stdout is not None:
            jobs["stdout"] = stdout.read
        if stderr is not None:
            jobs["stderr"] = stderr.read
        for name, job in jobs.items():
            self._threads.setdefault(name, _Thread(job)).start()
        for thread in self._threads.values():
            left = None if until is None else max(0.0, until - time.monotonic())
            if not thread.wait(left):
                assert timeout is not None
                raise TimeoutExpired(" | ".join(self.stages), timeout)
        read = [
            self._threads[name].finish() if name in self._threads else None
            for name in ("stdin", "stdout", "stderr")
        ]
        for file in (stdout, stderr):
            if file is not None:
                file.close()
        self.wait(None if until is None else max(0.0, until - time.monotonic()))
        return read[1], read[2]

    def report(self) -> PipelineReport:
        """Returns the findings so far: how each stage spent its time, how full the pipes were, and which stage
        is the bottleneck.

        Raises RuntimeError without `watch`, and OSError if there is no /proc.
        """
        self._own()
        if self._whole is not None:
            if not self._found:
                raise RuntimeError("there is no report: the pipeline is running, was not started, or has no /proc")
            return read_report(self._found)
        if self._watcher is None:
            raise RuntimeError("there is no report: the pipeline was started with watch=False or without /proc")
        return read_report(self._watcher.findings())

    def _own(self) -> None:
        if self._owner != os.getpid():
            raise ValueError("this pipeline belongs to the parent process")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._owner != os.getpid():
            return
        try:
            if kind is None:
                self._finish()
        finally:
            # After an exception this ends the remaining processes; otherwise there are none.
            if self._processes and None in self.returncodes:
                self._end()
            self._close()

    def _finish(self) -> None:
        """Closes our ends, and waits."""
        failed = None
        for file in self._ends():
            try:
                file.close()
            except OSError as error:
                if isinstance(file, (Stdin, Text)) and not isinstance(error, BrokenPipeError):
                    raise
                # The other stages can still end by themselves.
                failed = error
        self.wait()
        if failed is not None:
            raise failed

    def __repr__(self) -> str:
        return f"<fullbore.Pipeline {' | '.join(self.stages)!r} returncodes={self.returncodes}>"


class _Thread:
    """A call in a separate thread, and its result."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._result: Any = None
        self._error: BaseException | None = None
        self._done = threading.Event()
        self._began = False
        self._is_taken = threading.Lock()

    def start(self) -> None:
        """Starts the call, unless a thread has: also after the handler of a signal has raised an exception here."""
        if self._is_taken.locked():
            return
        self._began = True
        try:
            threading.Thread(target=self._run, name="fullbore", daemon=True).start()
        except RuntimeError:
            self._began = False
            raise

    def _run(self) -> None:
        if not self._is_taken.acquire(blocking=False):
            return
        try:
            self._result = self._call()
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()

    def wait(self, timeout: float | None = None) -> bool:
        return not self._began or self._done.wait(timeout)

    def finish(self) -> Any:
        self.wait()
        if self._error is not None:
            raise self._error
        return self._result


def _feed(stdin: Any, data: Any) -> None:
    try:
        try:
            if data is not None:
                stdin.write(data)
        finally:
            stdin.close()
    except BrokenPipeError:
        pass  # The first stage stopped reading; ignored as in subprocess.Popen.communicate().


def _pass_on(source: int, sink: int) -> None:
    """Copies from one pipe to another, and buffers what does not fit, so that writers never wait for the
    reader. It ends when all writers have closed, or the reader has.
    """
    held = bytearray()
    poll = select.poll()
    try:
        os.set_blocking(sink, False)
        poll.register(source, select.POLLIN)
        poll.register(sink, 0)
        is_open = True
        while is_open or held:
            for fd, events in poll.poll():
                if fd == source:
                    said = os.read(source, 65536)
                    held += said
                    if not said:
                        is_open = False
                        poll.unregister(source)
                elif events & select.POLLERR:
                    return
            if held:
                try:
                    del held[: os.write(sink, held)]
                except BlockingIOError:
                    pass
            poll.modify(sink, select.POLLOUT if held else 0)
    except BrokenPipeError:
        pass
    finally:
        os.close(source)
        os.close(sink)


def _ends_within(pid: int, timeout: float) -> bool:
    """Returns whether a child ends within some seconds."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        # A filter refuses it. The child is not waited for here: the caller does that.
        until = time.monotonic() + timeout
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.waitid(os.P_PID, pid, how) is None:
            if time.monotonic() >= until:
                return False
            time.sleep(0.005)
        return True
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(timeout * 1000))
    finally:
        os.close(pidfd)
