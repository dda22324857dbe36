"""Writes csrc/fat/codepage_437.c: code page 437 both ways as constant C data.

    python tools/make_codepage.py > csrc/fat/codepage_437.c

The mapping is that of Python's codec cp437. The pages are those of struct fat_codepage: by byte,
and, the way back, by the high byte of the UTF-16 unit. Byte 0 is unmapped, as no
name can hold it.
"""


def array(name: str, values: list[int]) -> str:
    """A constant array of 256 numbers."""
    lines = [f"static const uint16_t {name}[256] = {{"]
    for i in range(0, 256, 12):
        lines.append("    " + " ".join(f"0x{value:04X}," for value in values[i : i + 12]))
    return "\n".join([*lines, "};\n"])


def main() -> None:
    """Prints the file."""
    units = [0xFFFF, *(ord(character) for character in bytes(range(1, 256)).decode("cp437"))]
    pages: dict[int, list[int]] = {}
    for byte, unit in enumerate(units[1:], 1):
        pages.setdefault(unit >> 8, [0] * 256)[unit & 0xFF] = byte

    print("/* Code page 437. Made by tools/make_codepage.py: do not edit. */")
    print('#include "fat/codepage.h"\n')
    print("/* clang-format off */")
    print(array("units", units))
    for number, page in sorted(pages.items()):
        print(array(f"codes_{number:02x}", page))
    print("const struct fat_codepage fat_codepage_437 = {")
    print("    .units = {[0] = units},")
    print("    .codes = {")
    for number in sorted(pages):
        print(f"        [0x{number:02X}] = codes_{number:02x},")
    print("    },")
    print("};")
    print("/* clang-format on */")


if __name__ == "__main__":
    main()
