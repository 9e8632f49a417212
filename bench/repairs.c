/* repairs.c - the replacements of weak lines when the model offers nothing better. Each
 * line of standard input is {"id", "language", "form", "code", "stop"}: the code is replayed as a
 * recorded answer, with nothing recorded after a halt, so that each weak line gets its safe form or
 * a refusal.  stop is "end" if the model ended by itself, and was not cut off.
 * Prints {"id", "language", "text", "deeds", "parses": [before, after], "weak", "fence_parses"} for
 * each; fence_parses: of an answer that is one fence, its code.
 *
 *   bench_repairs MODEL <LINES     the model's tokens alone are used */
#include <jansson.h>

#include "../tests/guard/replayed.h"
#include "../tests/guard/whole.h"

enum { LINE_MAX_BYTES = 1 << 20 };

static void take_finding(void *deeds, const cerium_finding *f)
{
    json_array_append_new(deeds, json_pack("[s,s,i]", watch_action_name(f->action), f->rule,
                                           (int)f->line));
}

/* An answer that is one fence, without its last line. */
static view within_fence(view text)
{
    const char *stop = text.len ? memchr(text.ptr, '\n', text.len) : NULL;
    size_t n = stop ? (size_t)(stop - text.ptr) + 1 : text.len;
    text = (view){text.ptr + n, text.len - n};
    if (text.len >= 4 && !memcmp(text.ptr + text.len - 4, "```\n", 4)) text.len -= 4;
    return text;
}

static void repair_one(const json_t *line)
{
    const char *form = json_string_value(json_object_get(line, "form"));
    const char *stop = json_string_value(json_object_get(line, "stop"));
    const json_t *text = json_object_get(line, "code");
    const char *name = json_string_value(json_object_get(line, "language"));
    guard_language language = guard_language_named(view_of(name ? name : "text"));
    view code = {json_string_value(text), json_string_length(text)};
    json_t *deeds = json_array();
    replayed a = {.text = {.max = SIZE_MAX / 2}, .finding = take_finding, .user = deeds};
    watch *w = NULL;
    watch_policy policy = watch_policy_strict();
    watch_config config = {.engine = engine, .guard = rules, .worker = worker, .policy = &policy,
                           .language = form && !strcmp(form, "code") ? language : GUARD_TEXT,
                           .recorded = true};
    if (form && !strcmp(form, "answer")) config.form = GUARD_ANSWER;
    if (form && !strcmp(form, "turn")) config.form = GUARD_TURN;
    if (form && !strcmp(form, "json")) config.form = GUARD_JSON;
    if (!code.ptr || watch_open(&w, &config, NULL)) return;
    const cerium_stop how = stop && !strcmp(stop, "end") ? CERIUM_STOP_END : CERIUM_STOP_NONE;
    TEST_CHECK(replay_answer(w, code, how, &a) == 0);
    watch_close(&w);
    (void)bytes_append(&a.text, "", 1);
    a.text.len--;
    bool weak = is_weak(config.form, config.language, "", a.text.ptr);
    const bool apart = whole_is_apart(language, code);
    bool fenced = config.form == GUARD_ANSWER && language &&
                  whole_parses(language, within_fence((view){a.text.ptr, a.text.len}), apart);
    const bool good = whole_parses(language, code, apart);
    const bool good_after = whole_parses(language, (view){a.text.ptr, a.text.len}, apart);
    json_t *out = json_pack("{s:O?, s:s, s:s%, s:O, s:[b,b], s:b, s:b}", "id",
                            json_object_get(line, "id"), "language", name ? name : "text", "text",
                            a.text.ptr, a.text.len, "deeds", deeds, "parses", good, good_after,
                            "weak", weak, "fence_parses", fenced);
    if (out && !json_dumpf(out, stdout, JSON_COMPACT)) putchar('\n');
    json_decref(out);
    json_decref(deeds);
    bytes_free(&a.text);
}

int main(int argc, char **argv)
{
    static char line[LINE_MAX_BYTES];
    if (argc != 2 || !open_forced(argv[1], 256)) {
        fprintf(stderr, "usage: bench_repairs MODEL <LINES, beside rules/\n");
        return 2;
    }
    while (fgets(line, sizeof line, stdin)) {
        json_t *one = json_loads(line, 0, NULL);
        if (one) repair_one(one);
        json_decref(one);
    }
    close_forced();
    return unit_test_failed != 0;
}
