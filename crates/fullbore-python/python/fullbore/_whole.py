"""How a Pipeline that is whole or not at all is run: by the command fullbore, so that it means the same as in a shell."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
import sysconfig
from dataclasses import dataclass

from ._fullbore import Producer
from ._moving import _size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    Codes = int | str | Iterable[int | str]
    # A Mapping is invariant in its keys.
    Accept = Mapping[int, Codes] | Mapping[str, Codes] | Mapping[int | str, Codes]


@dataclass(frozen=True)
class Whole:
    """What Pipeline was asked for besides running its stages."""

    whole: bool = False
    output: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None = None
    accept: Accept | None = None
    at_least: int | str | None = None
    stalled: float | None = None

    def is_wanted(self) -> bool:
        return self != Whole()

    def is_whole(self) -> bool:
        return self.whole or self.output is not None

    def check(self) -> None:
        """Refuses what has no meaning, before anything is started."""
        if self.at_least is not None:
            _size("at_least", self.at_least)
            if self.output is None:
                raise ValueError("at_least needs an output, which is not replaced by fewer bytes")
        if self.stalled is not None and not self.stalled > 0:
            raise ValueError(f"stalled: expected a number of seconds above 0, not {self.stalled!r}")
        list(_accepted(self.accept))

    def words(
        self,
        stages: Sequence[Sequence[str | bytes | os.PathLike[str]]],
        pipe_size: int,
        grace: float,
        json: int | None,
        lifeline: int,
        stdin: int | None,
    ) -> list[str | bytes | os.PathLike[str]]:
        """Returns the words of the command that runs these stages."""
        words: list[str | bytes | os.PathLike[str]] = [command(), "run", "--quiet"]
        words += [f"--pipe-size={pipe_size}", f"--grace={grace}", f"--lifeline={lifeline}"]
        if self.is_whole():
            words.append("--whole")
            if stdin is not None:
                words.append(f"--hold-stdin={stdin}")
        if self.output is not None:
            # `cwd` is for the stages.
            words.append(b"--output=" + os.fsencode(os.path.abspath(self.output)))
        if self.at_least is not None:
            words.append(f"--at-least={_size('at_least', self.at_least)}")
        if self.stalled is not None:
            words.append(f"--stalled={self.stalled}")
        words += [f"--accept={one}" for one in _accepted(self.accept)]
        if json is not None:
            words.append(f"--json=/dev/fd/{json}")
        words.append("--")
        for number, stage in enumerate(stages):
            if number:
                words.append("|")
            if any(os.fspath(word) in ("|", b"|") for word in stage):
                # Between words, this one would separate stages.
                line = shlex.join(os.fsdecode(word) for word in stage)
                words += ["sh", "-c", os.fsencode("exec " + line)]
            else:
                words += stage
        return words


class Lifeline:
    """A pipe whose other end the command has. It ends the stages when this end is closed, by the death of this process too;
    a byte says before that all of stdin was written."""

    def __init__(self) -> None:
        self.theirs, self._ours = os.pipe()
        self._owner = os.getpid()

    def complete(self) -> None:
        if self._ours >= 0 and self._owner == os.getpid():
            try:
                os.write(self._ours, b"1")
            except BrokenPipeError:
                pass  # The command has ended.

    def close(self) -> None:
        ours, self._ours = self._ours, -1
        if ours >= 0:
            os.close(ours)

    __del__ = close


class Stdin(Producer):
    """The stdin of a Pipeline that is whole: the first stage sees its end after close(), and only then. Without it, and
    after an exception in a with block, it sees none."""

    lifeline: Lifeline | None = None

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self.lifeline is not None:
                self.lifeline.complete()

    def __exit__(self, *exception: Any) -> None:
        give_up(self, exception)
        self.close()


class Text(io.TextIOWrapper):
    """The same for a text. That nothing refers to it any more is no reason to close it."""

    def __exit__(self, *exception: Any) -> None:
        give_up(self.buffer, exception)
        self.close()

    def __del__(self) -> None:
        pass


def give_up(stdin: Any, exception: tuple[Any, ...]) -> None:
    """Lets a later close() complete nothing after an exception."""
    if exception[0] is not None:
        stdin.lifeline = None


def _accepted(accept: Accept | None) -> Iterable[str]:
    """Yields the values of --accept."""
    for stage, codes in (accept or {}).items():
        if isinstance(stage, bool) or not isinstance(stage, (int, str)):
            raise TypeError(f"accept: expected the number or the name of a stage, not {stage!r}")
        listed = [codes] if isinstance(codes, (int, str)) else list(codes)
        for code in listed:
            if code != "early" and not (isinstance(code, int) and 1 <= code <= 255):
                raise ValueError(f"accept: expected exit codes from 1 to 255 or 'early', not {code!r}")
        if not listed:
            raise ValueError(f"accept: no exit code is given for stage {stage!r}")
        yield f"{stage}={','.join(str(code) for code in listed)}"


def command() -> str:
    """Returns the path of the command of this version.

    Raises FileNotFoundError if there is none.
    """
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    for path in [os.path.join(folder, "fullbore") for folder in folders] + [shutil.which("fullbore") or ""]:
        if os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(
        "whole, output, accept, at_least and stalled need the command fullbore, which is neither in "
        f"{folders[0]} nor on the PATH: install a wheel that has it, or 'cargo install --path crates/fullbore-cli'"
    )


def report_file() -> int | None:
    """Returns a descriptor for the report; None without a /proc of this PID namespace, which a report needs."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return None
    except OSError:
        return None
    return os.memfd_create("fullbore report")
