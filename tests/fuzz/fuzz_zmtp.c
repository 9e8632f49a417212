/* fuzz_zmtp.c - any bytes from a peer of ZeroMQ, in any cuts.
 *
 * Bytes: the first cut and the size of the others, then the bytes: a greeting, or, if there is
 * none, frames at once.  There are no reads past the end; the result is the same in
 * any cuts; and an accepted frame, written again, is the same. */
#include "base/hash.h"
#include "net/zmtp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FRAME_BYTES_MAX = 1024, LINE_BYTES = 96 };

/* Of exact size, so that a read past its end is seen. */
static char *copy_of(view text)
{
    char *exact = memory_alloc(text.len ? text.len : 1);
    CHECK(exact);
    return memcpy(exact, text.ptr, text.len);
}

/* A known result does not change with more bytes. */
static zmtp_result check_greeting(view text)
{
    zmtp_result found = ZMTP_PARTIAL;
    for (size_t n = 0; n <= text.len && n <= ZMTP_GREETING_BYTES + 1; n++) {
        char *exact = copy_of((view){text.ptr, n});
        const zmtp_result now = zmtp_read_greeting((view){exact, n});
        CHECK(found == ZMTP_PARTIAL || now == found);
        CHECK(now != ZMTP_WHOLE || n >= ZMTP_GREETING_BYTES);
        CHECK(now != ZMTP_PARTIAL || n < ZMTP_GREETING_BYTES);
        found = now;
        memory_free(exact);
    }
    return found;
}

static bool is_within(view part, view whole)
{
    return !part.len || (part.ptr >= whole.ptr && part.ptr + part.len <= whole.ptr + whole.len);
}

static void check_command(const zmtp_frame *f)
{
    static const char *const commands[] = {"READY", "PING", "SUBSCRIBE", "CANCEL", ""};
    static const char *const names[] = {"Socket-Type", "identity", "", "A"};
    view rest;
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (!zmtp_is_command(f, commands[i], &rest)) continue;
        CHECK(rest.len + 1 + strlen(commands[i]) == f->body.len && is_within(rest, f->body));
        for (size_t j = 0; j < ARRAY_LEN(names); j++)
            CHECK(is_within(zmtp_property(rest, names[j]), rest));
    }
}

/* Written again it is read as itself; its head may have been longer than necessary. */
static void check_again(const zmtp_frame *f)
{
    bytes out = {.max = 2 * FRAME_BYTES_MAX};
    zmtp_frame g;
    CHECK(!zmtp_write_frame(&out, f->more, f->command, f->body));
    CHECK(zmtp_read_frame((view){out.ptr, out.len}, FRAME_BYTES_MAX, &g) == ZMTP_WHOLE);
    CHECK(g.more == f->more && g.command == f->command && view_equal(g.body, f->body));
    CHECK(g.size == out.len && g.size <= f->size);
    bytes_free(&out);
}

/* A line for each frame, and how it ended. */
static void read_frames(view text, size_t first, size_t cut, bytes *log)
{
    char line[LINE_BYTES];
    zmtp_result found = ZMTP_PARTIAL;
    for (size_t at = 0, end = first < text.len ? first : text.len; found != ZMTP_BROKEN;) {
        zmtp_frame f;
        char *exact = copy_of((view){text.ptr + at, end - at});
        found = zmtp_read_frame((view){exact, end - at}, FRAME_BYTES_MAX, &f);
        if (found == ZMTP_WHOLE) {
            CHECK(f.size <= end - at && f.size >= f.body.len + 2 && f.body.len <= FRAME_BYTES_MAX);
            CHECK(is_within(f.body, (view){exact, end - at}) && !(f.more && f.command));
            check_command(&f);
            check_again(&f);
            const int n = snprintf(line, sizeof line, "%d%d %zu %llx\n", f.more, f.command, f.size,
                                   (unsigned long long)hash_bytes(f.body.ptr, f.body.len, 0));
            CHECK(!bytes_append(log, line, (size_t)n));
            at += f.size;
        }
        memory_free(exact);
        if (found != ZMTP_PARTIAL) continue;
        if (end == text.len) break;
        end = text.len - end < cut ? text.len : end + cut;
    }
    CHECK(!bytes_append(log, found == ZMTP_BROKEN ? "broken" : "more", 4));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 1 << 14) return 0;
    view text = {(const char *)data + 2, size - 2};
    bytes whole = {.max = 1 << 24}, cuts = {.max = 1 << 24};
    if (check_greeting(text) == ZMTP_WHOLE)
        text = (view){text.ptr + ZMTP_GREETING_BYTES, text.len - ZMTP_GREETING_BYTES};
    read_frames(text, text.len, 1, &whole);
    read_frames(text, data[0], (size_t)data[1] + 1, &cuts);
    CHECK(view_equal((view){whole.ptr, whole.len}, (view){cuts.ptr, cuts.len}));
    bytes_free(&whole);
    bytes_free(&cuts);
    return 0;
}
