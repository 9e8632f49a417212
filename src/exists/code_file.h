/* code_file.h - a source file as tokens, for reading its names. */
#ifndef EXISTS_CODE_FILE_H
#define EXISTS_CODE_FILE_H

#include "exists/names.h"
#include "exists/tokens.h"

#define CODE_FILE_BYTES_MAX (2u << 20) /* a longer one is data, or generated: its module is open */

typedef struct {
    name_table *b;
    view text;
    code_token *t;     /* [n] and one more, a TOKEN_LINE */
    uint32_t n;
} code_file;

/* The tokens of a text; status in b. */
bool code_open(code_file *s, name_table *b, tokens_family family, view text);
void code_close(code_file *s);

static inline view code_word(const code_file *s, uint32_t i)
{
    return token_text(s->text, &s->t[i]);
}
static inline bool code_is(const code_file *s, uint32_t i, const char *word)
{
    return i < s->n && token_is(s->text, &s->t[i], word);
}
static inline bool code_sign(const code_file *s, uint32_t i, char sign)
{
    return i < s->n && token_sign(&s->t[i], sign);
}
static inline bool code_kind(const code_file *s, uint32_t i, token_kind kind)
{
    return i < s->n && s->t[i].kind == (uint8_t)kind;
}
/* The position after the bracket that closes the one at i, at most end. */
uint32_t code_after(const code_file *s, uint32_t i, uint32_t end);
/* The words a.b.c from i on, into out; returns the position after them. */
uint32_t code_dotted(const code_file *s, uint32_t i, uint32_t end, bytes *out);

/* ---- languages ---- */

/* A module of Python: its file, or its stub.  label: its dotted path. */
void python_read(name_table *b, uint32_t module, view label, bool is_package, view text);

/* Where a script finds the module of a specifier, as a path in the root with its letter, into out
 * [NAMES_WORD_MAX]; false: unknown. */
typedef bool (*script_find)(void *user, view specifier, char *out);
/* A file of JavaScript or TypeScript. */
void script_read(name_table *b, uint32_t module, view text, bool types, script_find find,
                 void *user);

#endif
