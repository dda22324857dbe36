"""A bit of everything once, for valgrind: volumes in memory and in a file, and damaged images."""

import io
import tempfile
from pathlib import Path

import pyexfat as px


def exercise(vol: px.Volume) -> None:
    vol.makedirs("/DCIM/100")
    for number in range(40):
        with vol.open(f"/DCIM/100/picture {number:04}.jpg", "wb") as f:
            f.write(bytes([number]) * (number * 997))
    with vol.open("/notes.txt", "w", encoding="utf-8") as f:
        f.write("one\ntwo\n")
    with vol.open("/notes.txt", "r+b") as f:
        f.seek(100_000)
        f.write(b"far")
        f.truncate(50_000)
    vol.rename("/notes.txt", "/DCIM/a much longer name than the one before, of several entries.txt")
    vol.create_many("/DCIM", [f"{number}.tmp" for number in range(200)])
    vol.remove_many("/DCIM", [f"{number}.tmp" for number in range(0, 200, 2)])
    vol.fallocate("/DCIM/1.tmp", 0, 1 << 20)
    vol.utime("/DCIM/1.tmp", ns=(10**18, 10**18))
    for path, directories, files in vol.walk("/"):
        for name in directories + files:
            vol.stat(f"{path.rstrip('/')}/{name}")
    for name in vol.listdir("/DCIM/100"):
        assert vol.open(f"/DCIM/100/{name}", "rb").read() is not None
    vol.rmtree("/DCIM/100")
    vol.label = "CARD"
    vol.usage()
    vol.sync()


def main() -> None:
    with px.format(bytearray(16 << 20)) as vol:
        exercise(vol)
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder, "card.img")
        with px.format(image, size="32 MiB", label="FIRST") as vol:
            exercise(vol)
        with px.open(image) as vol:
            assert vol.label == "CARD"
            for call in (lambda: vol.mkdir("/x"), lambda: vol.stat("/absent")):
                try:
                    call()
                except OSError:
                    continue
                raise AssertionError("no error")
        for damaged in (b"", b"\0" * 4096, image.read_bytes()[:9000]):
            try:
                px.open(io.BytesIO(damaged))
            except OSError:
                continue
            raise AssertionError("opened")


main()
