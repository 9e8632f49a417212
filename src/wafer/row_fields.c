/* row_fields.c - reads a row's settings from its fields, and converts a figure to its unit.
 *
 * Files of figures are written by people: "420x420" or "420 x 420", "tok/s" or "tokens/s/user",
 * "meta-llama/Llama-3.1-8B-Instruct" or "Llama 3.1 8B".  All of these mean one thing. */
#include <ctype.h>
#include <math.h>
#include <strings.h>

#include "wafer/protocols.h"

/* ---- numbers ---- */

/* The first number in s from *at on, with k or K as a factor of 1024 and M of its square. */
static bool number_in(const char *s, size_t *at, double *out)
{
    while (s[*at] && !isdigit((unsigned char)s[*at])) (*at)++;
    if (!s[*at]) return false;
    double n = 0, place = 1;
    for (; isdigit((unsigned char)s[*at]) && n < 1e15; (*at)++) n = n * 10 + (s[*at] - '0');
    if (s[*at] == '.' && isdigit((unsigned char)s[*at + 1]))
        for ((*at)++; isdigit((unsigned char)s[*at]); (*at)++) n += (s[*at] - '0') * (place /= 10);
    if (s[*at] == 'k' || s[*at] == 'K') {
        n *= 1024;
        (*at)++;
    } else if (s[*at] == 'M' && s[*at + 1] != 'H') {
        n *= 1024 * 1024;
        (*at)++;
    }
    *out = n;
    return true;
}

/* After "x", "*" or U+00D7 and blanks around it, if a number follows; else NULL. */
static const char *after_times(const char *s)
{
    s += strspn(s, " ]");
    if (*s == 'x' || *s == 'X' || *s == '*')
        s++;
    else if (!strncmp(s, "\xc3\x97", 2))
        s += 2;
    else
        return NULL;
    s += strspn(s, " [");
    return isdigit((unsigned char)*s) ? s : NULL;
}

/* "420x420", "16K x 16K", "2Kx4Kx8K": numbers with such a sign between them; returns how many. */
static size_t factors_in(const char *s, double out[3])
{
    for (size_t at = 0; s[at];) {
        size_t n = 0, next = at;
        const char *more = s;
        while (n < 3 && more && number_in(s, &next, &out[n])) {
            n++;
            more = after_times(s + next);
            if (more) next = (size_t)(more - s);
        }
        if (n > 1) return n;
        if (!n) break;
        at = next;
    }
    return 0;
}

bool row_says(const published_row *row, const char *word)
{
    const char *const fields[] = {row->system, row->model, row->metric, row->class_};
    const size_t len = strlen(word);
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        for (const char *at = fields[i]; *at; at++)
            if (!strncasecmp(at, word, len)) return true;
    return false;
}

bool row_number_before(const char *s, const char *word, double *out)
{
    const char *at = strstr(s, word);
    if (!at) return false;
    while (at > s && at[-1] == ' ') at--;
    const char *end = at;
    while (at > s && (isdigit((unsigned char)at[-1]) || at[-1] == '.')) at--;
    return parse_f64((view){at, (size_t)(end - at)}, out);
}

bool row_number_after(const char *s, const char *word, double *out)
{
    const char *at = strstr(s, word);
    size_t from = 0;
    return at && number_in(at + strlen(word), &from, out);
}

/* ---- settings of a row ---- */

static bool clock_in(const char *s, double *ghz)
{
    double mhz;
    if (row_number_before(s, "GHz", ghz) && *ghz > 0.01 && *ghz < 10) return true;
    if (!row_number_before(s, "MHz", &mhz) || !(mhz > 10 && mhz < 1e4)) return false;
    *ghz = mhz / 1e3;
    return true;
}

/* The clock of the row's conversion of cycles to seconds: its own; else the 1.1 GHz of WaferLLM's
 * scripts, or the SDK's for collectives and the lab notes. */
static double clock_of(const published_row *row)
{
    double ghz;
    if (clock_in(row->system, &ghz) || clock_in(row->note, &ghz)) return ghz;
    return !strcmp(row->class_, "wse_collective") || !strcmp(row->class_, "wse_pipeline") ? 0.85
                                                                                          : 1.1;
}

/* "4K", "256 prefix"; "1K in / 2K out" counts half of the output after the input. */
static uint32_t context_of(const published_row *row)
{
    size_t at = 0;
    double in, out;
    if (!number_in(row->context, &at, &in) || !(in >= 1)) return 4096;
    if (strstr(row->context, "in") && strstr(row->context, "out") &&
        number_in(row->context, &at, &out))
        in += out / 2;
    return in <= 1 << 24 ? (uint32_t)in : 4096;
}

static uint32_t devices_of(const published_row *row)
{
    double n = row->devices, named;
    const size_t digits = strspn(row->system, "0123456789");
    const char *rest = row->system + digits + strspn(row->system + digits, " ");
    /* "8x B200", if the column of devices has no number. */
    const bool times = *rest == 'x' || *rest == 'X' || !strncmp(rest, "\xc3\x97", 2);
    if (n <= 1 && digits && times && parse_f64((view){row->system, digits}, &named)) n = named;
    if (n < 1 && (row_number_after(row->system, "TP", &named))) n = named;
    return n >= 1 ? (uint32_t)fmin(n, 65536) : 1;
}

/* The usual unit of a class. */
static const char *unit_of(const published_row *row)
{
    if (*row->unit) return row->unit;
    if (!strcmp(row->class_, "wse_collective")) return "cycles";
    if (!strcmp(row->class_, "gpu_collective")) return "us";
    const bool is_product = !strncmp(row->model, "GEM", 3) || strstr(row->class_, "gem");
    return is_product ? "ms" : "tok/s";
}

static void row_fields_read_product(row_query *q, const published_row *row)
{
    const char *const fields[] = {row->model, row->metric, row->context};
    double f[3], one;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        size_t n = factors_in(fields[i], f), at = 0;
        if (!n && row_says(row, "GEM") && i != 1 && number_in(fields[i], &at, &one)) {
            f[0] = f[1] = one;
            n = 2;
        }
        bool good = n != 0;
        for (size_t k = 0; k < n; k++) good &= f[k] >= 1 && f[k] < 1e7;
        if (!good) continue;
        q->k = (uint32_t)f[n - 2];
        q->n = (uint32_t)f[n - 1];
        q->m = n == 3 ? (uint32_t)f[0] : q->k;
        return;
    }
}

void row_query_read(row_query *q, const published_row *row)
{
    double f[3], n;
    *q = (row_query){.row = row,
                     .clock_ghz = clock_of(row),
                     .context = context_of(row),
                     .devices = devices_of(row),
                     .unit = unit_of(row)};
    if (factors_in(row->system, f) == 2 && f[0] >= 1 && f[1] >= 1 && f[0] <= WAFER_GRID_MAX &&
        f[1] <= WAFER_GRID_MAX) {
        q->width = (uint32_t)f[0];
        q->height = (uint32_t)f[1];
    }
    if (!q->width && row_number_after(row->system, "P=", &n) && n >= 1 && n <= WAFER_GRID_MAX)
        q->width = q->height = (uint32_t)n;
    row_fields_read_product(q, row);
    if (row_number_before(row->system, "stage", &n) && n >= 1 && n < 1e4) q->stages = (uint32_t)n;
}

/* ---- models ---- */

/* "7B", "8x22B", "0.6B": the model's size, without its training. */
static bool is_size(const char *word)
{
    const size_t n = strspn(word, "0123456789.xX");
    return n && (word[n] == 'B' || word[n] == 'b') && !isalnum((unsigned char)word[n + 1]);
}

bool row_model(wafer_model *out, const published_row *row, const char **why)
{
    char name[96];
    const char *slash = strrchr(row->model, '/'), *from = slash ? slash + 1 : row->model;
    size_t len = strcspn(from, "(+,;");
    shape_facts facts;
    *why = "the model's shapes are not in machines/models.ini";
    snprintf(name, sizeof name, "%.*s", (int)(len < 90 ? len : 90), from);
    for (len = strlen(name); len && name[len - 1] == ' ';) name[--len] = 0;
    /* "-Instruct-2507-FP8": words are removed from its end until one is a size. */
    while (name[0] && shape_of_name(&facts, name, NULL)) {
        size_t at = strlen(name);
        while (at && !strchr("-_ :", name[at - 1])) at--;
        if (!at || is_size(name + at)) return false;
        while (at && strchr("-_ :", name[at - 1])) at--;
        name[at] = 0;
    }
    return name[0] && wafer_model_of(out, &facts, name, NULL) == CERIUM_OK;
}

/* ---- units ---- */

/* The unit without blanks, in small letters, both signs of micro as u. */
static void plain_unit(char *out, size_t size, const char *unit)
{
    size_t n = 0;
    for (const char *s = unit; *s && n + 1 < size; s++) {
        if (!strncmp(s, "\xc2\xb5", 2) || !strncmp(s, "\xce\xbc", 2)) {
            out[n++] = 'u';
            s++;
        } else if (*s != ' ') {
            out[n++] = (char)tolower((unsigned char)*s);
        }
    }
    out[n] = 0;
}

static bool is_one_of(const char *s, size_t len, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == len && !strncmp(s, *words, len)) return true;
    return false;
}

bool row_in_unit(const row_query *q, const prediction *p, double *out)
{
    static const char *const rates[] = {"tok", "token", "tokens", "t", NULL};
    static const char *const seconds_words[] = {"s", "sec", "second", "seconds", NULL};
    static const struct {
        const char *name;
        double scale;
    } times[] = {{"s", 1}, {"ms", 1e3}, {"us", 1e6}, {"ns", 1e9}};
    char unit[64];
    plain_unit(unit, sizeof unit, q->unit);
    const double ghz = q->clock_ghz;
    const double seconds = p->seconds > 0 ? p->seconds : p->cycles / (ghz * 1e9);
    const double cycles = p->cycles > 0 ? p->cycles : seconds * ghz * 1e9;
    const char *slash = strchr(unit, '/');
    const size_t len = slash ? (size_t)(slash - unit) : strlen(unit);
    const char *per = slash ? slash + 1 : "";
    *out = 0;
    if (!strcmp(unit, "tps")) {
        *out = p->tokens / seconds;
    } else if (slash && is_one_of(unit, len, rates)) { /* "/s/user" as "/s" */
        const char *of = strchr(per, '/');
        if (!is_one_of(per, of ? (size_t)(of - per) : strlen(per), seconds_words)) return false;
        *out = p->tokens / seconds;
        if (of && !strncmp(of, "/gpu", 4)) *out /= q->devices;
    } else if (!strcmp(unit, "%")) { /* of the bandwidth, or of the arithmetic */
        *out = 100 * p->ideal / (p->seconds > 0 ? p->seconds : p->cycles);
    } else {
        for (size_t i = 0; i < ARRAY_LEN(times); i++)
            if (strlen(times[i].name) == len && !strncmp(unit, times[i].name, len))
                *out = seconds * times[i].scale;
        if (!strncmp(unit, "cycle", 5) && (len == 5 || (len == 6 && unit[5] == 's'))) *out = cycles;
        if (!strcmp(per, "layer")) *out /= p->layers; /* none: infinite, and rejected */
        if (!strncmp(per, "tok", 3)) *out /= p->tokens;
    }
    return *out > 0 && isfinite(*out);
}
