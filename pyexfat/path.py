"""Path: a place on a volume, with the methods and meaning of pathlib.Path.

There is no current directory on a volume, so every path starts at its root: ``vol / "DCIM"`` is
``/DCIM``. A Path is no os.PathLike, on purpose: a function of the operating system would take its
text for a place outside the volume. Its own ``open()`` gives a file for everything that takes one.
"""

from __future__ import annotations

import errno
import io
import os
import posixpath
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

from . import _match
from .entry import PathInfo

if TYPE_CHECKING:
    from ._core import Stat
    from .entry import DirEntry
    from .volume import Volume


def _normal(text: str) -> str:
    """Absolute, single slashes, no "." parts; ".." stays, for the volume to resolve."""
    parts = [part for part in text.split("/") if part and part != "."]
    return "/" + "/".join(parts)


class Path:
    """A place on a volume. Made by ``volume.path("/DCIM")`` or ``volume / "DCIM"``.

    Two paths are equal when they are written alike on the same volume; names that differ in case
    only are different paths to the same file (samefile() knows).
    """

    __slots__ = ("__weakref__", "_info", "_pure_path", "_text", "_volume")

    parser = posixpath

    def __init__(self, volume: Volume, *segments: str | os.PathLike[str] | Path) -> None:
        """A path from parts; an absolute part drops what stands before it, as in pathlib."""
        self._volume = volume
        self._text = _normal(posixpath.join("/", *map(self._segment, segments)))
        self._pure_path: PurePosixPath | None = None
        self._info: PathInfo | None = None

    def _segment(self, segment: str | os.PathLike[str] | Path) -> str:
        if isinstance(segment, Path):
            if segment._volume is not self._volume:
                raise ValueError(f"path is on another volume: {segment!r}")
            return segment._text
        text = os.fspath(segment)
        if not isinstance(text, str):
            raise TypeError(f"path must be str, not {type(text).__name__}")
        return text

    @classmethod
    def _make(cls, volume: Volume, text: str, info: PathInfo | None = None) -> Path:
        """From text that is normal already."""
        path = cls.__new__(cls)
        path._volume, path._text, path._pure_path, path._info = volume, text, None, info
        return path

    # ---- how it is written ----

    @property
    def volume(self) -> Volume:
        """The volume that the path is on."""
        return self._volume

    @property
    def _pure(self) -> PurePosixPath:
        if self._pure_path is None:
            self._pure_path = PurePosixPath(self._text)
        return self._pure_path

    def __str__(self) -> str:
        """The path inside the volume."""
        return self._text

    def __vfspath__(self) -> str:
        """The path inside the volume (what pathlib-abc asks for)."""
        return self._text

    def __repr__(self) -> str:
        """Says which volume, too."""
        return f"<{type(self).__name__} {self._text!r} on {self._volume!r}>"

    def __hash__(self) -> int:
        """By volume and text."""
        return hash((id(self._volume), self._text))

    def __eq__(self, other: object) -> bool:
        """The same text on the same volume."""
        if not isinstance(other, Path):
            return NotImplemented
        return self._volume is other._volume and self._text == other._text

    def __lt__(self, other: object) -> bool:
        """Order of the parts, on one volume."""
        if not isinstance(other, Path) or self._volume is not other._volume:
            return NotImplemented
        return self.parts < other.parts

    def __le__(self, other: object) -> bool:
        """Order of the parts, on one volume."""
        if not isinstance(other, Path) or self._volume is not other._volume:
            return NotImplemented
        return self.parts <= other.parts

    def __gt__(self, other: object) -> bool:
        """Order of the parts, on one volume."""
        if not isinstance(other, Path) or self._volume is not other._volume:
            return NotImplemented
        return self.parts > other.parts

    def __ge__(self, other: object) -> bool:
        """Order of the parts, on one volume."""
        if not isinstance(other, Path) or self._volume is not other._volume:
            return NotImplemented
        return self.parts >= other.parts

    def __reduce__(self) -> NoReturn:
        """Refused: an open volume can't be carried to another process."""
        raise TypeError("a Path belongs to an open volume and can't be pickled")

    def __copy__(self) -> Path:
        """Itself: a path never changes."""
        return self

    def __deepcopy__(self, memo: object) -> Path:
        """Itself: a path never changes."""
        return self

    @property
    def parts(self) -> tuple[str, ...]:
        """``("/", "DCIM", "A.JPG")``."""
        if self._text == "/":
            return ("/",)
        return ("/", *self._text[1:].split("/"))

    @property
    def drive(self) -> str:
        """Always empty."""
        return ""

    @property
    def root(self) -> str:
        """Always "/"."""
        return "/"

    @property
    def anchor(self) -> str:
        """Always "/"."""
        return "/"

    @property
    def name(self) -> str:
        """The last part; "" for the root."""
        return self._text.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The last extension of the name with its dot, or ""."""
        return self._pure.suffix

    @property
    def suffixes(self) -> list[str]:
        """All extensions of the name."""
        return self._pure.suffixes

    @property
    def stem(self) -> str:
        """The name without its last extension."""
        return self._pure.stem

    @property
    def parent(self) -> Path:
        """The directory above as it is written; the root's is the root."""
        return self._make(self._volume, self._text.rpartition("/")[0] or "/")

    @property
    def parents(self) -> Sequence[Path]:
        """All directories above, nearest first."""
        found: list[Path] = []
        text = self._text
        while text != "/":
            text = text.rpartition("/")[0] or "/"
            found.append(self._make(self._volume, text))
        return tuple(found)

    def as_posix(self) -> str:
        """The path inside the volume."""
        return self._text

    def is_absolute(self) -> bool:
        """Always true."""
        return True

    def absolute(self) -> Path:
        """Itself."""
        return self

    def resolve(self, strict: bool = False) -> Path:
        """The path without ".." parts, which at the root stay there; names as they were typed.

        strict: raises FileNotFoundError when there is nothing.
        """
        done: list[str] = []
        for part in self.parts[1:]:
            if part != "..":
                done.append(part)
            elif done:
                done.pop()
        path = self._make(self._volume, "/" + "/".join(done))
        if strict:
            path.stat()
        return path

    def expanduser(self) -> Path:
        """Itself: nobody has a home here."""
        return self

    def with_segments(self, *segments: str | os.PathLike[str] | Path) -> Path:
        """A path on the same volume from parts."""
        return type(self)(self._volume, *segments)

    def joinpath(self, *segments: str | os.PathLike[str] | Path) -> Path:
        """This path and more parts; an absolute one starts again at the root."""
        return self.with_segments(self._text, *segments)

    def __truediv__(self, segment: str | os.PathLike[str] | Path) -> Path:
        """``path / "name"``."""
        try:
            return self.joinpath(segment)
        except TypeError:
            return NotImplemented

    def __rtruediv__(self, segment: str | os.PathLike[str]) -> Path:
        """``"name" / path``: the path itself, since it is absolute."""
        try:
            return self.with_segments(segment, self._text)
        except TypeError:
            return NotImplemented

    def with_name(self, name: str) -> Path:
        """The same place under another name. ValueError when there is no name to change."""
        return self._make(self._volume, str(self._pure.with_name(name)))

    def with_stem(self, stem: str) -> Path:
        """The same extension after another stem."""
        return self._make(self._volume, str(self._pure.with_stem(stem)))

    def with_suffix(self, suffix: str) -> Path:
        """The same name with another extension, or with none for ""."""
        return self._make(self._volume, str(self._pure.with_suffix(suffix)))

    def relative_to(
        self,
        other: str | os.PathLike[str] | Path,
        /,
        *more: str | os.PathLike[str] | Path,
        walk_up: bool = False,
    ) -> PurePosixPath:
        """The way from ``other`` to here, a pathlib.PurePosixPath. ValueError when not below it."""
        start, here = self.with_segments(other, *more).parts, self.parts
        common = 0
        while common < min(len(start), len(here)) and start[common] == here[common]:
            common += 1
        up = len(start) - common
        if up and (not walk_up or ".." in start[common:]):
            above = str(self.with_segments(other, *more))
            raise ValueError(f"{self._text!r} is not below {above!r}")
        return PurePosixPath(*[".."] * up, *here[common:])

    def is_relative_to(
        self, other: str | os.PathLike[str] | Path, /, *more: str | os.PathLike[str] | Path
    ) -> bool:
        """Whether this path is ``other`` or below it, as they are written."""
        if isinstance(other, Path) and other._volume is not self._volume:
            return False
        start = self.with_segments(other, *more).parts
        return self.parts[: len(start)] == start

    def match(self, path_pattern: str, *, case_sensitive: bool | None = None) -> bool:
        """Whether the last parts fit; ``**`` stands for one part here, as in pathlib."""
        wanted, _ = _match.split_pattern(path_pattern)
        wanted = ["*" if part == "**" else part for part in wanted]
        have = list(self.parts[1:])
        if not path_pattern.startswith("/"):
            have = have[-len(wanted) :]
        ignore = self._volume._ignores_case(case_sensitive)
        return len(have) == len(wanted) and _match.path_matches(have, wanted, ignore)

    def full_match(self, pattern: str, *, case_sensitive: bool | None = None) -> bool:
        """Whether the whole path fits the pattern, which starts at the root."""
        wanted, _ = _match.split_pattern(pattern)
        ignore = self._volume._ignores_case(case_sensitive)
        return _match.path_matches(list(self.parts[1:]), wanted, ignore)

    # ---- questions ----

    @property
    def info(self) -> PathInfo:
        """What kind of thing is here, looked up once, or known from listing the directory."""
        if self._info is None:
            self._info = PathInfo(self._volume, self._text)
        return self._info

    def stat(self, *, follow_symlinks: bool = True) -> Stat:
        """As Volume.stat()."""
        return self._volume.stat(self._text)

    def lstat(self) -> Stat:
        """As Volume.lstat()."""
        return self._volume.stat(self._text)

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is something."""
        return self._volume.exists(self._text)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory."""
        return self._volume.isdir(self._text)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a file."""
        return self._volume.isfile(self._text)

    def is_mount(self) -> bool:
        """Whether it is the root."""
        return self.resolve()._text == "/"

    def is_symlink(self) -> bool:
        """Always false: the format has none."""
        return False

    def is_junction(self) -> bool:
        """Always false."""
        return False

    def is_block_device(self) -> bool:
        """Always false."""
        return False

    def is_char_device(self) -> bool:
        """Always false."""
        return False

    def is_fifo(self) -> bool:
        """Always false."""
        return False

    def is_socket(self) -> bool:
        """Always false."""
        return False

    def samefile(self, other_path: str | os.PathLike[str] | Path) -> bool:
        """Whether both lead to the same file or directory."""
        if isinstance(other_path, Path) and other_path._volume is not self._volume:
            return False
        return self.stat().st_ino == self.with_segments(other_path).stat().st_ino

    def owner(self, *, follow_symlinks: bool = True) -> NoReturn:
        """Raises NotImplementedError: the formats have no owners."""
        raise NotImplementedError("Path.owner() is unsupported: files here have no owners")

    def group(self, *, follow_symlinks: bool = True) -> NoReturn:
        """Raises NotImplementedError: the formats have no groups."""
        raise NotImplementedError("Path.group() is unsupported: files here have no groups")

    # ---- contents ----

    def open(
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """As Volume.open()."""
        return self._volume.open(self._text, mode, buffering, encoding, errors, newline)

    def __open_rb__(self, buffering: int = -1) -> BinaryIO:
        """Opens for reading bytes (the protocol of pathlib)."""
        return self._volume.open(self._text, "rb", buffering)

    def __open_wb__(self, buffering: int = -1) -> BinaryIO:
        """Opens for writing bytes (the protocol of pathlib)."""
        return self._volume.open(self._text, "wb", buffering)

    def __open_reader__(self) -> BinaryIO:
        """Opens for reading bytes (the protocol of pathlib-abc)."""
        return self._volume.open(self._text, "rb")

    def __open_writer__(self, mode: str) -> BinaryIO:
        """Opens for writing bytes in mode "a", "w" or "x" (the protocol of pathlib-abc)."""
        if mode not in ("a", "w", "x"):
            raise ValueError(f"mode must be 'a', 'w' or 'x', not {mode!r}")
        return cast(BinaryIO, self._volume.open(self._text, mode + "b"))

    def read_bytes(self) -> bytes:
        """The whole content."""
        return self._volume.read_bytes(self._text)

    def write_bytes(self, data: bytes | bytearray | memoryview) -> int:
        """Replaces the content; returns how many bytes. The old one stays when there is no room."""
        return self._volume.write_bytes(self._text, data)

    def read_text(
        self, encoding: str | None = None, errors: str | None = None, newline: str | None = None
    ) -> str:
        """The whole content as text."""
        with self.open("r", -1, io.text_encoding(encoding), errors, newline) as file:
            text: str = file.read()
            return text

    def write_text(
        self,
        data: str,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> int:
        """Replaces the content by text; returns the number of characters.

        The old content stays when there is no room, or the text can't be encoded.
        """
        if not isinstance(data, str):
            raise TypeError(f"data must be str, not {type(data).__name__}")
        content = io.BytesIO()
        with io.TextIOWrapper(content, io.text_encoding(encoding), errors, newline) as text:
            count = text.write(data)
            text.flush()
            self.write_bytes(content.getvalue())
        return count

    def iterdir(self) -> Iterator[Path]:
        """The entries of the directory, each with its ``info`` known already."""
        # Read from now on, so that a wrong path fails here and not in the loop.
        return self._iterate(self._volume.scandir(self._text))

    def _iterate(self, entries: Iterator[DirEntry]) -> Iterator[Path]:
        for entry in entries:
            info = PathInfo(self._volume, entry.path, entry.stat())
            yield self._make(self._volume, entry.path, info)

    def glob(
        self, pattern: str, *, case_sensitive: bool | None = None, recurse_symlinks: bool = False
    ) -> Iterator[Path]:
        """Everything below that fits the pattern; case does not matter unless asked for.

        Raises NotImplementedError for an absolute pattern and ValueError for an empty one.
        """
        if os.fspath(pattern).startswith("/"):
            raise NotImplementedError("the pattern must be relative")
        ignore = self._volume._ignores_case(case_sensitive)
        _match.split_pattern(pattern)
        found = _match.glob(self._volume, self._text, pattern, ignore)
        return (self._make(self._volume, _normal(path)) for path in found)

    def rglob(
        self, pattern: str, *, case_sensitive: bool | None = None, recurse_symlinks: bool = False
    ) -> Iterator[Path]:
        """As glob() with ``**/`` before the pattern."""
        if os.fspath(pattern).startswith("/"):
            raise NotImplementedError("the pattern must be relative")
        return self.glob("**/" + pattern, case_sensitive=case_sensitive)

    def walk(
        self,
        top_down: bool = True,
        on_error: Callable[[OSError], object] | None = None,
        follow_symlinks: bool = False,
    ) -> Iterator[tuple[Path, list[str], list[str]]]:
        """As os.walk(), with a Path for the directory."""
        for directory, below, files in self._volume.walk(self._text, top_down, on_error):
            yield self._make(self._volume, directory), below, files

    # ---- changes ----

    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        """Makes an empty file, or sets the times of what is there to now."""
        self._volume.touch(self._text, exist_ok=exist_ok)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Makes a directory; ``mode`` has no meaning here."""
        if parents:
            self._volume.makedirs(self._text, mode, exist_ok)
            return
        try:
            self._volume.mkdir(self._text)
        except FileExistsError:
            if not exist_ok or not self.is_dir():
                raise

    def rmdir(self) -> None:
        """Removes an empty directory."""
        self._volume.rmdir(self._text)

    def unlink(self, missing_ok: bool = False) -> None:
        """Removes a file."""
        try:
            self._volume.unlink(self._text)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rename(self, target: str | os.PathLike[str] | Path) -> Path:
        """Renames on the same volume, replacing a file that is there; returns the new path."""
        path = self.with_segments(target)
        self._volume.replace(self._text, path._text)
        return path

    def replace(self, target: str | os.PathLike[str] | Path) -> Path:
        """As rename()."""
        return self.rename(target)

    def chmod(self, mode: int, *, follow_symlinks: bool = True) -> None:
        """As Volume.chmod()."""
        self._volume.chmod(self._text, mode)

    def lchmod(self, mode: int) -> None:
        """As Volume.chmod()."""
        self._volume.chmod(self._text, mode)

    def symlink_to(
        self, target: str | os.PathLike[str] | Path, target_is_directory: bool = False
    ) -> NoReturn:
        """Raises PermissionError: the format has no links."""
        self._volume.symlink(str(target), self._text)

    def hardlink_to(self, target: str | os.PathLike[str] | Path) -> NoReturn:
        """Raises PermissionError: the format has no links."""
        self._volume.link(str(target), self._text)

    def readlink(self) -> NoReturn:
        """Raises OSError (EINVAL): nothing here is a link."""
        self._volume.readlink(self._text)

    # ---- copies ----

    def copy(
        self, target: Any, *, follow_symlinks: bool = True, preserve_metadata: bool = False
    ) -> Any:
        """Copies a file or a tree to ``target``, which is returned.

        A string is a path on this volume, a Path may be on any volume, a pathlib.Path is a place of
        the operating system. A file that is there already is replaced, a directory raises
        FileExistsError.
        """
        if isinstance(target, str):
            target = self.with_segments(target)
        if not isinstance(target, (Path, os.PathLike)) and hasattr(target, "_copy_from"):
            target._copy_from(
                self, follow_symlinks=follow_symlinks, preserve_metadata=preserve_metadata
            )
            return target
        from . import copying

        copying.copy_path(self, target, preserve=preserve_metadata)
        return target

    def copy_into(
        self, target_dir: Any, *, follow_symlinks: bool = True, preserve_metadata: bool = False
    ) -> Any:
        """Copies into an existing directory, under the same name; returns the new path."""
        return self.copy(
            self._place_in(target_dir),
            follow_symlinks=follow_symlinks,
            preserve_metadata=preserve_metadata,
        )

    def move(self, target: Any) -> Any:
        """Moves a file or a tree: a rename on this volume, else a copy with times and a removal."""
        if isinstance(target, str) or (isinstance(target, Path) and target._volume is self._volume):
            return self.replace(target)
        self.copy(target, preserve_metadata=True)
        if self.is_dir():
            self._volume.rmtree(self._text)
        else:
            self._volume.unlink(self._text)
        return target

    def move_into(self, target_dir: Any) -> Any:
        """Moves into an existing directory, under the same name; returns the new path."""
        return self.move(self._place_in(target_dir))

    def _place_in(self, target_dir: Any) -> Any:
        name = self.name
        if not name or name == "..":
            raise ValueError(f"{self._text!r} has no name of its own")
        if isinstance(target_dir, str):
            target_dir = self.with_segments(target_dir)
        return target_dir / name

    def _copy_from(
        self, source: Any, follow_symlinks: bool = True, preserve_metadata: bool = False
    ) -> None:
        """The other end of pathlib's copy(): ``source`` is a path of any kind."""
        from . import copying

        if not follow_symlinks and getattr(source, "info", source).is_symlink():
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), self._text)
        copying.copy_path(source, self, preserve=preserve_metadata, follow_symlinks=follow_symlinks)
