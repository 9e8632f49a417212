/* mesh_routes.c - every flow of wavelets has a colour, and a colour one route in a router.
 *
 * Colours: four for each phase of a sum along x (there are two directions, and a core that forwards
 * needs different colours to send and to receive), the same along y, one for each of the broadcasts
 * along x, along y and in strips, and one for the tokens from outside. Strips and groups add
 * between neighbours, with the colours of sums, and keys and values go up by a row with those of
 * sums along y; groups broadcast along x and y with two more.
 *
 * Cores that work on prompts have a program of their own: sums and a broadcast along x, strips, and
 * four colours for the ring along each axis, as neighbours of a ring take turns either way. */
#include "base/memory.h"
#include "wafer/mesh_core.h"

typedef enum {
    FLOW_NONE = 0, FLOW_SUM_X, FLOW_SUM_Y, FLOW_SEND_X, FLOW_SEND_Y, FLOW_STRIP,
    FLOW_SHIFT, FLOW_GROUP_X, FLOW_GROUP_Y, FLOW_RING_X, FLOW_RING_Y
} flow;

static const char *const flow_names[] = {
    "", "the sum along x", "the sum along y", "the broadcast along x", "the broadcast along y",
    "a strip of KV heads", "tokens that go up a row", "rows of groups", "columns of groups",
    "the ring along x", "the ring along y",
};

/* The route of a colour in a router. */
typedef struct {
    uint8_t of; /* flow; FLOW_NONE: there is none */
    uint8_t in, out; /* a port, and a set of ports */
} route;

typedef struct {
    const mesh_layout *layout;
    route *routes; /* [height][width][n_colours] */
    uint32_t n_colours;
    uint32_t base[2], send[2], strip, group[2];
    int status;
    cerium_error *err;
} routing;

static const mesh_port forward[2] = {MESH_EAST, MESH_SOUTH}, back[2] = {MESH_WEST, MESH_NORTH};

static void add_route(routing *r, flow of, uint32_t colour, wafer_axis axis, uint32_t line,
                      uint32_t at, uint32_t in, uint32_t out)
{
    const uint32_t x = axis == WAFER_AXIS_X ? at : line, y = axis == WAFER_AXIS_X ? line : at;
    route *have = &r->routes[((size_t)y * r->layout->width + x) * r->n_colours + colour];
    if (have->of != FLOW_NONE && (have->in != in || have->out != out) && !r->status)
        r->status = error_set(r->err, CERIUM_ERR_ARGUMENT,
                              "mesh: colour %u collides at core (%u, %u): %s and %s need different "
                              "routes", colour, x, y, flow_names[have->of], flow_names[of]);
    *have = (route){(uint8_t)of, (uint8_t)in, (uint8_t)out};
}

/* From a core of a line to another, which does not forward it. */
static void add_flow(routing *r, flow of, uint32_t colour, wafer_axis axis, uint32_t line,
                     uint32_t from, uint32_t to)
{
    const bool up = to > from;
    const uint32_t out = up ? forward[axis] : back[axis], in = up ? back[axis] : forward[axis];
    for (uint32_t at = from; at != to; at = up ? at + 1 : at - 1)
        add_route(r, of, colour, axis, line, at, at == from ? MESH_RAMP : in, 1u << out);
    add_route(r, of, colour, axis, line, to, in, 1u << MESH_RAMP);
}

/* From a root to all of [first, end) of a line. */
static void add_broadcast(routing *r, flow of, uint32_t colour, wafer_axis axis, uint32_t line,
                          uint32_t root, uint32_t first, uint32_t end)
{
    const uint32_t ahead = 1u << forward[axis], rest = 1u << back[axis], ramp = 1u << MESH_RAMP;
    if (end - first < 2) return;
    for (uint32_t at = first; at < end; at++) {
        const uint32_t on = at + 1 < end ? ahead : 0, off = at > first ? rest : 0;
        if (at == root) add_route(r, of, colour, axis, line, at, MESH_RAMP, on | off);
        else if (at > root) add_route(r, of, colour, axis, line, at, back[axis], ramp | on);
        else add_route(r, of, colour, axis, line, at, forward[axis], ramp | off);
    }
}

/* Colours of the adds of a line: neighbours in a phase alternate, so that no core receives and
 * sends with the same. */
static void colour_adds(const wafer_add *adds, uint32_t n_adds, uint32_t n, uint8_t *colours)
{
    for (uint32_t first = 0, end; first < n_adds; first = end) {
        bool takes_part[MESH_SIDE_MAX] = {false};
        uint8_t parity[MESH_SIDE_MAX];
        for (end = first; end < n_adds && adds[end].phase == adds[first].phase; end++)
            takes_part[adds[end].from] = takes_part[adds[end].to] = true;
        for (uint32_t i = 0, rank = 0; i < n; i++) {
            parity[i] = (uint8_t)((adds[first].phase ? rank : i) % 2);
            rank += takes_part[i];
        }
        for (uint32_t i = first; i < end; i++)
            colours[i] = (uint8_t)(4 * adds[i].phase + 2 * (adds[i].from > adds[i].to) +
                                   parity[adds[i].from]);
    }
}

static void add_sums(routing *r, wafer_axis axis)
{
    const mesh_layout *l = r->layout;
    const bool along_x = axis == WAFER_AXIS_X;
    const uint32_t n = along_x ? l->width : l->height, n_lines = along_x ? l->height : l->width;
    wafer_add adds[MESH_SIDE_MAX];
    uint8_t colours[MESH_SIDE_MAX];
    const uint32_t root = mesh_adds(l, n, l->choice.degree, adds);
    colour_adds(adds, n - 1, n, colours);
    for (uint32_t line = 0; line < n_lines; line++) {
        for (uint32_t i = 0; i + 1 < n; i++)
            add_flow(r, along_x ? FLOW_SUM_X : FLOW_SUM_Y, r->base[axis] + colours[i], axis, line,
                     adds[i].from, adds[i].to);
        add_broadcast(r, along_x ? FLOW_SEND_X : FLOW_SEND_Y, r->send[axis], axis, line, root, 0,
                      n);
    }
}

/* The lines [0, n_lines) from core `first` on: n cores add between neighbours and receive the sum
 * from its root. */
static void add_run(routing *r, flow of, uint32_t send, wafer_axis axis, uint32_t n_lines,
                    uint32_t first, uint32_t n)
{
    wafer_add adds[MESH_SIDE_MAX];
    const uint32_t root = mesh_adds(r->layout, n, 1, adds);
    for (uint32_t line = 0; line < n_lines; line++) {
        for (uint32_t i = 0; i + 1 < n; i++) {
            const uint32_t from = first + adds[i].from, to = first + adds[i].to;
            add_flow(r, of, r->base[axis] + 2 * (from > to) + from % 2, axis, line, from, to);
        }
        add_broadcast(r, of, send, axis, line, first + root, first, first + n);
    }
}

static void add_expert_groups(routing *r)
{
    const mesh_layout *l = r->layout;
    const wafer_expert_groups i = expert_groups_of(l->width, l->height, l->choice.group_side);
    for (uint32_t at = 0; at < i.columns; at++)
        add_run(r, FLOW_GROUP_X, r->group[WAFER_AXIS_X], WAFER_AXIS_X, i.rows * i.side,
                at * i.side, i.side);
    for (uint32_t at = 0; at < i.rows; at++)
        add_run(r, FLOW_GROUP_Y, r->group[WAFER_AXIS_Y], WAFER_AXIS_Y, i.columns * i.side,
                at * i.side, i.side);
}

/* Every row to the one above it, with the colours of sums along y between neighbours. */
static void add_shift(routing *r)
{
    for (uint32_t x = 0; x < r->layout->width; x++)
        for (uint32_t y = 1; y < r->layout->height; y++)
            add_flow(r, FLOW_SHIFT, r->base[WAFER_AXIS_Y] + 2 + y % 2, WAFER_AXIS_Y, x, y, y - 1);
}

static void add_ring(routing *r, flow of, uint32_t colour, wafer_axis axis)
{
    const mesh_layout *l = r->layout;
    const bool along_x = axis == WAFER_AXIS_X;
    const uint32_t n = along_x ? l->width : l->height, n_lines = along_x ? l->height : l->width;
    for (uint32_t line = 0; line < n_lines; line++)
        for (uint32_t place = 0, from = 0; n > 1 && place < n; place++) {
            const uint32_t to = mesh_ring_core(n, from, 1);
            add_flow(r, of, colour + 2 * (from > to) + place % 2, axis, line, from, to);
            from = to;
        }
}

static int check_prompts(const mesh_layout *l, const step_shape *shape, uint32_t *n_colours,
                         cerium_error *err)
{
    const uint32_t sums = 4 * l->choice.degree;
    const wafer_strips strips = strips_of(shape, l->width, l->choice.k_multiple);
    routing r = {.layout = l, .err = err, .send = {sums}, .strip = sums + 1,
                 .n_colours = sums + 10};
    if (r.n_colours > *n_colours) *n_colours = r.n_colours;
    if (r.n_colours > l->colours)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "mesh: MeshGEMM products beside sums of degree %u need %u colours and a "
                         "router has %u: take a lower degree", l->choice.degree, r.n_colours,
                         l->colours);
    r.routes = memory_zalloc((size_t)l->width * l->height * r.n_colours, sizeof *r.routes);
    if (!r.routes) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the routes of a mesh");
    add_sums(&r, WAFER_AXIS_X);
    for (uint32_t s = 0; s < strips.strips; s++)
        add_run(&r, FLOW_STRIP, r.strip, WAFER_AXIS_X, l->height, s * strips.cores, strips.cores);
    add_ring(&r, FLOW_RING_X, sums + 2, WAFER_AXIS_X);
    add_ring(&r, FLOW_RING_Y, sums + 6, WAFER_AXIS_Y);
    memory_free(r.routes);
    return r.status;
}

int mesh_routes_check(const mesh_layout *l, const step_shape *shape, bool swap, uint32_t *n_colours,
                      cerium_error *err)
{
    const uint32_t phases = l->order == MESH_ORDER ? l->choice.degree : 1;
    const wafer_strips strips = strips_of(shape, l->width, l->choice.k_multiple);
    const bool expert_groups = l->choice.experts == WAFER_EXPERTS_GROUPED;
    routing r = {.layout = l, .base = {0, 4 * phases}, .err = err,
                 .n_colours = 8 * phases + 4 + 2 * expert_groups,
                 .send = {8 * phases, 8 * phases + 1}, .strip = 8 * phases + 2,
                 .group = {8 * phases + 4, 8 * phases + 5}};
    *n_colours = r.n_colours;
    if (r.n_colours > l->colours)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "mesh: sums of degree %u along both axes%s need %u colours and a router "
                         "has %u: take a lower degree",
                         phases, expert_groups ? ", and expert groups," : "", r.n_colours,
                         l->colours);
    if (swap) r.send[WAFER_AXIS_Y] = r.base[WAFER_AXIS_Y];
    r.routes = memory_zalloc((size_t)l->width * l->height * r.n_colours, sizeof *r.routes);
    if (!r.routes) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the routes of a mesh");
    add_sums(&r, WAFER_AXIS_X);
    add_sums(&r, WAFER_AXIS_Y);
    for (uint32_t s = 0; s < strips.strips; s++)
        add_run(&r, FLOW_STRIP, r.strip, WAFER_AXIS_X, l->height, s * strips.cores, strips.cores);
    if (expert_groups) add_expert_groups(&r);
    if (l->choice.kv == WAFER_KV_SHIFT) add_shift(&r);
    memory_free(r.routes);
    if (!r.status && l->mesh_gemm) return check_prompts(l, shape, n_colours, err);
    return r.status;
}
