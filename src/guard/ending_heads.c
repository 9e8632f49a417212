/* ending_heads.c - what the lines of a language say of blocks: which open one, which hold no
 * statements, and what must follow.  Forms that grammars accept and compilers refuse. */
#include <ctype.h>

#include "guard/ending_parts.h"
#include "guard/language.h"

#define IN(language) (1u << GUARD_##language)
enum {
    CS = IN(C) | IN(CPP),
    SCRIPTS = IN(JAVASCRIPT) | IN(TYPESCRIPT) | IN(TSX),
    BRACES = CS | SCRIPTS | IN(JAVA) | IN(GO) | IN(PHP),
    ALL = BRACES | IN(PYTHON) | IN(RUBY),
};

typedef struct {
    unsigned languages;
    const char *words; /* each between blanks */
} head_words;

/* Of a line that opens a block without statements. */
static const head_words types[] = {
    {ALL, " class struct enum interface union module namespace trait switch select type match "
          "extern record case "},
    {0, NULL}};
/* Of a type that its compiler wants a sign after. */
static const head_words declared[] = {{CS, " struct class union enum "}, {0, NULL}};
/* A name follows them, never a block. */
static const head_words named[] = {
    {BRACES, " class extends interface "}, {SCRIPTS, " constructor "}, {IN(GO), " func "},
    {0, NULL}};

static bool is_among(const head_words *all, guard_language language, view word)
{
    char text[24];
    if (word.len + 2 > sizeof text) return false;
    text[0] = text[word.len + 1] = ' ';
    memcpy(text + 1, word.ptr, word.len);
    for (; all->words; all++)
        if (all->languages >> language & 1 &&
            memmem(all->words, strlen(all->words), text, word.len + 2))
            return true;
    return false;
}

/* Is one of the first words among them, before a bracket or a value? */
static bool has_word(const head_words *all, guard_language language, view line)
{
    size_t n_seen = 0;
    for (size_t i = 0, end; i < line.len && n_seen < 6 && !strchr("(=", line.ptr[i]); i = end) {
        end = i + 1;
        if (!isalpha((unsigned char)line.ptr[i])) continue;
        while (end < line.len && byte_is_word(line.ptr[end])) end++;
        n_seen++;
        if (is_among(all, language, (view){line.ptr + i, end - i})) return true;
    }
    return false;
}

bool ending_is_type(const ending *e, view line) { return has_word(types, e->s->language, line); }

bool ending_is_head(const ending *e, view line)
{
    const lexer *x = &e->b.lexer;
    uint16_t n = x->n;
    if (!e->b.last) return false;
    char c = e->b.text[e->b.last - 1];
    while (n && strchr("/#", x->stack[n - 1])) n--;
    if (e->s->language == GUARD_PYTHON) return c == ':' && !n;
    if (e->s->language == GUARD_RUBY)
        return !n && window_opens_ruby(line) && !strchr("=,.+-*/&<([{", c);
    if (e->s->language == GUARD_PHP && c == ':')
        return e->b.n_words && e->b.words[e->b.n_words - 1].at + 1 == e->b.last;
    return c == '{' && n && x->stack[n - 1] == '{' && e->b.open_at[n - 1] + 1 == e->b.last;
}

const char *ending_after_block(const ending *e, uint32_t at)
{
    const guard_language l = e->s->language;
    view line = syntax_line_at(&e->b, at);
    line.len = e->b.text + at > line.ptr ? (size_t)(e->b.text + at - line.ptr) : 0;
    if (has_word(declared, l, line)) return ";";
    bool go = l == GUARD_GO && (view_starts(line, VIEW("go func")) ||
                                view_starts(line, VIEW("defer func")));
    return go ? "()" : syntax_after_block(&e->b, at);
}

bool ending_wants_name(const ending *e)
{
    view line = ending_last_line(e);
    size_t from = line.len;
    while (from && byte_is_word(line.ptr[from - 1])) from--;
    return is_among(named, e->s->language, (view){line.ptr + from, line.len - from});
}

/* A "func" that Go's grammar takes as a value, or as a type of parameters. */
bool ending_is_half(const ending *e)
{
    view line = ending_last_line(e);
    const lexer *x = &e->b.lexer;
    if (view_equal(line, VIEW("constructor"))) return true;
    if (e->s->language != GUARD_GO || !repair_word_at(line, 0, "func")) return false;
    const char *close = memchr(line.ptr, ')', line.len);
    bool receiver = view_starts(line, VIEW("func (")) &&
                    (!close || close + 1 == line.ptr + line.len);
    return (x->n && x->stack[x->n - 1] == '(') || receiver;
}

/* Go: "func (s *shelf) add" and "func add", which its grammar takes without. */
bool ending_lacks_parameters(const ending *e)
{
    size_t n = 0;
    view line = ending_last_line(e);
    if (e->s->language != GUARD_GO || !view_starts(line, VIEW("func ")) ||
        !isalnum((unsigned char)line.ptr[line.len - 1]))
        return false;
    for (size_t i = 0; i < line.len; i++) n += line.ptr[i] == '(';
    return n == (size_t)view_starts(line, VIEW("func ("));
}
