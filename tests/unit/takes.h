/* takes.h - strings that a JSON schema accepts, and strings that it rejects. */
#ifndef UNIT_TAKES_H
#define UNIT_TAKES_H

#include <jansson.h>

#include "base/memory.h"
#include "sampling/matcher.h"

#include "unit.h"

/* Whether the grammar accepts the text as a JSON string. */
static bool takes(matcher *w, const char *text)
{
    json_t *string = json_string(text);
    char *quoted = json_dumps(string, JSON_ENCODE_ANY);
    matcher_begin(w, 0);
    /* jansson writes \u001B for our \u001b. */
    for (char *c = quoted; (c = strstr(c, "\\u00")); c += 6)
        for (int i = 4; i < 6; i++)
            if (c[i] >= 'A' && c[i] <= 'F') c[i] = (char)(c[i] + 32);
    bool is = matcher_accept(w, 0, 0, view_of(quoted)) && matcher_is_complete(w, 0);
    memory_release(quoted);
    json_decref(string);
    return is;
}

/* The schema compiles whole, and accepts all of in[] and none of out[]; both end with NULL, or
 * after n_max. */
static void check_takes(const char *name, const char *schema, const char *const *in,
                        const char *const *out, size_t n_max)
{
    cerium_error err = {.status = 0};
    grammar *g = NULL;
    matcher *w = NULL;
    int status = grammar_compile(&g, CERIUM_GRAMMAR_JSON_SCHEMA, view_of(schema), &err);
    TEST_CHECK_THAT(!status && !g->notes_len, "%s: %s", name, g ? g->notes : err.message);
    if (status) return;
    CHECK(!matcher_open(&w, g, 0, 0, 0, &err));
    for (size_t k = 0; k < n_max && in[k]; k++)
        TEST_CHECK_THAT(takes(w, in[k]), "%s: not '%s'", name, in[k]);
    for (size_t k = 0; k < n_max && out[k]; k++)
        TEST_CHECK_THAT(!takes(w, out[k]), "%s: '%s'", name, out[k]);
    matcher_close(&w);
    grammar_free(&g);
}

#endif
