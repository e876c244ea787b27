"""acopy(): copy() for asyncio."""

from __future__ import annotations

import asyncio
import threading

from ._fullbore import Canceller
from ._moving import _copy, reporting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._files import File
    from ._moved import Report
    from ._moving import Guarantee


async def acopy(
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
    """Copies like copy(), and lets other tasks run meanwhile.

    It runs in a separate thread. When the task is cancelled, the thread stops before the cancellation proceeds,
    even during a wait; the CancelledError then has the attribute `report`, like every exception that ends
    copy(), if the copy had begun: what arrived, and in `report.unsent` what did not. Only a thread that is
    opening a FIFO continues, until another process opens the other end; it then copies nothing. `progress` is
    called in the thread of the event loop.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Report] = loop.create_future()
    canceller = Canceller()
    began = threading.Event()
    is_cancelled = False

    def begin(both_are_open: bool) -> None:
        if both_are_open:
            began.set()
        if is_cancelled:
            raise asyncio.CancelledError

    def tell(done: int) -> None:
        assert progress is not None
        loop.call_soon_threadsafe(progress, done)

    def settle(report: Report | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        elif report is not None:
            future.set_result(report)

    def run() -> None:
        report, error = None, None
        try:
            report = reporting(
                _copy,
                src,
                dst,
                guarantee,
                plain,
                limit,
                tell if progress else None,
                pipe_size,
                canceller,
                begin,
                atomic,
                at_least,
            )
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(settle, report, error)
        except RuntimeError:
            pass  # The loop was closed.

    # Not in an executor, whose threads might all be busy waiting for this one.
    threading.Thread(target=run, name="fullbore.acopy", daemon=True).start()
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError as cancelled:
        is_cancelled = True
        canceller.cancel()
        if not began.is_set():
            # It is opening a FIFO, which cannot be interrupted. No byte was moved, and none will be.
            future.cancel()
            raise
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError:
                pass
        if not future.cancelled():
            error = future.exception()
            report = future.result() if error is None else getattr(error, "report", None)
            if report is not None:
                cancelled.report = report  # type: ignore[attr-defined]
        raise
