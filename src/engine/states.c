/* states.c - states of recurrent layers in a session's passes: where a pass reads and writes them,
 * and the places of a timeline at which one is kept for a later request.
 *
 * A timeline is adopted again where a prompt diverges: at the beginning of its last messages (a
 * client leaves out thoughts, or asks again), after what all conversations begin with, one token
 * before its end (the same prompt again), where others have pages but no state, and now and then in
 * a long text.  Messages begin with control tokens: no chat form needs to be known here. */
#include "engine/engine.h"

enum {
    KEEP_EVERY = 4096,      /* tokens */
    LAST_MESSAGES = 3,
    REACH_BACK = 8192,      /* how far before the end the last messages are searched */
};

_Static_assert((int)CPU_DRAFTS_MAX == (int)(ENGINE_LOGITS_MAX - ENGINE_STREAMS_MAX),
               "every draft of a pass may be replayed");

static bool begins_message(const cerium_session *s, uint32_t at)
{
    const tokenizer *t = s->engine->tokens;
    return at > 0 && tokenizer_is_control(t, s->tokens[at]) &&
           !tokenizer_is_end(t, s->tokens[at]);
}

/* The beginnings of the last messages, ascending, and before them that of the second of all. */
static uint32_t find_messages(const cerium_session *s, uint32_t out[LAST_MESSAGES + 1])
{
    uint32_t last[LAST_MESSAGES], n_last = 0, n = 0;
    uint32_t stop = s->n_tokens > REACH_BACK ? s->n_tokens - REACH_BACK : 0;
    for (uint32_t at = s->n_tokens; at-- > stop && n_last < LAST_MESSAGES;)
        if (begins_message(s, at)) last[n_last++] = at;
    uint32_t first = 1;
    while (first < s->n_tokens && !begins_message(s, first)) first++;
    if (first < s->n_tokens && (n_last == 0 || first < last[n_last - 1])) out[n++] = first;
    while (n_last > 0) out[n++] = last[--n_last];
    return n;
}

/* One more row writes a state: the one after n tokens; the rows begin at `first`. */
static void keep(cerium_session *s, cpu_row *rows, uint32_t first, uint32_t n)
{
    const uint32_t end = first + s->slot.n_rows;
    if (n <= first || n > end) return;
    if (n == end)
        s->slot.shows_state = true;
    else
        rows[n - first - 1].next_state = kv_sequence_keep_state(s->pages.sequence, n);
}

void session_want_states(cerium_session *s, cpu_row *rows)
{
    slot *x = &s->slot;
    kv_sequence *seq = s->pages.sequence;
    const uint32_t first = s->n_computed, end = first + x->n_rows;
    uint32_t messages[LAST_MESSAGES + 1];
    rows[0].state = kv_sequence_state(seq);
    x->shows_state = false;
    for (uint32_t at = first / KEEP_EVERY * KEEP_EVERY + KEEP_EVERY; at <= end; at += KEEP_EVERY)
        keep(s, rows, first, at);
    if (x->n_rows > 1) {
        uint32_t n = find_messages(s, messages);
        for (uint32_t i = 0; i < n; i++) keep(s, rows, first, messages[i]);
        keep(s, rows, first, s->n_tokens - 1);
        keep(s, rows, first, kv_sequence_known(seq));
    }
    rows[x->n_rows - 1].next_state = kv_sequence_next_state(seq);
}

void session_commit_state(cerium_session *s)
{
    kv_sequence_commit_state(s->pages.sequence, s->n_computed);
    if (s->slot.shows_state) kv_sequence_mark(s->pages.sequence);
}

void session_replay_drafts(cerium_session *s, uint32_t begin)
{
    const slot *x = &s->slot;
    kv_sequence *seq = s->pages.sequence;
    if (x->n_drafts == 0 || s->n_computed <= begin) return;
    cpu_executor_replay(s->engine->executor, x->first_row + x->n_rows, s->n_computed - begin,
                        kv_sequence_state(seq), kv_sequence_next_state(seq));
    kv_sequence_commit_state(seq, s->n_computed);
}
