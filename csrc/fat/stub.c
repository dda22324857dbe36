/* The boot code of a volume that boots nothing: it prints a message, waits for a key and starts
 * the machine again. */
#include "fat/format.h"

#include <string.h>

enum { LOADED_AT = 0x7C00, MESSAGE_FIELD = 3, TAB = 8 };

static const uint8_t code[] = {
    0x0E,             /* push cs */
    0x1F,             /* pop ds */
    0xBE, 0x00, 0x00, /* mov si, message */
    0xAC,             /* next: lodsb */
    0x22, 0xC0,       /* and al, al */
    0x74, 0x0B,       /* jz key */
    0x56,             /* push si */
    0xB4, 0x0E,       /* mov ah, 0Eh */
    0xBB, 0x07, 0x00, /* mov bx, 7 */
    0xCD, 0x10,       /* int 10h: teletype */
    0x5E,             /* pop si */
    0xEB, 0xF0,       /* jmp next */
    0x32, 0xE4,       /* key: xor ah, ah */
    0xCD, 0x16,       /* int 16h: wait for a key */
    0xCD, 0x19,       /* int 19h: boot */
    0xEB, 0xFE,       /* jmp here */
};

static const char usual[] = "This is not a bootable disk.  Please insert a bootable floppy and\n"
                            "press any key to try again ... \n";

/* Adds c, or refuses when only the ending zero has room. */
static bool add(uint8_t *out, uint32_t *n, uint32_t cap, char c)
{
    if (*n + 1 >= cap) {
        return false;
    }
    out[(*n)++] = (uint8_t)c;
    return true;
}

/* Line feeds become CR LF, but for one at the start of a line; tabs become spaces. */
static bool put_message(uint8_t *out, uint32_t cap, const char *message)
{
    uint32_t n = 0, column = 0;
    bool fits = true;

    for (const char *p = message; *p && fits; p++) {
        switch (*p) {
        case '\r':
            break;
        case '\n':
            fits = (column == 0 || add(out, &n, cap, '\r')) && add(out, &n, cap, '\n');
            column = 0;
            break;
        case '\t':
            do {
                fits = add(out, &n, cap, ' ');
            } while (++column % TAB != 0 && fits);
            break;
        default:
            fits = add(out, &n, cap, *p);
            column++;
        }
    }
    return fits;
}

int fat_stub_build(uint8_t *boot, uint32_t at, uint32_t end, const char *message,
                   struct base_error *e)
{
    uint32_t text = at + sizeof code;

    boot[FAT_BS_JUMP] = 0xEB;
    boot[FAT_BS_JUMP + 1] = (uint8_t)(at - 2);
    boot[FAT_BS_JUMP + 2] = 0x90;
    memcpy(boot + at, code, sizeof code);
    base_put_le16(boot + at + MESSAGE_FIELD, (uint16_t)(LOADED_AT + text));
    if (!put_message(boot + text, end - text, message ? message : usual)) {
        return base_bad_argument(e, "boot_message", "too long for the boot sector");
    }
    return 0;
}
