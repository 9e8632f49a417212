/* output.c - checks standard output in one place; makes JSON of any bytes. */
#include "programs/output.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/memory.h"

void output_begin(void)
{
    /* A descriptor that cannot be written to: output to it fails, and the failure is seen. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) _exit(1);
}

int output_flush(cerium_error *err)
{
    errno = 0;
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (!lost) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_IO, "standard output: %s",
                     errno ? strerror(errno) : "not all of it could be written");
}

int output_finish(int status, int trouble)
{
    cerium_error err;
    if (!output_flush(&err) || status >= trouble) return status;
    fprintf(stderr, "cerium: %s\n", err.message);
    return trouble;
}

int output_json(json_t *value, size_t flags, cerium_error *err)
{
    bool bad = !value || json_dumpf(value, stdout, flags) || putchar('\n') == EOF;
    json_decref(value);
    if (!bad) return CERIUM_OK;
    if (ferror(stdout)) return output_flush(err);
    return error_set(err, CERIUM_ERR_MEMORY, "no memory for the output");
}

void output_name(const char *name)
{
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) printf("\\x%02X", (unsigned char)*c);
        else putchar(*c);
}

size_t utf8_at(const uint8_t *p, size_t n, uint32_t *code)
{
    static const uint32_t min[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = 0;
    if (p[0] < 0x80)
        len = 1;
    else if (p[0] >> 5 == 0x06)
        len = 2;
    else if (p[0] >> 4 == 0x0e)
        len = 3;
    else if (p[0] >> 3 == 0x1e)
        len = 4;
    if (len == 0 || len > n) return 0;
    uint32_t c = len == 1 ? p[0] : p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (p[i] >> 6 != 2) return 0;
        c = c << 6 | (p[i] & 63);
    }
    if (c < min[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    *code = c;
    return len;
}

/* Replaces each byte that is not UTF-8: by a mark, or by its number. */
static json_t *cleaned(view text, bool numbers)
{
    json_t *out = json_stringn(text.ptr ? text.ptr : "", text.len);
    uint32_t code;
    if (out) return out;
    bytes clean = {.max = SIZE_MAX};
    const uint8_t *p = (const uint8_t *)text.ptr;
    int status = CERIUM_OK;
    for (size_t i = 0; i < text.len && !status;) {
        char number[8];
        size_t len = utf8_at(p + i, text.len - i, &code);
        snprintf(number, sizeof number, numbers ? "\\x%02X" : "\xef\xbf\xbd", p[i]);
        status = len ? bytes_append(&clean, p + i, len)
                     : bytes_append(&clean, number, strlen(number));
        i += len ? len : 1;
    }
    if (!status) out = json_stringn(clean.ptr ? clean.ptr : "", clean.len);
    bytes_free(&clean);
    return out;
}

json_t *json_text(view text) { return cleaned(text, false); }

json_t *json_name(const char *name) { return cleaned(view_of(name), true); }
