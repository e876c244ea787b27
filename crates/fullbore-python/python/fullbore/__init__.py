"""Fast Linux pipes, with the guarantee of each fast way stated.

    import fullbore

    with fullbore.Pipeline(["zstd -dc a.zst", ["grep", "-c", "x"]], stdout=fullbore.PIPE) as p:
        print(p.stdout.read())
        print(p.report())                     # which stage is slow

    with fullbore.Producer(sys.stdout.buffer) as out:
        out.write(data)                       # whole pages are given to a pipe
        view = out.reserve(1 << 16)           # or filled where they are
        ...
        out.commit(n)

    fullbore.copy("big.img", sys.stdout.buffer)

Files. A `file` is a descriptor (int) or a file object that adds nothing but a buffer to its descriptor: what
open() returns, a socket, a pipe of subprocess, a Producer or a Consumer. copy() and tee() also take paths. Bytes
move through the descriptor, so other objects with a fileno(), such as a GzipFile or an SSLSocket, are refused:
theirs has compressed or encrypted bytes. What a file object has gathered for writing is written first, also what
print() has gathered for the same descriptor; what it has read ahead is taken first, or refused. Producer and
Consumer close the file with themselves unless closefd is False: after that of sys.stdout.buffer, print() fails.
They work on a duplicate of the descriptor, and closing that drops the POSIX locks (fcntl.lockf) that this process
has on the file; copy() and tee() of file objects and descriptors keep them.

Sizes. A size is a number of bytes, or a text such as '64K' or '1M' (powers of 1024). `pipe_size` is the
capacity that an output pipe is grown to once more than 64 KiB go through it; 0 leaves it as it is.

Sharing. With shared=True, a Producer and a Consumer at the two ends of a pipe meet in memory that both share,
and bytes no longer go through the pipe; to everybody else it is a pipe as before. The reader gets a copy of what
is in that memory, so it need not trust the writer.

Errors. An error of the kernel is an OSError with `errno`, and with the file in `filename`. A wrong argument
is a ValueError or a TypeError.

Waiting, signals and threads. Whatever waits or copies releases the interpreter's lock. A signal ends a wait:
its handler runs, and the call continues unless the handler raises an exception, as KeyboardInterrupt does.
Also on a descriptor with O_NONBLOCK, calls wait. Several threads may use one object: it does one call at a
time. After os.fork() the child cannot use objects of its parent, and sends nothing of what they hold.
"""

import io as _io
import os as _os

from . import _fullbore
from ._fullbore import (
    Consumer,
    Producer,
    Report,
    SinkReport,
    TeeReport,
    __version__,
    capacity,
    grow,
    pipe,
    queued,
)
from ._moving import copy, tee

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._aio import acopy
    from ._overview import Overview, PipeInfo, ProcessInfo, RunningPipeline, RunningStage, pipelines
    from ._pipeline import DEVNULL, PIPE, STDOUT, Pipeline, PipelineError, TimeoutExpired
    from ._report import Bottleneck, PipelineReport, PipeReport, StageReport

__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "Bottleneck",
    "Consumer",
    "Overview",
    "PipeInfo",
    "PipeReport",
    "Pipeline",
    "PipelineError",
    "PipelineReport",
    "ProcessInfo",
    "Producer",
    "Report",
    "RunningPipeline",
    "RunningStage",
    "SinkReport",
    "StageReport",
    "TeeReport",
    "TimeoutExpired",
    "__version__",
    "acopy",
    "capacity",
    "copy",
    "grow",
    "pipe",
    "pipelines",
    "queued",
    "tee",
]

# What needs subprocess or asyncio is imported when it is used first.
_LAZY = {
    "acopy": "_aio",
    **dict.fromkeys(
        ["Overview", "PipeInfo", "ProcessInfo", "RunningPipeline", "RunningStage", "pipelines"],
        "_overview",
    ),
    **dict.fromkeys(
        ["DEVNULL", "PIPE", "STDOUT", "Pipeline", "PipelineError", "TimeoutExpired"], "_pipeline"
    ),
    **dict.fromkeys(["Bottleneck", "PipelineReport", "PipeReport", "StageReport"], "_report"),
}


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'fullbore' has no attribute '{name}'")
    from importlib import import_module

    value: object = getattr(import_module("." + module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))


_io.BufferedIOBase.register(Producer)
_io.BufferedIOBase.register(Consumer)
_os.register_at_fork(after_in_child=_fullbore._after_fork)
