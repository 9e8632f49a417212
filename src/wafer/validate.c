/* validate.c - reads what a row is about out of its fields, and picks the protocol. */
#include "wafer/validate.h"

#include <ctype.h>
#include <math.h>

#include "wafer/protocols.h"

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

/* "420x420", "16Kx16K": two numbers with an x between them. */
static bool pair_in(const char *s, double *a, double *b)
{
    for (size_t at = 0; s[at];) {
        size_t next = at;
        if (!number_in(s, &next, a)) return false;
        at = next;
        if (s[at] != 'x' && s[at] != 'X') continue;
        size_t second = at + 1;
        if (isdigit((unsigned char)s[second]) && number_in(s, &second, b)) return true;
    }
    return false;
}

bool row_says(const published_row *row, const char *word)
{
    const char *const fields[] = {row->system, row->model, row->metric, row->class_};
    const size_t len = strlen(word);
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        for (const char *at = fields[i]; *at; at++) {
            size_t k = 0;
            while (k < len && tolower((unsigned char)at[k]) == tolower((unsigned char)word[k])) k++;
            if (k == len) return true;
        }
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

/* The clock at which the row's cycles became seconds: WaferLLM's scripts divide by 1.1 GHz. */
static double clock_of(const published_row *row)
{
    double ghz, mhz;
    if (row_number_before(row->system, "GHz", &ghz) && ghz > 0.01 && ghz < 10) return ghz;
    if (row_number_before(row->system, "MHz", &mhz) && mhz > 10 && mhz < 1e4) return mhz / 1e3;
    return 1.1;
}

static void read_query(row_query *q, const published_row *row)
{
    double a, b;
    size_t at = 0;
    *q = (row_query){.row = row, .clock_ghz = clock_of(row), .context = 4096};
    if (number_in(row->context, &at, &a) && a >= 1 && a <= 1 << 24) q->context = (uint32_t)a;
    if (pair_in(row->system, &a, &b) && a <= WAFER_GRID_MAX && b <= WAFER_GRID_MAX && a && b) {
        q->width = (uint32_t)a;
        q->height = (uint32_t)b;
    }
    if (!q->width && row_number_after(row->system, "P=", &a) && a >= 1 && a <= WAFER_GRID_MAX)
        q->width = q->height = (uint32_t)a;
    if (pair_in(row->model, &a, &b) && a >= 1 && b >= 1 && a < 1e7 && b < 1e7) {
        q->k = (uint32_t)a;
        q->n = (uint32_t)b;
    }
    if (row_number_before(row->system, "stages", &a) && a >= 1 && a < 1e4) q->stages = (uint32_t)a;
}

/* Seconds and tokens of a step into the row's unit; false where the unit is unknown. */
static bool into_unit(const published_row *row, const prediction *p, double ghz, double *out)
{
    const double seconds = p->seconds > 0 ? p->seconds : p->cycles / (ghz * 1e9);
    const double cycles = p->cycles > 0 ? p->cycles : seconds * ghz * 1e9;
    const char *unit = row->unit;
    if (!strcmp(unit, "tok/s") || !strcmp(unit, "tokens/s"))
        *out = p->tokens / seconds;
    else if (!strcmp(unit, "ms"))
        *out = seconds * 1e3;
    else if (!strcmp(unit, "us"))
        *out = seconds * 1e6;
    else if (!strcmp(unit, "ns"))
        *out = seconds * 1e9;
    else if (!strcmp(unit, "s"))
        *out = seconds;
    else if (!strcmp(unit, "cycles"))
        *out = cycles;
    else if (!strcmp(unit, "cycles/layer") && p->layers > 0)
        *out = cycles / p->layers;
    else
        return false;
    return *out > 0 && isfinite(*out);
}

static const struct {
    const char *class_;
    bool (*predict)(prediction *out, const row_query *q, const wafer_style *style);
} protocols[] = {
    {"wse_decode", protocol_decode},
    {"wse_prefill", protocol_prefill},
    {"wse_gemv", protocol_gemv},
    {"wse_gemm", protocol_gemm},
    {"wse_collective", protocol_collective},
    {"wse_pipeline", protocol_pipeline},
    {"gpu_decode_spec", protocol_gpu_spec},
    {"gpu_decode", protocol_gpu_decode},
    {"gpu_gemv", protocol_gpu_gemv},
    {"gpu_collective", protocol_gpu_collective},
    {"gpu_prefill", protocol_gpu_prefill},
};

/* Products have classes of their own, whatever the file calls them. */
static const char *class_of(const published_row *row)
{
    const bool is_wafer = !strncmp(row->class_, "wse", 3);
    if (!strncmp(row->model, "GEMV", 4)) return is_wafer ? "wse_gemv" : "gpu_gemv";
    if (!strncmp(row->model, "GEMM", 4) && is_wafer) return "wse_gemm";
    return row->class_;
}

validated_row validate_row(const published_row *row, const wafer_style *style)
{
    validated_row out = {0};
    prediction p = {.tokens = 1};
    row_query q;
    read_query(&q, row);
    snprintf(out.why, sizeof out.why, "%s",
             !strcmp(row->class_, "wse_service")
                 ? "speed of a service: its kernels, drafts and queues are not published"
             : !strcmp(row->class_, "other_asic") ? "no description of that machine is public"
                                                  : "no protocol for this class");
    for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
        if (strcmp(class_of(row), protocols[i].class_)) continue;
        out.is_modelled = protocols[i].predict(&p, &q, style);
        out.is_input = p.is_input;
        snprintf(out.why, sizeof out.why, "%s", p.why);
        break;
    }
    if (out.is_modelled && !into_unit(row, &p, q.clock_ghz, &out.predicted)) {
        out.is_modelled = false;
        snprintf(out.why, sizeof out.why, "the unit %.40s is unknown", row->unit);
    }
    if (out.is_modelled) out.error = out.predicted / row->value - 1;
    return out;
}

uint32_t validate_classes(validated_class *out, uint32_t max, const published_rows *rows,
                          const validated_row *results)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < rows->n_rows; i++) {
        uint32_t c = 0;
        while (c < n && strncmp(out[c].class_, rows->rows[i].class_, sizeof out[c].class_ - 1)) c++;
        if (c == n) {
            if (n == max) continue;
            out[n] = (validated_class){0};
            snprintf(out[n++].class_, sizeof out[0].class_, "%s", rows->rows[i].class_);
        }
        out[c].n_rows++;
        if (!results[i].is_modelled || results[i].is_input) continue;
        out[c].n_modelled++;
        out[c].mean_absolute += fabs(results[i].error);
        out[c].mean_signed += results[i].error;
        out[c].worst = fmax(out[c].worst, fabs(results[i].error));
    }
    for (uint32_t c = 0; c < n; c++) {
        if (!out[c].n_modelled) continue;
        out[c].mean_absolute /= out[c].n_modelled;
        out[c].mean_signed /= out[c].n_modelled;
    }
    return n;
}
