/* engine.h - what is inside cerium_engine and cerium_session, and what its files share.
 *
 * Ownership of fields, and the order of locks: docs/locks.md. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/stop.h"
#include "base/thread.h"
#include "cache/kv.h"
#include "cpu/executor.h"
#include "engine/cost.h"
#include "engine/draft_model.h"
#include "engine/guide.h"
#include "engine/answer_cache.h"
#include "engine/shared_team.h"
#include "engine/slot.h"
#include "engine/workspace.h"
#include "gguf/gguf.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "sampling/pointer.h"
#include "sampling/sampler.h"
#include "speculation/drafter.h"
#include "tokenizer/chat.h"
#include "tokenizer/infill.h"
#include "tokenizer/tokenizer.h"

/* ---- limits: what a broken or hostile input can make us take ---- */

#define LOGITS_POPULATE_BYTES (8u << 20) /* of a pass: 64 rows of a vocabulary of 32 k */

enum {
    ENGINE_STREAMS_MAX = 64,     /* requests in one pass */
    ENGINE_LOGITS_MAX = 2 * ENGINE_STREAMS_MAX, /* rows with logits in one: drafts have them too */
};

typedef struct scheduler scheduler;
typedef struct request request;

/* A holder of pages, and its rank: see preempt.c. */
typedef struct page_claim {
    struct page_claim *next, *before; /* in engine->claims */
    cerium_engine *engine;
    kv_sequence *sequence;
    uint64_t tenant;
    _Atomic uint64_t rank;       /* the greatest gives up pages first */
    bool planned;                /* takes part in the pass that is being made */
} page_claim;

typedef struct {
    _Atomic uint32_t running[CERIUM_CLASSES], waiting[CERIUM_CLASSES];
    _Atomic uint64_t prompt_tokens, reused_tokens, new_tokens;
    _Atomic uint64_t drafted[DRAFT_SOURCES], accepted[DRAFT_SOURCES];
    _Atomic uint64_t passes, preempted_passes, busy_ns, drafting_ns, head_bytes;
    _Atomic uint64_t shared_rows, answer_rows;
} engine_counts;

/* Logits of requests that began alike: one that says the same later needs no row. */
enum { ENGINE_KEPT_ROWS_MIN = 8, ENGINE_KEPT_ROWS_MAX = 1024, ENGINE_KEPT_BYTES = 16 << 20 };
typedef struct {
    uint64_t tenant, used;       /* used: the last pass that did; 0: it holds nothing */
    int32_t *tokens;             /* [n_tokens] the timeline before them */
    uint32_t n_tokens;
    float *logits;               /* [logits_stride], all of them; owned while the engine is open */
} kept_row;

struct cerium_engine {
    kept_row kept[ENGINE_KEPT_ROWS_MAX]; /* within a turn: kept_rows.c */
    uint32_t n_kept;             /* that may hold logits */
    uint64_t kept_pass;          /* 1, 2, 3, ... */
    gguf_file *file;
    model *model;
    const step_program *program; /* what its passes run: the model's, or its head's */
    bool is_head;                /* a head of the model of `beside`, whose tokens it has: its MTP
                                    head, whose file and model are its, too, or an EAGLE-3 head */
    tokenizer *tokens;
    kernel_cpu cpu;
    kernel_table kernels;
    kernel_kv_type kv_type;
    bool exact;                  /* cerium_engine_config.exact */
    uint64_t fingerprint;        /* cerium_engine_info.fingerprint */
    shared_team *shared;         /* held; NULL: of a vocabulary alone */
    team *workers;               /* its */
    cpu_executor *executor;
    kv_pool *pool;
    chat_form chat;
    const char *chat_wanted;     /* while it opens: cerium_engine_config.chat_form */
    infill_form infill;
    char *name;
    void (*notice)(void *user, const char *line); /* or NULL; and */
    void *notice_user;
    char *cache_path;            /* NULL: the weights are in memory of our own */
    uint32_t n_vocab;            /* logits; the tokenizer may know fewer */
    size_t logits_stride;        /* of a row of logits: n_vocab rounded up to a panel, and */
    size_t tops_at;              /* from there on the tops */
    uint32_t token_bytes_max;
    uint32_t context_tokens_max, batch_tokens_max, sessions_max;
    uint64_t kv_bytes, kv_bytes_min; /* that pages and states may take; of one whole context */
    bool has_states;             /* sequences have one: the model has recurrent layers */

    bool speculates;             /* unless a session does not want it */
    bool drafts_always;          /* whatever they cost */
    workspace *workspace;        /* or NULL */
    answer_cache *answers_given;              /* NULL where nothing is drafted */
    draft_model *draft;          /* or NULL */
    const cerium_engine *beside; /* whose draft model or head this is, with its workers; or NULL */

    thread_turn pass;            /* team, executor, samplers, rows, costs: one pass at a time, and
                                    the only time in which sequences of others may be changed */
    bool has_pass;
    team_user turn;           /* within a pass: the engine's turn of the shared threads */
    cpu_row *rows;               /* [batch_tokens_max + ENGINE_STREAMS_MAX] */
    float *logits;               /* [ENGINE_LOGITS_MAX][logits_stride] of a pass */
    size_t logits_bytes;
    sampler **samplers;          /* [workers] */
    cost_model cost;
    draft_pace pace;             /* of passes in which every row has logits */

    pthread_mutex_t lock;        /* claims, and starting the scheduler */
    bool has_lock;
    page_claim *claims;          /* those of open sessions */
    _Atomic uint64_t n_tickets;
    engine_counts counts;

    scheduler *_Atomic scheduler; /* NULL before the first request */
    thread_bell bell;            /* ring it after a change that the scheduler may wait for */
    _Atomic bool stop_pass;      /* stop the running pass.  Its setter stores the reason first
                                    (cancel, submitted); the scheduler reads the reason after
                                    this */
    mask_vocabulary *_Atomic vocabulary; /* NULL before the first guide */
    pointer_vocabulary *_Atomic words;   /* the same, of pointers */
    float pointer, confidence;   /* what the file asks for, [0, 1] */
    bool completes_only;
    char edit_format[16];        /* of the file; "": it names none */
    cerium_pooling pooling;
    int32_t text_end;            /* or -1 */
};

/* embedding.c: the embedding of a session's timeline, of states after the last layer. */
typedef struct embedding embedding;

struct cerium_session {
    cerium_engine *engine;
    page_claim pages;
    uint64_t share_key;          /* its share of time: of a tenant, or a client without one */
    int32_t *tokens;             /* [context_tokens] the timeline */
    uint32_t n_tokens;
    uint32_t n_computed;         /* tokens whose KV was computed at the last look */
    uint32_t context_tokens;
    float *logits;               /* [logits_stride]; the newest of the timeline */
    hash_name digest, digest_shown; /* of the answer, and of what of it was given out */
    bool has_digest, shows_digest;  /* it was asked for since the answer began */
    bool has_logits;
    uint32_t logits_at;          /* they follow so many tokens */
    bool has_best_alone;         /* of those logits: what could not be chosen is -INFINITY */
    slot slot;                   /* of its running step or request */
    bool control_text;
    bool speculates;
    drafter drafter;             /* of the timeline; where it speculates */
    void *drafter_memory;
    draft_session *draft;            /* in the draft model; or NULL */
    const corpus *texts;         /* of the workspace, held for the answer; or NULL */
    bool answers;                /* the drafter knows where the answer began */
    uint32_t recalled;           /* while it does: tokens before it are not to be recalled anew */
    bool is_private;             /* after a note: the timeline is hidden from others */
    uint32_t score_tokens_max;
    float *score_logits;         /* [score_tokens_max][logits_stride] or NULL */
    stop_state stops;
    uint32_t n_shown;            /* of what stops hold back, what was shown before a resume */
    char *text;                  /* what the last step may show */
    pointer *pointer;            /* of the timeline; NULL before sampling first asks for it */
    uint32_t answer_at, n_answer; /* where in the timeline the answer is that continues */
    int32_t avoid[CERIUM_AVOID_MAX]; /* [n_avoid] openings that are not to be sampled, -1 between */
    uint32_t n_avoid;
    uint64_t avoid_open;         /* a bit for each place of avoid: all before it was sampled */
    uint64_t *avoid_mask;        /* of n_vocab bits; NULL before the first resume */
    guide *within;               /* cerium_resume.within, until any text may follow; or NULL */
    char heal_prefix[CERIUM_HEAL_PREFIX_MAX]; /* [n_heal] what the answer's tokens begin with; of */
    uint32_t n_heal, n_healed;   /* it this much is spelled, and this much must not be shown yet */
    uint32_t heal_unshown;
    _Atomic bool cancel;
    _Atomic bool stops_pass;     /* the running pass is mostly its: cancelling ends it */

    /* requests */
    embedding *pool;             /* states of its prompt, put together; or NULL */
    bool running;                /* until DONE was polled; the caller's */
    request *request;            /* the last one, or NULL */
    _Atomic uint32_t prompt_tokens, reused_tokens, computed_tokens, new_tokens;
    _Atomic uint32_t drafted_tokens, accepted_tokens; /* all, and of them those of a prediction */
    _Atomic uint32_t drafted_predicted, accepted_predicted;
    _Atomic uint64_t start_ns, queue_ns, prompt_ns, first_token_ns, duration_ns;
};

/* Whether its logits are those after the first n tokens, and these are computed.  A guest of
 * another's rows has logits after more tokens than it then finds computed. */
static inline bool session_has_logits(const cerium_session *s, uint32_t n)
{
    return s->has_logits && s->logits_at == n && s->n_computed == n;
}
/* And all of them, so that any choice can be made. */
static inline bool session_has_all_logits(const cerium_session *s, uint32_t n)
{
    return session_has_logits(s, n) && !s->has_best_alone;
}

/* ---- embedding.c ---- */

/* Opened with a session that embeds. */
CERIUM_CHECKED int embedding_open(embedding **out, const cerium_engine *e);
void embedding_close(embedding **pool);
/* The rows of its slot are computed; within the pass, before n_computed is theirs. */
void embedding_take(cerium_session *s);
/* Another timeline. */
void embedding_begin(cerium_session *s);
/* How much of the timeline need not be computed: most of it, or what was taken before. */
uint32_t embedding_skips(const cerium_session *s, uint32_t most);

/* ---- kept_rows.c: within a pass ---- */

/* The next pass is made: what it shares is valid until then. */
void kept_rows_begin(cerium_engine *e);
/* Let s choose from kept logits of its timeline, without a row.  False: there are none. */
CERIUM_CHECKED bool kept_rows_share(cerium_session *s);
/* Keep the logits that s will choose from, if it is one of several that began alike. */
void kept_rows_take(const cerium_session *s);
void kept_rows_close(cerium_engine *e);

/* ---- engine.c ---- */

/* A pass: the turn of this engine, then of its threads.  continues: see shared_team_give(). */
void engine_begin_pass(cerium_engine *e, uint32_t class_);
void engine_end_pass(cerium_engine *e, bool continues);
/* The kept turn of its threads is not wanted. */
void engine_leave_threads(cerium_engine *e);
/* Open the engine alone: no draft model, workspace or pages on disk.  beside: the engine that lends
 * its compute team, and whose passes never run at the same time; or NULL. */
CERIUM_CHECKED int engine_open_alone(cerium_engine **out, const cerium_engine_config *config,
                                     const cerium_engine *beside, cerium_error *err);
/* A head of an open engine's model, as an engine beside it: its MTP head, which borrows its
 * weights, or, with config->model_path, the EAGLE-3 head in that file. */
CERIUM_CHECKED int engine_open_head(cerium_engine **out, const cerium_engine_config *config,
                                    const cerium_engine *of, cerium_error *err);
void engine_close_alone(cerium_engine **e);
/* What drafts, as the caller or the environment says it: a file, ENGINE_DRAFT_HEAD,
 * ENGINE_DRAFT_OFF, or "": the model's own head, if it has one. */
#define ENGINE_DRAFT_HEAD "mtp"
#define ENGINE_DRAFT_OFF "off"
const char *engine_draft_name(const cerium_engine_config *config);
/* Wake the scheduler, after a change that it may wait for.  Signal-safe. */
void engine_wake(cerium_engine *e);
/* Wake requests that wait for room. */
void engine_has_room(cerium_engine *e);
/* The error of logits that are not numbers. */
int engine_broken(const cerium_engine *e, cerium_error *err);
/* Copy as much of a struct as the caller's version of it holds. */
void engine_hand_over(void *to, size_t size, const void *from, size_t own);

/* A row's logits go to [logits_stride], with their tops; NULL: not wanted. */
static inline void engine_take_logits(const cerium_engine *e, cpu_row *row, float *logits)
{
    row->logits = logits;
    row->tops = logits ? logits + e->tops_at : NULL;
}
_Static_assert((int)CPU_PIECE == (int)SAMPLER_PIECE, "tops that are found are those looked for");

/* ---- weights.c ---- */

/* Panels for e->model: mapped from a file that was kept, else repacked, and kept if may be. */
CERIUM_CHECKED int engine_load_weights(cerium_engine *e, const cerium_engine_config *config,
                                       cerium_error *err);

/* ---- kv_disk.c ---- */

/* After the weights, before the first session: attach KV on disk, if configured. */
CERIUM_CHECKED int engine_attach_disk(cerium_engine *e, const cerium_engine_config *config,
                                  cerium_error *err);
/* Load the part of the timeline of s that is on disk and not in memory, without its last token.
 * *ticket is 0 at first.  True: the load is over; its end wakes the scheduler. */
#define ENGINE_FETCH_NONE UINT64_MAX
bool engine_fetch(cerium_session *s, uint64_t *ticket);
/* The same, and wait for the end, or until s is canceled.  False: there was nothing to load. */
bool engine_fetch_now(cerium_session *s);

/* ---- preempt.c ---- */

/* With a sequence of KV, idle.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int claim_open(page_claim *c, cerium_engine *e, uint32_t context, uint64_t tenant,
                              cerium_error *err);
void claim_close(page_claim *c); /* also one that was not opened */
/* The rank of a claim: the greatest gives up its pages first. */
uint64_t rank_of(uint32_t class_, uint64_t ticket);
/* Mark it idle: the least recently used gives up first. */
uint64_t rank_idle(cerium_engine *e);
/* Within a pass: make room for tokens [0, end), if need be by taking pages of lower claims.
 * CERIUM_ERR_MEMORY: higher claims hold all pages; try again later. */
CERIUM_CHECKED int claim_reserve(page_claim *c, uint32_t end);
/* Within a pass, after an adopt of tokens [n_max]: copy those in unfinished blocks of other
 * sessions of the tenant, which an adopt does not find.  Returns the length. */
uint32_t claim_borrow(page_claim *c, const int32_t *tokens, uint32_t n_max);

/* ---- states.c: of a model with recurrent layers; within a pass ---- */

/* Its rows in the pass begin here: set where they read the state, and write the next ones. */
void session_want_states(cerium_session *s, cpu_row *rows);
/* The rows of the timeline are computed, to n_computed. */
void session_commit_state(cerium_session *s);
/* Drafts after token `begin` that are now in the timeline were accepted: accept their state. */
void session_replay_drafts(cerium_session *s, uint32_t begin);

/* ---- text_out.c ---- */

/* Open a guide for an answer of this engine; the first one sorts the vocabulary. */
CERIUM_CHECKED int answer_guide(cerium_engine *e, const cerium_guide *config, guide **out,
                                cerium_error *err);

int answer_check_tokens(const cerium_session *s, const int32_t *tokens, size_t n_tokens,
                        cerium_error *err);
/* Write the text of the last token that may be shown now to text [answer_text_max(e)]; s->stops
 * holds the rest back.  Sets *stop at a stop string, and ends there. */
size_t answer_show(cerium_session *s, const cerium_sampling *sampling, cerium_stop *stop,
                   char *text);
size_t answer_text_max(const cerium_engine *e);
/* Write the text that was held back to text [answer_text_max(e)]. */
size_t answer_flush(cerium_session *s, char *text);
/* Bytes of the answer that are held back. */
uint32_t answer_held(const cerium_session *s);

/* Restore the text that was held back at the end of a continued answer. */
void answer_hold_again(cerium_session *s, const cerium_sampling *sampling);

/* ---- healing.c ---- */

CERIUM_CHECKED int heal_check(const cerium_session *s, const cerium_resume *resume,
                                 const int32_t *tokens, size_t n_tokens, cerium_error *err);
/* Begin healing; heal_prefix was checked, and the start of the answer is in the timeline.  NULL:
 * nothing to heal. */
void heal_begin(cerium_session *s, const cerium_resume *resume);
void heal_copy(cerium_session *s, const cerium_session *from);
/* Must the next token spell more of it? */
bool heal_is_open(const cerium_session *s);
/* Note a new token of the answer. */
void heal_follow(cerium_session *s, int32_t token);
/* The bytes of the answer's next token, without those of the heal_prefix. */
view heal_leave_out(cerium_session *s, view text);
/* The tokens that spell more of it, or reach beyond its end. */
void heal_mask(const cerium_session *s, uint64_t *mask);

/* ---- resume.c ---- */

CERIUM_CHECKED int answer_check_resume(const cerium_session *s, const cerium_resume *resume,
                                       const int32_t *tokens, size_t n_tokens, cerium_error *err);
/* Continue the timeline as resume says, which was checked.  Forgets an earlier resume; NULL: only
 * that.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int answer_resume(cerium_session *s, const cerium_resume *resume,
                                 const cerium_sampling *sampling, cerium_error *err);
/* Memory for masks of a session's own. */
CERIUM_CHECKED int answer_need_mask(cerium_session *s, cerium_error *err);
/* Bring a guide to the end of a continued answer. */
CERIUM_CHECKED int answer_resume_guide(const cerium_session *s, guide *g, cerium_error *err);
/* What may be chosen after the timeline at a place of its guide, or of none; NULL: anything. */
const uint64_t *answer_mask(cerium_session *s, guide *g, uint32_t place);
/* Note a new token of the timeline. */
void answer_follow(cerium_session *s, int32_t token);

/* ---- digest.c ---- */

/* The logits that a token was drawn from. */
hash_name digest_logits(const cerium_session *s, const float *logits);
/* Note a new token of the timeline and its answer. */
void digest_follow(cerium_session *s, const chosen_token *chosen);
/* The answer's first bytes of a digest, as a number; 0: none is wanted. */
uint64_t digest_mark(hash_name digest);
/* The digest of the answer as given out; of none: not wanted. */
void digest_show(cerium_session *s, hash_name digest);

/* ---- pointer_mix.c ---- */

/* Prepare what sampling needs beside logits; NULL: greedy.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int session_need_pointer(cerium_session *s, const cerium_sampling *sampling,
                                        cerium_error *err);
/* The logits after n tokens of the timeline that sampling chooses from. */
const float *session_mix(cerium_session *s, const cerium_sampling *sampling, const float *logits,
                         uint32_t n);

/* ---- timeline.c ---- */

/* Set the timeline to tokens [n], which may be s->tokens. */
void session_replace(cerium_session *s, const int32_t *tokens, uint32_t n);
/* Cut the timeline to its first n tokens. */
void session_shorten(cerium_session *s, uint32_t n);

/* ---- step.c ---- */

/* Compute the timeline and the logits after it; if its slot wants tokens, with drafts, and choose
 * them into *out. */
CERIUM_CHECKED int session_compute(cerium_session *s, cerium_step *out, cerium_error *err);
/* One pass over the next tokens, at most n_max, with logits [n_max][stride] of each.  *n_done
 * tokens before n_computed were computed. */
CERIUM_CHECKED int session_compute_all(cerium_session *s, uint32_t n_max, float *logits,
                                       uint32_t *n_done, cerium_error *err);
/* A call that computes: it ranks with the highest class while it lasts. */
CERIUM_CHECKED int session_begin_call(cerium_session *s, cerium_error *err);
CERIUM_CHECKED int session_end_call(cerium_session *s, int status);
/* Bytes of a step's text at most. */
size_t step_text_max(const cerium_engine *e);

/* ---- speculate.c ---- */

/* An answer begins after the timeline: see drafter_begin(). */
void session_begin_answer(cerium_session *s, const int32_t *prediction, uint32_t n_prediction,
                          void *memory);
/* Add the new tokens of the answer. */
void session_follow(cerium_session *s);
/* The answer may have ended: share its new tokens with the tenant's other sessions. */
void session_cache_answer(cerium_session *s);
/* Release the texts of the workspace. */
void session_give_texts(cerium_session *s);
/* Within a pass: after it had n_drafts from a source, tokens [n_chosen] were chosen by logits, and
 * n_accepted drafts were right and kept. */
void session_drafted(cerium_session *s, draft_source source, uint32_t n_drafts,
                     uint32_t n_accepted, const int32_t *chosen, uint32_t n_chosen);
/* At most n_max drafts of what follows, for a pass of n_rows that n_sharing requests wait for. */
uint32_t session_draft(cerium_session *s, uint32_t n_rows, uint32_t n_sharing, uint32_t n_max,
                       int32_t *out, draft_source *source);

/* ---- request.c ---- */

void request_close(cerium_session *s);

/* ---- scheduler.c ---- */

void scheduler_close(scheduler **sched);

#endif
