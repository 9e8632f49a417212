/* watch.h - an answer and its guard: which text may be released, and when its tail is retracted.
 *
 * A watch sees the steps of an answer as a session returns them, and holds the map from its tokens
 * to the bytes of its text.  It computes nothing: the driver of the session follows its orders
 * (watch_drive, below).
 *
 *   watch_step(w, &step, NULL, 0, &out);       release out.text, report out.findings
 *   if (out.order == CERIUM_WATCH_RETRY) {            the session has gone too far:
 *       watch_retry(w, &again);                start it again with the prompt, the answer's tokens
 *       ...                                    as watch_tokens() has them now, and again.resume
 *   }
 *
 * A weak line is taken back: the answer is cut to the token before it, a note names the fault and
 * how to write it safely, and the line's opening is forbidden once.  When a line of code was
 * released in its place, the answer continues without the note (again.resume has none), so that
 * nothing of it is left in the timeline.  The place of this depends on the tokens alone, not on the
 * time of calls.  A line that begins within a token: that token's bytes before the line are encoded
 * anew.  After WATCH_TRIES at one place the line's safe form is inserted in its place, or a
 * statement that refuses (splice.c), and the answer continues after it.  If neither fits, and after
 * WATCH_CORRECTIONS_MAX in an answer, it ends before the line.  From the first weak line on, lines
 * that are not code of their language are written again too (replacement.c).
 *
 * One thread at a time for a watch, and for all that share a guard_worker. */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

#include "base/memory.h"
#include "exists/exists.h"
#include "guard/guard.h"

enum { WATCH_KINDS_MAX = 64, WATCH_TRIES = 2, WATCH_CORRECTIONS_MAX = 16 };

/* ---- actions on a weakness ---- */

typedef enum { WATCH_OFF = 0, WATCH_WARN = 1, WATCH_BLOCK = 2 } watch_action;

typedef struct {
    uint8_t action[WATCH_KINDS_MAX]; /* watch_action of each weakness */
    bool opens_late; /* a line that exceeded the guard's limits is released; else it is held */
} watch_policy;

/* Every weakness is blocked, and nothing is released unjudged. */
watch_policy watch_policy_strict(void);
/* "block", "warn" or "off" for all, or CLASS=one of them.  False, and unchanged: anything else. */
bool watch_policy_set(watch_policy *p, view text);
/* Such words with commas between them; later ones override earlier ones. */
bool watch_policy_set_all(watch_policy *p, view text);
/* "hold" or "open". */
bool watch_policy_set_late(watch_policy *p, view text);
/* The stricter of both, for each weakness. */
void watch_policy_tighten(watch_policy *p, const watch_policy *by);
/* The action on a finding: a rule that only warns never blocks. */
watch_action watch_policy_action(const watch_policy *p, const guard_finding *f);
/* Are names looked up? */
bool watch_policy_uses_names(const watch_policy *p);
/* No weakness is checked. */
bool watch_policy_is_off(const watch_policy *p);

/* ---- an answer ---- */

/* "taken_back", "rewritten", ...: the words of events and metrics. */
const char *watch_action_name(cerium_finding_action action);

/* Until the next call with the same watch. */
typedef struct {
    view text;
    const cerium_watch_token *tokens; /* [n_tokens] of that text; NULL without logprobs */
    uint32_t n_tokens;
    const cerium_finding *findings;
    uint32_t n_findings;
    cerium_watch_order order;
} watch_result;

typedef struct {
    cerium_resume resume;
    bool corrects; /* a line is written again; else the note is removed, or */
    bool added;    /* that line is after the + of a diff */
    bool repaired; /* another line replaced it, and the answer continues after that */
    view after;    /* the text after the line: a recorded text continues with it.  Until the next
                      call with the same watch */
} watch_plan;

typedef struct {
    uint64_t ns;         /* in the guard */
    uint64_t n_bytes;    /* that it read */
    uint64_t n_lines;    /* units of release: lines, in prose words */
    uint64_t n_discarded; /* tokens */
    uint32_t held_max;   /* bytes held back, at most */
} watch_stats;

typedef struct watch watch;

typedef struct {
    const cerium_engine *engine;
    const guard *guard;
    guard_worker *worker;
    const watch_policy *policy; /* copied */
    guard_form form;
    guard_language language;    /* of GUARD_CODE; GUARD_TEXT: unknown */
    const names_index *names;   /* of the environment, or NULL; borrowed */
    view before;                /* GUARD_CODE: the code before the answer */
    const view *request;        /* [n_request] texts of the request, newest first: a weak line that
                                   is in one does not block; borrowed, with their bytes */
    size_t n_request;
    view heal_prefix;           /* of the answer's cerium_resume; borrowed by the watch */
    bool has_after;             /* GUARD_CODE: other text follows the answer */
    bool logprobs;
    bool recorded;              /* the text is not the model's: only text right after a note is
                                   checked for its form, and */
    uint32_t n_recorded;        /* the number of recorded texts for the places of lines */
} watch_config;

CERIUM_CHECKED int watch_open(watch **out, const watch_config *config, cerium_error *err);
void watch_close(watch **w);

/* The next step of the answer.  top: [n_top] of its only token, with logprobs.
 * CERIUM_ERR_MEMORY: the watch is unusable, and nothing more may be released. */
CERIUM_CHECKED int watch_step(watch *w, const cerium_step *step, const cerium_logprob *top,
                              uint32_t n_top, watch_result *out);
/* The model ended: judge the held text.  The order may be CERIUM_WATCH_RETRY. */
CERIUM_CHECKED int watch_finish(watch *w, watch_result *out);
/* The answer was ended from outside: drop the held text. */
void watch_stop(watch *w);

/* After CERIUM_WATCH_RETRY.  *plan is valid until the next call. */
void watch_retry(const watch *w, watch_plan *plan);
/* The answer's tokens, without retracted ones: [*n]. */
const int32_t *watch_tokens(const watch *w, size_t *n);
/* The number of bytes held back now. */
uint64_t watch_held(const watch *w);
watch_stats watch_measure(const watch *w);

/* ---- a session and its watch (drive.c) ---- */

/* The session is the caller's, with steps or with requests:
 *
 *   watch_drive d = {.watch = w, .prompt = tokens, .n_prompt = n};
 *   each step     watch_drive_step(); d.retries: end the session's work
 *   its end       watch_drive_finish(), unless it was ended so
 *   d.retries     watch_drive_retry(), and start or resume it with that */
typedef struct {
    watch *watch;           /* owned */
    const int32_t *prompt;  /* [n_prompt] borrowed */
    size_t n_prompt;
    bool retries;           /* the session's current output is void */
    watch_plan plan;        /* of the last retry */
    int32_t *timeline;      /* of it, owned */
} watch_drive;

/* Like watch_step(); does nothing after a step that ordered a retry. */
CERIUM_CHECKED int watch_drive_step(watch_drive *d, const cerium_step *step,
                                    const cerium_logprob *top, uint32_t n_top, watch_result *out);
CERIUM_CHECKED int watch_drive_finish(watch_drive *d, watch_result *out);
/* q->new_tokens_max: of the whole answer; becomes that of the rest.  q gets its timeline and
 * resume, valid until the next call.  *runs is false if the answer has all its tokens. */
CERIUM_CHECKED int watch_drive_retry(watch_drive *d, cerium_request *q, bool *runs);
void watch_drive_close(watch_drive *d);

#endif
