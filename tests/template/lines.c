/* lines.c - renders templates for the scripts of this folder: a JSON object per line is read,
 * {"template": ..., "context": {...}}, and one written: {"text": ..., "message": [from, to, ...]},
 * where bytes of messages are, or {"error": ..., "line": ..., "raised": ...}.  With "repeat" it
 * renders that often and reports the fastest time. */
#include "template/jinja.h"

enum { NOW = 1767225600 }; /* 1 January 2026 */

static json_t *answer_error(const jinja_error *err, int status)
{
    return json_pack("{s:s, s:i, s:b, s:i}", "error",
                     status == CERIUM_ERR_MEMORY ? "no memory" : err->message, "line",
                     (int)err->line, "raised", err->failure == JINJA_RAISED, "failure",
                     (int)err->failure);
}

static json_t *render(const jinja_template *t, json_t *context)
{
    jinja_run *run = NULL;
    jinja_error err = {0};
    jinja_output out;
    const char *name;
    json_t *value, *answer;
    CHECK(!jinja_open(&run, t));
    json_object_foreach(context, name, value)
        jinja_set(run, name, jinja_of_json(run, value, JINJA_MESSAGE));
    jinja_set_time(run, NOW);
    int status = jinja_render(run, &out, &err);
    if (status) {
        answer = answer_error(&err, status);
    } else {
        json_t *spans = json_array();
        for (size_t i = 0, from = 0; i < out.n_pieces; from = out.pieces[i++].end) {
            if (out.pieces[i].origin != JINJA_MESSAGE) continue;
            json_array_append_new(spans, json_integer((json_int_t)from));
            json_array_append_new(spans, json_integer((json_int_t)out.pieces[i].end));
        }
        answer = json_pack("{s:o, s:o}", "text", json_stringn_nocheck(out.text.ptr, out.text.len),
                           "message", spans);
    }
    jinja_close(&run);
    return answer;
}

static json_t *answer_line(json_t *line)
{
    const char *source = json_string_value(json_object_get(line, "template"));
    json_t *context = json_object_get(line, "context");
    jinja_template *t = NULL;
    jinja_error err = {0};
    CHECK(source && json_is_object(context));
    int status = jinja_compile(&t, view_of(source), &err);
    if (status) return answer_error(&err, status);
    json_t *answer = render(t, context);
    uint64_t best = UINT64_MAX;
    for (json_int_t i = json_integer_value(json_object_get(line, "repeat")); i > 0; i--) {
        uint64_t begun = clock_ns();
        json_decref(render(t, context));
        uint64_t took = clock_ns() - begun;
        if (took < best) best = took;
    }
    if (best != UINT64_MAX) json_object_set_new(answer, "ns", json_integer((json_int_t)best));
    jinja_free(&t);
    CHECK(answer);
    return answer;
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
        json_t *in = json_loadb(line, (size_t)n, 0, NULL);
        CHECK(in);
        json_t *out = answer_line(in);
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(out);
        json_decref(in);
    }
    memory_release(line);
    return 0;
}
