/* fuzz_honest.c - input of `cerium bench --honest`: answers of any server, which mean the
 * same in any cuts, and lines of a set of tasks.  The first byte chooses the cuts. */
#include "programs/honest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_stream(view text, size_t cut, honest_answer *out, bytes *rest)
{
    honest_stream s = {.answer = out, .line = {.max = HONEST_ANSWER_BYTES_MAX}};
    *out = (honest_answer){.text = {.max = HONEST_ANSWER_BYTES_MAX}};
    for (size_t at = 0; at < text.len; at += cut) {
        const view part = {text.ptr + at, text.len - at < cut ? text.len - at : cut};
        CHECK(!honest_stream_feed(&s, part));
    }
    *rest = s.line;
}

static bool same(const bytes *a, const bytes *b)
{
    return view_equal((view){a->ptr, a->len}, (view){b->ptr, b->len});
}

static void check_stream(view text, size_t cut)
{
    honest_answer whole, cuts;
    bytes rest[2];
    read_stream(text, text.len + 1, &whole, &rest[0]);
    read_stream(text, cut, &cuts, &rest[1]);
    CHECK(same(&whole.text, &cuts.text) && same(&rest[0], &rest[1]));
    CHECK(whole.n_tokens == cuts.n_tokens && whole.was_cut == cuts.was_cut);
    CHECK(!strcmp(whole.why, cuts.why) && strlen(whole.why) < sizeof whole.why);
    bytes_free(&whole.text);
    bytes_free(&cuts.text);
    for (size_t i = 0; i < ARRAY_LEN(rest); i++) bytes_free(&rest[i]);
}

static void check_task(view line)
{
    honest_task t;
    cerium_error err;
    int status = honest_task_read(&t, line, &err);
    CHECK(!status || (status == CERIUM_ERR_FORMAT && *err.message));
    if (status) return;
    CHECK(t.begin <= t.end && t.end <= t.source.len && t.id && t.language && t.file);
    CHECK(!t.source.len || !memchr(t.source.ptr, 0, t.source.len));
    honest_task_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || size > 1 << 16) return 0;
    const view text = {(const char *)data + 1, size - 1};
    check_stream(text, (size_t)data[0] % 16 + 1);
    check_task(text);
    return 0;
}
