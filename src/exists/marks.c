/* marks.c - the words, by their first letters. */
#include "exists/marks.h"

#define AT(c) ((c) & 31)
#define BIT(c) (1u << AT(c))
#define WORD(w, m) {w, sizeof(w) - 1, m, false}
#define BEGIN(w, m) {w, sizeof(w) - 1, m, true}

const marked_words marks_of_python[32] = {
    [AT('a')] = {BIT('s'),
        (const marked_word[]){WORD("as", MARK_BINDS),
            BEGIN("assert_raises", MARK_ASKS | MARK_TESTS),
            BEGIN("assertRaises", MARK_ASKS | MARK_TESTS), {0}}},
    [AT('b')] = {BIT('r'),
        (const marked_word[]){WORD("break", MARK_HEAD), {0}}},
    [AT('c')] = {BIT('a') | BIT('l') | BIT('o'),
        (const marked_word[]){WORD("class", MARK_HEAD), WORD("case", MARK_HEAD),
            WORD("continue", MARK_HEAD), {0}}},
    [AT('d')] = {BIT('e'),
        (const marked_word[]){WORD("def", MARK_HEAD), WORD("delattr", MARK_OTHER), {0}}},
    [AT('e')] = {BIT('l') | BIT('x'),
        (const marked_word[]){WORD("elif", MARK_HEAD), WORD("else", MARK_HEAD),
            WORD("except", MARK_HEAD), WORD("exit", MARK_OTHER), {0}}},
    [AT('f')] = {BIT('i') | BIT('o') | BIT('r'),
        (const marked_word[]){WORD("finally", MARK_HEAD), WORD("from", MARK_HEAD),
            WORD("for", MARK_BINDS | MARK_HEAD), WORD("find_spec", MARK_ASKS | MARK_TESTS), {0}}},
    [AT('g')] = {BIT('e'),
        (const marked_word[]){WORD("getattr", MARK_TESTS), {0}}},
    [AT('h')] = {BIT('a') | BIT('e'),
        (const marked_word[]){WORD("hasattr", MARK_ASKS | MARK_TESTS),
            WORD("hexversion", MARK_ASKS | MARK_TESTS), BEGIN("HAS", MARK_TESTS),
            BEGIN("HAVE_", MARK_TESTS), BEGIN("has_", MARK_TESTS), BEGIN("have_", MARK_TESTS),
            {0}}},
    [AT('i')] = {BIT('f') | BIT('m') | BIT('s'),
        (const marked_word[]){WORD("import", MARK_HEAD), WORD("if", MARK_IF | MARK_HEAD),
            WORD("implementation", MARK_TESTS), WORD("importlib", MARK_TESTS),
            BEGIN("IS_", MARK_TESTS), BEGIN("is_win", MARK_TESTS), BEGIN("is_py", MARK_TESTS),
            {0}}},
    [AT('l')] = {BIT('a'),
        (const marked_word[]){WORD("lambda", MARK_BINDS), {0}}},
    [AT('m')] = {BIT('a') | BIT('o') | BIT('s'),
        (const marked_word[]){WORD("match", MARK_HEAD), WORD("modules", MARK_TESTS),
            BEGIN("mswindows", MARK_TESTS), {0}}},
    [AT('n')] = {BIT('u'),
        (const marked_word[]){BEGIN("NUMPY", MARK_TESTS), BEGIN("numpy_", MARK_TESTS), {0}}},
    [AT('o')] = {BIT('s'),
        (const marked_word[]){WORD("os", MARK_OTHER), {0}}},
    [AT('p')] = {BIT('l') | BIT('y'),
        (const marked_word[]){WORD("platform", MARK_ASKS | MARK_TESTS), WORD("PY2", MARK_TESTS),
            WORD("PYPY", MARK_TESTS), WORD("python_implementation", MARK_TESTS),
            BEGIN("PY3", MARK_TESTS), BEGIN("PY_", MARK_TESTS), {0}}},
    [AT('r')] = {BIT('a') | BIT('e'),
        (const marked_word[]){WORD("return", MARK_HEAD), WORD("raise", MARK_HEAD),
            WORD("raises", MARK_ASKS | MARK_TESTS), {0}}},
    [AT('s')] = {BIT('e') | BIT('k') | BIT('u') | BIT('y'),
        (const marked_word[]){WORD("system", MARK_TESTS), WORD("suppress", MARK_TESTS),
            BEGIN("SUPPORTS_", MARK_TESTS), BEGIN("supports_", MARK_TESTS),
            WORD("skip", MARK_OTHER), WORD("setattr", MARK_OTHER), {0}}},
    [AT('t')] = {BIT('r'),
        (const marked_word[]){WORD("try", MARK_HEAD), {0}}},
    [AT('u')] = {BIT('s'),
        (const marked_word[]){BEGIN("USE_", MARK_TESTS), {0}}},
    [AT('v')] = {BIT('e'),
        (const marked_word[]){WORD("version_info", MARK_ASKS | MARK_TESTS),
            WORD("version", MARK_TESTS), {0}}},
    [AT('w')] = {BIT('a') | BIT('h') | BIT('i'),
        (const marked_word[]){WORD("while", MARK_HEAD), WORD("with", MARK_HEAD),
            WORD("warns", MARK_TESTS), BEGIN("WITH_", MARK_TESTS), BEGIN("WIN", MARK_TESTS), {0}}},
    [AT('_')] = {BIT('h') | BIT('i') | BIT('m') | BIT('p') | BIT('w'),
        (const marked_word[]){BEGIN("_HAS_", MARK_TESTS), BEGIN("_HAVE_", MARK_TESTS),
            BEGIN("_IS_", MARK_TESTS), BEGIN("_has_", MARK_TESTS), BEGIN("_WIN", MARK_TESTS),
            BEGIN("_PY", MARK_TESTS), BEGIN("_mswindows", MARK_TESTS), BEGIN("_have_", MARK_TESTS),
            {0}}},
};

const marked_words marks_of_scripts[32] = {
    [AT('c')] = {BIT('a') | BIT('o'),
        (const marked_word[]){WORD("catch", MARK_IF), WORD("const", MARK_BINDS), {0}}},
    [AT('e')] = {BIT('l') | BIT('x'),
        (const marked_word[]){WORD("else", MARK_IF), WORD("export", MARK_MODULE), {0}}},
    [AT('i')] = {BIT('f') | BIT('m') | BIT('n'),
        (const marked_word[]){WORD("if", MARK_IF), WORD("in", MARK_ASKS),
            WORD("import", MARK_MODULE), {0}}},
    [AT('l')] = {BIT('e'),
        (const marked_word[]){WORD("let", MARK_BINDS), {0}}},
    [AT('p')] = {BIT('l'),
        (const marked_word[]){WORD("platform", MARK_TESTS), {0}}},
    [AT('r')] = {BIT('e'),
        (const marked_word[]){WORD("require", MARK_MODULE), {0}}},
    [AT('s')] = {BIT('a') | BIT('e'),
        (const marked_word[]){WORD("semver", MARK_TESTS), WORD("satisfies", MARK_TESTS), {0}}},
    [AT('t')] = {BIT('r') | BIT('y'),
        (const marked_word[]){WORD("try", MARK_IF), WORD("typeof", MARK_ASKS), {0}}},
    [AT('u')] = {BIT('s'),
        (const marked_word[]){WORD("using", MARK_BINDS), {0}}},
    [AT('v')] = {BIT('a') | BIT('e'),
        (const marked_word[]){WORD("var", MARK_BINDS), WORD("versions", MARK_TESTS),
            WORD("version", MARK_TESTS), {0}}},
};

uint8_t marks_among(const marked_word *m, view name)
{
    for (; m->word; m++)
        if ((m->begins ? name.len >= m->len : name.len == m->len) &&
            !memcmp(name.ptr, m->word, m->len))
            return m->marks;
    return 0;
}
