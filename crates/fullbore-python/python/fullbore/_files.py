"""Opens what a caller passes as a source or a sink: a path, a descriptor, or an object with fileno()."""

from __future__ import annotations

import io
import os
import stat

from ._fullbore import capacity as _capacity  # noqa: F401  (the module is loaded with its errors)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, Union

    class HasFileno(Protocol):
        def fileno(self) -> int: ...

    Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
    File = Union[Path, int, HasFileno]


def _is_path(file: object) -> bool:
    return isinstance(file, (str, bytes)) or hasattr(file, "__fspath__")


class Opened:
    """A file for the time of one call. It is closed at the end if it was opened here."""

    def __init__(self, file: File, *, writes: bool) -> None:
        self._file = file
        self._read_ahead: int | None = None
        self.owns = _is_path(file)
        self.name: object = file
        if self.owns:
            flags = os.O_WRONLY | os.O_CREAT if writes else os.O_RDONLY
            self.fd = os.open(file, flags | os.O_CLOEXEC, 0o666)  # type: ignore[arg-type]
            return
        if isinstance(file, int):
            self.fd = file
            return
        fileno = getattr(file, "fileno", None)
        if fileno is None:
            raise TypeError(
                "expected a path, a file descriptor (int) or an object with fileno(), "
                f"not {type(file).__name__}"
            )
        self.fd = fileno()
        name = getattr(file, "name", None)
        self.name = self.fd if name is None else name
        if writes:
            # What the object has gathered comes first.
            flush = getattr(file, "flush", None)
            if flush is not None:
                flush()
        else:
            self._skip_read_ahead()

    def _skip_read_ahead(self) -> None:
        """Begins at the position of the file object, which may have read ahead of it."""
        try:
            tell = self._file.tell  # type: ignore[union-attr]
            read_ahead = os.lseek(self.fd, 0, os.SEEK_CUR)
        except (AttributeError, OSError):
            return  # It cannot seek.
        try:
            os.lseek(self.fd, tell(), os.SEEK_SET)
        except io.UnsupportedOperation:
            return
        except (OSError, OverflowError) as error:
            # After next(), and in the middle of what a decoder has got, a text file does not know its position.
            raise ValueError(
                f"the position of {self.name!r} is not known ({error}): read it by readline(), or as bytes"
            ) from error
        self._read_ahead = read_ahead

    def empty(self, source: Opened) -> None:
        """Empties a sink that was opened here, as open(path, 'wb') does, unless it is the source."""
        if not self.owns:
            return
        status = os.fstat(self.fd)
        if os.path.samestat(status, os.fstat(source.fd)):
            raise ValueError(f"source and sink are the same file: {self.name!r}")
        # To some file systems (ext4, XFS) a file that was emptied is one that is replaced, and they write it
        # to the disk when it is closed. A new one may stay in memory.
        if stat.S_ISREG(status.st_mode) and status.st_size > 0:
            os.ftruncate(self.fd, 0)

    def done(self) -> None:
        """Sets the position of a source that is a file object to where the bytes were read up to."""
        if self._read_ahead is not None:
            try:
                position = os.lseek(self.fd, 0, os.SEEK_CUR)
                # It takes the descriptor to be where it left it.
                os.lseek(self.fd, self._read_ahead, os.SEEK_SET)
                self._file.seek(position)  # type: ignore[union-attr]
            except (AttributeError, OSError, ValueError):
                pass

    def close(self) -> None:
        if self.owns:
            self.owns = False
            try:
                os.close(self.fd)
            except OSError as error:
                raise OSError(error.errno, error.strerror, self.name) from None
