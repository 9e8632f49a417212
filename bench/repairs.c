/* repairs.c - the replacements of weak lines when the model offers nothing better. Each
 * line of standard input is {"id", "language", "form", "code", "stop"}: the code is replayed as a
 * recorded answer, with nothing recorded after a halt, so that each weak line gets its safe form or
 * a refusal.  stop is "end" if the model ended by itself, and was not cut off.
 * Prints {"id", "language", "text", "deeds", "parses": [before, after], "weak", "fence_parses"} for
 * each; fence_parses: of an answer that is one fence, its code.
 *
 *   bench_repairs MODEL <LINES     the model's tokens alone are used */
#include <jansson.h>
#include <tree_sitter/api.h>

#include "../tests/guard/forced.h"
#include "guard/tree.h"

enum { AGAIN_MAX = 64, LINE_MAX_BYTES = 1 << 20 };

typedef struct {
    bytes text;           /* released */
    json_t *deeds;
    bool ended;
} answer;

static void take_answer(answer *a, const watch_result *out)
{
    (void)bytes_append(&a->text, out->text.ptr, out->text.len);
    for (uint32_t i = 0; i < out->n_findings; i++) {
        const cerium_finding *f = &out->findings[i];
        json_array_append_new(a->deeds, json_pack("[s,s,i]", watch_action_name(f->action), f->rule,
                                                  (int)f->line));
    }
    a->ended |= out->order == CERIUM_WATCH_END;
}

/* Feeds the text, token by token, until the order changes; *used: bytes of it. */
static cerium_watch_order say(watch *w, view text, cerium_stop stop, size_t *used, answer *a)
{
    watch_result out = {.order = CERIUM_WATCH_GO};
    int32_t *tokens = memory_alloc((text.len + 16) * sizeof *tokens);
    size_t n = 0;
    *used = 0;
    if (!tokens || cerium_tokenize(engine, text.ptr, text.len, CERIUM_TOKENIZE_WITHIN, tokens,
                                   text.len + 16, &n, NULL))
        n = 0;
    for (size_t i = 0; i < n && out.order == CERIUM_WATCH_GO; i++) {
        size_t len;
        const char *piece = cerium_token_bytes(engine, tokens[i], &len);
        cerium_step step = {.n_tokens = 1, .tokens = {tokens[i]}, .text = piece, .text_len = len,
                            .text_ends = {(uint32_t)len},
                            .stop = i + 1 == n ? stop : CERIUM_STOP_NONE};
        TEST_CHECK(watch_step(w, &step, NULL, 0, &out) == 0);
        take_answer(a, &out);
        *used += len;
    }
    memory_free(tokens);
    return out.order;
}

/* As the server replays: after a repair comes the text that followed the line. */
static void say_all(watch *w, view code, cerium_stop stop, answer *a)
{
    bytes rest = {.max = SIZE_MAX / 2};
    watch_plan plan;
    watch_result out;
    size_t used;
    (void)bytes_append(&rest, code.ptr, code.len);
    for (int i = 0; i < AGAIN_MAX && !a->ended; i++) {
        cerium_watch_order order = say(w, (view){rest.ptr, rest.len}, stop, &used, a);
        bytes next = {.max = SIZE_MAX / 2};
        view left = {rest.ptr + used, rest.len - used};
        if (order == CERIUM_WATCH_GO) {
            TEST_CHECK(watch_finish(w, &out) == 0);
            take_answer(a, &out);
            order = out.order;
            if (order == CERIUM_WATCH_GO) a->ended = true;
        }
        watch_retry(w, &plan);
        if (order == CERIUM_WATCH_RETRY && plan.repaired)
            (void)bytes_append(&next, plan.after.ptr, plan.after.len);
        (void)bytes_append(&next, left.ptr, left.len);
        bytes_free(&rest);
        rest = next;
    }
    bytes_free(&rest);
}

typedef struct {
    guard_language language;
    view code;
    bool good;
} parse_job;

static void parse(void *arg)
{
    parse_job *p = arg;
    TSParser *parser = ts_parser_new();
    ts_parser_set_language(parser, role_grammar(p->language));
    TSTree *parsed = ts_parser_parse_string(parser, NULL, p->code.ptr, (uint32_t)p->code.len);
    p->good = parsed && !ts_node_has_error(ts_tree_root_node(parsed));
    if (parsed) ts_tree_delete(parsed);
    ts_parser_delete(parser);
}

/* PHP without a tag would be read as HTML. */
static bool is_apart(guard_language language, view code)
{
    return language == GUARD_PHP && !memmem(code.ptr, code.len, "<?", 2);
}

/* By the grammar: without an error, and without anything that the parser had to insert. */
static bool parses(guard_language language, view code, bool apart)
{
    tree_memory memory;
    bytes all = {.max = SIZE_MAX / 2};
    if (!guard_has_grammar(language) || tree_memory_open(&memory)) return false;
    bool enough = !bytes_append(&all, "<?php ", apart ? 6 : 0) &&
                  !bytes_append(&all, code.ptr, code.len) && !bytes_append(&all, "\n", 1);
    parse_job job = {.language = language, .code = {all.ptr, all.len}};
    enough &= tree_memory_run(&memory, parse, &job);
    tree_memory_close(&memory);
    bytes_free(&all);
    return enough && job.good;
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
    answer a = {.text = {.max = SIZE_MAX / 2}, .deeds = json_array()};
    watch *w = NULL;
    watch_policy policy = watch_policy_strict();
    watch_config config = {.engine = engine, .guard = rules, .worker = worker, .policy = &policy,
                           .language = form && !strcmp(form, "code") ? language : GUARD_TEXT,
                           .recorded = true};
    if (form && !strcmp(form, "answer")) config.form = GUARD_ANSWER;
    if (form && !strcmp(form, "turn")) config.form = GUARD_TURN;
    if (form && !strcmp(form, "json")) config.form = GUARD_JSON;
    if (!code.ptr || watch_open(&w, &config, NULL)) return;
    say_all(w, code, stop && !strcmp(stop, "end") ? CERIUM_STOP_END : CERIUM_STOP_NONE, &a);
    watch_close(&w);
    (void)bytes_append(&a.text, "", 1);
    a.text.len--;
    bool weak = is_weak(config.form, config.language, "", a.text.ptr);
    const bool apart = is_apart(language, code);
    bool fenced = config.form == GUARD_ANSWER && language &&
                  parses(language, within_fence((view){a.text.ptr, a.text.len}), apart);
    json_t *out = json_pack("{s:O?, s:s, s:s%, s:O, s:[b,b], s:b, s:b}", "id",
                            json_object_get(line, "id"),
                            "language", name ? name : "text", "text", a.text.ptr, a.text.len,
                            "deeds", a.deeds, "parses", parses(language, code, apart),
                            parses(language, (view){a.text.ptr, a.text.len}, apart), "weak", weak,
                            "fence_parses", fenced);
    if (out && !json_dumpf(out, stdout, JSON_COMPACT)) putchar('\n');
    json_decref(out);
    json_decref(a.deeds);
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
