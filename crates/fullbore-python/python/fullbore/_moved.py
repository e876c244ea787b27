"""The results of copy() and tee()."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

_Bytes = bytes


@dataclass(frozen=True)
class Report:
    """The result of copy()."""

    #: Bytes that arrived.
    bytes: int
    #: Bytes that were taken from the source: more than `bytes` only after an error or an interruption.
    taken: int
    #: How long it took.
    seconds: float
    #: System calls that were made to move bytes.
    calls: int
    #: The ways that were used, each with the number of bytes that it moved.
    methods: list[tuple[str, int]]
    #: Why it returned.
    ended: Literal["end", "limit", "interrupted", "failed"]
    #: The bytes that were taken and did not arrive; empty unless there was an error or an interruption.
    unsent: _Bytes = field(repr=False)


@dataclass(frozen=True)
class SinkReport:
    """The result of tee() for one sink."""

    #: Bytes that it got.
    bytes: int
    #: The OSError for which it was dropped, or None.
    error: OSError | None
    #: The bytes that were taken from the source and did not arrive here; empty if it was dropped, and unless there was
    #: an error or an interruption.
    unsent: _Bytes = field(repr=False, default=b"")


@dataclass(frozen=True)
class TeeReport:
    """The result of tee()."""

    #: Bytes that were taken from the source.
    bytes: int
    #: How long it took.
    seconds: float
    #: The sinks, in the given order.
    sinks: list[SinkReport]
