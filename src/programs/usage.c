/* usage.c - `cerium usage`: tokens used, and their price; and the outcomes of completions. */
#include "programs/programs.h"

#include <jansson.h>

#include "programs/accounts.h"
#include "programs/feedback.h"
#include "programs/options.h"
#include "programs/output.h"
#include "store/metered.h"

enum { DAYS_DEFAULT = 30 };

typedef struct {
    options o;
    usage_query query;
    const char *store_path, *config_path;
    bool csv, since_given, completions;
    json_t *rows;     /* of --json */
    store_usage total;
    uint64_t n_rows;
} report;

static bool take_by(void *program, const char *text)
{
    unsigned *by = &((report *)program)->query.by;
    static const char *const names[] = {"day", "key", "model"};
    *by = 0;
    for (;;) {
        size_t len = strcspn(text, ","), i = 0;
        while (i < ARRAY_LEN(names) && (strlen(names[i]) != len || memcmp(names[i], text, len)))
            i++;
        if (i == ARRAY_LEN(names)) return option_wants("day, key, model, or several with commas");
        *by |= 1u << i; /* USAGE_BY_* in this order */
        if (!text[len]) return true;
        text += len + 1;
    }
}
_Static_assert(USAGE_BY_DAY == 1 && USAGE_BY_KEY == 2 && USAGE_BY_MODEL == 4, "as in take_by()");

static bool take_day(const char *text, int64_t *day)
{
    return accounts_day(text, day) || option_wants("a day from 1970 on, as in 2026-11-01");
}

static bool take_since(void *program, const char *value)
{
    report *r = program;
    r->since_given = true;
    return take_day(value, &r->query.first_day);
}

static bool take_until(void *program, const char *value)
{
    return take_day(value, &((report *)program)->query.last_day);
}

/* clang-format off */
static const option_spec own[] = {
    {"by", "LIST", "day, key, model, or several with commas; the others are summed over (default: "
     "key)", TAKES_CALL(take_by)},
    {"since", "DAY", "from this UTC day on, as in 2026-11-01 (default: the last 30 days)",
     TAKES_CALL(take_since)},
    {"until", "DAY", "up to and including this day", TAKES_CALL(take_until)},
    {"key", "NAME", "only this key", TAKES_ANY(report, query.key)},
    {"model", "NAME", "only this model", TAKES_ANY(report, query.model)},
    {"store", "FILE", "the server's store (default: that of the configuration, or CERIUM_STORE)",
     TAKES_TEXT(report, store_path)},
    {"config", "FILE", "the server's configuration", TAKES_TEXT(report, config_path)},
    {"csv", NULL, "print comma-separated values", TAKES_FLAG(report, csv)},
    {"completions", NULL,
     "instead: completions that `cerium lsp` showed here, by model and language: taken, typed "
     "anyway, refused, characters saved, the probability from which they are shown, and how often "
     "the first, the second, ... of several candidates was taken",
     TAKES_FLAG(report, completions)},
};
/* clang-format on */
const command_table usage_command = {
    .name = "usage",
    .usage = "[OPTIONS]",
    .about = "Requests, tokens and their price, by day, key and model, from the store of one or "
             "more servers. Answers are counted within a second. With --completions: what became "
             "of what editors were shown; those counts are a file of yours, sent nowhere.",
    .groups = OPTIONS_JSON,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium usage --by day,key --since 2026-11-01 --csv --store cerium.db",
};

/* Keys of --api-key have no name in the store: their tenant identifies them. */
static const char *key_name(const store_usage *row, char out[32])
{
    if (row->key) return row->key;
    if (!row->tenant) return "-";
    snprintf(out, 32, "static-%08x", (unsigned)(row->tenant >> 32));
    return out;
}

/* Dollars to a millionth: exact, without floating point. */
static const char *dollars(char out[32], uint64_t nanodollars)
{
    uint64_t micro = (nanodollars + 500) / 1000;
    snprintf(out, 32, "%llu.%06llu", (unsigned long long)(micro / 1000000),
             (unsigned long long)(micro % 1000000));
    return out;
}

static void add_json(report *r, const store_usage *row)
{
    char date[16], name[32], price[32];
    json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:s}", "requests", (json_int_t)row->requests,
                          "input_tokens", (json_int_t)row->input_tokens, "cached_tokens",
                          (json_int_t)row->cached_tokens, "output_tokens",
                          (json_int_t)row->output_tokens, "dollars",
                          dollars(price, row->nanodollars));
    if (r->query.by & USAGE_BY_DAY)
        json_object_set_new(o, "day", json_string(accounts_date(date, row->day)));
    if (r->query.by & USAGE_BY_KEY)
        json_object_set_new(o, "key", json_name(key_name(row, name)));
    if (r->query.by & USAGE_BY_KEY && row->tier)
        json_object_set_new(o, "tier", json_string(row->tier));
    if (r->query.by & USAGE_BY_MODEL) json_object_set_new(o, "model", json_name(row->model));
    json_array_append_new(r->rows, o);
}

static void put_csv(const report *r, const store_usage *row)
{
    char date[16], name[32], price[32];
    if (r->query.by & USAGE_BY_DAY) printf("%s,", accounts_date(date, row->day));
    if (r->query.by & USAGE_BY_KEY) {
        accounts_csv(key_name(row, name));
        putchar(',');
    }
    if (r->query.by & USAGE_BY_MODEL) {
        accounts_csv(row->model);
        putchar(',');
    }
    printf("%llu,%llu,%llu,%llu,%s\n", (unsigned long long)row->requests,
           (unsigned long long)row->input_tokens, (unsigned long long)row->cached_tokens,
           (unsigned long long)row->output_tokens, dollars(price, row->nanodollars));
}

static void put_text(const report *r, const store_usage *row, bool is_total)
{
    char date[16], name[32], price[32];
    if (r->query.by & USAGE_BY_DAY)
        printf("%-10s  ", is_total ? "" : accounts_date(date, row->day));
    if (r->query.by & USAGE_BY_KEY) printf("%-24s ", is_total ? "" : key_name(row, name));
    if (r->query.by & USAGE_BY_MODEL) printf("%-24s ", is_total ? "" : row->model);
    printf("%10llu %14llu %14llu %12llu %14s\n", (unsigned long long)row->requests,
           (unsigned long long)row->input_tokens, (unsigned long long)row->cached_tokens,
           (unsigned long long)row->output_tokens, dollars(price, row->nanodollars));
}

static bool on_row(void *arg, const store_usage *row)
{
    report *r = arg;
    r->n_rows++;
    r->total.requests += row->requests;
    r->total.input_tokens += row->input_tokens;
    r->total.cached_tokens += row->cached_tokens;
    r->total.output_tokens += row->output_tokens;
    r->total.nanodollars += row->nanodollars;
    if (r->o.json)
        add_json(r, row);
    else if (r->csv)
        put_csv(r, row);
    else
        put_text(r, row, false);
    return true;
}

static void put_head(const report *r)
{
    unsigned by = r->query.by;
    if (r->csv) {
        printf("%s%s%srequests,input_tokens,cached_tokens,output_tokens,dollars\n",
               by & USAGE_BY_DAY ? "day," : "", by & USAGE_BY_KEY ? "key," : "",
               by & USAGE_BY_MODEL ? "model," : "");
        return;
    }
    if (by & USAGE_BY_DAY) printf("%-10s  ", "DAY");
    if (by & USAGE_BY_KEY) printf("%-24s ", "KEY");
    if (by & USAGE_BY_MODEL) printf("%-24s ", "MODEL");
    printf("%10s %14s %14s %12s %14s\n", "REQUESTS", "INPUT", "OF IT CACHED", "OUTPUT", "DOLLARS");
}

static int print(report *r, store *s, cerium_error *err)
{
    if (r->o.json && !(r->rows = json_array()))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for the output");
    if (!r->o.json) put_head(r);
    int status = store_usage_read(s, &r->query, on_row, r, err);
    if (!status && r->o.json) {
        status = output_json(json_pack("{s:O}", "usage", r->rows), JSON_COMPACT, err);
    } else if (!status && !r->csv && r->n_rows > 1) {
        put_text(r, &r->total, true);
    } else if (!status && !r->csv && !r->n_rows) {
        char first[16], last[16];
        printf("no requests%s%s from %s to %s\n", r->query.key ? " of " : "",
               r->query.key ? r->query.key : "", accounts_date(first, r->query.first_day),
               accounts_date(last, r->query.last_day));
    }
    json_decref(r->rows);
    return status;
}

/* ---- completions ---- */

static json_t *completions_json(const feedback_row *r)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o}", "model", r->model,
                     "language", r->language, "shown", (json_int_t)r->shown, "taken",
                     (json_int_t)r->taken, "typed", (json_int_t)r->typed, "refused",
                     (json_int_t)r->refused, "characters_shown", (json_int_t)r->characters_shown,
                     "characters_saved", (json_int_t)r->characters_taken, "min_confidence",
                     feedback_confidence_of(r, r->standard), "chosen", feedback_chosen_json(r));
}

/* "12/3/1": how often the first, the second, ... of several candidates was taken; those at the end
 * that never were are left out. */
static const char *chosen(char out[LSP_CANDIDATES_MAX * 22], const feedback_row *r)
{
    int n = LSP_CANDIDATES_MAX, at = 0;
    while (n > 1 && !r->chosen[n - 1]) n--;
    for (int i = 0; i < n; i++)
        at += snprintf(out + at, 22, "%s%llu", i ? "/" : "", (unsigned long long)r->chosen[i]);
    return out;
}

static void put_completions(const report *r, const feedback_row *row)
{
    const double least = feedback_confidence_of(row, row->standard);
    if (r->csv) {
        accounts_csv(row->model);
        putchar(',');
        accounts_csv(row->language);
    } else {
        printf("%-24s %-16s", row->model, row->language);
    }
    const unsigned long long n[] = {row->shown, row->taken, row->typed, row->refused,
                                    row->characters_taken};
    for (size_t i = 0; i < ARRAY_LEN(n); i++) printf(r->csv ? ",%llu" : " %9llu", n[i]);
    char took[LSP_CANDIDATES_MAX * 22];
    printf(r->csv ? ",%.4f,%s\n" : " %9.2f %9s\n", least, chosen(took, row));
}

static int print_completions(const report *r, cerium_error *err)
{
    static feedback f;
    RETURN_IF(feedback_open(&f, err));
    json_t *list = json_array();
    if (r->csv) printf("model,language,shown,taken,typed,refused,characters,min_confidence,"
                       "chosen\n");
    else if (!r->o.json && !f.n_rows)
        printf("no completions are counted yet: `cerium lsp` counts those that it shows\n");
    else if (!r->o.json)
        printf("%-24s %-16s %9s %9s %9s %9s %9s %9s %9s\n", "MODEL", "LANGUAGE", "SHOWN", "TAKEN",
               "TYPED", "REFUSED", "SAVED", "FROM", "1ST/2ND/3");
    for (uint32_t i = 0; i < f.n_rows; i++) {
        if (r->o.json) json_array_append_new(list, completions_json(&f.rows[i]));
        else put_completions(r, &f.rows[i]);
    }
    if (r->o.json)
        return output_json(json_pack("{s:o}", "completions", list), JSON_COMPACT, err);
    json_decref(list);
    return CERIUM_OK;
}

int program_usage(int argc, char **argv)
{
    int64_t today = (int64_t)time(NULL) / 86400;
    report r = {.query = {.by = USAGE_BY_KEY, .last_day = today}};
    cerium_error err;
    policy *p = NULL;
    store *s = NULL;
    RETURN_IF(command_parse(&usage_command, &r, argc, argv));
    if (argc > optind) return usage_error("usage", "'%s' is not an option", argv[optind]);
    if (r.csv && r.o.json) return usage_error("usage", "give one of --csv and --json");
    if (r.completions && (r.query.key || r.query.model || r.store_path || r.config_path ||
                          r.since_given || r.query.last_day != today ||
                          r.query.by != USAGE_BY_KEY))
        return usage_error("usage", "--completions goes with --csv and --json alone");
    if (r.completions) return print_completions(&r, &err) ? failed(&err) : 0;
    if (!r.since_given) r.query.first_day = r.query.last_day - DAYS_DEFAULT + 1;
    if (r.query.first_day > r.query.last_day)
        return usage_error("usage", "--since names a later day than --until");
    int status = r.config_path ? accounts_policy(&p, r.config_path, &err) : CERIUM_OK;
    if (!status) status = accounts_store(&s, r.store_path, p, false, &err);
    if (!status) status = print(&r, s, &err);
    store_close(&s);
    memory_free(p);
    return status ? failed(&err) : 0;
}
