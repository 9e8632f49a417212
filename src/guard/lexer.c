/* lexer.c - a byte lexer for ten languages at once.
 *
 * `has` holds their differences.  The innermost open construct decides what a byte means; nothing
 * looks ahead, so the place of a cut does not matter. */
#include "guard/lexer.h"

#include <ctype.h>
#include <string.h>

#define IN(set) (1u << GUARD_##set)
enum {
    SCRIPTS = IN(JAVASCRIPT) | IN(TYPESCRIPT) | IN(TSX),
    SLASHES = SCRIPTS | IN(JAVA) | IN(GO) | IN(C) | IN(CPP) | IN(PHP), /* comments */
    HASHES = IN(PYTHON) | IN(RUBY) | IN(PHP),
    ONE_LINE = SCRIPTS | IN(JAVA) | IN(GO) | IN(C) | IN(CPP) | IN(PYTHON), /* strings end */
    TRIPLES = IN(PYTHON) | IN(JAVA),
    TICKS = SCRIPTS | IN(GO) | IN(RUBY) | IN(PHP),
    SLASHED = SCRIPTS | IN(RUBY), /* expressions */
    HEREDOCS = IN(PHP) | IN(RUBY),
};

static bool has(const lexer *x, unsigned set) { return set >> x->language & 1; }
static char top(const lexer *x) { return x->n ? x->stack[x->n - 1] : 0; }
static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$'; }

void lexer_begin(lexer *x, guard_language language)
{
    *x = (lexer){.language = language, .last = '\n', .prev = '\n'};
}

static void push(lexer *x, char c)
{
    if (x->n < GUARD_BRACKETS_MAX) x->stack[x->n++] = c;
    else x->over++;
}

static void pop(lexer *x)
{
    if (x->over) x->over--;
    else if (x->n) x->n--;
}

bool lexer_in_text(const lexer *x)
{
    char t = top(x);
    return t && strchr("'\"`32Dd/#RJHM", t);
}

bool lexer_in_comment(const lexer *x)
{
    char t = top(x);
    return t && strchr("Dd/#", t);
}

unsigned lexer_n_parens(const lexer *x)
{
    unsigned n = 0;
    for (unsigned i = 0; i < x->n; i++) n += x->stack[i] == '(' || x->stack[i] == '[';
    return n;
}

size_t lexer_closers(const lexer *x, char *out, size_t size)
{
    size_t n = 0;
    for (unsigned i = x->n; i-- && n + 4 < size;) {
        switch (x->stack[i]) {
        case '(': out[n++] = ')'; break;
        case '[': out[n++] = ']'; break;
        case '{':
            out[n++] = '\n';
            out[n++] = '}';
            break;
        case 'E':
        case 'I': out[n++] = '}'; break;
        case '\'':
        case '"':
        case '`': out[n++] = x->stack[i]; break;
        case '3':
        case 'D':
            memcpy(out + n, "\"\"\"", 3);
            n += 3;
            break;
        case '2':
        case 'd':
            memcpy(out + n, "'''", 3);
            n += 3;
            break;
        case '/':
            memcpy(out + n, "*/", 2);
            n += 2;
            break;
        default: break;
        }
    }
    return n;
}

/* Does a line that ends after `last` continue below? */
static bool continues(const lexer *x)
{
    if (x->prev == '\\') return true;
    if (x->language == GUARD_PYTHON || x->language == GUARD_TEXT || !x->last) return false;
    return strchr(x->language == GUARD_RUBY ? ",.+=&" : "+=,.&|?", x->last) != NULL;
}

static bool line_ends(lexer *x)
{
    unsigned i = x->n;
    /* Comments and documentation are not held as a whole. */
    while (i && strchr("/#Dd", x->stack[i - 1])) i--;
    char t = i ? x->stack[i - 1] : 0;
    if (x->over || (t && t != '{' && t != 'M')) return false;
    if (i == x->n && continues(x)) return false;
    if (i == x->n) x->last = '\n';
    return true;
}

/* ---- strings ---- */

static void step_string(lexer *x, char c)
{
    char t = top(x);
    if (x->escaped) {
        x->escaped = false;
        return;
    }
    bool raw = t == '`' && x->language == GUARD_GO;
    if (c == '\\' && !raw) x->escaped = true;
    else if (c == t) {
        pop(x);
        x->run = x->run == 1 ? 2 : 0;
        x->last = c;
        return;
    } else if (c == '\n' && t != '`' && has(x, ONE_LINE)) pop(x); /* it was never closed */
    else if (c == '{' && ((t == '`' && has(x, SCRIPTS) && x->prev == '$') ||
                          (t != '\'' && x->language == GUARD_RUBY && x->prev == '#')))
        push(x, 'I');
    x->run = 0;
}

static void step_triple(lexer *x, char c)
{
    char quote = top(x) == '3' || top(x) == 'D' ? '"' : '\'';
    if (x->escaped) {
        x->escaped = false;
        x->run = 0;
        return;
    }
    if (c == '\\') x->escaped = true;
    x->run = c == quote ? x->run + 1 : 0;
    if (x->run == 3) {
        pop(x);
        x->run = 0;
        x->last = c;
    }
}

static void step_slashed(lexer *x, char c)
{
    char *t = &x->stack[x->n - 1];
    bool first = x->run == 1;
    x->run = 0;
    if (first && (c == '*' || c == '/') && has(x, SLASHES)) *t = c == '*' ? '/' : '#';
    else if (x->escaped) x->escaped = false;
    else if (c == '\\') x->escaped = true;
    else if (c == '[') *t = 'J';
    else if (c == ']') *t = 'R';
    else if ((c == '/' && *t == 'R') || c == '\n') {
        pop(x);
        x->last = '/';
    }
}

enum { NONE, OPEN, NAME, READY }; /* the name of a heredoc */

/* The first of the names is the one that ends the text.  Texts of several names follow one another:
 * f(<<~A, <<~B). */
static void step_heredoc(lexer *x, char c)
{
    if (c == '\n') x->id_at = 0;
    else if (x->id_at == UINT8_MAX) return;
    else if (x->id_at == 0 && (c == ' ' || c == '\t')) return;
    else if (x->id_at < x->n_ids) x->id_at = c == x->ids[x->id_at] ? x->id_at + 1 : UINT8_MAX;
    else x->id_at = UINT8_MAX;
    if (x->id_at < x->n_ids && x->ids[x->id_at] == '\n') {
        uint8_t n = x->id_at + 1;
        pop(x); /* the text after the name on its line is code */
        memmove(x->ids, x->ids + n, x->n_ids - n);
        x->n_ids -= n;
        x->id_state = x->n_ids ? READY : NONE;
        x->last = '"';
    }
}

/* The quote around the name of a heredoc: <<~'NAME', <<<'NAME'. */
static bool is_quoted_name(const lexer *x, char c)
{
    if ((c != '"' && c != '\'') || !has(x, HEREDOCS)) return false;
    bool opens = strchr("~-", x->prev) || (x->language == GUARD_PHP && x->prev == '<');
    return x->id_state == NAME || (x->id_state == OPEN && opens);
}

/* <<<NAME, <<~NAME: the name is read here, the text begins with the next line. */
static void step_heredoc_name(lexer *x, char c)
{
    uint8_t state = x->id_state;
    if (state == OPEN && strchr("<~-'\"", c)) return;
    if (state == OPEN || state == NAME) {
        bool quoted = strchr("'\"", x->prev) && isalpha((unsigned char)c);
        bool fits = state == NAME ? is_word(c) : isupper((unsigned char)c) || c == '_' || quoted;
        if (fits && x->n_ids + 1 < LEXER_ID_BYTES) {
            x->ids[x->n_ids++] = c;
            x->id_state = NAME;
        } else {
            if (state == NAME) x->ids[x->n_ids++] = '\n';
            x->id_state = x->n_ids ? READY : NONE;
        }
    } else if (c == '<' && x->prev == '<') {
        if (state == NONE) x->n_ids = 0;
        x->id_state = OPEN;
    }
    if (x->id_state == READY && c == '\n') {
        x->id_state = NONE;
        x->id_at = 0;
        push(x, 'H');
    }
}

/* ---- code ---- */

static void open_quote(lexer *x, char c)
{
    if (x->run == 2 && x->prev == c && has(x, TRIPLES)) {
        bool first = !x->begun;
        push(x, c == '"' ? (first ? 'D' : '3') : (first ? 'd' : '2'));
        x->run = 0;
        return;
    }
    push(x, c);
    x->run = 1;
}

/* After a word that no value follows a quote is one of JSX's text: <p>it's</p>. */
static bool is_apostrophe(const lexer *x)
{
    static const char *const words[] = {"return", "case", "typeof", "from", "import", "in", "of",
                                        "instanceof", "else", "do", "delete", "void", "throw",
                                        "default", "extends", "await", "yield", "as", "export",
                                        "new"};
    if (!has(x, SCRIPTS) || !is_word(x->prev)) return false;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (!strncmp(x->word, words[i], sizeof x->word)) return false;
    return true;
}

static char brace_kind(const lexer *x)
{
    bool after_word = x->n_word && strncmp(x->word, "return", 8) == 0 && is_word(x->last);
    switch (x->language) {
    case GUARD_PYTHON: return 'E';
    case GUARD_JAVASCRIPT:
    case GUARD_TYPESCRIPT:
    case GUARD_TSX: return after_word || strchr("(,=[:?&|", x->last) ? 'E' : '{';
    case GUARD_RUBY: return strchr("(,=[:", x->last) ? 'E' : '{';
    case GUARD_JAVA: return strchr("=,]", x->last) ? 'E' : '{';
    case GUARD_GO: return is_word(x->prev) || x->prev == ']' || x->prev == '}' ? 'E' : '{';
    case GUARD_C:
    case GUARD_CPP: return strchr("=,(", x->last) ? 'E' : '{';
    default: return '{';
    }
}

static bool opens_slashed(const lexer *x)
{
    if (strchr("(,=:[!&|?{};\n", x->last)) return true;
    return x->n_word && is_word(x->last) &&
           (!strncmp(x->word, "return", 8) || !strncmp(x->word, "typeof", 8));
}

static void close_bracket(lexer *x, char c)
{
    char t = top(x);
    if (c == ')' ? t == '(' : c == ']' ? t == '[' : t == '{' || t == 'E' || t == 'I') pop(x);
}

static void step_word(lexer *x, char c)
{
    if (!is_word(c)) return;
    if (!is_word(x->prev)) x->n_word = 0;
    if (x->n_word == 0) memset(x->word, 0, sizeof x->word);
    if (x->n_word < sizeof x->word) x->word[x->n_word++] = c;
}

static void step_code(lexer *x, char c)
{
    bool names = is_quoted_name(x, c);
    if (has(x, HEREDOCS)) step_heredoc_name(x, c);
    if (top(x) == 'H') return;
    if (x->language == GUARD_PHP && c == '>' && x->prev == '?') {
        push(x, 'M');
        return;
    }
    if (names || ((c == '\'' || c == '"') && is_apostrophe(x))) return;
    if (c == '"' || (c == '\'' && x->language != GUARD_TEXT) || (c == '`' && has(x, TICKS)))
        open_quote(x, c);
    else if (c == '#' && has(x, HASHES)) push(x, '#');
    else if (c == '/' && x->prev == '/' && has(x, SLASHES)) push(x, '#');
    else if (c == '*' && x->prev == '/' && has(x, SLASHES)) push(x, '/');
    else if (c == '/' && has(x, SLASHED) && opens_slashed(x)) {
        push(x, 'R');
        x->run = 1;
    }
    else if (c == '(' || c == '[') push(x, c);
    else if (c == '{') push(x, brace_kind(x));
    else if (c == ')' || c == ']' || c == '}') close_bracket(x, c);
    step_word(x, c);
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r' && top(x) != '#' && top(x) != '/') {
        x->last = c;
        if (c != '"' && c != '\'') x->begun = true;
    }
}

bool lexer_step(lexer *x, char c)
{
    char t = top(x);
    bool ends = false;
    if (x->language == GUARD_TEXT) return c == '\n';
    if (!x->begun && x->language == GUARD_PHP && c == '<' && !x->n) push(x, t = 'M');
    switch (t) {
    case '\'':
    case '"':
    case '`': step_string(x, c); break;
    case '3':
    case '2':
    case 'D':
    case 'd': step_triple(x, c); break;
    case 'R':
    case 'J': step_slashed(x, c); break;
    case 'H': step_heredoc(x, c); break;
    case 'M':
        x->begun = true;
        if (c == '?' && x->prev == '<') pop(x);
        break;
    case '/':
        if (c == '/' && x->prev == '*') pop(x);
        break;
    case '#':
        if (c == '\n' || (c == '>' && x->prev == '?' && x->language == GUARD_PHP)) pop(x);
        break;
    default: step_code(x, c); break;
    }
    if (c == '\n') {
        ends = line_ends(x);
        if (ends) x->begun = false;
    }
    x->prev = c;
    return ends;
}
