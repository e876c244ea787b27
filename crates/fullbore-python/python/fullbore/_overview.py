"""pipelines(): the running pipelines, as shown by `fullbore top`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ._fullbore import overview as _overview
from ._report import Bottleneck, _bottleneck, _made, _table


@dataclass(frozen=True)
class ProcessInfo:
    """A process."""

    pid: int
    uid: int
    name: str
    command: str


@dataclass(frozen=True)
class RunningStage:
    """A stage: the processes that share its pipes. Numbers are None if unknown."""

    processes: tuple[ProcessInfo, ...]
    #: The number of CPUs that it keeps busy.
    cpus: float | None
    #: The share of the time in which the other stages wait for it, from 0 to 1.
    blame: float | None


@dataclass(frozen=True)
class PipeInfo:
    """A pipe. Shares are from 0 to 1, of the time of observation; None if unknown."""

    inode: int
    #: The path of a FIFO; None for other pipes.
    path: str | None
    writers: tuple[ProcessInfo, ...]
    readers: tuple[ProcessInfo, ...]
    capacity: int | None
    queued: int | None
    #: How full it is, from 0 to 1: 1 if its slots are used up, however few bytes they hold.
    filled: float | None
    bytes_per_second: float | None
    empty: float | None
    full: float | None
    writer_waits: float | None
    reader_waits: float | None


@dataclass(frozen=True)
class RunningPipeline:
    """A pipeline."""

    stages: tuple[RunningStage, ...]
    pipes: tuple[PipeInfo, ...]
    bottleneck: Bottleneck | None


@dataclass(frozen=True, repr=False)
class Overview:
    """The pipelines, and the pipes that are not part of any. str() is a line for each, with its bottleneck; a notebook
    shows them as a table."""

    pipelines: tuple[RunningPipeline, ...]
    pipes: tuple[PipeInfo, ...]
    #: The duration of the observation in seconds.
    seconds: float

    def _rows(self) -> list[list[str]]:
        rows = [["pipeline", "bottleneck"]]
        for pipeline in self.pipelines:
            stages = (" and ".join(process.name for process in stage.processes) for stage in pipeline.stages)
            rows.append([" | ".join(stages), str(pipeline.bottleneck or "")])
        return rows

    def _others(self) -> str:
        return f"pipes in no pipeline: {len(self.pipes)}; observed for {self.seconds:.3g} s"

    def __str__(self) -> str:
        return "\n".join([*("\n".join(filter(None, row)) for row in self._rows()[1:]), self._others()])

    def __repr__(self) -> str:
        return f"<fullbore.Overview pipelines: {len(self.pipelines)}; {self._others()}>"

    def _repr_html_(self) -> str:
        return _table(self._rows(), self._others())


def _process(found: dict[str, Any]) -> ProcessInfo:
    return _made(ProcessInfo, found)


def _pipe(found: dict[str, Any]) -> PipeInfo:
    people = {side: tuple(map(_process, found.pop(side))) for side in ("writers", "readers")}
    return _made(PipeInfo, found, **people)


def _stage(found: dict[str, Any]) -> RunningStage:
    processes = tuple(map(_process, found.pop("processes")))
    return _made(RunningStage, found, processes=processes)


def pipelines(
    seconds: float = 1.0, *, pid: int | None = None, name: str | None = None
) -> Overview:
    """Observes the pipelines of this machine for some seconds, and returns the Overview.

    With `pid`, those of this process and its descendants; with `name`, those of processes with this name. It
    shows only processes that this user may inspect. Raises OSError if there is no /proc or no such process.
    """
    found = json.loads(_overview(seconds, pid, name))
    pipes = [(pipe["chain"], _pipe(pipe)) for pipe in found["pipes"]]
    return Overview(
        pipelines=tuple(
            RunningPipeline(
                stages=tuple(map(_stage, chain["stages"])),
                pipes=tuple(pipes[number][1] for number in chain["pipes"]),
                bottleneck=_bottleneck(chain["verdict"]) if chain["verdict"] else None,
            )
            for chain in found["chains"]
        ),
        pipes=tuple(pipe for chain, pipe in pipes if chain is None),
        seconds=found["seconds"],
    )
