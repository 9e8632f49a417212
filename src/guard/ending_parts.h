/* ending_parts.h - the parts of an ending.  Private to ending.c, ending_heads.c, ending_write.c. */
#ifndef GUARD_ENDING_PARTS_H
#define GUARD_ENDING_PARTS_H

#include "base/text.h"
#include "guard/ending.h"
#include "guard/repair_parts.h"
#include "guard/syntax_parts.h"

typedef struct {
    const guard_stream *s;
    guard_worker *w;
    beginning b;    /* the code that stays */
    view indent;    /* of the statement */
    bool at_header; /* nothing comes after the line that opens a block */
    bool is_type;   /* that block holds no statements */
    bool decorates; /* Python: a function must follow */
    bool matches;   /* and here a case */
    uint32_t shift; /* the code's place in the text of the tree */
    size_t begun;   /* bytes of the text that close brackets */
    writing text;
} ending;

/* What comes after the brackets of the last expression.  opens: a block with a statement. */
typedef struct {
    const char *after;
    bool statement, opens;
} ending_form;

static inline bool ending_has_braces(const ending *e)
{
    return e->s->language != GUARD_PYTHON && e->s->language != GUARD_RUBY;
}

/* Has the last line opened heredocs, whose texts begin with the next one? */
static inline bool ending_owes_heredoc(const lexer *x) { return x->n_ids && x->id_state; }

/* The line of the last code, up to it. */
static inline view ending_last_line(const ending *e)
{
    view line = syntax_line_at(&e->b, e->b.last - 1);
    line.len = e->b.last - (size_t)(line.ptr - e->b.text);
    return line;
}

/* ---- ending_heads.c ---- */

/* Does the line open a block that holds no statements? */
bool ending_is_type(const ending *e, view line);
/* Does nothing come after the line that opens a block?  line: that of the last code. */
bool ending_is_head(const ending *e, view line);
/* What belongs behind the block that byte `at` opens, though grammars accept it without: a part of
 * "try {", the call of "go func() {", the end of a type of C. */
const char *ending_after_block(const ending *e, uint32_t at);
/* Of the last line: it ends in a word that no block follows; no compiler takes it as the head that
 * its grammar sees; it lacks the parameters that its grammar does not miss. */
bool ending_wants_name(const ending *e);
bool ending_is_half(const ending *e);
bool ending_lacks_parameters(const ending *e);

/* ---- ending_write.c ---- */

/* The text of a form.  closes: all that is open; cut: a line was removed. */
void ending_write(ending *e, const ending_form *f, bool closes, bool cut);
/* Ruby's ends, and Python's tries without another part: after the code with the text so far. */
void ending_put_words(ending *e);

#endif
