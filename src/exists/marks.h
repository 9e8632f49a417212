/* marks.h - what a word may mean to the checks of a line, found once for each word, so that
 * statements without such words need no search for them. */
#ifndef EXISTS_MARKS_H
#define EXISTS_MARKS_H

#include "exists/tokens.h"

/* A bit each. */
typedef enum {
    MARK_IF = 1,      /* of Python; of scripts also else, try, catch */
    MARK_BINDS = 2,   /* for lambda as, = += :=; of scripts const let var using */
    MARK_ASKS = 4,    /* hasattr version_info: what exists here?  typeof, in */
    MARK_TESTS = 8,   /* the same, and platform HAS_SSL: in a condition */
    MARK_MODULE = 16, /* of scripts: import export require */
    MARK_OTHER = 32,  /* exit skip setattr delattr os */
    MARK_ENDS = 64,   /* ; */
    MARK_HEAD = 128,  /* of Python: begins a statement that is not an expression */
} word_mark;

/* Words that begin with one letter, in either case. */
typedef struct {
    const char *word; /* NULL: the end */
    uint8_t len, marks;
    bool begins;      /* also a longer name that begins so */
} marked_word;

typedef struct {
    uint32_t seconds; /* a bit for the second letter of each, in either case */
    const marked_word *words;
} marked_words;

extern const marked_words marks_of_python[32], marks_of_scripts[32];

uint8_t marks_among(const marked_word *words, view name);

/* The marks of a name; list: of its language, or NULL. */
static inline uint8_t marks_of_name(const marked_words *list, view name)
{
    if (!list) return 0;
    const marked_words *w = &list[name.ptr[0] & 31];
    if (!(w->seconds >> (name.ptr[name.len > 1] & 31) & 1)) return 0; /* as most */
    return marks_among(w->words, name);
}

static inline uint8_t marks_of_sign(char sign)
{
    bool binds = sign == '=' || sign == SIGN_UPDATE || sign == SIGN_WALRUS;
    return binds ? MARK_BINDS : sign == ';' ? MARK_ENDS : 0;
}

#endif
