/* executor.c - the plan of a pass, and its run. */
#include "cpu/executor.h"

#include "base/memory.h"
#include "cpu/pass.h"

void cpu_kv_windows(const step_program *program, uint32_t *windows)
{
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].kind == STEP_ATTEND)
            windows[program->ops[i].layer] = program->ops[i].window;
}

void cpu_kv_heads(const step_program *program, kv_heads *heads)
{
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const step_op *op = &program->ops[i];
        if (step_writes_kv(op))
            heads[op->layer] = (kv_heads){op->n_kv_heads, op->head_dim, op->n_latent > 0};
    }
}

size_t cpu_state_floats(const step_program *program)
{
    const step_recurrence *r = &program->shape.linear;
    return r->n_layers ? r->n_layers * step_state_floats(r) : 0;
}

/* ---- the plan ---- */

static void add_phase(cpu_executor *ex, uint32_t *n, uint32_t op, pass_stage stage,
                      uint32_t n_units)
{
    CHECK(*n < TEAM_PHASES_MAX);
    /* Small enough that the last chunks even out, large enough that claims cost nothing. */
    uint32_t chunk = n_units / (ex->n_workers * 8);
    ex->phases[*n] = (pass_phase){op, stage};
    ex->team_phases[*n] = (team_phase){n_units, chunk ? chunk : 1};
    ++*n;
}

static uint32_t units(const model_matrix *w, uint32_t block_panels, uint32_t n_rows)
{
    return divide_up(w->n_panels, block_panels) * divide_up(n_rows, PASS_TILE);
}

static uint32_t head_units(const cpu_executor *ex, const step_op *op)
{
    return divide_up(pass_head_panels(ex, op->w[0]), PASS_HEAD_PANELS) *
           divide_up(step_parts(op) * ex->n_head_rows, PASS_TILE);
}

static void plan_head(cpu_executor *ex, uint32_t *n, uint32_t i)
{
    const step_op *op = &ex->program->ops[i];
    if (ex->search.on) {
        add_phase(ex, n, i, STAGE_PREPARE, ex->n_head_rows);
        add_phase(ex, n, i, STAGE_SCREEN, head_units(ex, op));
        add_phase(ex, n, i, STAGE_MARK, ex->n_head_rows);
        add_phase(ex, n, i, STAGE_SEARCH, divide_up(op->w[0]->n_panels, PASS_HEAD_PANELS));
        return;
    }
    if (ex->n_head_rows > 1) add_phase(ex, n, i, STAGE_PREPARE, ex->n_head_rows);
    add_phase(ex, n, i, STAGE_MAIN, head_units(ex, op));
}

/* The input of LATENT_Q was prepared for LATENT, or by it. */
static void plan_latents(cpu_executor *ex, uint32_t *n, uint32_t i)
{
    const step_op *op = &ex->program->ops[i];
    const bool is_first = op->kind == STEP_LATENT;
    if (is_first && ex->n_rows > 1) add_phase(ex, n, i, STAGE_PREPARE, ex->n_rows);
    add_phase(ex, n, i, STAGE_MAIN, pass_latent_units(ex, op));
    if (is_first) add_phase(ex, n, i, STAGE_FINISH, ex->n_rows);
}

static void plan_experts(cpu_executor *ex, uint32_t *n, uint32_t i)
{
    const step_op *op = &ex->program->ops[i];
    const step_shape *s = &ex->program->shape;
    const uint32_t m = ex->n_rows, used = m * s->n_experts_used;
    const model_matrix *w = op->w[0] ? op->w[0] : op->w[1];
    if (op->kind == STEP_EXPERTS_IN) {
        add_phase(ex, n, i, STAGE_MAIN, units(w, PASS_BLOCK_PANELS, m));
        if (step_acts(op + 1)) add_phase(ex, n, i, STAGE_FINISH, m);
    } else if (op->kind == STEP_EXPERTS_UP) {
        if (op->norm) add_phase(ex, n, i, STAGE_PREPARE, m);
        if (m > 1) add_phase(ex, n, i, STAGE_GATHER, used);
        add_phase(ex, n, i, STAGE_MAIN,
                  smaller(used, s->n_experts) * divide_up(w->n_panels, PASS_UP_PANELS));
    } else {
        add_phase(ex, n, i, STAGE_MAIN, divide_up(w->n_panels, PASS_BLOCK_PANELS));
        if (op->post_norm) add_phase(ex, n, i, STAGE_ADD, m);
    }
}

/* An input that workers made in parts is turned before the step. */
static void plan_turn(cpu_executor *ex, uint32_t *n, uint32_t i)
{
    const step_op *op = &ex->program->ops[i];
    const bool of_experts = op->kind == STEP_EXPERTS_DOWN;
    const uint32_t rows = ex->n_rows * (of_experts ? ex->program->shape.n_experts_used : 1);
    if (!step_hadamard_of(op)) return;
    if (of_experts || op->kind == STEP_OUT || op->kind == STEP_FFN_DOWN)
        add_phase(ex, n, i, STAGE_TURN, rows * pass_turned_parts(op));
}

/* One row is prepared by each worker for itself, which is cheaper than a phase; more rows are
 * shared out in a phase of their own. */
static void plan_op(cpu_executor *ex, uint32_t *n, uint32_t i)
{
    const step_op *op = &ex->program->ops[i];
    const step_shape *s = &ex->program->shape;
    const uint32_t m = ex->n_rows;
    const model_matrix *w = op->w[0] ? op->w[0] : op->w[1];
    switch (op->kind) {
    case STEP_EMBED: add_phase(ex, n, i, STAGE_MAIN, m); break;
    case STEP_QKV:
        if (m > 1) add_phase(ex, n, i, STAGE_PREPARE, m);
        add_phase(ex, n, i, STAGE_MAIN, pass_qkv_units(ex, op));
        if (op->is_row_norm) add_phase(ex, n, i, STAGE_FINISH, m);
        break;
    case STEP_ATTEND:
        add_phase(ex, n, i, STAGE_MAIN, pass_attend_units(ex, op));
        if (ex->split) add_phase(ex, n, i, STAGE_JOIN, m * op->n_heads);
        break;
    case STEP_OUT:
        if (m > 1 && step_acts(op) && !step_hadamard_of(op))
            add_phase(ex, n, i, STAGE_PREPARE, m);
        add_phase(ex, n, i, STAGE_MAIN, units(w, PASS_BLOCK_PANELS, m));
        if (op->post_norm) add_phase(ex, n, i, STAGE_ADD, m);
        break;
    case STEP_FFN_UP:
        if (m > 1 && op->norm) add_phase(ex, n, i, STAGE_PREPARE, m);
        add_phase(ex, n, i, STAGE_MAIN, units(w, PASS_UP_PANELS, m));
        break;
    case STEP_FFN_DOWN:
        add_phase(ex, n, i, STAGE_MAIN, units(w, PASS_BLOCK_PANELS, m));
        if (op->post_norm) add_phase(ex, n, i, STAGE_ADD, m);
        break;
    case STEP_LAYER_INPUTS:
        add_phase(ex, n, i, STAGE_PREPARE, m);
        add_phase(ex, n, i, STAGE_MAIN, units(w, PASS_BLOCK_PANELS, m));
        add_phase(ex, n, i, STAGE_FINISH, m);
        break;
    case STEP_LAYER_GATE:
        add_phase(ex, n, i, STAGE_PREPARE, m);
        add_phase(ex, n, i, STAGE_MAIN, units(w, PASS_UP_PANELS, m));
        break;
    case STEP_LINEAR_IN:
        if (m > 1) add_phase(ex, n, i, STAGE_PREPARE, m);
        add_phase(ex, n, i, STAGE_MAIN, pass_linear_units(ex, op));
        break;
    case STEP_LATENT:
    case STEP_LATENT_Q:
    case STEP_LATENT_QUERY:
    case STEP_LATENT_VALUE: plan_latents(ex, n, i); break;
    case STEP_CONV: add_phase(ex, n, i, STAGE_MAIN, m * pass_conv_parts(&s->linear)); break;
    case STEP_DELTA:
        add_phase(ex, n, i, STAGE_MAIN, pass_delta_units(ex));
        add_phase(ex, n, i, STAGE_FINISH, m);
        break;
    case STEP_ROUTE:
        add_phase(ex, n, i, STAGE_PREPARE, m);
        add_phase(ex, n, i, STAGE_MAIN, pass_route_units(ex, op));
        add_phase(ex, n, i, STAGE_PICK, 1);
        break;
    case STEP_EXPERTS_IN:
    case STEP_EXPERTS_UP:
    case STEP_EXPERTS_DOWN: plan_experts(ex, n, i); break;
    case STEP_HEAD:
        if (ex->n_head_rows) plan_head(ex, n, i);
        break;
    }
}

static void plan_logits(cpu_executor *ex)
{
    ex->n_head_rows = 0;
    ex->panels = NULL;
    for (uint32_t r = 0; r < ex->n_rows; r++) {
        const cpu_row *row = &ex->rows[r];
        if (!row->logits) continue;
        CHECK(ex->n_head_rows == 0 || ex->panels == row->panels);
        CHECK(!row->panels || (!row->allowed && row->n_apart[0] + row->n_apart[1] == 0));
        ex->panels = row->panels;
        ex->n_panels = row->n_panels;
        ex->head_rows[ex->n_head_rows++] = r;
    }
}

static uint32_t plan(cpu_executor *ex)
{
    uint32_t n = 0;
    plan_logits(ex);
    ex->search.on = pass_searches(ex);
    ex->search.by_parts = !ex->search.on && pass_goes_by_parts(ex);
    pass_attend_plan(ex);
    if (ex->program->shape.linear.n_layers) pass_linear_plan(ex);
    const step_passes kind = ex->rows[0].is_own ? STEP_IN_BLOCK : STEP_IN_CONTEXT;
    for (uint32_t i = 0; i < ex->program->n_ops; i++) {
        const step_passes in = ex->program->ops[i].passes;
        if (in != STEP_IN_ALL && in != kind) continue;
        if (pass_tap_before(ex, i) < ex->n_taps) add_phase(ex, &n, i, STAGE_TAP, ex->n_rows);
        plan_turn(ex, &n, i);
        plan_op(ex, &n, i);
    }
    return n;
}

/* ---- the walk ---- */

static void prepare(cpu_executor *ex, const step_op *op, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        uint32_t row = op->kind == STEP_HEAD ? ex->head_rows[i] : i;
        pass_rows out = ex->normed;
        if (op->kind == STEP_OUT) out = pass_rows_of(&ex->attended, op->w[0]->cols);
        if (op->beside) out = pass_rows_of(&out, op->w[0]->cols);
        pass_prepare_row(ex, op, &out, i, row);
        if (op->kind == STEP_HEAD && ex->search.on) pass_search_norm(ex, op, i);
    }
}

/* The input of an op: from a PREPARE phase, or this worker's own copy of the only row. */
static pass_rows input(cpu_executor *ex, const step_op *op, uint32_t phase, pass_scratch *scratch)
{
    if (op->kind == STEP_FFN_DOWN) return pass_rows_of(&ex->hidden, op->w[0]->cols);
    if (op->kind == STEP_LATENT_Q && !op->norm) return pass_rows_of(&ex->low, op->w[0]->cols);
    uint32_t n = op->kind == STEP_HEAD ? ex->n_head_rows : ex->n_rows;
    if (op->kind == STEP_OUT && (n > 1 || !step_acts(op) || step_hadamard_of(op)))
        return pass_rows_of(&ex->attended, op->w[0]->cols);
    if (op->beside && n > 1) return pass_rows_of(&ex->normed, op->w[0]->cols);
    const bool is_ready = !op->norm && op->kind != STEP_QKV; /* by an earlier step */
    if (op->kind != STEP_OUT && (n > 1 || is_ready)) return ex->normed;
    uint64_t now = ex->number * TEAM_PHASES_MAX + phase;
    /* It has room for the widest input; both parts of the head's follow each other. */
    const bool is_wide = op->kind == STEP_OUT || op->beside;
    const uint32_t width = is_wide ? op->w[0]->cols : ex->program->shape.n_embd;
    const pass_rows own = pass_rows_of(&scratch->input, width);
    if (scratch->prepared != now) {
        pass_prepare_row(ex, op, &own, 0, op->kind == STEP_HEAD ? ex->head_rows[0] : 0);
        scratch->prepared = now;
    }
    return own;
}

static void run_main(cpu_executor *ex, const step_op *op, uint32_t phase, uint32_t unit,
                     pass_scratch *scratch)
{
    const bool is_linear = op->kind == STEP_QKV || op->kind == STEP_OUT ||
                           op->kind == STEP_FFN_UP || op->kind == STEP_FFN_DOWN ||
                           op->kind == STEP_LINEAR_IN || op->kind == STEP_HEAD ||
                           op->kind == STEP_LAYER_INPUTS || op->kind == STEP_LAYER_GATE ||
                           op->kind == STEP_LATENT || op->kind == STEP_LATENT_Q ||
                           op->kind == STEP_EXPERTS_IN;
    const pass_rows in = is_linear ? input(ex, op, phase, scratch) : (pass_rows){0};
    switch (op->kind) {
    case STEP_EMBED: pass_embed(ex, op, unit, unit + 1); break;
    case STEP_QKV: pass_qkv(ex, op, &in, unit, scratch); break;
    case STEP_ATTEND: pass_attend(ex, op, unit, scratch); break;
    case STEP_LINEAR_IN: pass_linear_in(ex, op, &in, unit); break;
    case STEP_LATENT: pass_latent(ex, op, &in, unit); break;
    case STEP_LATENT_Q: pass_latent_q(ex, op, &in, unit, scratch); break;
    case STEP_LATENT_QUERY: pass_latent_query(ex, op, unit, scratch); break;
    case STEP_LATENT_VALUE: pass_latent_value(ex, op, unit, scratch); break;
    case STEP_CONV: pass_conv(ex, op, unit); break;
    case STEP_DELTA: pass_delta(ex, op, unit, scratch); break;
    case STEP_OUT:
    case STEP_FFN_DOWN: pass_out(ex, op, &in, unit, scratch); break;
    case STEP_LAYER_INPUTS: pass_layer_inputs(ex, op, &in, unit); break;
    case STEP_LAYER_GATE:
    case STEP_FFN_UP: pass_ffn_up(ex, op, &in, unit, scratch); break;
    case STEP_ROUTE: pass_route(ex, op, unit); break;
    case STEP_EXPERTS_IN: pass_experts_in(ex, op, &in, unit, scratch); break;
    case STEP_EXPERTS_UP: pass_experts_up(ex, op, unit, scratch); break;
    case STEP_EXPERTS_DOWN: pass_experts_down(ex, op, unit, scratch); break;
    case STEP_HEAD:
        if (ex->search.by_parts) pass_head_best(ex, op, &in, unit, scratch);
        else pass_head(ex, op, &in, unit, scratch);
        break;
    }
}

static void run_units(void *arg, uint32_t phase, uint32_t first, uint32_t end, uint32_t worker)
{
    cpu_executor *ex = arg;
    pass_phase at = ex->phases[phase];
    const step_op *op = &ex->program->ops[at.op];
    if (atomic_load_explicit(ex->cancel, memory_order_relaxed)) {
        atomic_store_explicit(&ex->skipped, true, memory_order_relaxed);
        return;
    }
    if (op->screen) pass_search_begins(ex);
    switch (at.stage) {
    case STAGE_PREPARE: prepare(ex, op, first, end); break;
    case STAGE_MAIN:
        for (uint32_t u = first; u < end; u++) run_main(ex, op, phase, u, &ex->scratch[worker]);
        break;
    case STAGE_JOIN:
        for (uint32_t u = first; u < end; u++)
            pass_attend_join(ex, op, u / op->n_heads, u % op->n_heads);
        break;
    case STAGE_FINISH:
        for (uint32_t u = first; u < end; u++)
            if (op->kind == STEP_DELTA)
                pass_delta_finish(ex, op, u);
            else if (op->kind == STEP_LAYER_INPUTS)
                pass_layer_inputs_finish(ex, op, u);
            else if (op->kind == STEP_LATENT)
                pass_latent_finish(ex, op, u);
            else if (op->kind == STEP_EXPERTS_IN)
                pass_experts_in_finish(ex, op, u);
            else
                pass_qkv_finish(ex, op, u);
        break;
    case STAGE_ADD:
        for (uint32_t u = first; u < end; u++) pass_add_branch(ex, op, u);
        break;
    case STAGE_TURN:
        for (uint32_t u = first; u < end; u++) pass_turned(ex, op, u);
        break;
    case STAGE_TAP:
        for (uint32_t u = first; u < end; u++) pass_tap(ex, at.op, u);
        break;
    case STAGE_PICK: pass_pick(ex, op); break;
    case STAGE_GATHER:
        for (uint32_t u = first; u < end; u++) pass_gather(ex, op, u);
        break;
    case STAGE_SCREEN:
        for (uint32_t u = first; u < end; u++) pass_screen(ex, op, u, &ex->scratch[worker]);
        break;
    case STAGE_MARK:
        for (uint32_t u = first; u < end; u++) pass_search_mark(ex, op, u);
        break;
    case STAGE_SEARCH:
        for (uint32_t u = first; u < end; u++) pass_search(ex, op, u, &ex->scratch[worker]);
        break;
    }
}

bool cpu_executor_searched(const cpu_executor *ex)
{
    return ex->search.on || ex->search.by_parts;
}

uint64_t cpu_executor_head_bytes(const cpu_executor *ex)
{
    const step_op *op = &ex->program->ops[ex->program->n_ops - 1];
    if (op->kind != STEP_HEAD || !op->screen || ex->n_head_rows == 0) return 0;
    const model_matrix *w = op->w[0], *screen = op->screen;
    const uint64_t whole = (uint64_t)w->n_panels * w->panel_bytes;
    uint64_t searched = 0; /* rows that need the same panels find them in the cache */
    if (!ex->search.on) return whole - (uint64_t)screen->n_panels * screen->panel_bytes;
    for (uint32_t i = 0; i < ex->n_head_rows; i++)
        searched += (uint64_t)ex->search.n_panels[i] * w->panel_bytes;
    return searched < whole ? searched : whole;
}

int cpu_executor_run(cpu_executor *ex, const cpu_row *rows, uint32_t n_rows,
                     const _Atomic bool *cancel)
{
    CHECK(n_rows >= 1 && n_rows <= ex->rows_max);
    for (uint32_t r = 0; r < n_rows; r++)
        CHECK(rows[r].token >= 0 && (uint32_t)rows[r].token < ex->program->ops[0].w[0]->rows);
    ex->rows = rows;
    ex->n_rows = n_rows;
    ex->cancel = cancel;
    ex->number++;
    atomic_store(&ex->skipped, false);
    atomic_store_explicit(&ex->search.begin_ns, 0, memory_order_relaxed);
    uint32_t n_phases = plan(ex);
    team_run(ex->workers, ex->team_phases, n_phases, run_units, ex);
    if (atomic_load(&ex->skipped)) return CERIUM_ERR_CANCELED;
    pass_search_learn(ex);
    return CERIUM_OK;
}
