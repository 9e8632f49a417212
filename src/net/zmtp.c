/* zmtp.c - greetings, frames and commands of ZMTP 3.0. */
#include "net/zmtp.h"

#include <strings.h>

enum { FLAG_MORE = 1, FLAG_LONG = 2, FLAG_COMMAND = 4, SHORT_MAX = 255 };
enum { AT_VERSION = 10, AT_MECHANISM = 12, MECHANISM_BYTES = 20 };

const uint8_t zmtp_greeting[ZMTP_GREETING_BYTES] = {
    [0] = 0xff, [8] = 1, [9] = 0x7f, [AT_VERSION] = 3, [AT_MECHANISM] = 'N', 'U', 'L', 'L',
};

void zmtp_put_u64(uint8_t out[8], uint64_t n)
{
    for (int i = 0; i < 8; i++) out[i] = (uint8_t)(n >> (56 - 8 * i));
}

uint64_t zmtp_get_u64(const uint8_t in[8])
{
    uint64_t n = 0;
    for (int i = 0; i < 8; i++) n = n << 8 | in[i];
    return n;
}

zmtp_result zmtp_read_greeting(view in)
{
    const uint8_t *at = (const uint8_t *)in.ptr;
    if (in.len > 0 && at[0] != 0xff) return ZMTP_BROKEN;
    if (in.len > 9 && at[9] != 0x7f) return ZMTP_BROKEN;
    if (in.len > AT_VERSION && at[AT_VERSION] < 3) return ZMTP_BROKEN;
    if (in.len < ZMTP_GREETING_BYTES) return ZMTP_PARTIAL;
    return memcmp(at + AT_MECHANISM, zmtp_greeting + AT_MECHANISM, MECHANISM_BYTES) ? ZMTP_BROKEN
                                                                                    : ZMTP_WHOLE;
}

zmtp_result zmtp_read_frame(view in, size_t max, zmtp_frame *out)
{
    const uint8_t *at = (const uint8_t *)in.ptr;
    if (!in.len) return ZMTP_PARTIAL;
    if (at[0] & ~(FLAG_MORE | FLAG_LONG | FLAG_COMMAND)) return ZMTP_BROKEN;
    if ((at[0] & FLAG_COMMAND) && (at[0] & FLAG_MORE)) return ZMTP_BROKEN;
    const size_t head = at[0] & FLAG_LONG ? ZMTP_HEAD_BYTES : 2;
    if (in.len < head) return ZMTP_PARTIAL;
    const uint64_t n = at[0] & FLAG_LONG ? zmtp_get_u64(at + 1) : at[1];
    if (n > max) return ZMTP_BROKEN;
    if (in.len - head < n) return ZMTP_PARTIAL;
    *out = (zmtp_frame){.more = at[0] & FLAG_MORE,
                        .command = at[0] & FLAG_COMMAND,
                        .body = {in.ptr + head, (size_t)n},
                        .size = head + (size_t)n};
    return ZMTP_WHOLE;
}

bool zmtp_is_command(const zmtp_frame *f, const char *name, view *rest)
{
    const size_t n = strlen(name);
    if (!f->command || f->body.len < n + 1 || (uint8_t)f->body.ptr[0] != n ||
        memcmp(f->body.ptr + 1, name, n))
        return false;
    *rest = (view){f->body.ptr + 1 + n, f->body.len - 1 - n};
    return true;
}

view zmtp_property(view all, const char *name)
{
    const uint8_t *at = (const uint8_t *)all.ptr;
    for (size_t left = all.len; left > 0;) {
        const size_t n = at[0];
        if (left < 1 + n + 4) break;
        const uint8_t *size = at + 1 + n;
        const size_t value =
            (size_t)size[0] << 24 | (size_t)size[1] << 16 | (size_t)size[2] << 8 | size[3];
        if (left - (1 + n + 4) < value) break;
        if (n == strlen(name) && !strncasecmp((const char *)at + 1, name, n))
            return (view){(const char *)size + 4, value};
        at += 1 + n + 4 + value;
        left -= 1 + n + 4 + value;
    }
    return (view){"", 0};
}

int zmtp_write_frame(bytes *out, bool more, bool command, view body)
{
    uint8_t head[ZMTP_HEAD_BYTES];
    const bool is_long = body.len > SHORT_MAX;
    head[0] = (uint8_t)((more ? FLAG_MORE : 0) | (is_long ? FLAG_LONG : 0) |
                        (command ? FLAG_COMMAND : 0));
    if (is_long)
        zmtp_put_u64(head + 1, body.len);
    else
        head[1] = (uint8_t)body.len;
    const size_t n = is_long ? ZMTP_HEAD_BYTES : 2;
    RETURN_IF(bytes_reserve(out, n + body.len));
    RETURN_IF(bytes_append(out, head, n));
    return bytes_append(out, body.ptr, body.len);
}

int zmtp_write_ready(bytes *out, const char *socket_type)
{
    char body[64];
    const size_t n = strlen(socket_type);
    const int len = snprintf(body, sizeof body, "\x05READY\x0bSocket-Type%c%c%c%c%s", 0, 0, 0,
                             (int)n, socket_type);
    return zmtp_write_frame(out, false, true, (view){body, (size_t)len});
}
