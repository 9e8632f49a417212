/* engine.h - what is inside cerium_engine and cerium_session, and what its files share.
 *
 * Who may touch what, and the order of locks: docs/locks.md. */
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

/* Who has pages, and how much that counts: see preempt.c. */
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
    _Atomic uint64_t shared_rows;
} engine_counts;

struct cerium_engine {
    gguf_file *file;
    model *model;
    const step_program *program; /* what its passes run: the model's, or that of */
    bool is_head;                /* the MTP head of `beside`, whose file, model and tokens it has */
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
    thread_bell bell;            /* its; whoever changes what it may be waiting for rings */
    _Atomic bool stop_pass;      /* its running pass is not worth finishing.  Who sets it has said
                                    why before (cancel, submitted); the scheduler looks at why
                                    after it has seen it */
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
    uint64_t share_key;          /* whose time it takes: a tenant, or a client without one */
    int32_t *tokens;             /* [context_tokens] the timeline */
    uint32_t n_tokens;
    uint32_t n_computed;         /* tokens whose KV was there when it was looked at last */
    uint32_t context_tokens;
    float *logits;               /* [logits_stride]; the newest of the timeline */
    hash_name digest, digest_shown; /* of the answer, and of what of it was given out */
    bool has_digest, shows_digest;  /* it was asked for since the answer began */
    bool has_logits;
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
    bool is_private;             /* after a note: the timeline is for nobody else */
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

/* ---- engine.c ---- */

/* A pass: the turn of this engine, then of its threads.  goes_on: see shared_team_give(). */
void engine_begin_pass(cerium_engine *e, uint32_t class_);
void engine_end_pass(cerium_engine *e, bool goes_on);
/* The kept turn of its threads is not wanted. */
void engine_leave_threads(cerium_engine *e);
/* An engine without what is on it: no draft model, workspace or pages on disk.  beside: the
 * engine that lends its compute team, whose passes are not running while its own are; or NULL. */
CERIUM_CHECKED int engine_open_alone(cerium_engine **out, const cerium_engine_config *config,
                                     const cerium_engine *beside, cerium_error *err);
/* The MTP head of an open engine, as an engine beside it that borrows its weights. */
CERIUM_CHECKED int engine_open_head(cerium_engine **out, const cerium_engine_config *config,
                                    const cerium_engine *of, cerium_error *err);
void engine_close_alone(cerium_engine **e);
/* What drafts, as the caller or the environment says it: a file, ENGINE_DRAFT_HEAD,
 * ENGINE_DRAFT_OFF, or "": the model's own head, if it has one. */
#define ENGINE_DRAFT_HEAD "mtp"
#define ENGINE_DRAFT_OFF "off"
const char *engine_draft_name(const cerium_engine_config *config);
/* Something happened that the scheduler may be waiting for.  Signal-safe. */
void engine_wake(cerium_engine *e);
/* There may be room for what a request waits for. */
void engine_has_room(cerium_engine *e);
/* The error of logits that are no numbers. */
int engine_broken(const cerium_engine *e, cerium_error *err);
/* As much of a struct of ours as the caller's, of any version, has room for. */
void engine_hand_over(void *to, size_t size, const void *from, size_t own);

/* A row's logits go to [logits_stride], with their tops; NULL: nobody wants them. */
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

/* With weights, before the first session: KV on disk, where the configuration wants it. */
CERIUM_CHECKED int engine_attach_disk(cerium_engine *e, const cerium_engine_config *config,
                                  cerium_error *err);
/* Load what the disk has of s's timeline, all but its last token, and memory has not.  *ticket is 0
 * at first.  True when it is over; the scheduler is rung then. */
#define ENGINE_FETCH_NONE UINT64_MAX
bool engine_fetch(cerium_session *s, uint64_t *ticket);
/* The same, and wait for it, or for s being canceled.  False when there was nothing to load. */
bool engine_fetch_now(cerium_session *s);

/* ---- preempt.c ---- */

/* With a sequence of KV, idle.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int claim_open(page_claim *c, cerium_engine *e, uint32_t context, uint64_t tenant,
                              cerium_error *err);
void claim_close(page_claim *c); /* also one that was not opened */
/* What a claim is worth: the greatest rank gives up its pages first. */
uint64_t rank_of(uint32_t class_, uint64_t ticket);
/* Nobody works on it: the least recently used goes first. */
uint64_t rank_idle(cerium_engine *e);
/* Within a pass: room for tokens [0, end), if need be at the cost of claims that rank below it.
 * CERIUM_ERR_MEMORY when all pages are held by those above: another time. */
CERIUM_CHECKED int claim_reserve(page_claim *c, uint32_t end);
/* Within a pass, after an adopt of tokens [n_max]: copy what other sessions of the tenant have of
 * them that is not found, because they continue in the same block.  Returns the length. */
uint32_t claim_borrow(page_claim *c, const int32_t *tokens, uint32_t n_max);

/* ---- states.c: of a model with recurrent layers; within a pass ---- */

/* Its rows in the pass begin here: where they find the state before them, and leave those after. */
void session_want_states(cerium_session *s, cpu_row *rows);
/* The rows of the timeline are computed, to n_computed. */
void session_commit_state(cerium_session *s);
/* Of drafts after token `begin` those that are in the timeline are: so is the state. */
void session_replay_drafts(cerium_session *s, uint32_t begin);

/* ---- text_out.c ---- */

/* A guide for an answer of this engine, and the vocabulary with the first one. */
CERIUM_CHECKED int answer_guide(cerium_engine *e, const cerium_guide *config, guide **out,
                                cerium_error *err);

int answer_check_tokens(const cerium_session *s, const int32_t *tokens, size_t n_tokens,
                        cerium_error *err);
/* What of the timeline's last token may be shown now, into text [answer_text_max(e)]; the rest is
 * held back in s->stops.  Sets *stop when a stop string was reached; ends when *stop says so. */
size_t answer_show(cerium_session *s, const cerium_sampling *sampling, cerium_stop *stop,
                   char *text);
size_t answer_text_max(const cerium_engine *e);
/* What is held back comes out, into text [answer_text_max(e)]. */
size_t answer_flush(cerium_session *s, char *text);
/* Bytes of the answer that are held back. */
uint32_t answer_held(const cerium_session *s);

/* Hold back of the answer that continues what was held back after it. */
void answer_hold_again(cerium_session *s, const cerium_sampling *sampling);

/* ---- healing.c ---- */

CERIUM_CHECKED int heal_check(const cerium_session *s, const cerium_resume *resume,
                                 const int32_t *tokens, size_t n_tokens, cerium_error *err);
/* Checked before, and the answer's beginning is in the timeline.  NULL: there is none. */
void heal_begin(cerium_session *s, const cerium_resume *resume);
void heal_copy(cerium_session *s, const cerium_session *from);
/* What is sampled next must spell more of it. */
bool heal_is_open(const cerium_session *s);
/* The answer grew by this token. */
void heal_follow(cerium_session *s, int32_t token);
/* The bytes of the answer's next token, without those of the heal_prefix. */
view heal_leave_out(cerium_session *s, view text);
/* The tokens that spell more of it, or all and go on. */
void heal_mask(const cerium_session *s, uint64_t *mask);

/* ---- resume.c ---- */

CERIUM_CHECKED int answer_check_resume(const cerium_session *s, const cerium_resume *resume,
                                       const int32_t *tokens, size_t n_tokens, cerium_error *err);
/* Checked before: the timeline is tokens, and goes on as resume says.  Forgets what was resumed
 * before; NULL: no more than that.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int answer_resume(cerium_session *s, const cerium_resume *resume,
                                 const cerium_sampling *sampling, cerium_error *err);
/* Memory for masks of a session's own. */
CERIUM_CHECKED int answer_need_mask(cerium_session *s, cerium_error *err);
/* A guide comes after the answer that continues. */
CERIUM_CHECKED int answer_resume_guide(const cerium_session *s, guide *g, cerium_error *err);
/* What may be chosen after the timeline at a place of its guide, or of none; NULL: anything. */
const uint64_t *answer_mask(cerium_session *s, guide *g, uint32_t place);
/* The timeline grew by this token. */
void answer_follow(cerium_session *s, int32_t token);

/* ---- digest.c ---- */

/* The logits that a token was drawn from. */
hash_name digest_logits(const cerium_session *s, const float *logits);
/* The timeline, and the answer in it, grew by this token. */
void digest_follow(cerium_session *s, const chosen_token *chosen);
/* The answer's first bytes of a digest, as a number; 0: none is wanted. */
uint64_t digest_mark(hash_name digest);
/* What was given out of the answer has this digest; of none: nobody wants one. */
void digest_show(cerium_session *s, hash_name digest);

/* ---- pointer_mix.c ---- */

/* What choices by sampling need beside logits; NULL: greedy.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int session_need_pointer(cerium_session *s, const cerium_sampling *sampling,
                                        cerium_error *err);
/* The logits after n tokens of the timeline that sampling chooses from. */
const float *session_mix(cerium_session *s, const cerium_sampling *sampling, const float *logits,
                         uint32_t n);

/* ---- timeline.c ---- */

/* The timeline becomes tokens [n], which may be s->tokens. */
void session_replace(cerium_session *s, const int32_t *tokens, uint32_t n);
/* The timeline keeps its first n tokens only. */
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

/* The timeline is a prompt, and an answer begins: see drafter_begin(). */
void session_begin_answer(cerium_session *s, const int32_t *prediction, uint32_t n_prediction,
                          void *memory);
/* The answer is longer than when this was called last. */
void session_follow(cerium_session *s);
/* The answer ends, or may end: what is new of it is for the tenant's other sessions. */
void session_cache_answer(cerium_session *s);
/* Texts of the workspace are needed no more. */
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
