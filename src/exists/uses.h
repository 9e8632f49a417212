/* uses.h - checks lines of code against the index: their imports, and their uses of those.
 *
 * A judge reads a text line by line as it grows, within a fixed block of memory that may be copied.
 * It reports only names that are certainly missing; everything else is silent. */
#ifndef EXISTS_USES_H
#define EXISTS_USES_H

#include "exists/index.h"
#include "exists/marks.h"
#include "exists/tokens.h"
#include "guard/guard.h"

enum {
    USES_BOUND_MAX = 96,      /* names bound to a part of a module */
    USES_BLOCKS_MAX = 32,
    USES_TEXT_BYTES = 1536,   /* of a statement over lines */
    USES_PENDING_MAX = 6,     /* findings within a try whose end is to come */
    USES_PATCHED_MAX = 24,    /* names that the code adds to modules itself */
    USES_NAME_BYTES = 128,
    USES_TOKENS_MAX = 8192,   /* of one line; later ones are not judged */
    USES_FINDINGS_MAX = 64,   /* of one line */
};

typedef enum {
    EXISTS_IMPORT = 0,    /* a module */
    EXISTS_SYMBOL = 1,    /* taken from one */
    EXISTS_ATTRIBUTE = 2, /* module.name */
    EXISTS_KEYWORD = 3,   /* f(name=...) */
} exists_kind;

typedef struct {
    uint8_t kind;
    bool late;         /* its line was read before */
    bool declared;     /* a manifest has the package */
    char letter;       /* of the root: p, j, g, c, v (Java) */
    uint32_t scope;    /* the scope that lacks it; NAMES_NONE: the root */
    uint32_t line;     /* of the text, from 1 */
    uint32_t begin, end; /* bytes of the line being read; not when late */
    char name[USES_NAME_BYTES]; /* the whole: "numpy.arr", "f(key)" */
    uint16_t word;     /* where its last word begins */
} exists_finding;

typedef struct {
    uint64_t hash;
    uint32_t target;
    uint8_t kind;      /* name_kind */
    int32_t hidden;    /* while the indent (script: the depth) is greater; INT32_MAX: inactive */
} uses_bound;

typedef struct {
    int32_t indent;
    uint8_t kind;
    bool guards;       /* missing names in it are expected */
    bool leaves;       /* its last statement leaves the block */
} uses_block;

typedef struct {
    exists_finding f;
    int32_t indent;    /* of the try */
} uses_pending;

typedef struct {
    tokens_carry carry;
    uses_bound bound[USES_BOUND_MAX];
    uses_block blocks[USES_BLOCKS_MAX];
    uses_pending pending[USES_PENDING_MAX];
    uint64_t patched[USES_PATCHED_MAX];
    uint64_t seen;     /* a bit for each bound name, of its letters */
    uint64_t tests;    /* the same for variables that hold what a test for a platform gave */
    uint32_t n_bound, n_blocks, n_pending, n_patched;
    uint32_t line;     /* lines that were read */
    uint32_t text_line; /* at which `text` begins */
    int32_t depth;     /* braces */
    bool cut;          /* the line continues one of which a part was skipped */
    bool imports;      /* within the brackets of an import of Go */
    bool guarded;      /* the rest of the file is for one platform */
    bool was_guard;    /* the last ended block at was_indent was guarded */
    int32_t was_indent;
    uint16_t n_text;
    char text[USES_TEXT_BYTES];
} uses_state;

_Static_assert(sizeof(uses_state) <= 8192, "what a stream holds for names stays small");

/* The state of one call. */
typedef struct {
    const names_index *x;
    uses_state *s;
    guard_language language;
    char letter;
    view text;
    const code_token *t;    /* [n] */
    uint32_t n;
    uint8_t marks;     /* of all its words */
    int32_t indent;    /* of the statement; of a script the depth */
    bool mute;         /* no reports */
    bool guards;       /* missing names are expected here */
    int32_t try_indent; /* of the enclosing try, or -1 */
    exists_finding *out; /* [USES_FINDINGS_MAX] */
    uint32_t n_out;
} uses_call;

/* Are the names of this language known? */
bool uses_reads(guard_language language);
void uses_begin(uses_state *s);
/* The next logical line of the text, its newline with it, or a piece of one (whole: its last);
 * writes its findings to out [USES_FINDINGS_MAX].  Returns how many. */
uint32_t uses_line(const names_index *x, uses_state *s, guard_language language, view line,
                   bool whole, exists_finding *out);
/* The text has ended. */
uint32_t uses_end(const names_index *x, uses_state *s, exists_finding *out);

/* ---- for the files of languages ---- */

void uses_python(uses_call *c);
void uses_script(uses_call *c);
void uses_go(uses_call *c);
void uses_c(uses_call *c);
void uses_java(uses_call *c);

static inline view uses_word(const uses_call *c, uint32_t i)
{
    return token_text(c->text, &c->t[i]);
}
static inline bool uses_is(const uses_call *c, uint32_t i, const char *word)
{
    return i < c->n && token_is(c->text, &c->t[i], word);
}
static inline bool uses_sign(const uses_call *c, uint32_t i, char sign)
{
    return i < c->n && token_sign(&c->t[i], sign);
}
/* Has the word at i one of these marks? */
static inline bool uses_marked(const uses_call *c, uint32_t i, uint8_t marks)
{
    return c->t[i].marks & marks;
}
/* May the token at i be a bound name? */
static inline bool uses_may_be_bound(const uses_call *c, uint32_t i)
{
    uint8_t sketch = c->t[i].sketch;
    return (c->s->seen >> (sketch & 63)) & (sketch < 64);
}
static inline bool uses_name(const uses_call *c, uint32_t i)
{
    return i < c->n && c->t[i].kind == TOKEN_NAME;
}
/* Did the reader of the names set this mark: "a go.mod was read", and the like? */
static inline bool uses_has_mark(const uses_call *c, const char *mark)
{
    index_name found;
    return index_find(c->x, 0, view_of(mark), &found) == INDEX_THERE;
}
static inline bool name_is_upper(view name)
{
    return name.len && name.ptr[0] >= 'A' && name.ptr[0] <= 'Z';
}
/* The position after the bracket that closes the one at i. */
uint32_t uses_after(const uses_call *c, uint32_t i);

void uses_bind(uses_call *c, view name, name_kind kind, uint32_t target);
/* From here on the name has another meaning; until: like uses_bound.hidden, INT32_MIN:
 * permanently. */
void uses_hide(uses_call *c, view name, int32_t until);
/* The same up to the end of the block. */
static inline void uses_hide_here(uses_call *c, view name)
{
    uses_hide(c, name, c->indent ? c->indent - 1 : INT32_MIN);
}
/* A block has ended: names hidden within it are visible again. */
void uses_show(uses_call *c);
const uses_bound *uses_bound_of(const uses_call *c, view name);
/* The chain .a.b.c after token i, which has the value `from`. */
void uses_chain(uses_call *c, uint32_t i, name_kind kind, uint32_t target);
/* Is the name in the scope?  out like index_find(); a package's modules are its names. */
index_answer uses_find(const uses_call *c, uint32_t scope, view name, index_name *out);
/* A name that the code makes or tests for: it may exist from here on. */
void uses_patch(uses_call *c, uint32_t scope, view name);
/* x = version >= (3, 8): `if x` is a test from here on. */
void uses_note_test(uses_call *c, uint32_t i);
bool uses_is_test(const uses_call *c, uint32_t i);
/* Report a missing name: tokens [i, last]; name: "a.b", its last word at `word`. */
void uses_report(uses_call *c, exists_kind kind, uint32_t scope, uint32_t i, uint32_t last,
                  view before, view word);
bool uses_is_declared(const uses_call *c, view package);

#endif
