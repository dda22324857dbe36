"""Volume: an open file system, with the methods of the os module and a few more.

What is done often (stat, touch, mkdir, create_many …) is the core's own method, inherited; here is
what is made of them. A path is a str, ``"/DCIM/A.JPG"`` with or without the first slash, or a Path.
"""

from __future__ import annotations

import errno
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Literal, NoReturn, overload

from . import _core, files
from ._arguments import (
    codepage_bytes,
    local_zone,
    nanoseconds,
    pair,
    path_text,
    policy_mapping,
    zone,
)
from ._counters import Counters
from ._types import PathArgument
from .entry import ScandirIterator
from .sizes import Size, format_size, parse_size

if TYPE_CHECKING:
    from uuid import UUID

    from ._codepage import CodePage
    from ._records import Usage
    from ._zone import TimeZone
    from .path import Path
    from .policy import Policy

_SETTABLE = {
    "read_only": _core.ATTR_READ_ONLY,
    "hidden": _core.ATTR_HIDDEN,
    "system": _core.ATTR_SYSTEM,
    "archive": _core.ATTR_ARCHIVE,
}


class Volume(_core.Volume):
    """An open file system, made by pyexfat.open() or pyexfat.format().

    Use it in a ``with`` statement: its end writes what is still in memory and marks the volume
    clean. A volume that is dropped without close() warns (ResourceWarning) and writes nothing more,
    as when the power goes. Any thread may call any method. Everything raises ValueError once the
    volume is closed, and in the child of a fork, to which the parent's volumes are closed: what the
    child does to them, close() too, writes nothing.
    """

    def __init__(
        self,
        device: _core.Device,
        *,
        fs: str | None = None,
        writable: bool = False,
        use_backup: bool = False,
        sync: Literal["lazy", "dirsync", "sync"] = "lazy",
        policy: Policy | Mapping[str, Any] | None = None,
        env: _core.Env | None = None,
        pool: _core.Pool | None = None,
        utc_offset: int | None = None,
        tz: TimeZone | None = None,
        codepage: CodePage | None = None,
        owned: Iterable[_core.Device] = (),
        image: tuple[int, int] | None = None,
    ) -> None:
        """Opens the file system on ``device``; see pyexfat.open(), which people use.

        ``owned`` are closed with the volume; ``image`` is (st_dev, st_ino) of the image's file.
        """
        if tz is not None and utc_offset is not None:
            raise ValueError("only one of tz and utc_offset can be given")
        super().__init__(
            device,
            fs=fs,
            writable=writable,
            use_backup=use_backup,
            sync=sync,
            policy=policy_mapping(policy),
            env=env,
            pool=pool,
            utc_offset=utc_offset,
            zone=None if tz is None else zone(tz),
            local_zone=local_zone,
            codepage=None if codepage is None else codepage_bytes(codepage),
        )
        self._owned = list(owned)
        self._image = image
        self._files: weakref.WeakSet[Any] = weakref.WeakSet()
        self._files_lock = threading.Lock()

    # ---- life ----

    def close(self) -> None:
        """Closes its open files, writes everything and marks the volume clean; twice is fine.

        The device is closed too when pyexfat.open() or format() opened it. The first error is
        raised when all is done.
        """
        failed: Exception | None = None
        if not self.closed:
            failed = self._close_files()
        try:
            super().close()
        finally:
            self._close_devices()
        if failed is not None:
            raise failed

    def _close_files(self) -> Exception | None:
        failed: Exception | None = None
        with self._files_lock:
            opened = list(self._files)
        for file in opened:
            try:
                file.close()
            except (OSError, ValueError) as error:
                failed = failed or error
        return failed

    def _close_devices(self) -> None:
        owned, self._owned = self._owned, []
        for device in reversed(owned):
            device.close()

    def abandon(self) -> None:
        """Ends without writing anything more, as when the power goes."""
        super().abandon()
        self._close_devices()

    def __del__(self) -> None:
        """Warns (ResourceWarning) about changes or a device left open."""
        if not hasattr(self, "_owned") or self.closed:
            return
        if self._owned or not self.readonly:
            warnings.warn(f"unclosed volume {self!r}", ResourceWarning, 2, source=self)
        self.abandon()

    def __reduce__(self) -> NoReturn:
        """Refused: an open volume can't be carried to another process."""
        raise TypeError("an open volume can't be pickled")

    def __repr__(self) -> str:
        """File system, label, size and device."""
        if self.closed:
            return f"<{type(self).__name__} closed>"
        access = "read-only" if self.readonly else "writable"
        label = f" {self.label!r}" if self.label else ""
        device = self.device.name
        return (
            f"<{type(self).__name__} {self.fs}{label} {format_size(self.size)} "
            f"{access} on {device!r}>"
        )

    # ---- the whole ----

    @property
    def uuid(self) -> UUID | None:
        """The volume's GUID, or None when it has none."""
        raw = self.uuid_bytes
        if raw is None:
            return None
        from uuid import UUID

        return UUID(bytes=raw)

    @property
    def policy(self) -> Policy:
        """Which mechanisms are at work.

        May be set while the volume is in use, to a Policy or a dict of some fields.
        """
        from .policy import Policy

        return Policy(**self.get_policy())

    @policy.setter
    def policy(self, value: Policy | Mapping[str, Any]) -> None:
        self.set_policy(policy_mapping(value) or {})

    @property
    def memory_budget(self) -> int:
        """Bytes that the volume's caches may hold; settable (int or ``"16 MiB"``)."""
        return int(self.get_policy()["memory_budget"])

    @memory_budget.setter
    def memory_budget(self, value: Size) -> None:
        self.set_policy({"memory_budget": parse_size(value, "memory_budget")})

    @property
    def counters(self) -> Counters:
        """What was done since the volume was opened, or since counters_reset()."""
        return Counters(self.get_counters())

    def usage(self) -> Usage:
        """Space of the volume: total, used and free in bytes, and more."""
        return self.statfs()

    def shrink(self, size: Size, /) -> int:
        """Gives back at least ``size`` bytes of caches where it can; returns how many."""
        return super().shrink(parse_size(size, "size"))

    def trim(self, min_length: Size = 0) -> int:
        """Tells the device of all free runs of at least ``min_length`` bytes; returns the bytes."""
        return super().trim(parse_size(min_length, "min_length"))

    # ---- questions ----

    lstat = _core.Volume.stat  # there are no links

    def exists(self, path: PathArgument, /) -> bool:
        """Whether there is something. Damage is reported, not taken for absence."""
        return self.kind(path) != _core.KIND_NONE

    def isdir(self, path: PathArgument, /) -> bool:
        """Whether it is a directory."""
        return self.kind(path) == _core.KIND_DIRECTORY

    def isfile(self, path: PathArgument, /) -> bool:
        """Whether it is a file."""
        return self.kind(path) == _core.KIND_FILE

    def listdir(self, path: PathArgument = "/", /) -> list[str]:
        """Names in a directory, in the order of the disk."""
        return super().listdir(path)

    def scandir(self, path: PathArgument = "/") -> ScandirIterator:
        """Entries of a directory, each with its stat(), read as the iteration goes on."""
        return ScandirIterator(self, path_text(path))

    def walk(
        self,
        top: PathArgument = "/",
        topdown: bool = True,
        onerror: Callable[[OSError], object] | None = None,
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        """As os.walk(): (directory, its directories, its files) for ``top`` and all below.

        With topdown the list of directories may be changed to say where to go. Errors go to
        ``onerror``; without it a directory that is not there is left out, and everything else is
        raised. Of a directory with damaged entries the others are yielded, after the error.
        """
        from ._tree import os_walk

        return os_walk(self, path_text(top), topdown, onerror)

    def glob(
        self,
        pattern: str,
        *,
        root_dir: PathArgument = "/",
        case_sensitive: bool | None = None,
    ) -> list[str]:
        """Paths that fit a pattern with ``*``, ``?``, ``[…]`` and ``**``, in the order of the disk.

        The pattern is relative to ``root_dir``. Case matters as it does on the volume, so for exFAT
        not, unless case_sensitive says otherwise. Names that start with a dot are nothing special.
        """
        from . import _match

        root = path_text(root_dir)
        return list(_match.glob(self, root or "/", pattern, self._ignores_case(case_sensitive)))

    def _ignores_case(self, case_sensitive: bool | None) -> bool:
        return self.fs != "xfs" if case_sensitive is None else not case_sensitive

    def path(self, *segments: str | os.PathLike[str] | Path) -> Path:
        """A Path on this volume; ``vol / "DCIM"`` is the short way."""
        from .path import Path

        return Path(self, *segments)

    def __truediv__(self, segment: str | os.PathLike[str] | Path) -> Path:
        """``vol / "DCIM"``."""
        if not isinstance(segment, (str, os.PathLike)) and not hasattr(segment, "__vfspath__"):
            return NotImplemented
        return self.path(segment)

    # ---- files ----

    @overload
    def open(
        self,
        path: PathArgument,
        mode: Literal[
            "rb", "wb", "xb", "ab", "r+b", "w+b", "x+b", "a+b", "rb+", "wb+", "xb+", "ab+"
        ],
        buffering: int = -1,
        encoding: None = None,
        errors: None = None,
        newline: None = None,
    ) -> BinaryIO: ...
    @overload
    def open(
        self,
        path: PathArgument,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]: ...
    def open(
        self,
        path: PathArgument,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Opens a file as io.open() does, with the same modes, buffers and errors.

        The buffer is as large as a cluster, within 8 KiB and 1 MiB, unless ``buffering`` gives its
        size. Closing the volume closes the file. A file that is removed while open lives on until
        it is closed.
        """
        file = files.open_file(self, path_text(path), mode, buffering, encoding, errors, newline)
        with self._files_lock:
            self._files.add(file)
        return file

    def read_bytes(self, path: PathArgument) -> bytes:
        """The whole content of a file."""
        handle = self.open_file(path_text(path), _core.OPEN_READ)
        try:
            return handle.pread(handle.size(), 0)
        finally:
            handle.close()

    def write_bytes(
        self,
        path: PathArgument,
        data: bytes | bytearray | memoryview,
    ) -> int:
        """Makes a file with this content, or replaces the content; returns how many bytes.

        When the content does not fit (OSError, ENOSPC or EFBIG), all stays as it was.
        """
        view, text = memoryview(data).cast("B"), path_text(path)
        flags = _core.OPEN_WRITE | _core.OPEN_CREATE
        try:
            handle = self.open_file(text, flags | _core.OPEN_EXCLUSIVE)
        except FileExistsError:
            with closing(self.open_file(text, flags)) as handle:
                # Its clusters come first; a write into those that it has can't lack room.
                if view:
                    handle.allocate(0, len(view), True)
                handle.resize(_write_all(handle, view))
            return len(view)
        try:
            with closing(handle):
                return _write_all(handle, view)
        except BaseException:
            with suppress(OSError, ValueError):  # the first error says more
                self.unlink(text)
            raise

    # ---- changes ----

    def mkdir(self, path: PathArgument, mode: int = 0o777) -> None:
        """Makes a directory; ``mode`` has no meaning here."""
        super().mkdir(path)

    def makedirs(
        self,
        path: PathArgument,
        mode: int = 0o777,
        exist_ok: bool = False,
    ) -> None:
        """Makes a directory and those above it that are missing."""
        text = path_text(path).rstrip("/") or "/"
        missing = [len(text)]  # of the paths that are to be made, the lowest first
        while True:
            try:
                super().mkdir(text[: missing[-1]])
            except FileNotFoundError:
                parent = text[: missing[-1]].rstrip("/").rpartition("/")[0]
                if not parent:
                    raise
                missing.append(len(parent))
                continue
            except FileExistsError:
                # The lowest must be new; one above may have been made by another thread meanwhile.
                if len(missing) == 1 and not (exist_ok and self.isdir(text)):
                    raise
            missing.pop()
            if not missing:
                return

    remove = _core.Volume.unlink

    def removedirs(self, path: PathArgument) -> None:
        """Removes an empty directory and those above it that are empty then."""
        text = path_text(path).rstrip("/")
        self.rmdir(text)
        while parent := text.rpartition("/")[0]:
            text = parent
            try:
                self.rmdir(text)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return

    def replace(self, src: PathArgument, dst: PathArgument) -> None:
        """Renames; a file, or an empty directory, that is at ``dst`` is replaced."""
        self.rename(src, dst)

    def rmtree(
        self,
        path: PathArgument,
        ignore_errors: bool = False,
        *,
        onexc: Callable[[Callable[..., Any], str, OSError], object] | None = None,
    ) -> None:
        """Removes a directory and everything in it.

        Errors are raised, unless they are ignored or given to ``onexc(function, path, error)``:
        then all goes that can, and a directory stays in which something does. The root can't be
        removed (OSError, EBUSY), and then nothing in it is.
        """
        from ._tree import remove

        def failed(function: Callable[..., Any], where: str, error: OSError) -> None:
            if ignore_errors:
                return
            if onexc is None:
                raise error
            onexc(function, where, error)

        remove(self, path_text(path), failed)

    def utime(
        self,
        path: PathArgument,
        times: tuple[float, float] | None = None,
        *,
        ns: tuple[int, int] | None = None,
        created_ns: int | None = None,
    ) -> None:
        """Sets the times of access and change as os.utime(), and of creation (ns) when given.

        What the format can't hold is rounded down: exFAT keeps 10 ms for changes and creation, and
        2 s for access, within 1980 and 2107.
        """
        accessed: int | None
        modified: int | None
        if times is not None and ns is not None:
            raise ValueError("utime: you may specify either 'times' or 'ns' but not both")
        if ns is not None:
            accessed, modified = pair(ns, "ns")
        elif times is not None:
            accessed, modified = map(nanoseconds, pair(times, "times"))
        elif created_ns is not None:
            accessed = modified = None
        else:
            accessed = modified = (self.env or _core.Env()).now()
        self.setattr(path_text(path), created=created_ns, modified=modified, accessed=accessed)

    def chmod(self, path: PathArgument, mode: int) -> None:
        """Sets the read-only attribute when ``mode`` lets nobody write, and clears it otherwise."""
        self.set_attributes(path, read_only=not mode & 0o222)

    def set_attributes(
        self,
        path: PathArgument,
        *,
        read_only: bool | None = None,
        hidden: bool | None = None,
        system: bool | None = None,
        archive: bool | None = None,
    ) -> None:
        """Sets or clears the attributes that are given; the others stay. stat() shows them."""
        text = path_text(path)
        wanted = {"read_only": read_only, "hidden": hidden, "system": system, "archive": archive}
        status = self.stat(text)
        bits = 0
        for name, bit in _SETTABLE.items():
            value = wanted[name]
            if getattr(status, name) if value is None else value:
                bits |= bit
        self.setattr(text, attributes=bits)

    def truncate(self, path: PathArgument, size: Size) -> None:
        """Makes a file ``size`` bytes long; what is added reads as zeros and costs no writing."""
        super().truncate(path, parse_size(size, "size"))

    def fallocate(
        self, path: PathArgument, offset: Size, length: Size, keep_size: bool = False
    ) -> None:
        """Gives a file the clusters for a range of bytes; keep_size: it gets no longer."""
        start, count = parse_size(offset, "offset"), parse_size(length, "length")
        super().fallocate(path, start, count, keep_size)

    def link(self, src: PathArgument, dst: PathArgument) -> NoReturn:
        """Raises PermissionError: the format has no links."""
        raise _no_links(src, dst)

    def symlink(self, src: PathArgument, dst: PathArgument) -> NoReturn:
        """Raises PermissionError: the format has no links."""
        raise _no_links(src, dst)

    def readlink(self, path: PathArgument) -> NoReturn:
        """Raises OSError (EINVAL): nothing here is a link."""
        self.stat(path)
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path_text(path))

    # ---- copies ----

    def copy_in(
        self,
        src: Any,
        dst: PathArgument,
        progress: Callable[[int, int, str], object] | None = None,
        *,
        follow_symlinks: bool = True,
        preserve: bool = True,
        onerror: Callable[[OSError], object] | None = None,
    ) -> str:
        """Copies a file or a tree into the volume; returns the path of what was made.

        ``src`` is a path of the operating system, a Path of this or another volume, anything with
        pathlib's methods, or a readable binary file object. A file goes to ``dst``, or into it when
        that is a directory; a directory's content goes into ``dst``, which is made unless it is
        there. Files that are there are replaced.

        ``progress(done, total, path)`` is called with bytes after each piece and file (total is 0
        when unknown). Times are kept, and a file that nobody may write becomes read-only, unless
        preserve is false. Links are followed, or left out with follow_symlinks=False; pipes,
        sockets and devices raise OSError (EOPNOTSUPP) before anything is written. When a copy
        fails, what was complete stays, and no half file.

        With ``onerror`` nothing of that stops the copy of a tree: each failure is given to it, and
        the rest is copied.
        """
        from .copying import copy_into_volume

        return copy_into_volume(
            self,
            src,
            path_text(dst),
            progress=progress,
            follow_symlinks=follow_symlinks,
            preserve=preserve,
            onerror=onerror,
        )

    def copy_out(
        self,
        src: PathArgument,
        dst: Any,
        progress: Callable[[int, int, str], object] | None = None,
        *,
        preserve: bool = True,
        onerror: Callable[[OSError], object] | None = None,
        escape: bool = False,
    ) -> Any:
        """Copies a file or a tree out of the volume; returns the path of what was made.

        ``dst`` is a path of the operating system or a writable binary file object, and the rest as
        for copy_in(). A file that is there already is written over.

        Names that would lead out of ``dst`` raise OSError (EINVAL), and those that the host can't
        hold its own error; what comes before the first of them stays. With ``onerror`` they are
        left out and all else is copied, also what is sound of a damaged volume. With ``escape``
        they are written with ``%`` and hexadecimal digits, and cut where they are too long.
        """
        from .copying import copy_out_of_volume

        return copy_out_of_volume(
            self,
            path_text(src),
            dst,
            progress=progress,
            preserve=preserve,
            onerror=onerror,
            escape=escape,
        )

    def copy(
        self,
        src: PathArgument,
        dst: PathArgument,
        progress: Callable[[int, int, str], object] | None = None,
        *,
        preserve: bool = True,
        onerror: Callable[[OSError], object] | None = None,
    ) -> str:
        """Copies a file or a tree within the volume, as copy_in() does."""
        source = self.path(path_text(src))
        return self.copy_in(source, dst, progress, preserve=preserve, onerror=onerror)


def _write_all(handle: _core.Handle, view: memoryview) -> int:
    done = 0
    while done < len(view):
        done += handle.pwrite(view[done:], done)
    return done


def _no_links(src: PathArgument, dst: PathArgument) -> PermissionError:
    text = os.strerror(errno.EPERM)
    return PermissionError(errno.EPERM, text, path_text(src), None, path_text(dst))
