/* rows.c - CSV: quoted fields may hold commas, line ends and doubled quotes. */
#include "wafer/rows.h"

#include <math.h>
#include <strings.h>

enum { COLUMNS_MAX = 64 };

typedef enum {
    COLUMN_ID,
    COLUMN_CLASS,
    COLUMN_SYSTEM,
    COLUMN_DEVICES,
    COLUMN_MODEL,
    COLUMN_PRECISION,
    COLUMN_BATCH,
    COLUMN_CONTEXT,
    COLUMN_METRIC,
    COLUMN_VALUE,
    COLUMN_UNIT,
    COLUMN_NOTE,
    COLUMN_SOURCE,
    COLUMN_OTHER,
} column;

static const struct {
    const char *name;
    bool is_needed;
} columns[COLUMN_OTHER] = {
    [COLUMN_ID] = {"id", false},         [COLUMN_CLASS] = {"class", true},
    [COLUMN_SYSTEM] = {"system", false}, [COLUMN_DEVICES] = {"devices", false},
    [COLUMN_MODEL] = {"model", false},   [COLUMN_PRECISION] = {"precision", false},
    [COLUMN_BATCH] = {"batch", false},   [COLUMN_CONTEXT] = {"context", false},
    [COLUMN_METRIC] = {"metric", false}, [COLUMN_VALUE] = {"value", false},
    [COLUMN_UNIT] = {"unit", false},     [COLUMN_NOTE] = {"note", false},
    [COLUMN_SOURCE] = {"source", false},
};

typedef struct {
    char *in, *end; /* not yet read */
    uint32_t line;
} reader;

/* The next field, unquoted in place and NUL-terminated; *last: its line ends after it. */
static char *rows_next_field(reader *r, bool *last)
{
    char *start = r->in, *out = r->in;
    bool quoted = r->in < r->end && *r->in == '"';
    if (quoted) r->in++;
    while (r->in < r->end) {
        char c = *r->in++;
        if (c == '\n') r->line++;
        if (quoted && c == '"') {
            if (r->in < r->end && *r->in == '"')
                *out++ = *r->in++;
            else
                quoted = false;
        } else if (!quoted && (c == ',' || c == '\n')) {
            *last = c == '\n';
            if (out > start && out[-1] == '\r' && c == '\n') out--;
            *out = 0;
            return start;
        } else {
            *out++ = c;
        }
    }
    *last = true;
    *out = 0; /* the buffer has a byte after the text */
    return start;
}

/* Letter case and blanks around a name do not matter. */
static bool is_column(const char *have, const char *name)
{
    const size_t len = strlen(name);
    have += strspn(have, " \t");
    return !strncasecmp(have, name, len) && !have[len + strspn(have + len, " \t")];
}

static int rows_read_header(reader *r, column *which, size_t *n, const char *file,
                            cerium_error *err)
{
    bool last = false, has[COLUMN_OTHER] = {0};
    for (*n = 0; !last; (*n)++) {
        const char *name = rows_next_field(r, &last);
        if (*n == COLUMNS_MAX)
            return error_set(err, CERIUM_ERR_FORMAT, "%s:1: more than %d columns", file,
                             COLUMNS_MAX);
        which[*n] = COLUMN_OTHER;
        for (int c = 0; c < COLUMN_OTHER; c++)
            if (!has[c] && is_column(name, columns[c].name)) {
                which[*n] = (column)c;
                has[c] = true;
            }
    }
    for (int c = 0; c < COLUMN_OTHER; c++)
        if (columns[c].is_needed && !has[c])
            return error_set(err, CERIUM_ERR_FORMAT,
                             "%s:1: no column %s; the first line names the columns", file,
                             columns[c].name);
    return CERIUM_OK;
}

/* "8", "8x"; 0 if it is not a number. */
static double rows_count_of(const char *s)
{
    double x;
    const size_t digits = strspn(s, "0123456789");
    return digits && parse_f64((view){s, digits}, &x) && x < 1e9 ? x : 0;
}

/* "1,038", "~50", ">1000": the number; 0: there is none above zero. */
static double rows_value_of(const char *s)
{
    char plain[64];
    size_t n = 0;
    double x;
    for (s += strspn(s, " ~<>="); *s && *s != ' ' && n + 1 < sizeof plain; s++)
        if (*s != ',') plain[n++] = *s;
    return parse_f64((view){plain, n}, &x) && x > 0 && x < 1e18 ? x : 0;
}

static int rows_read_row(published_row *row, reader *r, const column *which, size_t n,
                         const char *file, cerium_error *err)
{
    const char *field[COLUMN_OTHER + 1];
    const uint32_t line = r->line;
    bool last = false;
    size_t i = 0;
    for (int c = 0; c <= COLUMN_OTHER; c++) field[c] = "";
    for (; !last; i++) {
        const char *text = rows_next_field(r, &last);
        if (i < n) field[which[i]] = text;
    }
    if (i == 1 && !*field[which[0]]) {
        row->class_ = NULL; /* an empty line */
        return CERIUM_OK;
    }
    if (i != n)
        return error_set(err, CERIUM_ERR_FORMAT, "%s:%u: %zu fields; the first line has %zu", file,
                         line, i, n);
    *row = (published_row){.id = field[COLUMN_ID],
                           .class_ = field[COLUMN_CLASS],
                           .system = field[COLUMN_SYSTEM],
                           .model = field[COLUMN_MODEL],
                           .precision = field[COLUMN_PRECISION],
                           .context = field[COLUMN_CONTEXT],
                           .metric = field[COLUMN_METRIC],
                           .published = field[COLUMN_VALUE],
                           .unit = field[COLUMN_UNIT],
                           .note = field[COLUMN_NOTE],
                           .source = field[COLUMN_SOURCE],
                           .devices = rows_count_of(field[COLUMN_DEVICES]),
                           .batch = fmax(rows_count_of(field[COLUMN_BATCH]), 1),
                           .value = rows_value_of(field[COLUMN_VALUE]),
                           .line = line};
    return CERIUM_OK;
}

int rows_parse(published_rows *out, view csv, const char *file, cerium_error *err)
{
    published_rows rows = {0};
    column which[COLUMNS_MAX];
    size_t n_columns = 0, n_lines = 1;
    if (csv.len > WAFER_ROWS_BYTES_MAX)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: longer than %u bytes", file,
                         WAFER_ROWS_BYTES_MAX);
    /* The byte-order mark with which spreadsheets begin UTF-8. */
    if (csv.len >= 3 && !memcmp(csv.ptr, "\xef\xbb\xbf", 3)) csv = (view){csv.ptr + 3, csv.len - 3};
    for (size_t i = 0; i < csv.len; i++) {
        n_lines += csv.ptr[i] == '\n';
        if (!csv.ptr[i])
            return error_set(err, CERIUM_ERR_FORMAT, "%s:%zu: a zero byte", file, n_lines);
    }
    if (n_lines > WAFER_ROWS_MAX)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: more than %u lines", file, WAFER_ROWS_MAX);
    rows.text = memory_copy(csv.ptr ? csv.ptr : "", csv.len);
    rows.rows = memory_zalloc(n_lines, sizeof *rows.rows);
    int status = CERIUM_OK;
    if (!rows.text || !rows.rows)
        status = error_set(err, CERIUM_ERR_MEMORY, "%s: no memory to read it", file);
    reader r = {.in = rows.text, .end = rows.text + csv.len, .line = 1};
    if (!status) status = rows_read_header(&r, which, &n_columns, file, err);
    while (!status && r.in < r.end) {
        published_row *row = &rows.rows[rows.n_rows];
        status = rows_read_row(row, &r, which, n_columns, file, err);
        if (!status && row->class_) rows.n_rows++;
    }
    if (status) {
        rows_close(&rows);
        return status;
    }
    *out = rows;
    return CERIUM_OK;
}

void rows_close(published_rows *r)
{
    memory_free(r->text);
    memory_free(r->rows);
    *r = (published_rows){0};
}
