"""copy() and tee()."""

from __future__ import annotations

from . import _fullbore
from ._atomic import Replacement
from ._files import Opened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal, TypeVar

    from ._files import File
    from ._moved import Report, TeeReport

    Guarantee = Literal["snapshot", "reference"]
    _Moved = TypeVar("_Moved")


def _check(limit: int | str | None, pipe_size: int | str | None) -> int | None:
    """Checks the arguments, before a file is truncated, and returns the limit as a number."""
    if pipe_size is not None:
        _size("pipe_size", pipe_size)
    return None if limit is None else _size("limit", limit)


def _size(what: str, size: int | str) -> int:
    try:
        return _fullbore.parse_size(size)
    except (TypeError, ValueError) as error:
        expected = "a number of bytes from 0, or a text such as '64K' or '1M'"
        raise type(error)(f"invalid {what} {size!r}: expected {expected}") from None


def reporting(move: Callable[..., _Moved], *arguments: object) -> _Moved:
    """Calls `move`, and gives every exception the report that it has put into its first argument: a handler of a signal
    may raise one when the last byte has arrived already.
    """
    kept: list[_Moved] = []
    try:
        return move(kept, *arguments)
    except BaseException as error:
        if kept:
            error.report = kept[0]  # type: ignore[attr-defined]
        raise


def _copy(
    kept: list[Report],
    src: File,
    dst: File,
    guarantee: Guarantee,
    plain: bool,
    limit: int | str | None,
    progress: Callable[[int], object] | None,
    pipe_size: int | str | None,
    cancel: _fullbore.Canceller | None,
    begin: Callable[[bool], None] | None = None,
    atomic: bool = False,
    at_least: int | str | None = None,
) -> Report:
    """Copies like copy(). It calls `begin(False)` when the source is open, and `begin(True)` when both files
    are, before the sink is truncated.
    """
    if guarantee not in ("snapshot", "reference"):
        raise ValueError(f"invalid guarantee {guarantee!r}: expected 'snapshot' or 'reference'")
    most = _check(limit, pipe_size)
    least = 0 if at_least is None else _size("at_least", at_least)
    if least and not atomic:
        raise ValueError("at_least needs atomic=True: otherwise, the file has fewer bytes before that is known")
    source = Opened(src, writes=False, what="src")
    replacement = None
    try:
        if begin is not None:
            begin(False)
        replacement = Replacement(dst) if atomic else None
        sink = Opened(dst if replacement is None else replacement.fd, writes=True, what="dst")
        sink.name = dst if replacement is not None else sink.name
        try:
            if begin is not None:
                begin(True)
            sink.empty(source)
            report = _fullbore.transfer(
                (source.fd, source.name),
                (sink.fd, sink.name),
                source.take_ahead(most),
                guarantee == "reference",
                plain,
                most,
                progress,
                pipe_size,
                cancel,
                kept,
            )
        except BaseException:
            try:
                sink.close()
            except OSError:
                pass  # The first error says why.
            raise
        # A file is completely written only once close(2) has succeeded.
        sink.close()
        if report.bytes < least:
            raise EOFError(f"{report.bytes} bytes came, and at_least is {least}: {dst!r} was not replaced")
        if replacement is not None:
            replacement.put_in_place()
        return report
    finally:
        if replacement is not None:
            replacement.close()
        source.done()
        source.close()


def copy(
    src: File,
    dst: File,
    guarantee: Guarantee = "snapshot",
    limit: int | str | None = None,
    progress: Callable[[int], object] | None = None,
    *,
    plain: bool = False,
    pipe_size: int | str | None = None,
    atomic: bool = False,
    at_least: int | str | None = None,
) -> Report:
    """Copies all bytes of `src`, or `limit` bytes, to `dst`, and returns a Report.

    Both are paths, descriptors or file objects; a path is created or truncated, and closed at the end. Bytes
    that a file object has read ahead come first. help(fullbore) says which file objects are accepted.

    With guarantee='snapshot' a reader gets the bytes as they were when they were copied. With 'reference' it
    may get what the pages of the source contain when it reads them: faster, and right if no process changes the
    source.

    With plain=True it uses only read(2) and write(2), which is slower.

    A pipe that is read from keeps its capacity; grow(src, '1M') before the call makes a copy between pipes
    faster.

    With atomic=True, `dst` is a path, and is replaced in one step when the copy is complete; until then, and after any
    error, it is as it was, so it may also be `src`. The new file has the owner, the mode and the ACL of the old one. If
    fewer than `at_least` bytes came, it is not replaced, and EOFError is raised: at_least=1 refuses an empty source.

    `progress` is called with the number of bytes so far, at most ten times a second and at the end. An
    exception that it raises ends the copy.

    Raises OSError with the file that failed in `filename`. That exception, and any other that ends the copy,
    such as KeyboardInterrupt, has the attribute `report` if the copy had begun: what arrived, and in
    `report.unsent` the bytes that were taken from the source and did not arrive.
    """
    return reporting(_copy, src, dst, guarantee, plain, limit, progress, pipe_size, None, None, atomic, at_least)


def tee(
    src: File,
    *sinks: File,
    limit: int | str | None = None,
    on_error: Literal["fail", "drop"] = "fail",
    plain: bool = False,
    pipe_size: int | str | None = None,
) -> TeeReport:
    """Copies all bytes of `src`, or `limit` bytes, to every sink, and returns a TeeReport.

    The files and `plain` are as in copy(), and a reader gets the bytes as they were when they were copied. A
    stalled sink delays the others only once its own pipe is full. With on_error='fail' the first error of a
    sink is raised, with the attribute `report`; with 'drop' the other sinks continue, and the report has the error.
    """
    return reporting(_tee, src, sinks, limit, on_error, plain, pipe_size)


def _tee(
    kept: list[TeeReport],
    src: File,
    sinks: tuple[File, ...],
    limit: int | str | None,
    on_error: Literal["fail", "drop"],
    plain: bool,
    pipe_size: int | str | None,
) -> TeeReport:
    most = _check(limit, pipe_size)
    if on_error not in ("fail", "drop"):
        raise ValueError(f"invalid on_error {on_error!r}: expected 'fail' or 'drop'")
    if not sinks:
        raise ValueError("tee() needs at least one sink")
    opened: list[Opened] = []
    source = Opened(src, writes=False, what="src")
    try:
        if source.ahead():
            raise ValueError(
                f"{source.name!r} has read {source.ahead()} bytes ahead, which tee() would leave out: "
                f"write what read({source.ahead()}) returns to the sinks first, or read by a Consumer"
            )
        for number, sink in enumerate(sinks, 1):
            opened.append(Opened(sink, writes=True, what=f"sink {number}"))
        for one in opened:
            one.empty(source)
        report = _fullbore.split(
            (source.fd, source.name),
            [(one.fd, one.name) for one in opened],
            most,
            on_error == "drop",
            plain,
            pipe_size,
            kept,
        )
        for one in opened:
            one.close()
        return report
    finally:
        for one in opened:
            try:
                one.close()
            except OSError:
                pass  # Another error is being raised.
        source.done()
        source.close()
