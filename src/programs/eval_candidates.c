/* eval_candidates.c - the likeliest line of a hole, then its branches, one after the other. */
#include "programs/eval_candidates.h"

#include "base/thread.h"
#include "programs/eval_stats.h"
#include "protocol/hole_branches.h"

static thread_bell bell;

static void ring(void *user) { thread_bell_ring(user); }

/* More of the line; true when it is whole. */
static bool add_text(eval_candidate *c, view text)
{
    for (size_t i = 0; i < text.len; i++) {
        const bool is_blank = !eval_stripped((view){c->text, c->len}).len;
        if (text.ptr[i] == '\n' && !is_blank) return true;
        if (c->len == sizeof c->text) return true;
        if (text.ptr[i] == '\n') c->len = 0;
        else c->text[c->len++] = text.ptr[i];
    }
    return false;
}

/* Poll until the request is over; path: its tokens, or NULL. */
static int follow(cerium_session *session, eval_candidate *c, branch_path *path,
                  cerium_error *err)
{
    cerium_event event;
    for (bool whole = false;;) {
        const uint32_t seen = atomic_load(&bell.n_rings);
        cerium_session_poll(session, &event);
        if (event.kind == CERIUM_EVENT_NONE) {
            thread_bell_wait(&bell, seen);
        } else if (event.kind == CERIUM_EVENT_DONE) {
            if (!event.status || event.status == CERIUM_ERR_CANCELED) return CERIUM_OK;
            return error_set(err, event.status, "%s", cerium_status_text(event.status));
        } else if (!whole) {
            const cerium_step *step = &event.step;
            c->logprob += (double)step->logprobs[0];
            if (path)
                branch_path_add(path, step->tokens[0], step->logprobs[0], event.top, event.n_top);
            whole = add_text(c, (view){step->text, step->text_len});
            if (whole) cerium_session_cancel(session);
        }
    }
}

static int write_one(cerium_session *session, const eval_hole *hole, const branch *b,
                     eval_candidate *c, branch_path *path, cerium_error *err)
{
    const cerium_sampling sampling = {.logprobs = true, .pointer = hole->pointer};
    const cerium_resume begin = {.heal_prefix = hole->heal_prefix.ptr,
                                 .n_heal = hole->heal_prefix.len,
                                 .avoid = b ? b->avoid : NULL,
                                 .n_avoid = b ? b->n_avoid : 0};
    const cerium_request q = {.tokens = hole->tokens, .n_tokens = hole->n_tokens,
                              .new_tokens_max = hole->line_tokens, .sampling = &sampling,
                              .top_logprobs = path ? BRANCH_TOP : 0, .resume = &begin,
                              .notify = ring, .user = &bell};
    *c = (eval_candidate){.len = 0};
    RETURN_IF(cerium_session_start(session, &q, err));
    return follow(session, c, path, err);
}

static bool is_new(const eval_candidate *all, uint32_t n)
{
    const view text = eval_stripped((view){all[n].text, all[n].len});
    for (uint32_t i = 0; i < n; i++)
        if (view_equal(eval_stripped((view){all[i].text, all[i].len}), text)) return false;
    return text.len > 0;
}

int eval_candidates(cerium_session *session, const eval_hole *hole, eval_candidate *out,
                    uint32_t n_max, uint32_t *n, cerium_error *err)
{
    branch_path path = {.n = 0};
    branch all[BRANCHES_MAX];
    *n = 1;
    RETURN_IF(write_one(session, hole, NULL, &out[0], &path, err));
    const uint32_t n_branches = branches_find(&path, all, 2 * (n_max - 1));
    for (uint32_t i = 0; i < n_branches && *n < n_max; i++) {
        RETURN_IF(write_one(session, hole, &all[i], &out[*n], NULL, err));
        *n += is_new(out, *n);
    }
    return CERIUM_OK;
}
