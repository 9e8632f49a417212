/* test_forced.c - the bundled model is forced through a weak line of each class and language, and
 * then generates freely, with other seeds, with drafts and without: nothing weak is released, and
 * the released text is the same with drafts and without. */
#include <jansson.h>

#include "../guard/forced.h"

enum { SEEDS = 2, NEW_TOKENS = 56 };

static uint32_t n_runs, n_weak, n_corrected, n_blocked;

static void check_sample(const json_t *sample, uint32_t seed)
{
    static run r[2];
    const char *before = json_string_value(json_object_get(sample, "prompt"));
    const char *say = json_string_value(json_object_get(sample, "weak"));
    guard_language language =
        guard_language_named(view_of(json_string_value(json_object_get(sample, "language"))));
    if (!guard_has_grammar(language)) return;
    const cerium_sampling sampling = {.temperature = seed ? 0.8f : 0, .top_k = 40, .seed = seed};
    TEST_CHECK_THAT(is_weak(GUARD_CODE, language, before, say), "not found: %s", say);
    for (int i = 0; i < 2; i++) {
        watch *w = open_watch(GUARD_CODE, language, before, "block");
        cerium_session *s = open_session(i == 1);
        drive(&r[i], s, before, say, NEW_TOKENS, &sampling, w);
        TEST_CHECK_THAT(r[i].n_taken > 0, "not taken back: %s", say);
        TEST_CHECK_THAT(!strstr(r[i].text, say), "released: %s", say);
        bool weak = is_weak(GUARD_CODE, language, before, r[i].text);
        TEST_CHECK_THAT(!weak, "weak: %s|%s", before, r[i].text);
        n_weak += weak;
        n_corrected += r[i].n_corrected > 0;
        n_blocked += r[i].n_blocked > 0;
        n_runs++;
        cerium_session_close(&s);
        watch_close(&w);
    }
    TEST_CHECK_THAT(!strcmp(r[0].text, r[1].text), "%s|%s|%s", before, r[0].text, r[1].text);
}

static void test_forced(void)
{
    json_error_t error;
    char line[4096];
    FILE *f = fopen("tests/guard/forced.jsonl", "r");
    TEST_CHECK(f != NULL);
    while (f && fgets(line, sizeof line, f)) {
        json_t *sample = json_loads(line, 0, &error);
        TEST_CHECK(sample != NULL);
        for (uint32_t seed = 0; sample && seed < SEEDS; seed++) check_sample(sample, seed);
        json_decref(sample);
    }
    if (f) fclose(f);
    printf("  %u runs: %u corrected, %u ended, %u weak\n", n_runs, n_corrected, n_blocked, n_weak);
    TEST_CHECK(n_weak == 0);
}

int main(void)
{
    if (!open_forced("models/cerium-line.gguf", 1024)) return 1;
    if (guard_has_grammar(GUARD_PYTHON))
        TEST_RUN(test_forced);
    else
        TEST_SKIP("forced weak lines: this build has no grammars");
    close_forced();
    return unit_report("forced");
}
