/* draft_search.c - finds idle cores beside a model's regions, and places a draft model there. */
#include <math.h>

#include "base/memory.h"
#include "wafer/drafting.h"

/* Idle cores to leave, as a multiple of the unpadded need of the smaller model. */
static const double room_tried[] = {0, 1, 1.25, 1.5, 2, 3, 5};

/* ---- idle cores ---- */

enum { ROOMS = 3 };

/* Slots [x, x + columns) x [y, y + rows) of the last wafer. */
static wafer_region slots_of(const plan_layout *l, uint32_t x, uint32_t y, uint32_t columns,
                             uint32_t rows)
{
    const wafer_region upright = {.wafer = l->wafers - 1,
                                  .x = x * l->width,
                                  .y = y * l->height,
                                  .width = columns * l->width,
                                  .height = rows * l->height};
    wafer_region side = upright;
    side.x = upright.y;
    side.y = upright.x;
    side.width = upright.height;
    side.height = upright.width;
    return l->is_turned ? side : upright;
}

/* The rectangles of slots without a region: regions are laid in a snake, so these are the rest of a
 * row of slots, the rows below it, and that rest of a row with the rows below.  Returns how
 * many. */
static uint32_t idle_rooms(const plan_layout *l, wafer_region out[ROOMS])
{
    const uint32_t slots = l->columns * l->rows;
    const uint32_t taken = l->table_regions + l->layer_regions - (l->wafers - 1) * slots;
    const uint32_t row = taken / l->columns, in_row = taken % l->columns;
    const uint32_t rest = in_row ? l->columns - in_row : 0, x = row % 2 ? 0 : in_row;
    const uint32_t below = row + (in_row != 0);
    uint32_t n = 0;
    if (rest) out[n++] = slots_of(l, x, row, rest, 1);
    if (below < l->rows) out[n++] = slots_of(l, 0, below, l->columns, l->rows - below);
    if (rest && below < l->rows) out[n++] = slots_of(l, x, row, rest, l->rows - row);
    return n;
}

/* The rectangle as a wafer of its own, of live cores only: those of a row before its dead ones come
 * first there, those after a dead one are left out. */
static int room_mesh(wafer_mesh *out, const wafer_mesh *m, const wafer_region *room)
{
    uint32_t row = UINT32_MAX, in_row = 0, most = 0, here = 0;
    *out = *m;
    out->wafers = 1;
    out->n_dead = 0;
    out->dead = m->n_dead ? memory_alloc(m->n_dead * sizeof *out->dead) : NULL;
    if (m->n_dead && !out->dead) return CERIUM_ERR_MEMORY;
    for (uint32_t i = 0; i < m->n_dead; i++) {
        const wafer_core dead = m->dead[i];
        if (dead.y != row) in_row = here = 0;
        row = dead.y;
        const uint32_t alive = dead.x - in_row++; /* to the left of it */
        if (row < room->y || row >= room->y + room->height || alive >= room->x + room->width)
            continue;
        const uint32_t x = alive < room->x ? here : dead.x - room->x;
        out->dead[out->n_dead++] = (wafer_core){(uint16_t)x, (uint16_t)(row - room->y)};
        if (++here > most) most = here;
    }
    out->width = room->width + most;
    out->height = room->height;
    return CERIUM_OK;
}

/* Hops from anywhere in one region to anywhere in the other: the edges of the rectangle around
 * both; between wafers, those of a wafer. */
static uint32_t draft_search_distance(const wafer_region *a, const wafer_region *b,
                                      const wafer_mesh *m)
{
    if (a->wafer != b->wafer) return m->width + m->height;
    const uint32_t left = a->x < b->x ? a->x : b->x, top = a->y < b->y ? a->y : b->y;
    const uint32_t ax = a->x + a->width, bx = b->x + b->width;
    const uint32_t ay = a->y + a->height, by = b->y + b->height;
    return (ax > bx ? ax : bx) - left + (ay > by ? ay : by) - top;
}

static int draft_search_measure(draft_plan *out, const plan_result *plan, const plan_request *r)
{
    wafer_placement placed;
    const wafer_mesh *m = &r->machine->mesh;
    RETURN_IF(plan_place(&placed, plan, r));
    const wafer_region *embed = &placed.regions[0];
    const wafer_region *head =
        plan->layout.table_regions ? embed : &placed.regions[placed.n_regions - 1];
    out->tell_hops = draft_search_distance(head, &out->place, m);
    out->offer_hops = draft_search_distance(&out->place, embed, m);
    out->crossings = (head->wafer != out->place.wafer) + (embed->wafer != out->place.wafer);
    placement_close(&placed);
    return CERIUM_OK;
}

/* ---- the search ---- */

/* The fastest of the rooms that fit the smaller model. */
static int fill_rooms(draft_plan *out, const plan_result *plan, const plan_request *r,
                      const plan_request *drafter, cerium_error *err)
{
    wafer_region rooms[ROOMS];
    const uint32_t n = idle_rooms(&plan->layout, rooms);
    bool found = false;
    cerium_error why;
    wafer_machine machine = *r->machine;
    plan_request guess = *r;
    guess.program = drafter->program;
    guess.quant = drafter->quant;
    guess.draft = 2; /* the most tokens to catch up with */
    guess.host_sampling = false;
    guess.idle_cores = 0;
    guess.wafers = 1;
    for (uint32_t i = 0; i < n; i++) {
        plan_result here;
        RETURN_IF(room_mesh(&machine.mesh, &r->machine->mesh, &rooms[i]));
        guess.machine = &machine;
        const int status = plan_search(&here, &guess, &why);
        memory_free(machine.mesh.dead);
        guess.machine = r->machine;
        if (status == CERIUM_ERR_CAPACITY) continue;
        if (status) {
            *err = why;
            return status;
        }
        if (!found || here.cycles < out->plan.cycles)
            *out = (draft_plan){.place = rooms[i], .request = guess, .plan = here};
        found = true;
    }
    return found ? CERIUM_OK : CERIUM_ERR_CAPACITY;
}

static double draft_search_bytes_of(const plan_request *drafter, uint32_t context)
{
    return (double)(plan_weight_bytes(drafter->program, drafter->quant) +
                    plan_kv_bytes(drafter->program, context));
}

static uint32_t draft_search_usable(const plan_request *r)
{
    const wafer_mesh *m = &r->machine->mesh;
    return m->sram_bytes - m->buffer_bytes - (r->is_sdk ? m->code_bytes_sdk : m->code_bytes_tuned);
}

/* Layouts with more and more idle cores; err is not written if none fits. */
static int draft_search_search(draft_plan *out, plan_result *plan, const plan_request *r,
                               const plan_request *drafter, cerium_error *err)
{
    const double least = draft_search_bytes_of(drafter, r->context) / draft_search_usable(r);
    plan_request roomy = *r;
    for (size_t i = 0; i < ARRAY_LEN(room_tried); i++) {
        cerium_error why;
        roomy.idle_cores = (uint64_t)ceil(least * room_tried[i]);
        int status = plan_search(plan, &roomy, i ? &why : err);
        if (status == CERIUM_ERR_CAPACITY && i) return status; /* no other place has more cores */
        if (!status) status = fill_rooms(out, plan, r, drafter, err);
        if (!status) return draft_search_measure(out, plan, r);
        if (status != CERIUM_ERR_CAPACITY || err->message[0]) return status;
    }
    return CERIUM_ERR_CAPACITY;
}

/* One line: the reason, and the nearest that would work. */
static int draft_search_say_why(const plan_request *r, const plan_request *drafter,
                                cerium_error *err)
{
    char nearest[96] = "take a smaller one";
    bool found = false;
    for (wafer_quant q = QUANT_FP8; q <= QUANT_INT4 && !found; q++) {
        draft_plan d;
        plan_result plan;
        cerium_error none = {0};
        plan_request other = *r, small = *drafter;
        if (quant_bits(q, r->program->ops[0].w[0]) >=
            quant_bits(r->quant, r->program->ops[0].w[0]))
            continue;
        other.quant = small.quant = q;
        found = !draft_search_search(&d, &plan, &other, &small, &none);
        if (found)
            snprintf(nearest, sizeof nearest, "--quant %s would fit", wafer_quant_names[q]);
    }
    return error_set(err, CERIUM_ERR_CAPACITY,
                     "%s: the draft model's %.3g GB with %u tokens of context do not fit on cores "
                     "that the model leaves idle (%u bytes each); %s",
                     r->machine->name, draft_search_bytes_of(drafter, r->context) / 1e9, r->context,
                     draft_search_usable(r), nearest);
}

int draft_agree(const step_program *program, const step_program *drafter, uint32_t context,
                cerium_error *err)
{
    const step_shape *s = &program->shape, *d = &drafter->shape;
    if (d->n_vocab != s->n_vocab)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "the draft model has %u tokens and the model %u: a draft is of the same "
                         "vocabulary",
                         d->n_vocab, s->n_vocab);
    if (context > d->context_tokens)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "a context of %u is over the draft model's; the nearest is %u", context,
                         d->context_tokens);
    return CERIUM_OK;
}

int draft_search(draft_plan *out, plan_result *plan, const plan_request *r,
                 const plan_request *drafter, cerium_error *err)
{
    CHECK(r->draft >= 2);
    RETURN_IF(draft_agree(r->program, drafter->program, r->context, err));
    err->message[0] = 0;
    const int status = draft_search_search(out, plan, r, drafter, err);
    if (!status || err->message[0]) return status;
    return status == CERIUM_ERR_CAPACITY ? draft_search_say_why(r, drafter, err)
                                         : error_set(err, status, "no memory for the plan");
}
