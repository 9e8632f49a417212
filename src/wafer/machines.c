/* machines.c - reads machine descriptions: a table of keys, each with its range, over libinih. */
#include "wafer/machines.h"

#include <errno.h>
#include <ini.h>
#include <unistd.h>

#include "base/memory.h"

typedef enum { KEY_TEXT, KEY_U32, KEY_F64, KEY_BAND, KEY_DEAD } key_type;
typedef enum { FOR_ALL, FOR_MESH, FOR_GPU } key_use;

typedef struct {
    const char *section, *name;
    key_type type;
    key_use use;
    double low, high; /* of numbers, both ends of a band included */
    size_t offset;
} key;

#define AT(member) offsetof(wafer_machine, member)
#define STACK(section, number)                                                                     \
    {section, "efficiency", KEY_F64, FOR_GPU, 0.01, 1, AT(gpu.stack[number].efficiency)},          \
        {section, "layer_us", KEY_F64, FOR_GPU, 0, 1e4, AT(gpu.stack[number].layer_us)},           \
    {                                                                                              \
        section, "reduce_us", KEY_F64, FOR_GPU, 0, 1e4, AT(gpu.stack[number].reduce_us)            \
    }

static const key keys[] = {
    {"machine", "title", KEY_TEXT, FOR_ALL, 0, 0, AT(title)},
    {"mesh", "grid_width", KEY_U32, FOR_MESH, 1, WAFER_GRID_MAX, AT(mesh.grid_width)},
    {"mesh", "grid_height", KEY_U32, FOR_MESH, 1, WAFER_GRID_MAX, AT(mesh.grid_height)},
    {"mesh", "width", KEY_U32, FOR_MESH, 1, WAFER_GRID_MAX, AT(mesh.width)},
    {"mesh", "height", KEY_U32, FOR_MESH, 1, WAFER_GRID_MAX, AT(mesh.height)},
    {"mesh", "wafers", KEY_U32, FOR_MESH, 1, WAFER_WAFERS_MAX, AT(mesh.wafers)},
    {"mesh", "hop_cycles", KEY_U32, FOR_MESH, 1, 1000, AT(mesh.hop_cycles)},
    {"mesh", "ramp_cycles", KEY_U32, FOR_MESH, 0, 1000, AT(mesh.ramp_cycles)},
    {"mesh", "clock_ghz", KEY_BAND, FOR_MESH, 0.01, 10, AT(mesh.clock_ghz)},
    {"mesh", "colours", KEY_U32, FOR_MESH, 1, 1024, AT(mesh.colours)},
    {"mesh", "input_queues", KEY_U32, FOR_MESH, 1, 1024, AT(mesh.input_queues)},
    {"mesh", "output_queues", KEY_U32, FOR_MESH, 1, 1024, AT(mesh.output_queues)},
    {"mesh", "reserved_colours", KEY_U32, FOR_MESH, 0, 1024, AT(mesh.reserved_colours)},
    {"mesh", "reserved_queues", KEY_U32, FOR_MESH, 0, 1024, AT(mesh.reserved_queues)},
    {"mesh", "dead", KEY_DEAD, FOR_ALL, 0, 0, 0},
    {"core", "sram_bytes", KEY_U32, FOR_MESH, 1024, 1 << 30, AT(mesh.sram_bytes)},
    {"core", "code_bytes_sdk", KEY_U32, FOR_MESH, 0, 1 << 30, AT(mesh.code_bytes_sdk)},
    {"core", "code_bytes_tuned", KEY_U32, FOR_MESH, 0, 1 << 30, AT(mesh.code_bytes_tuned)},
    {"core", "buffer_bytes", KEY_U32, FOR_MESH, 0, 1 << 30, AT(mesh.buffer_bytes)},
    {"core", "simd_fp32", KEY_U32, FOR_MESH, 1, 4096, AT(mesh.simd_fp32)},
    {"core", "simd_fp16", KEY_U32, FOR_MESH, 1, 4096, AT(mesh.simd_fp16)},
    {"core", "simd_int8", KEY_U32, FOR_MESH, 1, 4096, AT(mesh.simd_int8)},
    {"links", "wafer_us", KEY_BAND, FOR_MESH, 0, 1e6, AT(mesh.link_us)},
    {"links", "host_us", KEY_BAND, FOR_MESH, 0, 1e6, AT(mesh.host_us)},
    {"links", "gbytes_s", KEY_F64, FOR_MESH, 1e-6, 1e9, AT(mesh.link_gbytes_s)},
    {"energy", "sram_read_pj_bit", KEY_BAND, FOR_MESH, 0, 100, AT(mesh.sram_read_pj_bit)},
    {"energy", "sram_write_pj_bit", KEY_BAND, FOR_MESH, 0, 100, AT(mesh.sram_write_pj_bit)},
    {"energy", "hop_pj_bit", KEY_BAND, FOR_MESH, 0, 100, AT(mesh.hop_pj_bit)},
    {"energy", "mac_pj", KEY_BAND, FOR_MESH, 0, 1000, AT(mesh.mac_pj)},
    {"energy", "core_pj_cycle", KEY_BAND, FOR_MESH, 0, 1000, AT(mesh.core_pj_cycle)},
    {"energy", "static_share", KEY_BAND, FOR_MESH, 0, 1, AT(mesh.static_share)},
    {"gpu", "devices", KEY_U32, FOR_GPU, 1, 65536, AT(gpu.devices)},
    {"gpu", "hbm_gbytes_s", KEY_F64, FOR_GPU, 1, 1e6, AT(gpu.hbm_gbytes_s)},
    {"gpu", "hbm_gbytes", KEY_F64, FOR_GPU, 1, 1e6, AT(gpu.hbm_gbytes)},
    {"gpu", "tflops_fp16", KEY_F64, FOR_GPU, 0.1, 1e6, AT(gpu.tflops_fp16)},
    {"gpu", "tflops_fp8", KEY_F64, FOR_GPU, 0.1, 1e6, AT(gpu.tflops_fp8)},
    STACK("stock", WAFER_STOCK),
    STACK("tuned", WAFER_TUNED),
    STACK("floor", WAFER_FLOOR),
    {"cost", "price_usd", KEY_BAND, FOR_ALL, 0, 1e12, AT(price_usd)},
    {"cost", "power_kw", KEY_BAND, FOR_ALL, 0.0001, 1e6, AT(power_kw)},
    {"cost", "wafers_a_system", KEY_U32, FOR_MESH, 1, WAFER_WAFERS_MAX, AT(wafers_a_system)},
    {"cost", "years", KEY_F64, FOR_ALL, 0.1, 100, AT(years)},
    {"cost", "utilization", KEY_F64, FOR_ALL, 0.001, 1, AT(utilization)},
    {"cost", "usd_kwh", KEY_F64, FOR_ALL, 0, 1000, AT(usd_kwh)},
    {"cost", "pue", KEY_F64, FOR_ALL, 1, 10, AT(pue)},
};

typedef struct {
    wafer_machine *m;
    view rest;                    /* lines not yet read */
    int line;                     /* of the last one read */
    int line_of[ARRAY_LEN(keys)]; /* the line of a key; 0 = none */
    char why[200];                /* the first error, at bad_line */
    int bad_line;
} reading;

__attribute__((format(printf, 3, 4))) static void machines_refuse(reading *r, int line,
                                                                  const char *format, ...)
{
    va_list args;
    if (r->bad_line) return;
    r->bad_line = line;
    va_start(args, format);
    vsnprintf(r->why, sizeof r->why, format, args);
    va_end(args);
}

static bool machines_in_range(reading *r, const key *k, double x)
{
    if (x >= k->low && x <= k->high) return true;
    machines_refuse(r, r->line, "%s = %g is impossible; it must be %g to %g", k->name, x, k->low,
                    k->high);
    return false;
}

static view machines_trim(view v) { return view_trim(v, " \t"); }

/* "a" or "a .. b". */
static void take_band(reading *r, const key *k, view text, wafer_band *out)
{
    wafer_band b;
    size_t at = 0;
    while (at + 1 < text.len && (text.ptr[at] != '.' || text.ptr[at + 1] != '.')) at++;
    bool is_band = at + 1 < text.len;
    view first = is_band ? machines_trim((view){text.ptr, at}) : text;
    view second = is_band ? machines_trim((view){text.ptr + at + 2, text.len - at - 2}) : text;
    if (!parse_f64(first, &b.low) || !parse_f64(second, &b.high)) {
        machines_refuse(r, r->line, "%s takes a number, or two as in 0.85 .. 1.1", k->name);
    } else if (machines_in_range(r, k, b.low) && machines_in_range(r, k, b.high)) {
        if (b.low > b.high)
            machines_refuse(r, r->line, "%s goes from %g down to %g; write the lower end first",
                            k->name, b.low, b.high);
        else
            *out = b;
    }
}

/* "x,y x,y ...", added to those of earlier lines. */
static void take_dead(reading *r, view text)
{
    wafer_mesh *m = &r->m->mesh;
    while (text.len) {
        size_t len = 0;
        while (len < text.len && text.ptr[len] != ' ') len++;
        view x = {text.ptr, 0}, y;
        while (x.len < len && x.ptr[x.len] != ',') x.len++;
        y = (view){x.ptr + x.len + 1, len > x.len ? len - x.len - 1 : 0};
        uint64_t at_x, at_y;
        if (!parse_u64(x, &at_x) || !parse_u64(y, &at_y) || at_x >= WAFER_GRID_MAX ||
            at_y >= WAFER_GRID_MAX) {
            machines_refuse(r, r->line, "dead takes cores as x,y and blanks between them");
            return;
        }
        if (!m->dead) m->dead = memory_zalloc(WAFER_DEAD_MAX, sizeof *m->dead);
        if (!m->dead || m->n_dead == WAFER_DEAD_MAX) {
            machines_refuse(r, r->line, "more than %d dead cores", m->dead ? WAFER_DEAD_MAX : 0);
            return;
        }
        m->dead[m->n_dead++] = (wafer_core){(uint16_t)at_x, (uint16_t)at_y};
        text = machines_trim((view){text.ptr + len, text.len - len});
    }
}

static void machines_take(reading *r, const key *k, view text)
{
    char *at = (char *)r->m + k->offset;
    double x;
    switch (k->type) {
    case KEY_TEXT:
        if (!text.len || text.len >= WAFER_NAME_BYTES)
            machines_refuse(r, r->line, "%s takes 1 to %d bytes", k->name, WAFER_NAME_BYTES - 1);
        else
            snprintf(at, WAFER_NAME_BYTES, "%.*s", (int)text.len, text.ptr);
        break;
    case KEY_U32: {
        uint64_t n;
        if (!parse_u64(text, &n))
            machines_refuse(r, r->line, "%s takes a whole number", k->name);
        else if (machines_in_range(r, k, (double)n))
            memcpy(at, &(uint32_t){(uint32_t)n}, sizeof(uint32_t));
        break;
    }
    case KEY_F64:
        if (!parse_f64(text, &x))
            machines_refuse(r, r->line, "%s takes a number", k->name);
        else if (machines_in_range(r, k, x))
            memcpy(at, &x, sizeof x);
        break;
    case KEY_BAND:
        take_band(r, k, text, (wafer_band *)(void *)at);
        break;
    case KEY_DEAD:
        take_dead(r, text);
        break;
    }
}

static int machines_on_value(void *user, const char *section, const char *name, const char *value)
{
    reading *r = user;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (strcmp(section, keys[i].section) || strcmp(name, keys[i].name)) continue;
        if (r->line_of[i] && keys[i].type != KEY_DEAD)
            machines_refuse(r, r->line, "%s is already set in line %d", name, r->line_of[i]);
        r->line_of[i] = r->line;
        machines_take(r, &keys[i], machines_trim(view_of(value)));
        return 1;
    }
    machines_refuse(r, r->line, "unknown key %.40s in [%.40s]", name, section);
    return 1;
}

/* libinih reads lines like fgets(). */
static char *machines_next_line(char *out, int size, void *user)
{
    reading *r = user;
    size_t len = 0;
    if (!r->rest.len) return NULL;
    while (len < r->rest.len && r->rest.ptr[len] != '\n') len++;
    r->line++;
    size_t take_len = len < (size_t)size - 1 ? len : (size_t)size - 1;
    if (len > take_len) machines_refuse(r, r->line, "a line of over %zu bytes", take_len);
    memcpy(out, r->rest.ptr, take_len);
    out[take_len] = 0;
    for (size_t i = 0; i < take_len; i++)
        if (!out[i]) machines_refuse(r, r->line, "a zero byte");
    size_t used = len < r->rest.len ? len + 1 : len;
    r->rest = (view){r->rest.ptr + used, r->rest.len - used};
    return out;
}

static int line_of(const reading *r, size_t offset)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (keys[i].offset == offset && keys[i].type != KEY_DEAD) return r->line_of[i];
    return 0;
}

/* Checks over several keys. */
static void check_mesh(reading *r)
{
    const wafer_mesh *m = &r->m->mesh;
    if (m->width > m->grid_width)
        machines_refuse(r, line_of(r, AT(mesh.width)), "width = %u, but the grid is %u wide",
                        m->width, m->grid_width);
    if (m->height > m->grid_height)
        machines_refuse(r, line_of(r, AT(mesh.height)), "height = %u, but the grid is %u high",
                        m->height, m->grid_height);
    uint32_t code =
        m->code_bytes_sdk > m->code_bytes_tuned ? m->code_bytes_sdk : m->code_bytes_tuned;
    if ((uint64_t)code + m->buffer_bytes >= m->sram_bytes)
        machines_refuse(r, line_of(r, AT(mesh.sram_bytes)),
                        "sram_bytes = %u leaves nothing beside %u of code and %u of buffers",
                        m->sram_bytes, code, m->buffer_bytes);
    if (m->reserved_colours >= m->colours)
        machines_refuse(r, line_of(r, AT(mesh.reserved_colours)), "%u of %u colours are reserved",
                        m->reserved_colours, m->colours);
    if (m->reserved_queues >= m->input_queues || m->reserved_queues >= m->output_queues)
        machines_refuse(r, line_of(r, AT(mesh.reserved_queues)),
                        "%u queues are reserved of %u in, %u out", m->reserved_queues,
                        m->input_queues, m->output_queues);
    for (uint32_t i = 0; i < m->n_dead; i++)
        if (m->dead[i].x >= m->width || m->dead[i].y >= m->height)
            machines_refuse(r, r->line, "dead core %u,%u lies outside %u x %u", m->dead[i].x,
                            m->dead[i].y, m->width, m->height);
}

static void check_all(reading *r)
{
    bool has_mesh = false, has_gpu = false;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        has_mesh |= r->line_of[i] && keys[i].use == FOR_MESH;
        has_gpu |= r->line_of[i] && keys[i].use == FOR_GPU;
    }
    r->m->is_gpu = has_gpu;
    if (has_mesh && has_gpu) machines_refuse(r, r->line, "a machine is a mesh or GPUs, not both");
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        bool wanted = keys[i].use == FOR_ALL || (keys[i].use == FOR_GPU) == has_gpu;
        if (wanted && keys[i].type != KEY_DEAD && !r->line_of[i])
            machines_refuse(r, r->line, "key %s of [%s] is missing", keys[i].name, keys[i].section);
    }
    if (!has_gpu && !r->bad_line) check_mesh(r);
}

static int by_place(const void *a, const void *b)
{
    const wafer_core *p = a, *q = b;
    if (p->y != q->y) return p->y < q->y ? -1 : 1;
    return (p->x > q->x) - (p->x < q->x);
}

int machine_parse(wafer_machine *out, view text, const char *file, cerium_error *err)
{
    wafer_machine m = {0};
    reading r = {.m = &m, .rest = text};
    if (text.len > WAFER_MACHINE_BYTES_MAX)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: longer than %u bytes", file,
                         WAFER_MACHINE_BYTES_MAX);
    int line = ini_parse_stream(machines_next_line, &r, machines_on_value, &r);
    if (line) machines_refuse(&r, line > 0 ? line : r.line, "neither [section] nor key = value");
    check_all(&r);
    if (r.bad_line || r.why[0]) {
        machine_close(&m);
        return error_set(err, CERIUM_ERR_FORMAT, "%s:%d: %s", file, r.bad_line, r.why);
    }
    if (m.mesh.dead) qsort(m.mesh.dead, m.mesh.n_dead, sizeof *m.mesh.dead, by_place);
    *out = m;
    return CERIUM_OK;
}

bool machine_is_dead(const wafer_mesh *m, uint32_t x, uint32_t y)
{
    const wafer_core core = {(uint16_t)x, (uint16_t)y};
    return m->n_dead && bsearch(&core, m->dead, m->n_dead, sizeof core, by_place);
}

bool machine_find(char *path, size_t size, const char *name)
{
    static const char *const places[] = {"machines/", "../share/cerium/machines/",
                                         "../../machines/"};
    char self[3800];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0) return false;
    self[len] = 0;
    char *slash = strrchr(self, '/');
    if (!slash) return false;
    slash[1] = 0;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        int n = snprintf(path, size, "%s%s%s", self, places[i], name);
        if (n > 0 && (size_t)n < size && access(path, R_OK) == 0) return true;
    }
    return false;
}

int machine_open(wafer_machine *out, const char *name, cerium_error *err)
{
    char path[4096], file[WAFER_NAME_BYTES + 8];
    bool is_path = strchr(name, '/') || strchr(name, '.');
    snprintf(file, sizeof file, "%.*s.ini", WAFER_NAME_BYTES, name);
    if (is_path)
        snprintf(path, sizeof path, "%s", name);
    else if (!machine_find(path, sizeof path, file))
        return error_set(err, CERIUM_ERR_IO,
                         "unknown machine '%.60s'; known are wse2, wse3, cs3, cs4, small, "
                         "dgx-h100, dgx-h200 and dgx-b200, or name a file.ini",
                         name);
    FILE *f = fopen(path, "rb");
    if (!f) return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
    char *text = memory_alloc(WAFER_MACHINE_BYTES_MAX + 1);
    size_t n = text ? fread(text, 1, WAFER_MACHINE_BYTES_MAX + 1, f) : 0;
    bool broken = ferror(f);
    fclose(f);
    int status;
    if (!text)
        status = error_set(err, CERIUM_ERR_MEMORY, "%s: no memory to read it", path);
    else if (broken)
        status = error_set(err, CERIUM_ERR_IO, "%s: cannot be read", path);
    else
        status = machine_parse(out, (view){text, n}, path, err);
    memory_free(text);
    if (status) return status;
    const char *base = strrchr(path, '/');
    snprintf(out->name, sizeof out->name, "%.60s", base ? base + 1 : path);
    char *dot = strrchr(out->name, '.');
    if (dot) *dot = 0;
    return CERIUM_OK;
}

void machine_close(wafer_machine *m)
{
    memory_free(m->mesh.dead);
    *m = (wafer_machine){0};
}
