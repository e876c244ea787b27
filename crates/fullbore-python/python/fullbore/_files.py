"""Opens the source or the sink of a call: a path, a descriptor, or a file object.

Bytes move through the descriptor, so a file object is accepted only if it adds nothing to what its descriptor
reads and writes: a GzipFile or an SSLSocket has a descriptor too, but one with compressed or encrypted bytes.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
import sys

from . import _fullbore
from ._fullbore import Consumer, Producer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol, Union

    class HasFileno(Protocol):
        def fileno(self) -> int: ...

    Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
    File = Union[Path, int, HasFileno]


def _is_path(file: object) -> bool:
    return isinstance(file, (str, bytes)) or hasattr(file, "__fspath__")


def _is_plain(file: Any) -> bool:
    """Returns whether a file object only adds a buffer to its descriptor, as far as its class is known here."""
    kind = type(file)
    if kind is io.TextIOWrapper:
        return _is_plain(file.buffer)
    if kind in (io.BufferedReader, io.BufferedWriter, io.BufferedRandom):
        return _is_plain(file.raw)
    if kind in (io.FileIO, Producer, Consumer):
        return True
    # If the module was not imported, the object is not of its classes.
    socket = sys.modules.get("socket")
    if socket is None:
        return False
    return kind is socket.socket or (kind is socket.SocketIO and type(file._sock) is socket.socket)


def plain(file: object, what: str = "a path, a file descriptor (int) or a file object") -> Any:
    """Returns a file object that adds nothing to its descriptor.

    Raises TypeError for all others, and ValueError for one that shares memory instead of using its descriptor.
    """
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None and type(file) is tempfile._TemporaryFileWrapper:
        file = file.file  # type: ignore[attr-defined]
    if _is_plain(file):
        if type(file) is Producer and file.way == "ring" or type(file) is Consumer and getattr(file, "shares", False):
            raise ValueError(f"{file!r} shares memory with the process at the end of its pipe: use its methods")
        return file
    name = type(file).__name__
    if not hasattr(file, "fileno") or isinstance(file, io.BytesIO | io.StringIO):
        raise TypeError(f"expected {what}, not {name}")
    raise TypeError(
        f"{name} may change the bytes on their way to its descriptor: move them by its read() and write(), or pass "
        "its fileno() if you mean the descriptor below it"
    )


def flush_standard(fd: int) -> None:
    """Flushes what print() has buffered for this descriptor, so that it comes before the next bytes."""
    for stream in (sys.stdout, sys.stderr):
        try:
            is_it = stream.fileno() == fd
        except (AttributeError, OSError, ValueError):
            continue  # It is None, closed, or not a file.
        if is_it:
            stream.flush()


def _nothing(_buffer: object) -> None:
    """Replaces the raw read of a descriptor, and returns no bytes."""


def _has_decoded(text: io.TextIOWrapper) -> bool:
    """Returns whether a text file has read anything: its decoded but unread text has no known position."""
    try:
        # This changes nothing, and fails after the first read.
        text.reconfigure(errors=text.errors)
    except io.UnsupportedOperation:
        return True
    return False


class Opened:
    """A file during one call. It is closed at the end if it was opened here."""

    def __init__(self, file: File, *, writes: bool, what: str = "") -> None:
        self._file: Any = None
        #: A file object that has read ahead, and the position of its descriptor.
        self._seeks: int | None = None
        #: The reader that has read ahead of a pipe or a socket, and the bytes.
        self._reader: Any = None
        self._ahead = b""
        self.owns = False
        self.name: object = file
        if isinstance(file, int) and not isinstance(file, bool):
            self.fd = file
            try:
                os.fstat(file)
            except OSError as error:
                raise OSError(error.errno, error.strerror, file) from None
        elif _is_path(file):
            number = _fullbore.descriptor_of(os.fsencode(file))  # type: ignore[arg-type]
            if number is None:
                self._open(file, writes)
            else:
                self.fd = number
        else:
            try:
                self._file = plain(file)
            except TypeError as error:
                raise TypeError(f"{what}: {error}" if what else str(error)) from None
            self.fd = self._file.fileno()
            name = getattr(file, "name", None)
            self.name = self.fd if name is None else name
            if not writes:
                self._find_read_ahead()
            elif hasattr(self._file, "flush"):
                # Bytes that the object has buffered come first.
                self._file.flush()
        if writes:
            flush_standard(self.fd)
        else:
            self._check_readable()

    def _open(self, path: Any, writes: bool) -> None:
        flags = os.O_WRONLY | os.O_CREAT if writes else os.O_RDONLY
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o666)
        if self.fd < 3:
            # Otherwise a program without stdout would print into it.
            low = self.fd
            try:
                self.fd = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 3)
            finally:
                os.close(low)
        self.owns = True

    def _check_readable(self) -> None:
        """Refuses a source that cannot be read, before a sink is emptied for it."""
        try:
            if stat.S_ISDIR(os.fstat(self.fd).st_mode):
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
            # Without buffers, the kernel only checks the descriptor.
            os.readv(self.fd, [])
        except OSError as error:
            self.close()
            raise OSError(error.errno, error.strerror, self.name) from None

    def _find_read_ahead(self) -> None:
        """Begins at the position of the file object, which may have read ahead."""
        if not hasattr(self._file, "tell"):
            return  # A socket has no buffer.
        try:
            at = os.lseek(self.fd, 0, os.SEEK_CUR)
        except OSError:
            self._find_buffered()
            return
        try:
            os.lseek(self.fd, self._file.tell(), os.SEEK_SET)
        except io.UnsupportedOperation:
            return
        except (OSError, OverflowError) as error:
            # After next(), or in the middle of decoded text, the position of a text file is unknown.
            raise ValueError(
                f"the position of {self.name!r} is not known ({error}): read it by readline(), or as bytes"
            ) from error
        self._seeks = at

    def _find_buffered(self) -> None:
        """Records what a file object that is not seekable has read ahead."""
        reader = self._file
        if type(reader) is io.TextIOWrapper:
            if _has_decoded(reader):
                raise ValueError(
                    f"{self.name!r} may have decoded more than it has returned: read bytes from its buffer "
                    "from the beginning"
                )
            reader = reader.buffer
        if type(reader) is Consumer:
            self._ahead = reader._buffered()
        elif type(reader) is io.BufferedReader:
            # Then it returns its buffered bytes, and reads no more.
            raw: Any = reader.raw
            raw.readinto = _nothing
            try:
                self._ahead = reader.peek()
            finally:
                del raw.readinto
        self._reader = reader

    def ahead(self) -> int:
        """Returns how many bytes the file object has read ahead of a pipe or a socket."""
        return len(self._ahead)

    def take_ahead(self, limit: int | None) -> bytes:
        """Removes the bytes that the file object has read ahead of a pipe or a socket, and returns them."""
        ahead, self._ahead = self._ahead[:limit], b""
        # This many come from its buffer.
        return self._reader.read(len(ahead)) if ahead else b""

    def empty(self, source: Opened) -> None:
        """Truncates a sink that was opened here, like open(path, 'wb'), unless it is the source."""
        if not self.owns:
            return
        status = os.fstat(self.fd)
        if os.path.samestat(status, os.fstat(source.fd)):
            raise ValueError(f"source and sink are the same file: {self.name!r}")
        # Some file systems (ext4, XFS) treat a truncated file as a replaced one, and write it to the disk
        # when it is closed. A new file may stay in the page cache.
        if stat.S_ISREG(status.st_mode) and status.st_size > 0:
            os.ftruncate(self.fd, 0)

    def done(self) -> None:
        """Sets the position of a source that is a file object to the end of the bytes that were read."""
        if self._seeks is not None:
            try:
                position = os.lseek(self.fd, 0, os.SEEK_CUR)
                # The file object assumes that the descriptor has not moved.
                os.lseek(self.fd, self._seeks, os.SEEK_SET)
                self._file.seek(position)
            except (AttributeError, OSError, ValueError):
                pass

    def drop_read_ahead(self) -> None:
        """Discards what a seekable file object has read ahead."""
        if self._seeks is not None:
            position = os.lseek(self.fd, 0, os.SEEK_CUR)
            # The file object assumes that the descriptor has not moved.
            os.lseek(self.fd, self._seeks, os.SEEK_SET)
            # A seek within its buffer would not move the descriptor.
            self._file.seek(0, os.SEEK_END)
            self._file.seek(position)

    def close(self) -> None:
        if self.owns:
            self.owns = False
            try:
                os.close(self.fd)
            except OSError as error:
                raise OSError(error.errno, error.strerror, self.name) from None


def taken(file: object, writes: bool) -> tuple[int, object, bytes]:
    """Returns, for Producer and Consumer, the descriptor of a file, its name in errors, and the bytes read
    ahead.
    """
    if _is_path(file):
        raise TypeError("expected a file descriptor (int) or a file object, not a path: open it first")
    opened = Opened(file, writes=writes)  # type: ignore[arg-type]
    opened.drop_read_ahead()
    return opened.fd, opened.name, opened.take_ahead(None)
