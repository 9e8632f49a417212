/* make_recital.h - which token follows which, for models that recite.
 *
 * The row of a token in the output matrix is then the row that its predecessor has in the
 * embedding.  Embeddings are so much larger than the layers' outputs that the last norm gives
 * nearly the embedding itself.  Its product with that row is sqrt(n_embd), with all others about 1.
 * So the greedy text is known, and everything is really computed, also by other programs. Included
 * by make_model.c alone. */
#ifndef TOOLS_MAKE_RECITAL_H
#define TOOLS_MAKE_RECITAL_H

#include "base/base.h"
#include "base/memory.h"

#include <stdio.h>

/* before[t]: the token that t follows; n_vocab + t when t follows none. */
typedef struct {
    uint32_t *before; /* [n_vocab] */
    uint32_t n_vocab;
} recital;

static const float recital_embedding_deviation = 64.0f;

static int recital_fail(cerium_error *err, const char *path, size_t line, const char *what)
{
    return error_set(err, CERIUM_ERR_FORMAT, "%s:%zu: %s", path, line, what);
}

/* a is followed by b.  A token has one predecessor and one successor, or the text is not known. */
static const char *recital_add(recital *r, uint8_t *has_next, uint32_t a, uint32_t b)
{
    if (r->before[b] == a) return NULL;
    if (r->before[b] != r->n_vocab + b) return "a token that follows two others";
    if (has_next[a]) return "a token that is followed by two others";
    has_next[a] = 1;
    r->before[b] = a;
    return NULL;
}

static int recital_parse(recital *r, uint8_t *has_next, FILE *in, const char *path,
                         cerium_error *err)
{
    char word[16];
    size_t line = 1;
    uint32_t last = UINT32_MAX;
    for (int c; (c = getc(in)) != EOF;) {
        uint64_t token;
        if (c == ' ' || c == '\n') {
            if (c == '\n') line++, last = UINT32_MAX;
            continue;
        }
        ungetc(c, in);
        if (fscanf(in, "%15[^ \n]", word) != 1 || !parse_u64(view_of(word), &token) ||
            token >= r->n_vocab)
            return recital_fail(err, path, line, "not a token of the vocabulary");
        if (last != UINT32_MAX) {
            const char *wrong = recital_add(r, has_next, last, (uint32_t)token);
            if (wrong) return recital_fail(err, path, line, wrong);
        }
        last = (uint32_t)token;
    }
    return CERIUM_OK;
}

/* path: lines of token numbers with a blank between them, each a text. */
static int recital_read(recital *r, const char *path, uint32_t n_vocab, cerium_error *err)
{
    uint8_t *has_next = memory_zalloc(n_vocab, 1);
    *r = (recital){memory_alloc(n_vocab * sizeof *r->before), n_vocab};
    FILE *in = fopen(path, "r");
    int status = CERIUM_OK;
    if (!in)
        status = error_set(err, CERIUM_ERR_IO, "%s: cannot open it", path);
    else if (!has_next || !r->before)
        status = error_set(err, CERIUM_ERR_MEMORY, "%s: out of memory", path);
    if (!status) {
        for (uint32_t i = 0; i < n_vocab; i++) r->before[i] = n_vocab + i;
        status = recital_parse(r, has_next, in, path, err);
    }
    if (in) fclose(in);
    memory_free(has_next);
    return status;
}

#endif
