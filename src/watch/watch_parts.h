/* watch_parts.h - the parts of a watch; for the files of this folder. */
#ifndef WATCH_WATCH_PARTS_H
#define WATCH_WATCH_PARTS_H

#include "exists/exists_names.h"
#include "guard/repair.h"
#include "watch/watch.h"

enum {
    BACK_BYTES = 8192,   /* of text kept after the last place where nothing was held */
    BASE_BYTES = 512,    /* between two such places that are saved */
    NOTE_TOKENS = 256,
    REPLIES_MAX = 10,    /* lines at one place that are taken back though they are not weak */
    REDRAWN_MAX = 512,   /* tokens of an answer that are discarded so */
    KNOWN_TOLD = 16,
    CLOSED_MAX = 8,
    PLACES_MAX = 8,      /* missing names of a line that are written again, limited to real ones */
    FINDINGS_MAX = 64,   /* of one call */
    TOPS_BYTES = 65536,  /* of likeliest tokens no longer needed, before they are dropped */
};

/* ---- watch_names.c ---- */

enum { WATCH_NAMES_TEXTS = 32, WATCH_NAMES_REPORTED = 64 };

typedef struct {
    char what[EXISTS_SAID_BYTES], instead[EXISTS_SAID_BYTES];
    exists_finding found;
} watch_text;

/* Messages about missing names; the newest overwrites the oldest. */
typedef struct {
    const names_index *index; /* borrowed */
    guard_reader reader;
    watch_text texts[WATCH_NAMES_TEXTS];
    uint64_t seen[WATCH_NAMES_REPORTED]; /* already reported */
    uint32_t n_texts, n_reported;
} watch_names;

const guard_reader *watch_names_reader(watch_names *n);
void watch_names_reported(watch_names *n, uint64_t name);
/* The missing name that a guard's finding is about; NULL: it is too long ago, or about no name. */
const exists_finding *watch_names_found(const watch_names *n, const guard_finding *f);

/* A token of the answer whose likelihood is given when its text is released. */
typedef struct {
    int32_t token;
    float logprob;
    uint32_t n_top, top_at; /* in watch.tops */
    uint64_t end;
} kept_token;

struct watch {
    watch_config config;
    watch_policy policy;
    guard_stream *stream;
    guard_stream *base;      /* as it was at byte base_at, where nothing was held */
    uint64_t base_at;
    bytes text;              /* bytes [text_at, fed) of the answer: those since the base, and */
    uint64_t text_at;        /* those not released */
    bool lost;               /* the base is too far back: nothing is taken back until the next */
    uint64_t fed, safe, released; /* bytes: given to the guard, judged, released */
    bytes log, ends;         /* int32_t, uint64_t: the answer's tokens, and where each ends */
    bytes kept;              /* kept_token: not released yet */
    bytes tops;              /* cerium_logprob */
    uint32_t n_kept_released;    /* of kept, released in the last result */
    size_t n_released;           /* tokens of the log that were released */
    bool over;
    watch_names *names;      /* NULL: the environment is unknown */
    bool keeps_line;         /* the only replacement is the line itself */
    cerium_grammar *place;   /* of the last result: what may come in place of a missing name */
    uint32_t n_places;       /* such places since the line was first wrong */
    uint64_t wrong_name;     /* of the wrong line, if a name in it is missing; 0 */
    uint64_t known[KNOWN_TOLD]; /* reported messages about lines that were there before */
    uint32_t n_known;

    /* a line being written again, and the text after it */
    bool corrects;           /* it has not come yet */
    bool has_note;           /* the session has the note */
    bool checks_form;        /* lines are checked for their form: since the first weak one */
    uint64_t verified_until; /* all bytes before are good: the line's beginning */
    uint64_t weighed;        /* `safe` when it was last checked */
    uint32_t n_tries, n_corrections, n_replies, n_redrawn;
    cerium_stop stop;        /* of the last step */
    bool touched;            /* a line was taken back, last at byte touched_at */
    uint64_t touched_at;
    uint64_t line_at;        /* the line that is fed began there */
    uint32_t n_closed;       /* texts that were closed before the end of the answer */
    cerium_finding wrong;
    uint32_t indent;         /* blanks before the line */
    uint32_t n_asked;        /* how often a line was to be written again */
    char repairs[REPAIR_FORMS][REPAIR_BYTES]; /* possible replacements: n_repairs bytes */
    size_t n_repairs[REPAIR_FORMS];
    bytes after;             /* of the answer as cut, after the line */
    bool repaired;           /* in the last result */
    uint64_t spliced_at;     /* the place of the last inserted line, and */
    uint32_t n_spliced;      /* how often in a row */
    bool escaped, added;     /* the line is in JSON, after a + */
    int32_t note[NOTE_TOKENS], avoid[CERIUM_AVOID_MAX];
    uint32_t n_note, n_avoid;

    bytes out_tokens;        /* cerium_watch_token of the last result */
    cerium_finding findings[FINDINGS_MAX];
    uint32_t n_findings;
    watch_stats stats;
};

/* Tokens in the log. */
static inline uint32_t watch_n_logged(const watch *w)
{
    return (uint32_t)(w->log.len / sizeof(int32_t));
}

/* A finding of this call. */
static inline void watch_add(watch *w, const cerium_finding *f, cerium_finding_action action)
{
    if (w->n_findings == FINDINGS_MAX) return;
    w->findings[w->n_findings] = *f;
    w->findings[w->n_findings++].action = action;
}

/* ---- rollback.c ---- */

/* Cut the answer at byte `at`, at most `fed`, at least `released`.  False: impossible, as the
 * needed text was dropped, or bytes of a token have no tokens. */
bool watch_cut(watch *w, uint64_t at);
/* The first token that ends after byte `at`. */
size_t watch_token_at(const watch *w, uint64_t at);
/* Cut to the tokens that end there or before: for an answer that does not continue. */
void watch_drop(watch *w, uint64_t at);
/* The same before a finding, with a note and tokens to avoid. */
bool watch_rollback(watch *w, const guard_finding *f);
/* The same before all unverified text; its tokens up to byte `fault` are avoided. */
bool watch_rollback_reply(watch *w, uint64_t fault);

/* Restore the guard's state at byte `at`, after the base. */
void watch_rewind(watch *w, uint64_t at);
/* Append the tokens of a text within another to the log, after byte `at`.  False: no tokens encode
 * it, or no memory. */
bool watch_append(watch *w, view text, uint64_t at);

/* ---- place.c ---- */

/* Cut the answer before the missing name of f, within its line, so that only existing ones can be
 * written there, or all but that one if they are unknown or too many.  False: the place is unknown,
 * or the text before it cannot be kept; the answer is unchanged. */
bool watch_rollback_place(watch *w, const guard_finding *f);
/* Is the place known, and in text that can be taken back?  A line that began before the answer has
 * no other. */
bool watch_has_place(const watch *w, const guard_finding *f);
/* Does the request have the missing name of f? */
bool watch_request_has(const watch *w, const guard_finding *f);
/* The bytes of token i of the log before byte `at` of the text,
 * a heal_prefix's among them; NULL: none.
 * In rollback.c. */
view watch_token_before(const watch *w, size_t i, uint64_t at);

/* ---- splice.c ---- */

/* Note possible replacements of the line of f; first: that line is the first one there. */
void watch_note_repairs(watch *w, const guard_finding *f, bool first);
/* Cut the answer before the weak line, and continue after its replacement.  False: no replacement
 * fits; the answer is unchanged. */
bool watch_splice(watch *w);

/* The model had ended; now the answer continues. */
void watch_drop_ends(watch *w);

/* ---- closing.c ---- */

/* The answer ends: if a line of it was taken back, its code is made whole.  by_itself: the model
 * ended, and was not cut off. */
void watch_close_code(watch *w, bool by_itself);
/* The text `segment` may have ended with the last piece fed: then the same.  CERIUM_WATCH_RETRY:
 * the answer continues after that. */
cerium_watch_order watch_close_segment(watch *w, uint64_t segment);

/* ---- replacement.c ---- */

/* There is more text since a weak line: CERIUM_WATCH_RETRY: it was taken back. */
cerium_watch_order watch_weigh(watch *w);
/* The same at the end.  by_itself: the model ended, and was not cut off. */
cerium_watch_order watch_weigh_end(watch *w, bool by_itself);
/* The note has done its work, and the answer continues without it. */
bool watch_drop_note(watch *w);

/* ---- hint.c ---- */

/* The note to the model in place of the held line of f, which begins with `line`; it precedes the
 * model's next text.  Returns its length, 0: there is no note. */
size_t watch_hint(const guard_finding *f, view line, char *out, size_t size);
/* The kind of the lines of a text written after a note. */
typedef enum {
    REPLY_NOTHING = 0, /* blanks */
    REPLY_COMMENT = 1, /* and comments */
    REPLY_CODE = 2,    /* a line of code; in prose a word */
} reply_kind;

reply_kind watch_kind_of(view text, bool escaped, bool prose);

#endif
