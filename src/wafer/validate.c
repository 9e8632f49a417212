/* validate.c - chooses the protocol of each row, and sums up errors. */
#include "wafer/validate.h"

#include <math.h>

#include "wafer/protocols.h"

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

/* Products have their own classes, whatever the file's class. */
static const char *validate_class_of(const published_row *row)
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
    row_query_read(&q, row);
    snprintf(out.why, sizeof out.why, "%s",
             !strcmp(row->class_, "wse_service")
                 ? "speed of a service: its kernels, drafts and queues are not published"
             : !strcmp(row->class_, "other_asic") ? "no description of that machine is public"
                                                  : "no protocol for this class");
    for (size_t i = 0; i < ARRAY_LEN(protocols); i++) {
        if (strcmp(validate_class_of(row), protocols[i].class_)) continue;
        out.is_modelled = protocols[i].predict(&p, &q, style);
        out.is_input = p.is_input;
        snprintf(out.why, sizeof out.why, "%s", p.why);
        break;
    }
    if (out.is_modelled && !row_in_unit(&q, &p, &out.predicted)) {
        out.is_modelled = false;
        snprintf(out.why, sizeof out.why, "no figure of that kind: unit '%.40s'", row->unit);
    }
    if (out.is_modelled && p.host > 0) {
        p.seconds += p.host;
        if (!row_in_unit(&q, &p, &out.host)) out.host = 0;
    }
    out.has_error = out.is_modelled && !out.is_input && row->value > 0;
    if (out.has_error) out.error = out.predicted / row->value - 1;
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
        if (!results[i].has_error) continue;
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
