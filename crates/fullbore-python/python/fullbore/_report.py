"""The findings about a pipeline, as in `fullbore run --report`."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, fields
from typing import Any, TypeVar

_T = TypeVar("_T")


def _made(cls: type[_T], found: dict[str, Any], **more: Any) -> _T:
    """Creates an object from the values for which the class has fields."""
    names = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    return cls(**{name: found[name] for name in names & found.keys()}, **more)


@dataclass(frozen=True)
class StageReport:
    """A stage. Shares are from 0 to 1, of its lifetime."""

    number: int
    text: str
    seconds: float
    cpu_seconds: float
    #: The average number of CPUs that it kept busy.
    cpus: float
    ran: float
    waited_for_cpu: float
    waited_for_input: float
    waited_for_output: float
    waited_elsewhere: float
    #: The share of the pipeline's time in which the other stages waited for it.
    blame: float
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True)
class PipeReport:
    """A pipe between two stages. Shares are from 0 to 1."""

    number: int
    #: The numbers of its two stages.
    writer: int
    reader: int
    #: Its capacity, and the requested capacity, in bytes.
    capacity: int
    wanted: int
    #: Bytes that went through it; None if unknown.
    bytes: int | None
    #: The certainty of `bytes`: 'counted', 'about' or 'unknown'.
    bytes_are: str
    bytes_per_second: float | None
    #: Percentiles of its fill level over time.
    filled_10: float
    filled_50: float
    filled_90: float
    #: The shares of the time in which it was empty, and full.
    empty: float
    full: float


@dataclass(frozen=True)
class Bottleneck:
    """Which stage is slow. str() is a sentence."""

    #: 'stage', 'shared', 'by_turns', 'cpus', 'waking', 'nobody', 'too_short' or 'alone'.
    kind: str
    #: The numbers of the slow stages, from 1.
    stages: tuple[int, ...]
    #: What a slow stage spends its time on: 'cpu', 'queue', or what it waits for.
    bound_by: str | None
    #: 'sure', 'likely' or 'not_sure'.
    sure: str
    words: str
    #: What to type next, if anything is known.
    next: str | None = None

    def __str__(self) -> str:
        return f"{self.words}\nnext: {self.next}" if self.next else self.words


def _table(rows: list[list[str]], below: str) -> str:
    """Returns a table in HTML for a notebook, and a text below it."""
    cells = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    cells[0] = cells[0].replace("td>", "th>")
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + f"</table><pre>{html.escape(below)}</pre>"


@dataclass(frozen=True, repr=False)
class PipelineReport:
    """The findings about a pipeline. str() is a table and the bottleneck; a notebook shows the table in HTML."""

    seconds: float
    stages: tuple[StageReport, ...]
    pipes: tuple[PipeReport, ...]
    bottleneck: Bottleneck

    def _rows(self) -> list[list[str]]:
        rows = [["stage", "CPU", "ran", "for CPU", "input", "output", "else"]]
        for stage in self.stages:
            shares = (
                stage.cpus,
                stage.ran,
                stage.waited_for_cpu,
                stage.waited_for_input,
                stage.waited_for_output,
                stage.waited_elsewhere,
            )
            rows.append([f"{stage.number} {stage.text}", *(f"{share:.0%}" for share in shares)])
        return rows

    def __str__(self) -> str:
        lines = ["{:22.22} {:>5} {:>5} {:>8} {:>6} {:>7} {:>5}".format(*row) for row in self._rows()]
        return "\n".join([*lines, str(self.bottleneck)])

    def __repr__(self) -> str:
        return f"<fullbore.PipelineReport of {len(self.stages)} stages, {self.seconds:.3g} s; {self.bottleneck.words}>"

    def _repr_html_(self) -> str:
        return _table(self._rows(), str(self.bottleneck))


def _bottleneck(found: dict[str, Any]) -> Bottleneck:
    bound = found["bound_by"]
    # {"cause": "disk"} names what it waits for.
    bound = next(iter(bound.values())) if isinstance(bound, dict) else bound
    return Bottleneck(
        kind=found["kind"],
        stages=tuple(found["stages"]),
        bound_by=bound,
        sure=found["sure"],
        words=found["words"],
        next=found.get("next"),
    )


def read_report(text: str) -> PipelineReport:
    found = json.loads(text)
    return PipelineReport(
        seconds=found["seconds"],
        stages=tuple(_made(StageReport, stage, **stage["time"]) for stage in found["stages"]),
        pipes=tuple(_made(PipeReport, pipe) for pipe in found["pipes"]),
        bottleneck=_bottleneck(found["verdict"]),
    )
