/* match.c - tests which texts a grammar accepts: for checks against other implementations.
 *
 * Reads lines {"syntax": 0, "grammar": "...", "texts": ["..."]} and answers each with a line
 * {"matches": [true], "states": 12, "ns": 3400} or {"error": "..."}; with "left_out": ["..."] where
 * the grammar is wider than the request. */
#include <jansson.h>

#include "base/memory.h"
#include "sampling/matcher.h"

static json_t *answer(const json_t *line)
{
    cerium_error err = {.status = 0};
    grammar *g = NULL;
    matcher *w = NULL;
    const json_t *text = json_object_get(line, "grammar"), *each;
    json_t *matches = json_array();
    size_t at;
    view source = {json_string_value(text), json_string_length(text)};
    int syntax = (int)json_integer_value(json_object_get(line, "syntax"));
    if (grammar_compile(&g, (cerium_grammar_syntax)syntax, source, &err) ||
        matcher_open(&w, g, 0, 0, 0, &err)) {
        grammar_free(&g);
        json_decref(matches);
        return json_pack("{ss}", "error", err.message);
    }
    json_array_foreach(json_object_get(line, "texts"), at, each)
    {
        matcher_begin(w, 0);
        view v = {json_string_value(each), json_string_length(each)};
        bool is = matcher_accept(w, 0, 0, v) && matcher_is_complete(w, 0);
        json_array_append_new(matches, json_boolean(is));
    }
    json_t *out = json_pack("{sosIsI}", "matches", matches, "states", (json_int_t)g->n_states, "ns",
                            (json_int_t)g->compile_ns);
    json_t *notes = json_array();
    for (size_t i = 0; i < g->notes_len; i += strlen(g->notes + i) + 1)
        json_array_append_new(notes, json_string(g->notes + i));
    if (g->notes_len) json_object_set(out, "left_out", notes);
    json_decref(notes);
    matcher_close(&w);
    grammar_free(&g);
    return out;
}

int main(void)
{
    json_error_t error;
    json_t *line;
    while ((line = json_loadf(stdin, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &error))) {
        json_t *out = answer(line);
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(out);
        json_decref(line);
    }
    return 0;
}
