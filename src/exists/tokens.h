/* tokens.h - code as words: names, strings, signs, and where statements of Python end.
 *
 * A text may come in pieces: constructs that are open at the end of one (a string over lines, a
 * comment, brackets of Python) continue in the next.  No piece may end within a word. */
#ifndef EXISTS_TOKENS_H
#define EXISTS_TOKENS_H

#include "base/base.h"

typedef enum {
    TOKENS_PYTHON = 0,
    TOKENS_SCRIPT = 1, /* JavaScript and the like */
    TOKENS_C = 2,      /* C and C++: no templates, no regular expressions */
    TOKENS_GO = 3,     /* the same, with raw strings */
} tokens_family;

typedef enum {
    TOKEN_NAME = 'n',
    TOKEN_NUMBER = '0',
    TOKEN_STRING = 's',
    TOKEN_SIGN = 'p',
    TOKEN_LINE = '\n', /* of Python: the end of a logical line */
} token_kind;

/* Signs of more than one byte. */
enum {
    SIGN_COMPARE = 'E', /* == != <= >= */
    SIGN_ARROW = 'A',   /* => */
    SIGN_RETURNS = 'R', /* -> */
    SIGN_DOTS = 'D',    /* ... */
    SIGN_WALRUS = 'W',  /* := */
    SIGN_UPDATE = 'U',  /* += and the like */
    SIGN_POWER = 'P',   /* ** */
    SIGN_SCOPE = 'C',   /* :: */
    SIGN_MAYBE = 'Q',   /* ?. */
    SIGN_OR = 'L',      /* && || ?? */
    SIGN_OTHER = 'O',
};

typedef struct {
    uint32_t begin, end; /* bytes of the text; of a string those between its quotes */
    uint32_t line;       /* of the text, from 0 */
    uint16_t indent;     /* columns before the first token of its line */
    uint8_t kind;
    char sign;           /* the byte of a sign, or one of the above */
    bool first;          /* of its line */
    bool plain;          /* a string without holes */
} code_token;

enum { TOKENS_OPEN_MAX = 30 };

typedef struct {
    char open[TOKENS_OPEN_MAX]; /* see tokens.c, innermost last */
    uint8_t n;
    uint16_t over;              /* opened beyond it */
    uint16_t indent;
    uint16_t depth;             /* brackets of Python */
    char last;                  /* kind or sign of the last token, for a slash */
} tokens_carry;

/* Up to max tokens of text to out; returns how many.  Beyond max only the state is updated. */
size_t tokens_read(tokens_carry *c, tokens_family family, view text, code_token *out, size_t max);

/* Tokens [n] of text: the position after the statement of Python that begins at i.  *colon: that of
 * its head; 0: it has none. */
uint32_t tokens_statement_end(view text, const code_token *t, uint32_t n, uint32_t i,
                              bool head, uint32_t *colon);

static inline bool token_opens(char sign) { return sign == '(' || sign == '[' || sign == '{'; }
static inline bool token_closes(char sign) { return sign == ')' || sign == ']' || sign == '}'; }

static inline view token_text(view text, const code_token *t)
{
    return (view){text.ptr + t->begin, t->end - t->begin};
}

static inline bool token_is(view text, const code_token *t, const char *word)
{
    if (t->kind != TOKEN_NAME || text.ptr[t->begin] != word[0]) return false; /* as most */
    size_t n = strlen(word);
    return t->end - t->begin == n && !memcmp(text.ptr + t->begin, word, n);
}

static inline bool token_sign(const code_token *t, char sign)
{
    return t->kind == TOKEN_SIGN && t->sign == sign;
}

#endif
