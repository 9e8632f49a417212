/* guard_parts.h - the parts of a guard, its workers and its streams; for guard.c, stream.c,
 * raise.c, syntax_check.c and known.c. */
#ifndef GUARD_GUARD_PARTS_H
#define GUARD_GUARD_PARTS_H

#include "guard/carrier.h"
#include "guard/judge.h"
#include "guard/literals.h"
#include "guard/unwrap.h"
#include "guard/window.h"

enum {
    ALLOW_BYTES = 64,
    REPORTED = 16,
    OLD_BYTES = 8192,   /* of the text that an edit removes */
    KNOWN_MAX = 32,     /* findings in it */
    AWAITED_MAX = 8,    /* findings in the new side of an edit before its old side came */
    REQUEST_SPOTS_MAX = 8, /* of a line in the earlier text, that are compared */
};

/* The identity of a finding: the weakness and its line.  Blanks do not count. */
typedef struct {
    const rule *rule;
    uint64_t line;
    guard_severity severity;
    taint level;
} known_finding;

struct guard {
    rule_set rules;
    rule_index *index;
    literal_set literals;
};

struct guard_worker {
    const guard *g;
    hs_scratch_t *scratch;
    judge judge;
    char window[GUARD_WINDOW_BYTES + WINDOW_CLOSERS + 64];
    guard_finding findings[GUARD_FINDINGS_MAX];
    char fixes[GUARD_FINDINGS_MAX][GUARD_FIX_BYTES]; /* of the line that is judged */
    char lines[4 * GUARD_LINE_BYTES_MAX]; /* those of findings */
    uint32_t n_lines;
    uint32_t n_findings, n_judged;
    bool late, blind;
    uint32_t unjudged_line; /* of the first that was either */
    guard_stream *old;      /* judges the earlier text */
    known_finding known[KNOWN_MAX]; /* in it */
    uint32_t n_known;
};

typedef struct {
    uint64_t at;   /* in the stream */
    uint32_t line; /* of the stream, from 1 */
    bool fresh;
} position;

typedef struct {
    known_finding what;
    guard_finding finding;
} awaited;

struct guard_stream {
    const guard *g;
    guard_stream_config config;
    guard_worker *worker; /* of the running call */
    unwrap unwrap;
    carrier carrier;
    lexer lexer;
    lexer before;   /* the same before the held bytes */
    guard_language language;
    bool detect;    /* the language is not known yet */
    bool guess;     /* but it is code */
    bool soft;      /* weak code only warns */
    bool records;   /* findings are the worker's `known` */
    bool watch;     /* a call that rules check is still open */
    bool in_comment; /* the held text began within a comment over lines */
    bool alias;     /* a name holds a function that rules check */
    bool continues; /* the held bytes continue a line of which a part was released */
    outline outline;
    uint32_t row;   /* where the incomplete line begins, in text */
    uint32_t last_row; /* where the line before it that is not blank begins; row: that line is
                          gone */
    unsigned depth; /* brackets that were open there */
    bool in_php;    /* the window begins in code, not in HTML */
    bool escaped, added; /* the held text is in JSON, after a + of a diff */
    bool context;   /* the following bytes were there before: they are not judged */
    uint32_t n, held, begun; /* bytes in text; where the held ones begin; where their line began */
    uint32_t middle;   /* of an endless string, in text: the bytes there were cut; 0 */
    uint32_t n_pieces; /* of the line, that were released before it was complete */
    uint64_t fed, segment_at; /* the text began there */
    uint32_t line, inner; /* of the stream, and of a string of JSON */
    char text[GUARD_WINDOW_BYTES];
    position map[GUARD_LINE_BYTES_MAX];   /* of the held bytes */
    struct {
        deferral where; /* in text */
        position first, last, line;
        uint32_t text, n; /* its line, in text; 0 bytes: a part of it is not new */
        uint64_t end;     /* byte of the stream after it */
        uint64_t hash; /* of its line */
    } deferred[JUDGE_DEFERRED_MAX]; /* uses that wait for a function further down */
    uint32_t n_deferred;
    struct {
        uint32_t cwe, begin; /* in text, from 1 */
    } reported[REPORTED];
    uint32_t n_reported;
    char old[OLD_BYTES]; /* what the edit removes, and its surroundings */
    uint32_t n_old;
    known_finding used[KNOWN_MAX]; /* findings of the earlier text that came again */
    uint32_t n_used;
    awaited awaited[AWAITED_MAX];
    uint32_t n_awaited;
    bool reads;       /* the reader has begun with this text */
    _Alignas(16) char reader[GUARD_READER_BYTES];
    char allow[ALLOW_BYTES];           /* the rule that the line before suppresses here */
};

_Static_assert(sizeof(struct guard_stream) < 64 << 10, "a stream stays small");

/* ---- known.c ---- */

uint64_t known_line(view line);
/* Was it there before?  line: the held one. */
bool known_finding_is(guard_stream *s, guard_language language, const known_finding *what,
                      view line);
void known_record(guard_stream *s, const known_finding *what);
void known_old_byte(guard_stream *s, char c);

/* ---- raise.c ---- */

bool finding_is_comment(view line);
/* A line that may be a comment that suppresses findings of the next line. */
void finding_note_allowed(guard_stream *s, view held);
guard_severity finding_soften(const guard_stream *s, const rule *u, guard_severity severity);
awaited finding_describe(const guard_stream *s, known_finding what, position first, position last,
                         position line);
/* Are the held bytes [from, to) new, consecutive, with nothing between them? */
bool finding_in_one_piece(const guard_stream *s, uint32_t from, uint32_t to);
/* Report it, unless it was there before.  line: the held one. */
void finding_raise(guard_stream *s, const awaited *a, view line);
/* Report the findings in the new side of an edit that came before its old one: the old one is known
 * now, or never comes. */
void finding_decide_awaited(guard_stream *s);
/* Bytes [begin, end) of the window are weak. */
void finding_report(guard_stream *s, const rule *u, guard_severity severity, taint level,
                    uint32_t begin, uint32_t end, view fix);

/* Something that a reader found in the held bytes. */
void finding_read(guard_stream *s, const guard_read *f);

/* ---- stream.c ---- */

/* A stream of code that records. */
void stream_reset(guard_stream *s, guard_language language);
void stream_judge(guard_stream *s, guard_worker *w, view text);
/* The text that a grammar needs before the window, at most 8 bytes; returns how many. */
uint32_t stream_opening(const guard_stream *s, char *out);

#endif
