/* test_next_edit.c - prompts of models that predict edits equal their makers' byte for byte,
 * and the edits from their answers. */
#include "base/json.h"
#include "base/memory.h"
#include "protocol/next_edit.h"
#include "../random.h"
#include "unit.h"

static view text_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return (view){json_string_value(value), json_string_length(value)};
}

static view prompt_text(const next_edit_prompt *p)
{
    return (view){p->text.ptr ? p->text.ptr : "", p->text.len};
}

/* ---- Sweep, against its makers' server ---- */

static void check_vector(const json_t *v)
{
    next_edit_change changes[NEXT_EDIT_CHANGES_MAX];
    next_edit_snippet snippets[NEXT_EDIT_SNIPPETS_MAX];
    const json_t *list = json_object_get(v, "changes"), *one;
    const json_t *more = json_object_get(v, "snippets");
    next_edit_place place = {.path = text_of(v, "path"), .text = text_of(v, "text"),
                             .caret = (size_t)json_integer_value(json_object_get(v, "caret")),
                             .original = text_of(v, "original"), .changes = changes,
                             .n_changes = json_array_size(list), .snippets = snippets,
                             .n_snippets = json_array_size(more)};
    next_edit_prompt p;
    const char *why;
    size_t i;
    TEST_CHECK(place.n_changes <= NEXT_EDIT_CHANGES_MAX);
    if (place.n_changes > NEXT_EDIT_CHANGES_MAX) return;
    json_array_foreach(list, i, one)
        changes[i] = (next_edit_change){text_of(one, "path"), text_of(one, "diff"), false};
    json_array_foreach(more, i, one)
        snippets[i] = (next_edit_snippet){text_of(one, "path"), text_of(one, "text"), false};
    int status = next_edit_ask(&p, NEXT_EDIT_SWEEP, &place, &why);
    TEST_CHECK_THAT(!status && !why, "%s: %s", text_of(v, "name").ptr, why ? why : "no memory");
    if (status || why) return;
    TEST_CHECK_THAT(view_equal(prompt_text(&p), text_of(v, "prompt")), "%s: said\n%.*s\nwanted\n%s",
                    text_of(v, "name").ptr, (int)prompt_text(&p).len, prompt_text(&p).ptr,
                    text_of(v, "prompt").ptr);
    next_edit_close(&p);
}

static void test_sweep_vectors(void)
{
    static char line[1 << 17];
    FILE *f = fopen("tests/unit/next_edit_vectors.jsonl", "r");
    int n = 0;
    TEST_CHECK(f != NULL);
    while (f && fgets(line, sizeof line, f)) {
        json_t *v = json_read(view_of(line), 0, NULL);
        TEST_CHECK(v != NULL);
        if (v) check_vector(v);
        json_decref(v);
        n++;
    }
    if (f) fclose(f);
    TEST_CHECK(n > 50);
}

/* ---- Zeta, as Zed writes it ---- */

static const next_edit_change edited[] = {
    {VIEW("a.rs"), VIEW("@@ -1 +1 @@\n-old\n+new\n"), false},
    {VIEW("/b/c.rs"), VIEW("@@ -2 +2 @@\n-x\n+y"), true},
};
static const next_edit_snippet related[] = {
    {VIEW("r.rs"), VIEW("fn helper() {}"), true},
    {VIEW("r.rs"), VIEW("fn other() {}\n"), false},
    {VIEW("s.rs"), VIEW("mod s;\n"), false},
};

static void check_prompt(next_edit_form form, const next_edit_place *place, const char *want)
{
    next_edit_prompt p;
    const char *why;
    int status = next_edit_ask(&p, form, place, &why);
    TEST_CHECK(!status && !why);
    if (status || why) return;
    TEST_CHECK_THAT(view_equal(prompt_text(&p), view_of(want)), "said\n%.*s\nwanted\n%s",
                    (int)prompt_text(&p).len, prompt_text(&p).ptr, want);
    next_edit_close(&p);
}

#define ZETA_HEAD                                                                                  \
    "### Instruction:\nYou are a code completion assistant and your task is to analyze user edits "\
    "and then rewrite an excerpt that the user provides, suggesting the appropriate edits within " \
    "the excerpt, taking into account the cursor location.\n\n### User Edits:\n\n"

static void test_zeta(void)
{
    static char far[4000], want[8000];
    next_edit_place place = {.path = VIEW("t.rs"), .text = VIEW("a\nbc\nd\n"), .caret = 3,
                             .changes = edited, .n_changes = 2, .snippets = related,
                             .n_snippets = 3};
    check_prompt(NEXT_EDIT_ZETA, &place,
                 ZETA_HEAD "User edited a.rs:\n```diff\n@@ -1 +1 @@\n-old\n+new\n\n```\n\n"
                 "User edited /b/c.rs:\n```diff\n@@ -2 +2 @@\n-x\n+y\n```\n\n### User Excerpt:\n\n"
                 "```t.rs\n<|start_of_file|>\n<|editable_region_start|>\n"
                 "a\nb<|user_cursor_is_here|>c\nd\n<|editable_region_end|>\n\n```\n\n"
                 "### Response:\n");
    check_prompt(NEXT_EDIT_ZETA_2, &place,
                 "<|file_sep|>r.rs\nfn helper() {}\n...\nfn other() {}\n<|file_sep|>s.rs\nmod s;\n"
                 "<|file_sep|>edit history\n--- a/a.rs\n+++ b/a.rs\n@@ -1 +1 @@\n-old\n+new\n"
                 "// User accepted prediction:\n--- a/b/c.rs\n+++ b/b/c.rs\n@@ -2 +2 @@\n-x\n+y\n"
                 "<|file_sep|>t.rs\n<|fim_prefix|>\n<|fim_middle|>current\n"
                 "a\nb<|user_cursor|>c\nd\n<|fim_suffix|>\n\n<|fim_middle|>updated\n");
    check_prompt(NEXT_EDIT_ZETA_21, &place,
                 "<[fim-suffix]>\n<[fim-prefix]>"
                 "<filename>r.rs\nfn helper() {}\n...\nfn other() {}\n<filename>s.rs\nmod s;\n\n"
                 "<filename>edit_history\n--- a/a.rs\n+++ b/a.rs\n@@ -1 +1 @@\n-old\n+new\n"
                 "// User accepted prediction:\n--- a/b/c.rs\n+++ b/b/c.rs\n@@ -2 +2 @@\n-x\n+y\n\n"
                 "<filename>t.rs\n<|marker_1|>a\nb<|user_cursor|>c\nd<|marker_2|>\n<[fim-middle]>");
    /* Without changes and snippets, and with lines before and after the region. */
    place.n_changes = place.n_snippets = 0;
    size_t n = 0;
    for (int i = 0; i < 200; i++)
        n += (size_t)snprintf(far + n, sizeof far - n, "line %03d%s\n", i, i == 100 ? "!" : "");
    place.text = (view){far, n};
    place.caret = 100 * 9 + 4;
    /* 180 tokens are 540 bytes: this line, 29 below and 29 above; then 350 tokens around those. */
    const char *const parts[] = {"<|file_sep|>t.rs\n<|fim_prefix|>\n", "<|fim_middle|>current\n",
                                 "<|fim_suffix|>\n\n", "<|fim_middle|>updated\n"};
    n = (size_t)snprintf(want, sizeof want, "%s", parts[0]);
    for (int i = 13; i <= 187; i++) {
        if (i == 71) n += (size_t)snprintf(want + n, sizeof want - n, "%s", parts[1]);
        if (i == 130) n += (size_t)snprintf(want + n, sizeof want - n, "%s", parts[2]);
        n += (size_t)snprintf(want + n, sizeof want - n, i == 100 ? "line<|user_cursor|> %03d!\n"
                                                                  : "line %03d\n", i);
    }
    snprintf(want + n, sizeof want - n, "%s", parts[3]);
    check_prompt(NEXT_EDIT_ZETA_2, &place, want);
}

static void check_blocks(const char *text, const size_t *want, size_t n)
{
    size_t at[NEXT_EDIT_BLOCKS_MAX + 1];
    size_t got = next_edit_blocks(view_of(text), at);
    bool same = got == n && !memcmp(at, want, n * sizeof *want);
    TEST_CHECK_THAT(same, "%zu blocks of %.40s", got, text);
}

static void test_blocks(void)
{
    check_blocks("", (size_t[]){0, 0}, 2);
    check_blocks("a\nb", (size_t[]){0, 3}, 2);
    /* After three lines and a blank one; not before a closing line, and not too near the end. */
    check_blocks("a\nb\nc\n\nd\ne\nf\n", (size_t[]){0, 7, 13}, 3);
    check_blocks("a\nb\nc\n\n}\nd\ne\nf\n", (size_t[]){0, 9, 15}, 3);
    check_blocks("a\nb\nc\n\nd\ne\n", (size_t[]){0, 11}, 2);
    check_blocks("a\n\nb\nc\nd\ne\n", (size_t[]){0, 11}, 2);
    /* At most eight lines, then before a line that may begin a block. */
    check_blocks("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n", (size_t[]){0, 16, 20}, 3);
    check_blocks("a\nb\nc\nd\ne\nf\ng\nh\n)\nreturn;\nj\n", (size_t[]){0, 26, 28}, 3);
}

/* ---- answers ---- */

static const char whole[] = "int a;\nint b;\nint c;\nint d;\n";

/* The edited text; NULL if nothing is proposed, with the reason. */
static const char *answered(next_edit_form form, const next_edit_place *place, const char *answer,
                            bool is_whole, const char **why)
{
    static char out[4096];
    next_edit_prompt p;
    next_edits e = {.n = 0};
    int status = next_edit_ask(&p, form, place, why);
    if (status || *why) return NULL;
    status = next_edit_read(&e, place, &p, view_of(answer), is_whole, why);
    TEST_CHECK(!status);
    next_edit_close(&p);
    if (status || *why) return NULL;
    size_t n = 0, at = 0;
    uint32_t line = 0;
    for (uint32_t done = 0; done <= e.n; done++) { /* in the order of their lines */
        const next_edit *next = NULL;
        for (uint32_t i = 0; i < e.n; i++)
            if (e.list[i].line >= line && (!next || e.list[i].line < next->line) &&
                !(line && e.list[i].line < line))
                next = &e.list[i];
        const uint32_t to = next && done < e.n ? next->line : UINT32_MAX;
        for (; line < to && at < place->text.len; line++)
            do out[n++] = place->text.ptr[at];
            while (place->text.ptr[at++] != '\n' && at < place->text.len);
        if (to == UINT32_MAX) break;
        memcpy(out + n, next->text.ptr, next->text.len);
        n += next->text.len;
        for (uint32_t i = 0; i < next->n_lines; i++, line++)
            while (at < place->text.len && place->text.ptr[at++] != '\n') continue;
    }
    out[n] = 0;
    next_edits_close(&e);
    return out;
}

static void check_answer(next_edit_form form, const char *answer, const char *want)
{
    const next_edit_place place = {.path = VIEW("a.c"), .text = view_of(whole), .caret = 17};
    const char *why = NULL, *got = answered(form, &place, answer, true, &why);
    TEST_CHECK_THAT(got && !strcmp(got, want), "%s: %s", next_edit_name(form),
                    got ? got : why ? why : "?");
}

static void test_answers(void)
{
    static const char want[] = "int a;\nint b;\nint x;\nint d;\n";
    check_answer(NEXT_EDIT_SWEEP, "int a;\nint b;\nint x;\nint d;", want);
    check_answer(NEXT_EDIT_SWEEP, "\n\nint a;\nint b;\nint<|cursor|> x;\nint d;\n", want);
    check_answer(NEXT_EDIT_ZETA, "<|editable_region_start|>\nint a;\nint b;\n"
                 "int <|user_cursor_is_here|>x;\nint d;\n<|editable_region_end|>\n```", want);
    check_answer(NEXT_EDIT_ZETA, "<|editable_region_start|>\nint a;\nint b;\nint x;\nint d;\n",
                 want);
    check_answer(NEXT_EDIT_ZETA_2, "int a;\nint b;\nint x;\nint d;\n", want);
    check_answer(NEXT_EDIT_ZETA_21, "<|marker_1|>int a;\nint b;\nint x;\nint d;<|marker_2|>", want);
    check_answer(NEXT_EDIT_FIM, "x, ", "int a;\nint b;\nintx,  c;\nint d;\n");
    check_answer(NEXT_EDIT_SWEEP, "int b;\nint c;\nint d;\nint e;\nint f;",
                 "int b;\nint c;\nint d;\nint e;\nint f;\n");
}

static void check_refused(next_edit_form form, const next_edit_place *place, const char *answer,
                          bool is_whole, const char *want)
{
    const char *why = NULL, *got = answered(form, place, answer, is_whole, &why);
    TEST_CHECK_THAT(!got && why && strstr(why, want), "%s: %s for %s", next_edit_name(form),
                    why ? why : got ? got : "?", want);
}

static void test_refusals(void)
{
    static const next_edit_change done[] = {
        {VIEW("a.c"), VIEW("@@ -3 +3 @@\n-int z;\n+int c;\n"), false}};
    static char wide[1200];
    next_edit_place place = {.path = VIEW("a.c"), .text = view_of(whole), .caret = 17,
                             .changes = done, .n_changes = 1};
    check_refused(NEXT_EDIT_SWEEP, &place, "int a;\nint b;\nint c;\nint d;", true, "no change");
    check_refused(NEXT_EDIT_ZETA_21, &place, "<|marker_1|><|marker_1|>", true, "no change");
    check_refused(NEXT_EDIT_ZETA_21, &place, "NO_EDITS", true, "no marks");
    check_refused(NEXT_EDIT_ZETA_21, &place, "<|marker_2|>x<|marker_1|>", true, "no marks");
    check_refused(NEXT_EDIT_ZETA_21, &place, "<|marker_1|>x<|marker_9|>", true, "no marks");
    check_refused(NEXT_EDIT_SWEEP, &place, "int a;\nint b;\nint x;", false, "no end");
    check_refused(NEXT_EDIT_SWEEP, &place, "int a;\nint b;\nint z;\nint d;", true, "takes back");
    check_refused(NEXT_EDIT_ZETA_2, &place, "int a;\nint b;\nint z;\nint d;\n", true, "takes back");
    check_refused(NEXT_EDIT_SWEEP, &place, "int a;\nint n;\nint b;\nint c;\nint d;", true,
                  "above the caret");
    check_refused(NEXT_EDIT_SWEEP, &place, "<|im_end|>", true, "not code");
    check_refused(NEXT_EDIT_SWEEP, &place,
                  "int a;\nint b;\nint c;\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\nint d;",
                  true,
                  "too long");
    place.text = VIEW("x = '<|file_sep|>'\n");
    place.caret = 3;
    check_refused(NEXT_EDIT_SWEEP, &place, "", true, "a mark of the model's form");
    place.text = VIEW("\n\n\n");
    check_refused(NEXT_EDIT_SWEEP, &place, "", true, "blank lines");
    memset(wide, 'w', sizeof wide);
    place.text = (view){wide, sizeof wide};
    check_refused(NEXT_EDIT_ZETA_2, &place, "", true, "too long");
}

/* The edit at the caret comes first, then those below it, then those above. */
static void test_order(void)
{
    const next_edit_place place = {.path = VIEW("a.c"), .text = view_of(whole), .caret = 17};
    next_edit_prompt p;
    next_edits e;
    const char *why;
    TEST_CHECK(!next_edit_ask(&p, NEXT_EDIT_SWEEP, &place, &why) && !why);
    TEST_CHECK(!next_edit_read(&e, &place, &p, VIEW("int A;\nint b;\nint C;\nint d;\nint e;"), true,
                               &why) && !why);
    TEST_CHECK(e.n == 3 && e.list[0].line == 2 && e.list[1].line == 4 && !e.list[1].n_lines &&
               e.list[2].line == 0);
    TEST_CHECK(e.n == 3 && view_equal(e.list[0].text, VIEW("int C;\n")) &&
               view_equal(e.list[1].text, VIEW("int e;\n")));
    next_edits_close(&e);
    next_edit_close(&p);
}

static void test_names(void)
{
    next_edit_form form;
    TEST_CHECK(next_edit_of_model("sweep-next-edit-0.5B") == NEXT_EDIT_SWEEP);
    TEST_CHECK(next_edit_of_model("Zeta") == NEXT_EDIT_ZETA);
    TEST_CHECK(next_edit_of_model("zed-industries zeta-2") == NEXT_EDIT_ZETA_2);
    TEST_CHECK(next_edit_of_model("Zeta 2.1") == NEXT_EDIT_ZETA_21);
    TEST_CHECK(next_edit_of_model("Qwen2.5 Coder 0.5B") == NEXT_EDIT_NONE);
    TEST_CHECK(next_edit_named(VIEW("zeta2.1"), &form) && form == NEXT_EDIT_ZETA_21);
    TEST_CHECK(!next_edit_named(VIEW(""), &form) && !next_edit_named(VIEW("other"), &form));
}

/* Bytes of all kinds: an answer is refused, or its edits are within the text. */
static void test_random(void)
{
    static const char *const bits[] = {"\n", "a", " ", "b = 1\n", "@@ -1 +1 @@\n", "-a\n", "+b\n",
                                       "<|marker_1|>", "<|marker_2|>", "<|", "\xC3\xA9", "}\n",
                                       "<|editable_region_start|>", "<|cursor|>", "\n\n"};
    static char text[600], answer[600], diffs[600];
    for (int i = 0; i < UNIT_TIMES(20000, 2000); i++) {
        char *const all[] = {text, answer, diffs};
        for (int k = 0; k < 3; k++) {
            size_t n = 0;
            for (uint32_t m = random_below(30); m-- > 0;)
                n += (size_t)snprintf(all[k] + n, 40, "%s", bits[random_below(ARRAY_LEN(bits))]);
            all[k][n] = 0;
        }
        const next_edit_change change = {VIEW("p"), view_of(diffs), false};
        const next_edit_place place = {.path = VIEW("p"), .text = view_of(text),
                                       .caret = random_below((uint32_t)strlen(text) + 1),
                                       .changes = &change, .n_changes = 1};
        const next_edit_form form = (next_edit_form)(1 + random_below(NEXT_EDIT_FORMS - 1));
        next_edit_prompt p;
        next_edits e;
        const char *why;
        int status = next_edit_ask(&p, form, &place, &why);
        TEST_CHECK(!status);
        if (status || why) continue;
        TEST_CHECK(p.from <= p.to && p.to <= place.text.len);
        status = next_edit_read(&e, &place, &p, view_of(answer), true, &why);
        TEST_CHECK(!status && (why || e.n));
        next_edits_close(&e);
        next_edit_close(&p);
    }
}

static void test_memory(void)
{
    const next_edit_place place = {.path = VIEW("t.rs"), .text = VIEW("a\nbc\nd\n"), .caret = 3,
                                   .changes = edited, .n_changes = 2, .snippets = related,
                                   .n_snippets = 3};
    for (int form = NEXT_EDIT_FIM; form < NEXT_EDIT_FORMS; form++)
        for (long n = 0;; n++) {
            next_edit_prompt p;
            next_edits e = {.n = 0};
            const char *why = NULL;
            const long live = memory_live();
            memory_fail_at(n);
            int status = next_edit_ask(&p, (next_edit_form)form, &place, &why);
            if (!status && !why) {
                status = next_edit_read(&e, &place, &p, VIEW("<|marker_1|>a\nX<|cursor|>\nd"
                                                             "<|marker_2|>"), true, &why);
                next_edit_close(&p);
            }
            memory_fail_at(-1);
            next_edits_close(&e);
            TEST_CHECK(!status || status == CERIUM_ERR_MEMORY);
            TEST_CHECK_THAT(memory_live() == live, "%s, %ld", next_edit_name((next_edit_form)form),
                            n);
            if (!status) break;
        }
}

int main(void)
{
    TEST_RUN(test_sweep_vectors);
    TEST_RUN(test_zeta);
    TEST_RUN(test_blocks);
    TEST_RUN(test_answers);
    TEST_RUN(test_refusals);
    TEST_RUN(test_order);
    TEST_RUN(test_names);
    TEST_RUN(test_random);
    TEST_RUN(test_memory);
    return unit_report("next_edit");
}
