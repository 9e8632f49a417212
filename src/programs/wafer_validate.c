/* wafer_validate.c - `cerium wafer validate`: predictions beside published figures. */
#include <math.h>

#include "programs/output.h"
#include "programs/programs.h"
#include "programs/wafer.h"
#include "wafer/validate.h"

enum { CLASSES_MAX = 64 };

static json_t *json_row(const published_row *row, const validated_row *v)
{
    json_t *one = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:s}", "id", json_name(row->id),
        "class", json_name(row->class_), "system", json_name(row->system), "model",
        json_name(row->model), "context", json_name(row->context), "metric", json_name(row->metric),
        "value", row->value > 0 ? json_real(row->value) : json_null(), "unit", json_name(row->unit),
        "modelled", v->is_modelled, "input", v->is_input, "why", v->why);
    if (!one || !v->is_modelled) return one;
    json_object_set_new(one, "predicted", json_real(v->predicted));
    if (v->host > 0) json_object_set_new(one, "launched_by_host", json_real(v->host));
    if (v->has_error || v->is_input) json_object_set_new(one, "error", json_real(v->error));
    return one;
}

static json_t *json_classes(const validated_class *classes, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("{s:o, s:i, s:i, s:f, s:f, s:f}", "class", json_name(classes[i].class_),
                            "rows", (int)classes[i].n_rows, "predicted", (int)classes[i].n_modelled,
                            "mean_absolute_error", classes[i].mean_absolute, "mean_signed_error",
                            classes[i].mean_signed, "worst_absolute_error", classes[i].worst));
    return list;
}

static void print_rows(const published_rows *rows, const validated_row *v)
{
    printf("| row | class | system | model | published | predicted | error |\n"
           "|---|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < rows->n_rows; i++) {
        const published_row *r = &rows->rows[i];
        printf("| %s | %s | %s | %s, %s | %s %s | ", r->id, r->class_, r->system, r->model,
               r->context, r->published, r->unit);
        if (!v[i].is_modelled)
            printf("not modelled: %s | |\n", v[i].why);
        else if (v[i].is_input)
            printf("%.6g (input) | |\n", v[i].predicted);
        else {
            printf("%.6g", v[i].predicted);
            if (v[i].host > 0) printf(" (launched by the host: %.6g)", v[i].host);
            if (v[i].has_error) printf(" | %+.2f %% |\n", 100 * v[i].error);
            else printf(" | |\n");
        }
    }
}

static void print_classes(const validated_class *classes, uint32_t n)
{
    printf("\n| class | rows | predicted | mean error | signed | worst |\n"
           "|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < n; i++) {
        printf("| %s | %u | %u | ", classes[i].class_, classes[i].n_rows, classes[i].n_modelled);
        if (classes[i].n_modelled)
            printf("%.2f %% | %+.2f %% | %.2f %% |\n", 100 * classes[i].mean_absolute,
                   100 * classes[i].mean_signed, 100 * classes[i].worst);
        else
            printf("- | - | - |\n");
    }
}

/* Raise one constant of the style by a tenth at a time, and show how the mean prediction of a class
 * moves. */
static const struct {
    const char *name, *what;
    size_t offset;
} constants[] = {
#define WAFER_CONSTANT(name, sdk, tuned, low, high, what)                                          \
    {#name, what, offsetof(wafer_style, name)},
    WAFER_COST_MAP(WAFER_CONSTANT)
#undef WAFER_CONSTANT
};

static double shift(const published_rows *rows, const validated_row *v, const char *class_,
                    const wafer_style *moved)
{
    double total = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < rows->n_rows; i++) {
        if (!v[i].is_modelled || strcmp(rows->rows[i].class_, class_)) continue;
        validated_row w = validate_row(&rows->rows[i], moved);
        total += w.predicted / v[i].predicted - 1;
        n++;
    }
    return n ? total / n : 0;
}

static json_t *sensitivity(const published_rows *rows, const validated_row *v,
                           const validated_class *classes, uint32_t n, const wafer_style *base,
                           bool print)
{
    json_t *list = json_array();
    if (print) printf("\n| constant, up by 10 %% | class | predictions move by |\n|---|---|---|\n");
    for (size_t k = 0; k < ARRAY_LEN(constants); k++) {
        wafer_style moved = *base;
        double *constant = (double *)(void *)((char *)&moved + constants[k].offset);
        *constant *= 1.1;
        for (uint32_t c = 0; c < n; c++) {
            double by = shift(rows, v, classes[c].class_, &moved);
            if (fabs(by) < 1e-5) continue;
            if (print)
                printf("| %s: %s | %s | %+.2f %% |\n", constants[k].name, constants[k].what,
                       classes[c].class_, 100 * by);
            json_array_append_new(list,
                                  json_pack("{s:s, s:o, s:f}", "constant", constants[k].name,
                                            "class", json_name(classes[c].class_), "moves", by));
        }
    }
    return list;
}

static int report(const wafer_options *w, const published_rows *rows, validated_row *v,
                  cerium_error *err)
{
    validated_class classes[CLASSES_MAX];
    json_t *list = json_array(), *moves = NULL;
    for (uint32_t i = 0; i < rows->n_rows; i++) {
        v[i] = validate_row(&rows->rows[i], &w->style);
        json_array_append_new(list, json_row(&rows->rows[i], &v[i]));
    }
    const uint32_t n = validate_classes(classes, CLASSES_MAX, rows, v);
    if (!w->o.json) {
        print_rows(rows, v);
        print_classes(classes, n);
    }
    if (w->sensitivity) moves = sensitivity(rows, v, classes, n, &w->style, !w->o.json);
    if (w->o.json) {
        json_t *root = json_pack("{s:o, s:o}", "rows", list, "classes", json_classes(classes, n));
        if (moves) json_object_set_new(root, "sensitivity", moves);
        return wafer_print_json(root, err);
    }
    json_decref(list);
    json_decref(moves);
    return output_flush(err);
}

int wafer_validate_main(int argc, char **argv)
{
    wafer_options w;
    published_rows rows;
    cerium_error err = {0};
    bytes text = {.max = WAFER_ROWS_BYTES_MAX};
    int usage = wafer_options_parse(&wafer_validate_command, &w, argc, argv);
    if (usage) return usage;
    if (optind + 1 != argc) return usage_error(argv[0], "name one file of rows");
    int status = read_file(argv[optind], &text, &err);
    if (!status) status = rows_parse(&rows, (view){text.ptr, text.len}, argv[optind], &err);
    bytes_free(&text);
    if (status) return failed(&err);
    validated_row *v = memory_zalloc(rows.n_rows + 1, sizeof *v);
    status = v ? report(&w, &rows, v, &err)
               : error_set(&err, CERIUM_ERR_MEMORY, "no memory for %u rows", rows.n_rows);
    memory_free(v);
    rows_close(&rows);
    return status ? failed(&err) : 0;
}
