/* exists_text.c - checks a whole text against the names of an environment, line by line. */
#include "exists/exists_names.h"
#include "guard/lexer.h"

enum { PIECE_MAX = 8192 };

static int tell(const exists_finding *list, uint32_t n,
                int (*found)(void *user, const exists_finding *f), void *user)
{
    for (uint32_t i = 0; i < n; i++) RETURN_IF(found(user, &list[i]));
    return CERIUM_OK;
}

int exists_text(const names_index *x, guard_language language, view text,
                int (*found)(void *user, const exists_finding *f), void *user)
{
    exists_finding list[USES_FINDINGS_MAX];
    uses_state s;
    lexer lex;
    if (!uses_reads(language)) return CERIUM_OK;
    uses_begin(&s);
    lexer_begin(&lex, language);
    size_t from = 0;
    for (size_t i = 0; i < text.len; i++) {
        bool ends = lexer_step(&lex, text.ptr[i]);
        bool much = i + 1 - from >= PIECE_MAX && text.ptr[i] == '\n';
        if (!ends && i + 1 < text.len && !much) continue;
        uint32_t n = uses_line(x, &s, language, (view){text.ptr + from, i + 1 - from}, true,
                               list);
        RETURN_IF(tell(list, n, found, user));
        from = i + 1;
    }
    return tell(list, uses_end(x, &s, list), found, user);
}
