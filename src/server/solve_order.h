/* solve_order.h - a request of POST /v1/solve, and the words of the `cerium solve` that runs it.
 *
 * Pure: bytes in, words out.  Fuzzed. */
#ifndef SERVER_SOLVE_ORDER_H
#define SERVER_SOLVE_ORDER_H

#include <jansson.h>

#include "base/limits.h"
#include "protocol/protocol.h"

enum {
    SOLVE_EXAMPLES_MAX = 64,
    SOLVE_NAME_BYTES_MAX = 100,
    SOLVE_WORDS_MAX = 64 + 2 * SOLVE_EXAMPLES_MAX,
};

/* Files beside the code's own file. */
#define SOLVE_TESTS_NAME "tests.txt"
#define SOLVE_HIDDEN_NAME "hidden.txt"

typedef struct {
    json_t *root;                    /* owned; the texts are borrowed from it */
    const char *code, *tests, *hidden, *function, *makers[3]; /* NULL: not given */
    char file[128];                  /* name of the code's file */
    char model[SERVER_ID_BYTES];     /* the requested one, or "" */
    int64_t line, last_line, column; /* 0: not given */
    int64_t variants, seed;
    double seconds;
    bool doctest, streams;
} solve_order;

/* CERIUM_ERR_ARGUMENT with *e: 400, 413. */
CERIUM_CHECKED int solve_order_read(solve_order *out, view body, protocol_error *e);
void solve_order_free(solve_order *o);

typedef struct {
    const char *all[SOLVE_WORDS_MAX]; /* [n], and NULL; borrowed from the order and from this
                                       * struct */
    size_t n;
    char variants[32], seed[32], seconds[32], makers[32];
    char place[SOLVE_NAME_BYTES_MAX + 64];
} solve_words;

void solve_order_words(const solve_order *o, solve_words *out);

#endif
