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
    bool first : 1;      /* of its line */
    bool plain : 1;      /* a string without holes */
    int8_t turn;         /* of a bracket: 1 opens, -1 closes, else 0 */
    uint8_t marks;       /* word_mark */
    uint8_t sketch;      /* of a name: six bits of its letters; else TOKEN_NO_NAME */
    uint32_t after;      /* of an opening bracket: the token after its end, or their number */
} code_token;

enum { TOKENS_OPEN_MAX = 30, TOKEN_NO_NAME = 255 };

_Static_assert(sizeof(code_token) == 24, "a line has many");

typedef struct {
    char open[TOKENS_OPEN_MAX]; /* see tokens.c, innermost last */
    uint8_t n;
    uint16_t over;              /* opened beyond it */
    uint16_t indent;
    uint16_t depth;             /* brackets of Python */
    char last;                  /* kind of the last token */
} tokens_carry;

/* Up to max tokens of text to out; returns how many.  Beyond max only the state is updated. */
size_t tokens_read(tokens_carry *c, tokens_family family, view text, code_token *out, size_t max);

/* Different for most names that differ, and cheap. */
static inline uint8_t token_sketch(view name)
{
    uint32_t sum = (unsigned char)name.ptr[0] + 3u * (unsigned char)name.ptr[name.len - 1];
    return (uint8_t)((sum + 7u * (uint32_t)name.len) & 63);
}

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
