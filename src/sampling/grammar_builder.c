/* grammar_builder.c - shared by all stages of making a grammar: memory, work, errors, notes, and
 * trials that may fail. */
#include "sampling/grammar_build.h"

enum { TRIALS_FAILED_MAX = 8, TRIAL_SHARE = 2 };

int builder_fail(grammar_builder *b, int status, const char *format, ...)
{
    char line[sizeof b->err->message];
    va_list args;
    if (b->status) return b->status;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    b->status = error_set(b->err, status, "%s: %s", b->what, line);
    return b->status;
}

int builder_lack(grammar_builder *b)
{
    return builder_fail(b, CERIUM_ERR_MEMORY, "no memory to compile it");
}

bool builder_work(grammar_builder *b, uint64_t n)
{
    b->work += n;
    if (b->work > b->work_max)
        builder_fail(b, CERIUM_ERR_CAPACITY, "takes too long to compile; make it smaller");
    return !b->status;
}

void builder_note(grammar_builder *b, const char *format, ...)
{
    char line[400];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *c = line; *c; c++)
        if ((uint8_t)*c < ' ' || *c == 0x7f) *c = '?';
    for (size_t at = 0; at < b->notes.len; at += strlen(b->notes.ptr + at) + 1)
        if (!strcmp(b->notes.ptr + at, line)) return;
    if (b->notes.len + strlen(line) + 1 > b->notes.max) return; /* enough notes */
    if (bytes_append(&b->notes, line, strlen(line) + 1)) builder_lack(b);
}

void builder_trial_begin(grammar_builder *b, builder_trial *t)
{
    *t = (builder_trial){.err = b->err, .work = b->work, .work_max = b->work_max};
    uint64_t most = b->work + GRAMMAR_WORK_MAX / TRIAL_SHARE;
    b->err = &t->own;
    if (most < b->work_max) b->work_max = most;
}

bool builder_trial_end(grammar_builder *b, builder_trial *t, const char **why)
{
    *why = t->own.message + strlen(b->what) + 2;
    b->err = t->err;
    b->work_max = t->work_max;
    if (!b->status) return true;
    b->n_failed += b->status == CERIUM_ERR_CAPACITY; /* others are quick */
    bool stays = b->status == CERIUM_ERR_MEMORY || b->n_failed > TRIALS_FAILED_MAX;
    if (stays) {
        if (b->err) *b->err = t->own;
        return false;
    }
    b->status = CERIUM_OK;
    b->work = t->work;
    return false;
}

void *builder_add(grammar_builder *b, bytes *v, size_t size)
{
    if (b->status) return NULL;
    int status = bytes_reserve(v, size);
    if (status == CERIUM_ERR_CAPACITY)
        builder_fail(b, status, "larger than cerium compiles; make it smaller");
    else if (status)
        builder_lack(b);
    if (status) return NULL;
    void *item = v->ptr + v->len;
    memset(item, 0, size);
    v->len += size;
    return item;
}
