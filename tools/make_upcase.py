"""Writes csrc/base/upcase_table.c: the recommended up-case table as constant C data.

    python tools/make_upcase.py VOLUME.img > csrc/base/upcase_table.c

VOLUME.img is any exFAT volume that carries the recommended table (specification 7.2.5.1), such as
one made by mkfs.exfat. The table is found through the root directory and accepted only if its
length and checksum are those that the specification states. The file gets the compressed form, and
the pages of 256 units, expanded from it, that are not the identity: pages that map to themselves
are null pointers.
"""

import struct
import sys

BYTES = 5836
CHECKSUM = 0xE619D30D
IDENTITY_RUN = 0xFFFF


def read_table(image: bytes) -> bytes:
    """The bytes of the volume's up-case table; its first root cluster must name it."""
    heap_sector, _, root = struct.unpack_from("<III", image, 88)
    sector_shift, cluster_shift = image[108], image[108] + image[109]

    def cluster(number: int) -> int:
        heap: int = heap_sector << sector_shift
        return heap + (number - 2 << cluster_shift)

    start: int = cluster(root)
    for at in range(start, start + (1 << cluster_shift), 32):
        if image[at] == 0x82:
            first, length = struct.unpack_from("<IQ", image, at + 20)
            return image[cluster(first) :][:length]
    raise SystemExit("no up-case table in the first cluster of the root directory")


def checksum(table: bytes) -> int:
    """TableChecksum of the specification, section 7.2.2."""
    total = 0
    for byte in table:
        total = ((total << 31 | total >> 1) + byte) & 0xFFFFFFFF
    return total


def expand(units: list[int]) -> list[int]:
    """All 65536 mappings of a compressed table."""
    out: list[int] = []
    source = iter(units)
    for unit in source:
        if unit == IDENTITY_RUN and len(out) < 0xFFFF:
            out.extend(range(len(out), len(out) + next(source)))
        else:
            out.append(unit)
    if len(out) != 0x10000:
        raise SystemExit(f"the table covers {len(out)} units")
    return out


def array(units: list[int]) -> str:
    lines = []
    for i in range(0, len(units), 12):
        lines.append("    " + " ".join(f"0x{unit:04X}," for unit in units[i : i + 12]))
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: make_upcase.py VOLUME.img")
    with open(sys.argv[1], "rb") as file:
        table = read_table(file.read())
    if len(table) != BYTES or checksum(table) != CHECKSUM:
        raise SystemExit("the volume's table is not the recommended one")
    units = list(struct.unpack(f"<{BYTES // 2}H", table))
    full = expand(units)
    pages = {
        p: full[p << 8 : (p + 1) << 8]
        for p in range(256)
        if full[p << 8 : (p + 1) << 8] != list(range(p << 8, (p + 1) << 8))
    }

    print("/* The recommended up-case table. Made by tools/make_upcase.py: do not edit. */")
    print('#include "base/upcase.h"\n')
    print("/* clang-format off */")
    print("const uint16_t base_upcase_table[BASE_UPCASE_BYTES / 2] = {")
    print(array(units))
    print("};\n")
    for number, page in pages.items():
        print(f"static const uint16_t page_{number:02x}[256] = {{")
        print(array(page))
        print("};\n")
    print("const uint16_t *const base_upcase_pages[256] = {")
    for number in pages:
        print(f"    [0x{number:02X}] = page_{number:02x},")
    print("};")
    print("/* clang-format on */")


if __name__ == "__main__":
    main()
