/* candidates.c - collects the tokens of the first choice, and gives the others what they must not
 * begin with. */
#include "server/candidates.h"

#include "protocol/hole_branches.h"

struct candidates {
    branch_path path;
    branch found[BRANCHES_MAX]; /* the choices borrow it */
};

int candidates_open(answer *a)
{
    if (!a->request->candidates || a->warm_up) return CERIUM_OK;
    a->candidates = memory_zalloc(1, sizeof *a->candidates);
    return a->candidates ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

void candidates_close(answer *a)
{
    memory_free(a->candidates);
    a->candidates = NULL;
}

bool candidates_wait(const choice *ch) { return ch->a->candidates && ch->index > 0; }

uint32_t candidates_top(const choice *ch)
{
    return ch->a->candidates && ch->index == 0 ? BRANCH_TOP : 0;
}

void candidates_step(const choice *ch, const cerium_event *event)
{
    if (candidates_top(ch))
        branch_path_add(&ch->a->candidates->path, event->step.tokens[0],
                        event->step.logprobs[0], event->top, event->n_top);
}

uint32_t candidates_find(answer *a)
{
    return a->script ? 0 : branches_find(&a->candidates->path, a->candidates->found,
                                         a->n_choices - 1);
}

void candidates_begin(choice *ch)
{
    const branch *b = &ch->a->candidates->found[ch->index - 1];
    CHECK(candidates_wait(ch));
    ch->begins.avoid = b->avoid;
    ch->begins.n_avoid = b->n_avoid;
}
