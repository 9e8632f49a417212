/* eval.c - `cerium eval`: how well a model predicts and completes code, with intervals. */
#include <errno.h>
#include <jansson.h>

#include "programs/eval_run.h"
#include "programs/output.h"
#include "programs/programs.h"

enum { LINE_TOKENS = 48, CURVE_POINTS = 10 };

typedef struct {
    options o;
    eval_options run;
    const char *set_path, *against, *answers;
    uint32_t n_lines;
    bool within;
    double precision;
    eval_set set;
    eval_run results[2]; /* of the model, and of the one it is compared with */
    bool compares;
    bool *names_others;  /* [tasks] where snippets are measured: see eval_names_others() */
    double *num, *den;   /* [documents] */
    eval_answer *sorted; /* [tasks] */
} evaluation;

static bool take_precision(void *program, const char *value)
{
    evaluation *e = program;
    return (option_f64(value, 0, 1, &e->precision) && e->precision > 0) ||
           option_wants("a number above 0, up to 1");
}

static bool take_snippets(void *program, const char *value)
{
    static const char *const names[RETRIEVE_KINDS] = {"found", "alike", "random", "oracle"};
    for (int i = 0; i < RETRIEVE_KINDS; i++)
        if (!strcmp(value, names[i])) {
            ((evaluation *)program)->run.retrieval = (eval_retrieval)i;
            return true;
        }
    return option_wants("found, alike, random or oracle");
}

/* clang-format off */
static const option_spec own[] = {
    {"set", "PATH", "what to measure on", TAKES_TEXT(evaluation, set_path)},
    {"against", "FILE", "another model: differences to it on the same lines",
     TAKES_TEXT(evaluation, against)},
    {"lines", "N", "lines of each language (default 200)",
     TAKES_U32(evaluation, n_lines, 0, 1 << 20)},
    {"within", NULL, "complete ends of lines, from a place within them, where cursors are",
     TAKES_FLAG(evaluation, within)},
    {"no-healing", NULL, "begin a line after the last token before it, not within it",
     TAKES_FLAG(evaluation, run.unhealed)},
    {"bytes", "SIZE", "bytes of each language whose bits are counted (default 200K)",
     TAKES_BYTES(evaluation, run.bytes)},
    {"tokens", "N",
     "with --against: places at which the likeliest tokens of both models are compared (default "
     "1000)",
     TAKES_U32(evaluation, run.n_likeliest, 1, 1 << 24), .needs = "against"},
    {"neighbour", "SIZE",
     "put up to SIZE bytes of another file of the package or folder in front, like a file that is "
     "open in an editor (default 0)",
     TAKES_BYTES(evaluation, run.neighbour_bytes)},
    {"retrieve", "SIZE",
     "put up to SIZE bytes of snippets of the package's other files before holes, as `cerium lsp` "
     "finds them, and print the difference to none",
     TAKES_BYTES(evaluation, run.retrieve_bytes)},
    {"snippets", "WHICH",
     "of --retrieve: found, alike (no definitions), random, or oracle (found by the missing text) "
     "(default: found)", TAKES_CALL(take_snippets), .needs = "retrieve"},
    {"window", "N", "tokens that the model sees (default 1024, at most the context)",
     TAKES_U32(evaluation, run.window, 2 * LINE_TOKENS, 1 << 24)},
    {"candidates", "N",
     "also count the holes whose line is among N different candidates, as editors are offered them",
     TAKES_U32(evaluation, run.n_candidates, 2, EVAL_CANDIDATES_MAX)},
    {"precision", "X", "share of shown lines that must be right, for the threshold of confidence "
     "(default 0.5)", TAKES_CALL(take_precision)},
    {"pointer", "X",
     "mix in what the file has after places like these, from 0 (off) to 1 (default: what the "
     "model file says)",
     TAKES_F64(evaluation, run.pointer, 0, 1)},
    {"answers", "FILE", "write what the model wrote, as JSON Lines",
     TAKES_TEXT(evaluation, answers)},
    {"seed", "N", "seed for drawing lines and for the intervals (default 7)",
     TAKES_U64(evaluation, run.seed)},
};
/* clang-format on */
const command_table eval_command = {
    .name = "eval",
    .usage = "[OPTIONS] --set FILE|FOLDER",
    .about = "Measure a model on code that it has not seen: bits a byte, and how often it writes "
             "exactly the line that was taken out, from the text before it alone and from both "
             "sides, by language, with 95 % intervals over documents; and the confidence above "
             "which a line is right half the time.\n\n"
             "A set is a folder of source files, or JSON Lines of {\"path\", \"text\"} or of "
             "{\"prompt\", \"canonical_solution\", \"suffix\"} (HumanEval-Infilling).",
    .groups = OPTIONS_ENGINE | OPTIONS_JSON,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium eval --set examples --lines 20",
};

static const char *const form_names[EVAL_FORMS] = {"prefix", "infill"};

/* ---- figures ---- */

typedef enum { BITS, EXACT, SIMILAR } measure;

static const eval_document *document_of(const evaluation *e, size_t task)
{
    return &e->set.documents[e->set.tasks[task].document];
}

/* Groups after the languages: all of them, and holes by what snippets can do for them. */
enum { ALL = 0, OTHERS_NAMES = 1, OWN_NAMES = 2, PARTS = 3 };

static bool is_of(const evaluation *e, uint32_t language, size_t task)
{
    if (language < e->set.n_languages) return document_of(e, task)->language == language;
    const uint32_t part = language - e->set.n_languages;
    return part == ALL || e->names_others[task] == (part == OTHERS_NAMES);
}

/* language: or n_languages + ALL, ...  With a second run: the first minus the second. */
static eval_figure figure(evaluation *e, measure m, eval_form form, uint32_t language,
                          const eval_run *a, const eval_run *b)
{
    const eval_set *set = &e->set;
    const bool all = language == set->n_languages + ALL;
    for (size_t i = 0; i < set->n; i++) {
        bool counts = m == BITS && (all || set->documents[i].language == language);
        e->num[i] = counts ? a->bits[i] - (b ? b->bits[i] : 0) : 0;
        e->den[i] = counts ? a->bytes[i] : 0;
    }
    for (size_t i = 0; m != BITS && i < set->n_tasks; i++) {
        const eval_result *x = &a->results[form][i], *y = b ? &b->results[form][i] : NULL;
        if (!is_of(e, language, i)) continue;
        double value = m == EXACT ? (double)x->right : (double)x->similarity;
        if (y) value -= m == EXACT ? (double)y->right : (double)y->similarity;
        e->num[set->tasks[i].document] += value;
        e->den[set->tasks[i].document]++;
    }
    size_t n = 0;
    for (size_t i = 0; i < set->n; i++) { /* documents that have bytes of it */
        if (!(e->den[i] > 0)) continue;
        e->num[n] = e->num[i];
        e->den[n++] = e->den[i];
    }
    return eval_ratio(e->num, e->den, n, e->run.seed);
}

static json_t *figure_json(eval_figure f)
{
    return json_pack("{s:f, s:f, s:f}", "value", f.value, "low", f.low, "high", f.high);
}

static json_t *cut_json(eval_cut c)
{
    return json_pack("{s:f, s:f, s:f}", "threshold", c.threshold, "precision", c.precision,
                     "coverage", c.coverage);
}

static json_t *confidence_json(evaluation *e, eval_form form)
{
    const size_t n = e->set.n_tasks;
    json_t *curve = json_array();
    for (size_t i = 0; i < n; i++) {
        const eval_result *r = &e->results[0].results[form][i];
        e->sorted[i] = (eval_answer){r->confidence, r->right};
    }
    eval_cut cut = eval_find_cut(e->sorted, n, e->precision);
    for (int i = 1; i <= CURVE_POINTS; i++)
        json_array_append_new(curve, cut_json(eval_cut_at(e->sorted, n, (double)i / CURVE_POINTS)));
    return json_pack("{s:o, s:o}", "cut", cut_json(cut), "curve", curve);
}

static json_t *language_json(evaluation *e, uint32_t language)
{
    const eval_run *a = &e->results[0], *b = e->compares ? &e->results[1] : NULL;
    json_t *out = json_object(), *difference = json_object();
    size_t n = 0;
    for (size_t i = 0; i < e->set.n_tasks; i++) n += is_of(e, language, i);
    json_object_set_new(out, "lines", json_integer((json_int_t)n));
    if (e->set.has_documents) {
        json_object_set_new(out, "bits_per_byte",
                            figure_json(figure(e, BITS, 0, language, a, NULL)));
        if (b)
            json_object_set_new(difference, "bits_per_byte",
                                figure_json(figure(e, BITS, 0, language, a, b)));
    }
    for (eval_form f = EVAL_PREFIX; f < EVAL_FORMS; f++) {
        if (!a->results[f]) continue;
        json_object_set_new(out, form_names[f],
                            json_pack("{s:o, s:o}", "exact",
                                      figure_json(figure(e, EXACT, f, language, a, NULL)),
                                      "similar",
                                      figure_json(figure(e, SIMILAR, f, language, a, NULL))));
        if (b && b->results[f])
            json_object_set_new(
                difference, form_names[f],
                json_pack("{s:o, s:o}", "exact",
                          figure_json(figure(e, EXACT, f, language, a, b)), "similar",
                          figure_json(figure(e, SIMILAR, f, language, a, b))));
    }
    if (b)
        json_object_set_new(out, "difference", difference);
    else
        json_decref(difference);
    return out;
}

static double agreement(const evaluation *e)
{
    size_t same = 0, n = e->results[0].n_likeliest;
    if (n > e->results[1].n_likeliest) n = e->results[1].n_likeliest;
    for (size_t i = 0; i < n; i++)
        same += e->results[0].likeliest[i] == e->results[1].likeliest[i];
    return n ? (double)same / (double)n : 0;
}

static double mean_prompt(const evaluation *e, int run)
{
    return e->set.n_tasks ? (double)e->results[run].n_prompt_tokens / (double)e->set.n_tasks : 0;
}

/* Holes whose line is the first candidate, the second, ...; [0]: none of them. */
static bool count_candidates(const evaluation *e, size_t at[EVAL_CANDIDATES_MAX + 1])
{
    const eval_result *all = e->results[0].results[EVAL_MIDDLE];
    if (!e->run.n_candidates || !all) return false;
    for (size_t i = 0; i <= EVAL_CANDIDATES_MAX; i++) at[i] = 0;
    for (size_t i = 0; i < e->set.n_tasks; i++) at[all[i].right_at]++;
    return e->set.n_tasks > 0;
}

static json_t *candidates_json(const evaluation *e)
{
    size_t at[EVAL_CANDIDATES_MAX + 1];
    if (!count_candidates(e, at)) return NULL;
    json_t *list = json_array();
    for (uint32_t i = 1; i <= e->run.n_candidates; i++)
        json_array_append_new(list, json_integer((json_int_t)at[i]));
    return json_pack("{s:o, s:i}", "right_at", list, "none", (int)at[0]);
}

static json_t *report_json(evaluation *e)
{
    json_t *languages = json_object(), *confidence = json_object();
    for (uint32_t i = 0; i < e->set.n_languages; i++)
        json_object_set_new(languages, e->set.languages[i], language_json(e, i));
    json_object_set_new(languages, "all", language_json(e, e->set.n_languages + ALL));
    for (uint32_t part = OTHERS_NAMES; part < PARTS && e->names_others; part++)
        json_object_set_new(languages, part == OTHERS_NAMES ? "names others" : "names own",
                            language_json(e, e->set.n_languages + part));
    for (eval_form f = EVAL_PREFIX; f < EVAL_FORMS; f++)
        if (e->results[0].results[f])
            json_object_set_new(confidence, form_names[f], confidence_json(e, f));
    json_t *out = json_pack("{s:o, s:o, s:i, s:i, s:o, s:o}", "model",
                            json_name(options_model(&e->o)), "set", json_name(e->set_path),
                            "documents", (int)e->set.n, "window", (int)e->run.window,
                            "languages", languages, "confidence", confidence);
    if (e->against) {
        json_object_set_new(out, "against", json_name(e->against));
        json_object_set_new(out, "agreement", json_real(agreement(e)));
    }
    if (e->run.n_candidates) json_object_set_new(out, "candidates", candidates_json(e));
    if (e->run.retrieve_bytes)
        json_object_set_new(out, "prompt_tokens",
                            json_pack("{s:f, s:f}", "with", mean_prompt(e, 0), "without",
                                      mean_prompt(e, 1)));
    return out;
}

/* ---- as text ---- */

static eval_figure figure_at(const json_t *object, const char *form, const char *key)
{
    const json_t *f = json_object_get(form ? json_object_get(object, form) : object, key);
    return (eval_figure){json_number_value(json_object_get(f, "value")),
                         json_number_value(json_object_get(f, "low")),
                         json_number_value(json_object_get(f, "high"))};
}

static void print_row(const evaluation *e, const char *name, const json_t *language, size_t lines)
{
    printf("%-12s %5zu", name, lines);
    eval_figure f = figure_at(language, NULL, "bits_per_byte");
    if (e->set.has_documents) printf("  %6.3f [%6.3f, %6.3f]", f.value, f.low, f.high);
    for (int i = 0; i < EVAL_FORMS; i++) {
        if (!e->results[0].results[i]) continue;
        f = figure_at(language, form_names[i], "exact");
        printf("  %5.1f %% [%5.1f, %5.1f]", 100 * f.value, 100 * f.low, 100 * f.high);
        f = figure_at(language, form_names[i], "similar");
        printf("  %5.3f", f.value);
    }
    printf("\n");
}

static size_t lines_of(const json_t *language)
{
    return (size_t)json_integer_value(json_object_get(language, "lines"));
}

static void print_candidates(const evaluation *e)
{
    size_t at[EVAL_CANDIDATES_MAX + 1], n_later = 0;
    if (!count_candidates(e, at)) return;
    const size_t n_wrong = e->set.n_tasks - at[1];
    printf("of %u candidates of a hole the line is the first in %zu of %zu", e->run.n_candidates,
           at[1], e->set.n_tasks);
    for (uint32_t i = 2; i <= e->run.n_candidates; i++) {
        printf(", number %u in %zu", i, at[i]);
        n_later += at[i];
    }
    printf(": where the first is wrong, another is right in %.1f %%\n",
           n_wrong ? 100.0 * (double)n_later / (double)n_wrong : 0);
}

static void print_text(const evaluation *e, json_t *report)
{
    const char *name;
    json_t *part;
    printf("%-12s %5s", "", "lines");
    if (e->set.has_documents) printf("  %-23s", "bits a byte");
    for (int i = 0; i < EVAL_FORMS; i++)
        if (e->results[0].results[i]) printf("  %-22s  %-5s", form_names[i], "alike");
    printf("\n");
    json_object_foreach(json_object_get(report, "languages"), name, part)
        print_row(e, name, part, lines_of(part));
    json_object_foreach(json_object_get(report, "confidence"), name, part) {
        const json_t *cut = json_object_get(part, "cut");
        printf("%s: lines of a probability of %.4g and more are right in %.1f %%, and are %.1f %% "
               "of all\n",
               name, json_number_value(json_object_get(cut, "threshold")),
               100 * json_number_value(json_object_get(cut, "precision")),
               100 * json_number_value(json_object_get(cut, "coverage")));
    }
    print_candidates(e);
    if (!e->compares) return;
    if (e->against)
        printf("less %s; likeliest tokens the same: %.1f %%\n", e->against,
               100 * json_number_value(json_object_get(report, "agreement")));
    else
        printf("less without snippets; tokens of a prompt: %.0f and %.0f\n", mean_prompt(e, 0),
               mean_prompt(e, 1));
    json_object_foreach(json_object_get(report, "languages"), name, part)
        print_row(e, name, json_object_get(part, "difference"), lines_of(part));
}

/* Text that is not UTF-8 was cut within a character, or written by a model without it: keep its
 * ASCII. */
static json_t *text_json(const char *text, size_t len)
{
    char ascii[EVAL_ANSWER_BYTES];
    json_t *out = json_stringn(text, len);
    if (out) return out;
    if (len > sizeof ascii) len = sizeof ascii;
    for (size_t i = 0; i < len; i++) ascii[i] = (unsigned char)text[i] < 128 ? text[i] : '?';
    return json_stringn(ascii, len);
}

static int write_answers(const evaluation *e, cerium_error *err)
{
    FILE *f = fopen(e->answers, "w");
    if (!f) return error_set(err, CERIUM_ERR_IO, "%s: %s", e->answers, strerror(errno));
    errno = 0;
    for (size_t i = 0; i < e->set.n_tasks; i++) {
        const eval_document *d = document_of(e, i);
        const eval_task *t = &e->set.tasks[i];
        for (eval_form form = EVAL_PREFIX; form < EVAL_FORMS; form++) {
            if (!e->results[0].results[form]) continue;
            const eval_result *r = &e->results[0].results[form][i];
            json_t *line = json_pack(
                "{s:o, s:I, s:s, s:o, s:o, s:f, s:b}", "task_id", json_name(d->path), "at",
                (json_int_t)t->begin, "form", form_names[form], "answer",
                text_json(r->text, r->len), "expected",
                text_json(d->text + t->begin, t->end - t->begin), "confidence",
                (double)r->confidence, "right", (int)r->right);
            json_dumpf(line, f, JSON_COMPACT | JSON_ENSURE_ASCII);
            fputc('\n', f);
            json_decref(line);
        }
    }
    bool bad = ferror(f);
    bad |= fclose(f) != 0;
    return bad ? error_set(err, CERIUM_ERR_IO, "%s: %s", e->answers,
                           errno ? strerror(errno) : "not all of it could be written")
               : CERIUM_OK;
}

/* ---- running ---- */

static int run_model(evaluation *e, const char *model, bool retrieves, eval_run *out,
                     cerium_error *err)
{
    cerium_engine *engine = NULL;
    cerium_session *session = NULL;
    const cerium_session_config config = eval_session_config();
    options o = e->o;
    eval_options run = e->run;
    if (!retrieves) run.retrieve_bytes = 0;
    cerium_engine_info info;
    o.model = model;
    RETURN_IF(options_engine(&o, &engine, 1, err));
    cerium_engine_describe(engine, &info);
    if (run.window > info.context_tokens_max) run.window = info.context_tokens_max;
    if (!e->against) run.n_likeliest = 0;
    int status = run.window > 2 * LINE_TOKENS
                     ? cerium_session_open(&session, engine, &config, err)
                     : error_set(err, CERIUM_ERR_ARGUMENT, "a context of %u tokens is too short",
                                 run.window);
    if (!status) status = eval_run_model(out, &e->set, &run, engine, session, err);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    return status;
}

/* Snippets only come before holes: nothing else is measured then. */
static int sort_holes(evaluation *e, cerium_error *err)
{
    e->run.only_holes = true;
    e->set.has_documents = false;
    e->names_others = memory_zalloc(e->set.n_tasks + 1, sizeof *e->names_others);
    if (!e->names_others) return error_set(err, CERIUM_ERR_MEMORY, "no memory for figures");
    for (size_t i = 0; i < e->set.n_tasks; i++)
        e->names_others[i] = eval_names_others(&e->set, &e->set.tasks[i]);
    return CERIUM_OK;
}

static int run(evaluation *e, cerium_error *err)
{
    RETURN_IF(eval_set_open(&e->set, e->set_path, err));
    RETURN_IF(eval_set_draw(&e->set, e->n_lines, e->within, e->run.seed, err));
    if (!e->set.n_tasks && (e->run.retrieve_bytes || !e->set.has_documents))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: none of its files is long enough to take a "
                         "line out of", e->set_path);
    if (!e->set.n_tasks && e->n_lines)
        fprintf(stderr, "%s: none of its files is long enough to take a line out of: only bits a "
                "byte are measured\n", e->set_path);
    e->num = memory_zalloc(e->set.n, sizeof *e->num);
    e->den = memory_zalloc(e->set.n, sizeof *e->den);
    e->sorted = memory_zalloc(e->set.n_tasks + 1, sizeof *e->sorted);
    if (!e->num || !e->den || !e->sorted)
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for figures");
    e->compares = e->against || e->run.retrieve_bytes;
    if (e->run.retrieve_bytes) RETURN_IF(sort_holes(e, err));
    RETURN_IF(run_model(e, options_model(&e->o), true, &e->results[0], err));
    if (e->compares)
        RETURN_IF(run_model(e, e->against ? e->against : options_model(&e->o),
                            e->against != NULL, &e->results[1], err));
    if (e->answers) RETURN_IF(write_answers(e, err));
    json_t *report = report_json(e);
    if (!report) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the report");
    if (e->o.json) return output_json(report, JSON_INDENT(2) | JSON_REAL_PRECISION(6), err);
    print_text(e, report);
    json_decref(report);
    return CERIUM_OK;
}

int program_eval(int argc, char **argv)
{
    evaluation e = {.n_lines = 200, .precision = 0.5};
    cerium_error err;
    e.run = (eval_options){.window = 1024, .line_tokens = LINE_TOKENS, .n_likeliest = 1000,
                           .bytes = 200 << 10, .seed = 7, .pointer = -1};
    RETURN_IF(command_parse(&eval_command, &e, argc, argv));
    if (!e.set_path || optind < argc) return usage_error("eval", "name what to measure on: --set");
    int status = run(&e, &err);
    eval_run_close(&e.results[0]);
    eval_run_close(&e.results[1]);
    memory_free(e.names_others);
    memory_free(e.num);
    memory_free(e.den);
    memory_free(e.sorted);
    eval_set_close(&e.set);
    return status ? failed(&err) : 0;
}
