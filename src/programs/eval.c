/* eval.c - `cerium eval`: how well a model predicts and completes code, with intervals. */
#include <jansson.h>

#include "programs/eval_run.h"
#include "programs/output.h"
#include "programs/programs.h"

static const char help[] =
    "usage: cerium eval [OPTIONS] --set FILE|FOLDER\n\n"
    "Measure a model on code that it has not seen: bits a byte, and how often it writes the very\n"
    "line that was taken out, from what stands before it alone and from both sides, by language,\n"
    "with 95 % intervals over documents; and from which confidence on a line is right half the\n"
    "time.  A set is a folder of source files, or JSON Lines of {\"path\", \"text\"} or of\n"
    "{\"prompt\", \"canonical_solution\", \"suffix\"} (HumanEval-Infilling).\n\n"
    "  -m, --model FILE    GGUF model (default: CERIUM_MODEL, else the bundled one)\n"
    "      --set PATH      what to measure on\n"
    "      --against FILE  another model: differences to it on the same lines\n"
    "      --lines N       lines of each language (default 200)\n"
    "      --within        ends of lines, from a place within them, where cursors stand\n"
    "      --no-healing    a line begins behind the last token before it, not within one\n"
    "      --bytes N       of each language whose bits are counted (default 200K)\n"
    "      --tokens N      places at which two models' likeliest tokens are compared (default\n"
    "                      1000; with --against)\n"
    "      --neighbour N   holes stand behind up to N bytes of another file of their package or\n"
    "                      folder, as behind a file that is open in an editor (default 0)\n"
    "      --window N      tokens that the model sees (default 1024, at most the context)\n"
    "      --precision X   that the threshold of confidence is for (default 0.5)\n"
    "      --pointer X     lines mix in what stands behind places like theirs: 0 (not) to 1\n"
    "                      (default: as the model file says)\n"
    "      --answers FILE  write what the model wrote, as JSON Lines\n"
    "      --seed N        of the lines that are drawn and of the intervals (default 7)\n"
    "      --json          figures for a program\n"
    "      --context N, --batch N, --threads N, --cpu LEVEL, --kv i8|f16|f32, --no-cache, --head\n"
    "      --kv-disk DIR|off, --kv-disk-max SIZE, --no-speculation: cerium(1)\n\n"
    "example: cerium eval --set held_out.jsonl --lines 500\n";

enum {
    OWN_SET = OPTION_OWN, OWN_AGAINST, OWN_LINES, OWN_BYTES, OWN_TOKENS, OWN_WINDOW,
    OWN_PRECISION, OWN_ANSWERS, OWN_SEED, OWN_WITHIN, OWN_NO_HEALING, OWN_POINTER, OWN_NEIGHBOUR,
};
enum { LINE_TOKENS = 48, CURVE_POINTS = 10 };

typedef struct {
    options o;
    eval_options run;
    const char *set_path, *against, *answers;
    uint32_t n_lines;
    bool within;
    double precision;
    eval_set set;
    eval_run results[2]; /* of the model, and of that which it is compared with */
    double *num, *den;   /* [documents] */
    eval_answer *sorted; /* [tasks] */
} evaluation;

static const char *const form_names[EVAL_FORMS] = {"prefix", "infill"};

static bool take_own(void *arg, int val, const char *value)
{
    evaluation *e = arg;
    switch (val) {
    case OWN_SET: e->set_path = value; return true;
    case OWN_AGAINST: e->against = value; return true;
    case OWN_LINES: return option_u32(value, 0, 1 << 20, &e->n_lines);
    case OWN_WITHIN: e->within = true; return true;
    case OWN_NO_HEALING: e->run.unhealed = true; return true;
    case OWN_POINTER: return option_f64(value, 0, 1, &e->run.pointer);
    case OWN_NEIGHBOUR: return option_bytes(value, &e->run.neighbour_bytes);
    case OWN_BYTES: return option_bytes(value, &e->run.bytes);
    case OWN_TOKENS: return option_u32(value, 1, 1 << 24, &e->run.n_likeliest);
    case OWN_WINDOW: return option_u32(value, 2 * LINE_TOKENS, 1 << 24, &e->run.window);
    case OWN_PRECISION:
        return (option_f64(value, 0, 1, &e->precision) && e->precision > 0) ||
               option_wants("a number above 0, up to 1");
    case OWN_ANSWERS: e->answers = value; return true;
    case OWN_SEED:
        return parse_u64(view_of(value), &e->run.seed) ||
               option_wants("a whole number, 0 to %llu", (unsigned long long)UINT64_MAX);
    default: return false;
    }
}

/* ---- figures ---- */

typedef enum { BITS, EXACT, SIMILAR } measure;

static const eval_document *document_of(const evaluation *e, size_t task)
{
    return &e->set.documents[e->set.tasks[task].document];
}

/* language: n_languages for all of them.  With a second run, the first less the second. */
static eval_figure figure(evaluation *e, measure m, eval_form form, uint32_t language,
                          const eval_run *a, const eval_run *b)
{
    const eval_set *set = &e->set;
    const bool all = language == set->n_languages;
    for (size_t i = 0; i < set->n; i++) {
        bool counts = m == BITS && (all || set->documents[i].language == language);
        e->num[i] = counts ? a->bits[i] - (b ? b->bits[i] : 0) : 0;
        e->den[i] = counts ? a->bytes[i] : 0;
    }
    for (size_t i = 0; m != BITS && i < set->n_tasks; i++) {
        const eval_result *x = &a->results[form][i], *y = b ? &b->results[form][i] : NULL;
        if (!all && document_of(e, i)->language != language) continue;
        double value = m == EXACT ? (double)x->right : (double)x->similarity;
        if (y) value -= m == EXACT ? (double)y->right : (double)y->similarity;
        e->num[set->tasks[i].document] += value;
        e->den[set->tasks[i].document]++;
    }
    size_t n = 0;
    for (size_t i = 0; i < set->n; i++) { /* documents with something of it */
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
    const eval_run *a = &e->results[0], *b = e->against ? &e->results[1] : NULL;
    json_t *out = json_object(), *difference = json_object();
    size_t n = 0;
    for (size_t i = 0; i < e->set.n_tasks; i++)
        n += language == e->set.n_languages || document_of(e, i)->language == language;
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

static json_t *report_json(evaluation *e)
{
    json_t *languages = json_object(), *confidence = json_object();
    for (uint32_t i = 0; i < e->set.n_languages; i++)
        json_object_set_new(languages, e->set.languages[i], language_json(e, i));
    json_object_set_new(languages, "all", language_json(e, e->set.n_languages));
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

static void print_row(const char *name, const json_t *language, bool has_bits, bool has_infill)
{
    printf("%-12s %5d", name, (int)json_integer_value(json_object_get(language, "lines")));
    eval_figure f = figure_at(language, NULL, "bits_per_byte");
    if (has_bits) printf("  %6.3f [%6.3f, %6.3f]", f.value, f.low, f.high);
    for (int i = 0; i <= (int)has_infill; i++) {
        f = figure_at(language, form_names[i], "exact");
        printf("  %5.1f %% [%5.1f, %5.1f]", 100 * f.value, 100 * f.low, 100 * f.high);
        f = figure_at(language, form_names[i], "similar");
        printf("  %5.3f", f.value);
    }
    printf("\n");
}

static void print_text(const evaluation *e, json_t *report)
{
    const bool infill = e->results[0].results[EVAL_MIDDLE], bits = e->set.has_documents;
    const char *name;
    json_t *part;
    printf("%-12s %5s", "", "lines");
    if (bits) printf("  %-23s", "bits a byte");
    for (int i = 0; i <= (int)infill; i++) printf("  %-22s  %-5s", form_names[i], "alike");
    printf("\n");
    json_object_foreach(json_object_get(report, "languages"), name, part)
        print_row(name, part, bits, infill);
    json_object_foreach(json_object_get(report, "confidence"), name, part) {
        const json_t *cut = json_object_get(part, "cut");
        printf("%s: lines of a probability of %.4g and more are right in %.1f %%, and are %.1f %% "
               "of all\n",
               name, json_number_value(json_object_get(cut, "threshold")),
               100 * json_number_value(json_object_get(cut, "precision")),
               100 * json_number_value(json_object_get(cut, "coverage")));
    }
    if (!e->against) return;
    printf("less %s; likeliest tokens the same: %.1f %%\n", e->against,
           100 * json_number_value(json_object_get(report, "agreement")));
    json_object_foreach(json_object_get(report, "languages"), name, part)
        print_row(name, json_object_get(part, "difference"), bits, infill);
}

/* What is no UTF-8 was cut within a character, or written by a model that knows none: its ASCII. */
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
    if (!f) return error_set(err, CERIUM_ERR_IO, "%s: cannot write it", e->answers);
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
    return bad ? error_set(err, CERIUM_ERR_IO, "%s: cannot write it", e->answers) : CERIUM_OK;
}

/* ---- running ---- */

static int run_model(evaluation *e, const char *model, eval_run *out, cerium_error *err)
{
    cerium_engine *engine = NULL;
    cerium_session *session = NULL;
    const cerium_session_config config = eval_session_config();
    options o = e->o;
    eval_options run = e->run;
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

static int run(evaluation *e, cerium_error *err)
{
    RETURN_IF(eval_set_open(&e->set, e->set_path, err));
    RETURN_IF(eval_set_draw(&e->set, e->n_lines, e->within, e->run.seed, err));
    e->num = memory_zalloc(e->set.n, sizeof *e->num);
    e->den = memory_zalloc(e->set.n, sizeof *e->den);
    e->sorted = memory_zalloc(e->set.n_tasks + 1, sizeof *e->sorted);
    if (!e->num || !e->den || !e->sorted)
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for figures");
    RETURN_IF(run_model(e, options_model(&e->o), &e->results[0], err));
    if (e->against) RETURN_IF(run_model(e, e->against, &e->results[1], err));
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
    static const struct option own[] = {
        {"set", required_argument, NULL, OWN_SET},
        {"against", required_argument, NULL, OWN_AGAINST},
        {"lines", required_argument, NULL, OWN_LINES},
        {"bytes", required_argument, NULL, OWN_BYTES},
        {"tokens", required_argument, NULL, OWN_TOKENS},
        {"window", required_argument, NULL, OWN_WINDOW},
        {"precision", required_argument, NULL, OWN_PRECISION},
        {"answers", required_argument, NULL, OWN_ANSWERS},
        {"seed", required_argument, NULL, OWN_SEED},
        {"within", no_argument, NULL, OWN_WITHIN},
        {"no-healing", no_argument, NULL, OWN_NO_HEALING},
        {"pointer", required_argument, NULL, OWN_POINTER},
        {"neighbour", required_argument, NULL, OWN_NEIGHBOUR},
    };
    evaluation e = {.n_lines = 200, .precision = 0.5};
    cerium_error err;
    e.run = (eval_options){.window = 1024, .line_tokens = LINE_TOKENS, .n_likeliest = 1000,
                           .bytes = 200 << 10, .seed = 7, .pointer = -1};
    RETURN_IF(options_parse(&e.o, argc, argv, OPTIONS_ENGINE | OPTIONS_JSON, own, ARRAY_LEN(own),
                            take_own, &e, help));
    if (!e.set_path || optind < argc) return usage_error("eval", "name what to measure on: --set");
    int status = run(&e, &err);
    eval_run_close(&e.results[0]);
    eval_run_close(&e.results[1]);
    memory_free(e.num);
    memory_free(e.den);
    memory_free(e.sorted);
    eval_set_close(&e.set);
    return status ? failed(&err) : 0;
}
