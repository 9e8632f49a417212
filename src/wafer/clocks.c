/* clocks.c - clocks of a region, folded into an edge of lines or one for each core. */
#include "wafer/clocks.h"

#include "base/memory.h"

const char *const wafer_spent_names[WAFER_SPENT] = {
    [SPENT_ISSUE] = "issue",        [SPENT_VECTOR] = "vector steps",
    [SPENT_SCALAR] = "scalar work", [SPENT_STAGE] = "stages",
    [SPENT_HOP] = "hops",           [SPENT_STREAM] = "streaming",
};

void events_add(wafer_events *e, const wafer_events *more, uint64_t times, uint64_t of)
{
    e->vector_ops += more->vector_ops / of * times;
    e->vector_steps += more->vector_steps / of * times;
    e->scalar_ops += more->scalar_ops / of * times;
    e->macs += more->macs / of * times;
    e->stages += more->stages / of * times;
    e->ramps += more->ramps / of * times;
    e->hops += more->hops / of * times;
    e->sram_read_bits += more->sram_read_bits / of * times;
    e->sram_write_bits += more->sram_write_bits / of * times;
    e->queue_ticks += more->queue_ticks / (int64_t)of * (int64_t)times;
}

int clocks_open(wafer_clocks *c, uint32_t width, uint32_t height, bool folded,
                wafer_message_cost cost)
{
    CHECK(width && height && width <= WAFER_LINE_MAX && height <= WAFER_LINE_MAX);
    const uint32_t longest = width > height ? width : height;
    *c = (wafer_clocks){.width = width, .height = height, .folded = folded, .cost = cost};
    c->line = memory_zalloc(4 * (size_t)longest, sizeof *c->line);
    c->adds = memory_zalloc(longest, sizeof *c->adds);
    if (folded)
        c->row = memory_zalloc((size_t)height + width, sizeof *c->row);
    else
        c->core = memory_zalloc((size_t)width * height, sizeof *c->core);
    if (!c->line || !c->adds || !(folded ? c->row : c->core)) {
        clocks_close(c);
        return CERIUM_ERR_MEMORY;
    }
    c->free_right = c->line + longest;
    c->free_left = c->free_right + longest;
    c->far = c->free_left + longest;
    if (folded) c->column = c->row + height;
    return CERIUM_OK;
}

void clocks_close(wafer_clocks *c)
{
    memory_free(c->line);
    memory_free(c->adds);
    memory_free(c->row);
    memory_free(c->core);
    memory_free(c->extra_x);
    *c = (wafer_clocks){0};
}

/* place[i]: the column of the logical core (x + i) of row y; false: the row has too few live
 * cores. */
static bool place_row(uint32_t *place, const wafer_mesh *mesh, uint32_t x, uint32_t y, uint32_t n)
{
    uint32_t live = 0;
    for (uint32_t at = 0; at < mesh->width && live < x + n; at++) {
        if (machine_is_dead(mesh, at, y)) continue;
        if (live >= x) place[live - x] = at;
        live++;
    }
    return live == x + n;
}

int clocks_dead(wafer_clocks *c, const wafer_mesh *mesh, uint32_t x, uint32_t y)
{
    CHECK(!c->folded && !c->extra_x && y + c->height <= mesh->height);
    const size_t n = (size_t)c->width * c->height;
    uint32_t *place = memory_zalloc(n, sizeof *place);
    c->extra_x = memory_zalloc(2 * n, 1);
    c->extra_y = c->extra_x ? c->extra_x + n : NULL;
    int status = place && c->extra_x ? CERIUM_OK : CERIUM_ERR_MEMORY;
    for (uint32_t j = 0; !status && j < c->height; j++)
        if (!place_row(place + j * (size_t)c->width, mesh, x, y + j, c->width) ||
            place[j * (size_t)c->width + c->width - 1] > x + c->width - 1 + UINT8_MAX)
            status = CERIUM_ERR_CAPACITY;
    for (size_t k = 0; !status && k < n; k++) {
        if ((k + 1) % c->width) c->extra_x[k] = (uint8_t)(place[k + 1] - place[k] - 1);
        if (k + c->width < n) {
            uint32_t a = place[k], b = place[k + c->width];
            c->extra_y[k] = (uint8_t)(a > b ? a - b : b - a);
        }
    }
    memory_free(place);
    return status;
}

int64_t clocks_latest(const wafer_clocks *c)
{
    int64_t latest = INT64_MIN;
    if (c->folded) {
        int64_t row = INT64_MIN;
        for (uint32_t x = 0; x < c->width; x++)
            if (c->column[x] > latest) latest = c->column[x];
        for (uint32_t y = 0; y < c->height; y++)
            if (c->row[y] > row) row = c->row[y];
        return latest + row;
    }
    for (size_t i = 0; i < (size_t)c->width * c->height; i++)
        if (c->core[i] > latest) latest = c->core[i];
    return latest;
}

void clocks_spend(wafer_clocks *c, wafer_spent what, int64_t ticks)
{
    c->spent[what] += ticks;
    if (c->folded) {
        for (uint32_t y = 0; y < c->height; y++) c->row[y] += ticks;
        return;
    }
    for (size_t i = 0; i < (size_t)c->width * c->height; i++) c->core[i] += ticks;
}

void clocks_meet(wafer_clocks *c, wafer_spent what, int64_t ticks)
{
    int64_t t = clocks_latest(c) + ticks;
    c->spent[what] += ticks;
    if (c->folded) {
        for (uint32_t y = 0; y < c->height; y++) c->row[y] = t;
        memset(c->column, 0, c->width * sizeof *c->column);
        return;
    }
    for (size_t i = 0; i < (size_t)c->width * c->height; i++) c->core[i] = t;
}

/* ---- one line ---- */

typedef struct {
    wafer_clocks *c;
    const wafer_reduction *sum;
    uint32_t root, wavelets, lines; /* lines that this one represents */
    const uint8_t *extra;           /* additional hops after each core, or NULL */
    size_t stride;                  /* of extra */
} line_job;

/* A message over the links between two cores: the time when its first wavelet leaves the last link,
 * given when it could enter the first.  Links carry one wavelet a cycle, so a message occupies each
 * for as many cycles as it has wavelets. */
static int64_t clocks_travel(const line_job *job, uint32_t from, uint32_t to, int64_t start)
{
    wafer_clocks *c = job->c;
    const bool right = to > from;
    int64_t *busy = right ? c->free_right : c->free_left;
    const uint32_t n = right ? to - from : from - to;
    int64_t wait = 0, at = start;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t link = right ? from + i : from - i - 1;
        if (busy[link] - at > wait) wait = busy[link] - at;
        at += c->cost.hop * (1 + (job->extra ? job->extra[link * job->stride] : 0));
    }
    const int64_t end = at + wait;
    at = start + wait;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t link = right ? from + i : from - i - 1;
        int64_t hop = c->cost.hop * (1 + (job->extra ? job->extra[link * job->stride] : 0));
        busy[link] = at + (int64_t)job->wavelets * WAFER_TICKS;
        c->events.hops += (uint64_t)job->wavelets * job->lines * (uint64_t)(hop / c->cost.hop);
        at += hop;
    }
    c->events.queue_ticks += wait * job->lines;
    return end;
}

/* t: [n] the time when each core has its partial sum; then when each has the whole. */
static void reduce_line(const line_job *job, int64_t *t)
{
    wafer_clocks *c = job->c;
    const uint32_t n = job->sum->n;
    const int64_t stream = (int64_t)job->wavelets * WAFER_TICKS;
    int64_t *last_phase = c->far;
    for (uint32_t i = 0; i < n; i++) {
        c->free_right[i] = c->free_left[i] = INT64_MIN / 2;
        last_phase[i] = -1;
    }
    for (uint32_t i = 0; i + 1 < n; i++) {
        const wafer_add a = c->adds[i];
        int64_t came = clocks_travel(job, a.from, a.to, t[a.from] + c->cost.ramp) + c->cost.ramp;
        /* The second stream into a core starts after the first has ended. */
        int64_t ready = t[a.to] + (last_phase[a.to] == a.phase ? stream : 0);
        t[a.to] = (came > ready ? came : ready) + c->cost.stage;
        last_phase[a.to] = a.phase;
    }
    int64_t known = t[job->root] + c->cost.ramp;
    t[job->root] += stream;
    int64_t far = known;
    for (uint32_t i = job->root + 1; i < n; i++) {
        far += c->cost.hop * (1 + (job->extra ? job->extra[(i - 1) * job->stride] : 0));
        t[i] = far + c->cost.ramp + stream;
    }
    far = known;
    for (uint32_t i = job->root; i-- > 0;) {
        far += c->cost.hop * (1 + (job->extra ? job->extra[i * job->stride] : 0));
        t[i] = far + c->cost.ramp + stream;
    }
    const uint64_t many = (uint64_t)job->wavelets * job->lines;
    c->events.stages += (uint64_t)(n - 1) * job->lines;
    c->events.ramps += (n - 1) * 4 * many; /* up and down, for the sum and for its return */
    c->events.hops += (n - 1) * many;      /* the return */
    c->events.vector_ops += (uint64_t)(n - 1) * job->lines;
    c->events.vector_steps += (n - 1) * many;
    c->events.sram_read_bits += (n - 1) * many * 64;
    c->events.sram_write_bits += (n - 1) * many * 64;
}

/* The parts of the longest path through an all-reduce; `ticks` is the total. */
static void clocks_account(wafer_clocks *c, const wafer_reduction *sum, int64_t ticks)
{
    int64_t stages = 0, hops = c->cost.hop * (sum->n - 1);
    /* In the middle of a group the stream from the other side is added too. */
    for (uint32_t i = 0; i < sum->degree; i++) stages += sum->group[i] / 2 + (sum->group[i] > 2);
    int64_t software = stages * (c->cost.stage + 2 * c->cost.ramp) + 2 * c->cost.ramp;
    if (software > ticks) software = ticks;
    if (hops > ticks - software) hops = ticks - software;
    c->spent[SPENT_STAGE] += software;
    c->spent[SPENT_HOP] += hops;
    c->spent[SPENT_STREAM] += ticks - software - hops;
}

static void reduce_folded(wafer_clocks *c, line_job *job, wafer_axis axis)
{
    const bool along_x = axis == WAFER_AXIS_X;
    const uint32_t len = along_x ? c->width : c->height, n = job->sum->n;
    job->lines = along_x ? c->height : c->width;
    for (uint32_t first = 0; first + n <= len; first += n)
        reduce_line(job, (along_x ? c->column : c->row) + first);
}

static void reduce_every(wafer_clocks *c, line_job *job, wafer_axis axis)
{
    const bool along_x = axis == WAFER_AXIS_X;
    const uint32_t len = along_x ? c->width : c->height, n = job->sum->n;
    const uint32_t n_lines = along_x ? c->height : c->width;
    const size_t step = along_x ? 1 : c->width, across = along_x ? c->width : 1;
    const uint8_t *extra = along_x ? c->extra_x : c->extra_y;
    job->lines = 1;
    job->stride = step;
    for (uint32_t l = 0; l < n_lines; l++)
        for (uint32_t first = 0; first + n <= len; first += n) {
            const size_t base = l * across + first * step;
            for (uint32_t i = 0; i < n; i++) c->line[i] = c->core[base + i * step];
            if (extra) job->extra = extra + base;
            reduce_line(job, c->line);
            for (uint32_t i = 0; i < n; i++) c->core[base + i * step] = c->line[i];
        }
}

void clocks_reduce(wafer_clocks *c, wafer_axis axis, const wafer_reduction *sum, uint32_t wavelets)
{
    CHECK(sum->n <= (axis == WAFER_AXIS_X ? c->width : c->height));
    if (sum->n < 2) return;
    const int64_t before = clocks_latest(c);
    line_job job = {.c = c, .sum = sum, .wavelets = wavelets};
    job.root = reduction_adds(sum, c->adds);
    if (c->folded)
        reduce_folded(c, &job, axis);
    else
        reduce_every(c, &job, axis);
    clocks_account(c, sum, clocks_latest(c) - before);
}
