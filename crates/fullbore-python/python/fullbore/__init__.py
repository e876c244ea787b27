"""Fast Linux pipes, with a stated guarantee for each fast way.

    import fullbore

    with fullbore.Pipeline(["zstd -dc a.zst", ["grep", "-c", "x"]], stdout=fullbore.PIPE) as p:
        print(p.stdout.read())
        print(p.report())                     # which stage is slow

    with fullbore.Producer(sys.stdout.buffer) as out:
        out.write(data)                       # a pipe gets whole pages by reference
        view = out.reserve(1 << 16)           # or fill the memory that will be sent
        ...
        out.commit(n)

    fullbore.copy("big.img", sys.stdout.buffer)

Files. A `file` is a descriptor (int) or a file object that only adds a buffer to its descriptor: the result of
open(), a socket, a pipe of subprocess, a Producer or a Consumer. copy() and tee() also accept paths. Bytes move
through the descriptor, so other objects with a fileno(), such as a GzipFile or an SSLSocket, are refused: their
descriptors have compressed or encrypted bytes. Bytes that a file object has buffered for writing are written
first, also those that print() has buffered for the same descriptor; bytes that it has read ahead are read first,
or the object is refused. Producer and Consumer close the file with themselves unless closefd is False: once
sys.stdout.buffer is closed, print() fails. They use a duplicate of the descriptor, and closing that releases the
POSIX locks (fcntl.lockf) that this process has on the file; copy() and tee() of file objects and descriptors keep
the locks.

Sizes. A size is a number of bytes, or text such as '64K' or '1M' (powers of 1024). `pipe_size` is the
capacity that an output pipe is grown to once more than 64 KiB go through it; 0 leaves it as it is.

Errors. An error of the kernel is an OSError with `errno`, and with the file in `filename`. A wrong argument
is a ValueError or a TypeError.

Waiting, signals and threads. Calls that wait or copy release the interpreter's lock. A signal interrupts a wait:
its handler runs, and the call continues unless the handler raises an exception, such as KeyboardInterrupt. Calls
also wait on a descriptor with O_NONBLOCK. Several threads may use one object, which does one call at a time.
After os.fork() the child cannot use objects of its parent, and does not send their unsent bytes.
"""

import io as _io
import os as _os

from . import _fullbore
from ._fullbore import (
    Consumer,
    Producer,
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
    from ._moved import Report, SinkReport, TeeReport
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

# Modules that need dataclasses, subprocess or asyncio are imported at first use.
_LAZY = {
    "acopy": "_aio",
    **dict.fromkeys(["Report", "SinkReport", "TeeReport"], "_moved"),
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
