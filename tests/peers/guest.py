"""A Linux kernel with its own exFAT driver: images in, lists of what it sees out.

What the script leaves in /out comes back through one more disk, as the console is slow and a
place where lines get mixed with the kernel's own.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

from conftest import run_guest

from peers import trees
from peers.tools import MIB, new_image

# list DIRECTORY NAME: everything below a directory, for Answers.tree().
_PRELUDE = """
set -e
mkdir -p /out /in
list() {
    (cd "$1" &&
     find . -mindepth 1 -print0 | xargs -0 -r stat -c '%n|%F|%s|%a|%y' >"/out/$2.stat" &&
     find . -type f -print0 | xargs -0 -r sha256sum >"/out/$2.sums")
}
# show DISK NAME: the same for an image, which is mounted to be read only.
show() {
    mount -t exfat -o ro "/dev/vd$1" /mnt
    list /mnt "$2"
    stat -f -c '%b %f %S' /mnt >"/out/$2.space"
    umount /mnt
}
"""
_FINISH = """
dmesg | grep -i 'exfat' >/out/dmesg || :
uname -r >/out/release
tar -cf /dev/vd%s -C /out .
echo
"""


class Answers:
    """What the script left in /out."""

    def __init__(self, disk: Path) -> None:
        """From the disk that it was written to."""
        with tarfile.open(disk, "r:") as archive:
            self.files = {
                member.name.removeprefix("./"): archive.extractfile(member).read().decode()  # type: ignore[union-attr]
                for member in archive
                if member.isfile()
            }

    def tree(self, name: str) -> trees.Tree:
        """What ``list`` or ``show`` found."""
        return trees.of_guest(self.files[f"{name}.stat"], self.files[f"{name}.sums"])

    def expected(self, made: trees.Filler) -> trees.Tree:
        """What the tree of a volume must be that we have written."""
        return trees.as_kernel_sees(made.tree, made.padded, self.files["release"])

    def space(self, name: str) -> tuple[int, int, int]:
        """Clusters, free ones, and bytes of one, as ``show`` found them."""
        clusters, free, size = map(int, self.files[f"{name}.space"].split())
        return clusters, free, size


def letter(index: int) -> str:
    """The last letter of /dev/vda, /dev/vdb, …"""
    return "abcdefghijklmnopqrstuvwxyz"[index]


def ask(script: str, images: list[Path], scratch: Path) -> Answers:
    """Runs ``script`` in the guest with ``images`` as /dev/vda, …; a failing command ends it."""
    answer = new_image(scratch / "answer.disk", 32 * MIB)
    whole = _PRELUDE + script + _FINISH % letter(len(images))
    run_guest(whole, *images, answer)
    return Answers(answer)
