/* test_feedback.c - counts of completions: their effect on the threshold, and their file. */
#include "programs/feedback.h"

#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static lsp_outcome outcome(lsp_outcome_kind kind, const char *language, double p)
{
    return (lsp_outcome){.kind = kind, .model = "m", .language = language, .probability = p,
                         .standard = 0.35, .n_shown = 10,
                         .n_taken = kind == LSP_OUTCOME_TAKEN ? 8 : 0};
}

static feedback_row row(uint64_t taken, uint64_t typed, uint64_t refused, double promised)
{
    return (feedback_row){.shown = taken + typed + refused, .taken = taken, .typed = typed,
                          .refused = refused, .promised = promised};
}

static bool near(double a, double b) { return a - b < 1e-9 && b - a < 1e-9; }

static void test_confidence(void)
{
    const feedback_row none = row(0, 0, 0, 0), as_promised = row(40, 20, 40, 60);
    const feedback_row refused = row(0, 0, 30, 15), all = row(100, 0, 0, 50);
    const feedback_row hated = row(0, 0, 5000, 2500), loved = row(5000, 0, 0, 500);
    TEST_CHECK(near(feedback_confidence_of(&none, 0.35), 0.35));
    TEST_CHECK(near(feedback_confidence_of(&as_promised, 0.35), 0.35));
    TEST_CHECK(near(feedback_confidence_of(&refused, 0.35), 0.35 * 1.5));
    TEST_CHECK(feedback_confidence_of(&all, 0.35) < 0.35);
    TEST_CHECK(near(feedback_confidence_of(&hated, 0.35), 0.35 * 2.5)); /* and no further */
    TEST_CHECK(near(feedback_confidence_of(&hated, 0.6), 0.95));
    TEST_CHECK(near(feedback_confidence_of(&hated, 0.99), 0.99));
    TEST_CHECK(near(feedback_confidence_of(&loved, 0.35), 0.35 * 0.5));
    TEST_CHECK(feedback_confidence_of(&hated, 0) == 0); /* the user wants to see all */
}

static char folder[] = "/tmp/test_feedback-XXXXXX";

/* Two editors at once, then a third that sees both. */
static void test_kept(void)
{
    static feedback a, b, c;
    cerium_error err;
    TEST_CHECK(feedback_open(&a, &err) == 0 && feedback_open(&b, &err) == 0 && !a.is_off);
    TEST_CHECK(a.n_rows == 0 && feedback_keep(&a, &err) == 0 && access(a.path, F_OK) != 0);
    const lsp_outcome taken = outcome(LSP_OUTCOME_TAKEN, "python", 0.5);
    const lsp_outcome refused = outcome(LSP_OUTCOME_REFUSED, "python", 0.5);
    const lsp_outcome typed = outcome(LSP_OUTCOME_TYPED, "c", 0.9);
    for (int i = 0; i < 30; i++) feedback_add(&a, &refused);
    feedback_add(&a, &taken);
    feedback_add(&b, &taken);
    feedback_add(&b, &typed);
    TEST_CHECK(feedback_confidence(&a, "m", "python", 0.35) > 0.35);
    TEST_CHECK(feedback_confidence(&a, "m", "c", 0.35) == 0.35);
    TEST_CHECK(feedback_confidence(&a, "other", "python", 0.35) == 0.35);
    TEST_CHECK(feedback_keep(&a, &err) == 0 && feedback_keep(&b, &err) == 0);
    TEST_CHECK(feedback_keep(&b, &err) == 0); /* nothing is added twice */
    TEST_CHECK(feedback_open(&c, &err) == 0 && c.n_rows == 2);
    for (uint32_t i = 0; i < c.n_rows; i++) {
        const feedback_row *r = &c.rows[i];
        const bool is_python = !strcmp(r->language, "python");
        TEST_CHECK(r->shown == (is_python ? 32 : 1) && r->taken == (is_python ? 2 : 0));
        TEST_CHECK(r->typed == !is_python && r->refused == (is_python ? 30 : 0));
        TEST_CHECK(r->characters_taken == (is_python ? 16 : 0) &&
                   r->characters_shown == (is_python ? 320 : 10));
        TEST_CHECK(near(r->promised, is_python ? 16 : 0.9) && near(r->standard, 0.35));
    }
    struct stat st;
    TEST_CHECK(!stat(c.path, &st) && (st.st_mode & 0777) == 0600); /* the user's alone */
}

static void test_anothers_file(void)
{
    static feedback f;
    cerium_error err;
    TEST_CHECK(feedback_open(&f, &err) == 0);
    FILE *out = fopen(f.path, "w");
    TEST_CHECK(out && fputs("{\"mine\": 1}", out) >= 0 && !fclose(out));
    TEST_CHECK(feedback_open(&f, &err) == CERIUM_ERR_FORMAT && f.is_off);
    TEST_CHECK(strstr(err.message, "left alone") && !strchr(err.message, '\n'));
    const lsp_outcome o = outcome(LSP_OUTCOME_REFUSED, "python", 0.5);
    feedback_add(&f, &o);
    TEST_CHECK(feedback_keep(&f, &err) == 0);
    char text[32] = "";
    out = fopen(f.path, "r");
    TEST_CHECK(out && fgets(text, sizeof text, out) && !strcmp(text, "{\"mine\": 1}"));
    if (out) fclose(out);
    unlink(f.path);
}

static void test_long_names(void)
{
    static feedback f;
    cerium_error err;
    char name[200];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    TEST_CHECK(feedback_open(&f, &err) == 0);
    lsp_outcome o = outcome(LSP_OUTCOME_REFUSED, name, 0.5);
    for (int i = 0; i < 60; i++) feedback_add(&f, &o);
    TEST_CHECK(feedback_confidence(&f, "m", name, 0.35) > 0.35);
    for (uint32_t i = 0; i < 2 * FEEDBACK_ROWS_MAX; i++) { /* more languages than room */
        char language[32];
        snprintf(language, sizeof language, "l%u", i);
        o.language = language;
        feedback_add(&f, &o);
    }
    TEST_CHECK(f.n_rows == FEEDBACK_ROWS_MAX && feedback_keep(&f, &err) == 0);
    TEST_CHECK(feedback_open(&f, &err) == 0 && f.n_rows == FEEDBACK_ROWS_MAX);
}

int main(void)
{
    if (!mkdtemp(folder) || setenv("XDG_STATE_HOME", folder, 1)) return 1;
    TEST_RUN(test_confidence);
    TEST_RUN(test_kept);
    TEST_RUN(test_anothers_file);
    TEST_RUN(test_long_names);
    char path[sizeof folder + 64];
    static const char *const names[] = {"cerium/completions.json", "cerium/completions.json.lock",
                                        "cerium", ""};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (remove(path) && i != 1) return 1;
    }
    return unit_report("feedback");
}
