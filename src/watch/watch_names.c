/* watch_names.c - missing names in a model's output: the reader of the guard's stream that queries
 * the index of the environment, and the messages of its findings. */
#include "base/hash.h"
#include "watch/watch_parts.h"

_Static_assert(sizeof(uses_state) <= GUARD_READER_BYTES, "what a reader holds fits a stream");

static void begin(void *user, void *state)
{
    (void)user;
    uses_begin(state);
}

static uint64_t name_of(const exists_finding *f)
{
    return hash_bytes(f->name, strlen(f->name), f->kind == EXISTS_IMPORT);
}

static uint32_t line(void *user, void *state, guard_language language, view text, bool whole,
                     guard_read out[GUARD_READER_FINDINGS])
{
    watch_names *n = user;
    exists_finding list[USES_FINDINGS_MAX];
    uses_state *s = state;
    uint32_t n_out = 0;
    uint32_t n_found = uses_line(n->index, s, language, text, whole, list);
    for (uint32_t i = 0; i < n_found && n_out < GUARD_READER_FINDINGS; i++) {
        const exists_finding *f = &list[i];
        uint64_t name = name_of(f);
        bool seen = false;
        for (uint32_t k = 0; k < WATCH_NAMES_REPORTED && !seen; k++) seen = n->seen[k] == name;
        if (seen) continue;
        watch_text *texts = &n->texts[n->n_texts++ % WATCH_NAMES_TEXTS];
        texts->found = *f;
        exists_describe(n->index, f, texts->what, texts->instead);
        out[n_out++] = (guard_read){.begin = f->begin,
                                    .end = f->end,
                                    .lines_back = s->line + 1 > f->line ? s->line - f->line : 0,
                                    .late = f->late,
                                    .is_import = f->kind == EXISTS_IMPORT,
                                    .name = name,
                                    .message = texts->what,
                                    .idiom = texts->instead};
    }
    return n_out;
}

const guard_reader *watch_names_reader(watch_names *n)
{
    n->reader = (guard_reader){.user = n, .begin = begin, .line = line};
    return &n->reader;
}

void watch_names_reported(watch_names *n, uint64_t name)
{
    n->seen[n->n_reported++ % WATCH_NAMES_REPORTED] = name;
}

const exists_finding *watch_names_found(const watch_names *n, const guard_finding *f)
{
    for (uint32_t i = 0; n && f->name && i < WATCH_NAMES_TEXTS; i++)
        if (f->message == n->texts[i].what && name_of(&n->texts[i].found) == f->name)
            return &n->texts[i].found;
    return NULL;
}
