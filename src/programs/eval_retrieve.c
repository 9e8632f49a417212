/* eval_retrieve.c - an index for each package of a set, and its results for a hole. */
#include "programs/eval_retrieve.h"

#include "base/hash.h"
#include "snippets/words.h"

typedef struct {
    const char *package;
    snippet_index index;
} package_index;

struct eval_retriever {
    const eval_set *set;
    package_index **list; /* [n] */
    size_t n, cap;
};

int eval_retriever_open(eval_retriever **out, const eval_set *set)
{
    eval_retriever *r = memory_zalloc(1, sizeof *r);
    if (!r) return CERIUM_ERR_MEMORY;
    r->set = set;
    *out = r;
    return CERIUM_OK;
}

void eval_retriever_close(eval_retriever **retriever)
{
    if (!retriever || !*retriever) return;
    eval_retriever *r = *retriever;
    for (size_t i = 0; i < r->n; i++) {
        snippet_index_close(&r->list[i]->index);
        memory_free(r->list[i]);
    }
    memory_free(r->list);
    memory_free(r);
    *retriever = NULL;
}

static bool is_of(const eval_document *d, const char *package)
{
    return !d->is_hole && !strcmp(d->package, package);
}

/* All files of the package that fit. */
static int fill(snippet_index *x, const eval_set *set, const char *package)
{
    for (size_t i = 0; i < set->n; i++) {
        const eval_document *d = &set->documents[i];
        snippet_file *f;
        if (!is_of(d, package)) continue;
        int status = snippet_file_open(&f, view_of(d->path), (view){d->text, d->len});
        if (!status) status = snippet_index_put(x, f, false);
        if (status && status != CERIUM_ERR_CAPACITY) return status;
    }
    return CERIUM_OK;
}

static int index_of(eval_retriever *r, const char *package, const snippet_index **out)
{
    for (size_t i = 0; i < r->n; i++)
        if (!strcmp(r->list[i]->package, package)) {
            *out = &r->list[i]->index;
            return CERIUM_OK;
        }
    if (r->n == r->cap) {
        const size_t cap = r->cap ? 2 * r->cap : 16;
        package_index **more = memory_zalloc(cap, sizeof *more);
        if (!more) return CERIUM_ERR_MEMORY;
        if (r->n) memcpy(more, r->list, r->n * sizeof *more);
        memory_free(r->list);
        r->list = more;
        r->cap = cap;
    }
    package_index *p = memory_zalloc(1, sizeof *p);
    if (!p) return CERIUM_ERR_MEMORY;
    p->package = package;
    r->list[r->n++] = p;
    *out = &p->index;
    return fill(&p->index, r->set, package);
}

/* SNIPPETS_MAX runs of lines from any files of the package except the task's. */
static int take_random(const snippet_index *x, const char *own, uint64_t seed, size_t bytes_max,
                       snippets *out)
{
    const size_t most = bytes_max / SNIPPETS_MAX;
    *out = (snippets){.text = {.max = bytes_max + SNIPPETS_MAX}};
    RETURN_IF(bytes_reserve(&out->text, bytes_max)); /* so that its address stays */
    for (uint32_t try = 0; try < 16 * SNIPPETS_MAX && out->n < SNIPPETS_MAX; try++) {
        const uint64_t draw = hash_u64(try, seed);
        if (!x->n) break;
        const snippet_file *f = x->list[draw % x->n];
        if (!strcmp(f->path, own) || !f->n_text) continue;
        size_t from = (size_t)((draw >> 20) % f->n_text), to;
        while (from > 0 && f->text[from - 1] != '\n') from--;
        to = f->n_text - from < most ? f->n_text : from + most;
        while (to > from && f->text[to - 1] != '\n') to--;
        if (to == from) continue;
        out->files[out->n++] = (cerium_context_file){f->path, out->text.ptr + out->text.len,
                                                     to - from};
        RETURN_IF(bytes_append(&out->text, f->text + from, to - from));
    }
    return CERIUM_OK;
}

int eval_retrieve(eval_retriever *r, const eval_task *t, view before, view after,
                  eval_retrieval kind, size_t bytes_max, uint64_t seed, snippets *out)
{
    const eval_document *d = &r->set->documents[t->document];
    const snippet_index *x = NULL;
    bytes with = {.max = SIZE_MAX};
    RETURN_IF(index_of(r, d->package, &x));
    if (kind == RETRIEVE_RANDOM)
        return take_random(x, d->path, hash_u64(t->begin, seed + t->document), bytes_max, out);
    if (kind == RETRIEVE_ORACLE) {
        int status = bytes_append(&with, before.ptr, before.len);
        if (!status) status = bytes_append(&with, d->text + t->begin, t->end - t->begin);
        if (status) {
            bytes_free(&with);
            return status;
        }
        before = (view){with.ptr, with.len};
    }
    const snippet_query q = {.path = view_of(d->path), .before = before, .after = after,
                             .bytes_max = bytes_max, .only_alike = kind == RETRIEVE_ALIKE};
    int status = snippets_find(x, &q, out);
    bytes_free(&with);
    return status;
}

/* ---- which holes can gain ---- */

static bool has_word(view text, view word)
{
    for (size_t at = 0; at + word.len <= text.len;) {
        const char *found = memmem(text.ptr + at, text.len - at, word.ptr, word.len);
        if (!found) return false;
        const size_t here = (size_t)(found - text.ptr), end = here + word.len;
        if ((here == 0 || !word_has(text.ptr[here - 1])) &&
            (end == text.len || !word_has(text.ptr[end])))
            return true;
        at = here + 1;
    }
    return false;
}

static bool others_have(const eval_set *set, const eval_document *own, view word)
{
    for (size_t i = 0; i < set->n; i++) {
        const eval_document *d = &set->documents[i];
        if (d != own && is_of(d, own->package) && has_word((view){d->text, d->len}, word))
            return true;
    }
    return false;
}

bool eval_names_others(const eval_set *set, const eval_task *t)
{
    const eval_document *d = &set->documents[t->document];
    size_t begin = t->begin, at = 0;
    while (begin > 0 && word_has(d->text[begin - 1])) begin--; /* the begun word */
    const view answer = {d->text + begin, t->end - begin}, before = {d->text, begin};
    const view after = {d->text + t->end, d->len - t->end};
    for (view word; word_next(answer, &at, &word);)
        if (word.len > 2 && !has_word(before, word) && !has_word(after, word) &&
            others_have(set, d, word))
            return true;
    return false;
}
