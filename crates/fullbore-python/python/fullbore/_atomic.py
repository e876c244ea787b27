"""A file that takes the place of another one once it is complete, as with `fullbore copy --atomic`."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from . import _fullbore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._files import File

#: The extended attribute with the ACL of a file (acl(5)).
_ACL = "system.posix_acl_access"


class Replacement:
    """A file in the directory of `path`, with the owner, the mode and the ACL of the file that it replaces.

    It has no name until it is put in place (open(2), O_TMPFILE), so the kernel removes it if this process dies; a file
    system without such files gets a name that begins with `.fullbore-`.
    """

    def __init__(self, path: File) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            raise TypeError(f"atomic=True needs a path as dst, not {type(path).__name__}")
        name = os.fsdecode(path)
        if _fullbore.descriptor_of(os.fsencode(name)) is not None:
            raise ValueError(f"atomic=True: {name!r} is an open descriptor, which cannot be replaced")
        self.path = os.path.realpath(name, strict=True) if os.path.islink(name) else name
        if os.path.basename(self.path) in ("", ".", ".."):
            code = errno.EISDIR if os.path.isdir(self.path) else errno.ENOENT
            raise OSError(code, os.strerror(code), name)
        self._folder = os.path.dirname(self.path) or "."
        self._temporary: str | None = None
        old = self._existing(name)
        mode = 0o600 if old else 0o666
        try:
            self.fd = os.open(self._folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, mode)
        except OSError:
            # Any other reason why no file can be created is found again here.
            self._temporary = self._new_name()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self.fd = os.open(self._temporary, flags, mode)
        self._mode = stat.S_IMODE(old.st_mode) if old else None
        try:
            if old:
                self._take_owner_and_acl(old)
        except BaseException:
            self.close()
            raise

    def _existing(self, name: str) -> os.stat_result | None:
        try:
            old = os.stat(self.path)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(old.st_mode):
            raise OSError(errno.EINVAL, "it cannot be replaced, because it is no regular file", name)
        if not os.access(self.path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return old

    def _take_owner_and_acl(self, old: os.stat_result) -> None:
        new = os.fstat(self.fd)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(self.fd, old.st_uid, old.st_gid)
        try:
            acl = os.getxattr(self.path, _ACL)
        except OSError as error:
            if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
                raise
            try:
                # The directory may have given it one.
                os.removexattr(self.fd, _ACL)
            except OSError as none:
                if none.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
                    raise
        else:
            os.setxattr(self.fd, _ACL, acl)

    def _new_name(self) -> str:
        return os.path.join(self._folder, f".fullbore-{os.urandom(8).hex()}")

    def put_in_place(self) -> None:
        """Replaces the file. Until this returns, the old one is as it was."""
        if self._mode is not None:
            # Writing to a file takes its set-user-ID bit away, so this is last.
            os.fchmod(self.fd, self._mode)
        # A close(2) of a duplicate reports what the file system could not store.
        os.close(os.dup(self.fd))
        if self._temporary is None:
            # Before it exists: a handler of a signal may raise an exception.
            self._temporary = self._new_name()
            # Only with `src_dir_fd` does Python follow the link; the descriptor does not matter to an absolute path.
            os.link(f"/proc/self/fd/{self.fd}", self._temporary, src_dir_fd=self.fd, follow_symlinks=True)
        os.rename(self._temporary, self.path)
        self._temporary = None

    def close(self) -> None:
        """Removes the file if it was not put in place."""
        os.close(self.fd)
        if self._temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)
            self._temporary = None
