/* guard.c - opening and closing guards and workers; the rules' own tests. */
#include "guard/guard_parts.h"

int guard_open(guard **out, const char *folder, cerium_error *err)
{
    guard *g = memory_zalloc(1, sizeof *g);
    if (!g) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the watchdog");
    int status = roles_open();
    if (status) error_set(err, status, "no memory for the grammars' tables");
    if (!status) status = rules_open(&g->rules, folder, err);
    if (status) {
        memory_free(g);
        return status;
    }
    status = rule_index_open(&g->index, &g->rules);
    if (status) error_set(err, status, "no memory for the index of the rules");
    if (!status) status = literals_open(&g->literals, &g->rules, err);
    if (status) {
        guard_close(&g);
        return status;
    }
    memory_trim(); /* vectorscan's compiler leaves some 4 MB of small free pieces */
    *out = g;
    return CERIUM_OK;
}

void guard_close(guard **g)
{
    if (!*g) return;
    literals_close(&(*g)->literals);
    rule_index_close(&(*g)->index);
    rules_close(&(*g)->rules);
    memory_free(*g);
    *g = NULL;
}

uint32_t guard_n_rules(const guard *g) { return g->rules.n; }

int guard_worker_open(guard_worker **out, const guard *g, cerium_error *err)
{
    guard_worker *w = memory_zalloc(1, sizeof *w);
    int status = w ? CERIUM_OK : CERIUM_ERR_MEMORY;
    if (w) w->g = g;
    if (w && !(w->old = memory_zalloc(1, sizeof *w->old))) status = CERIUM_ERR_MEMORY;
    if (w && w->old) w->old->g = g;
    if (!status && g->literals.database &&
        hs_alloc_scratch(g->literals.database, &w->scratch) != HS_SUCCESS)
        status = CERIUM_ERR_MEMORY;
    if (!status) status = judge_open(&w->judge, &g->rules, g->index);
    if (status) {
        guard_worker_close(&w);
        return error_set(err, status, "no memory for the watchdog's worker");
    }
    *out = w;
    return CERIUM_OK;
}

void guard_worker_close(guard_worker **w)
{
    if (!*w) return;
    if ((*w)->judge.rules) judge_close(&(*w)->judge);
    hs_free_scratch((*w)->scratch);
    memory_free((*w)->old);
    memory_free(*w);
    *w = NULL;
}

const char *guard_weakness_name(uint32_t kind)
{
    return kind < WEAK_COUNT ? weakness_names[kind] : NULL;
}

/* ---- the rules' tests ---- */

static int finds(const guard *g, guard_worker *w, const rule *u, guard_language language, view code,
                 bool bad, bool *out, cerium_error *err)
{
    guard_stream *s;
    guard_result r;
    RETURN_IF(guard_stream_open(
        &s, g, &(guard_stream_config){.form = GUARD_CODE, .language = language}, err));
    *out = false;
    for (int end = 0; end < 2; end++) {
        if (end) guard_finish(s, w, &r);
        else guard_feed(s, w, code.ptr, code.len, &r);
        for (uint32_t i = 0; i < r.n_findings; i++)
            *out |= !strcmp(r.findings[i].rule, u->id) ||
                    (bad && r.findings[i].cwe == u->cwe);
    }
    guard_stream_close(&s);
    return CERIUM_OK;
}

static int test_list(const guard *g, guard_worker *w, const rule *u, bool bad, FILE *out,
                     uint32_t *n_run, int *n_failed, cerium_error *err)
{
    const view *list = bad ? u->bad : u->good;
    uint32_t n = bad ? u->n_bad : u->n_good;
    guard_language language = GUARD_TEXT;
    for (int l = 1; l < GUARD_LANGUAGES && !language; l++)
        if (u->languages >> l & 1) language = (guard_language)l;
    if (u->languages & 1) language = GUARD_TEXT;
    if (u->kind != RULE_LINE && !guard_has_grammar(language)) return CERIUM_OK;
    for (uint32_t i = 0; i < n; i++) {
        bool found;
        RETURN_IF(finds(g, w, u, language, list[i], bad, &found, err));
        ++*n_run;
        if (found == bad) continue;
        ++*n_failed;
        fprintf(out, "%s:%u: %s: %s: %.*s\n", u->file, u->line, u->id,
                bad ? "not found" : "found where nothing is wrong", (int)list[i].len, list[i].ptr);
    }
    return CERIUM_OK;
}

/* A finding of the rule with its safe form; false when there is none. */
static bool find_fix(const guard *g, guard_worker *w, const rule *u, guard_language language,
                     view code, guard_finding *out)
{
    guard_stream *s;
    guard_result r;
    guard_stream_config config = {.form = GUARD_CODE, .language = language, .notes = true};
    bool found = false;
    if (guard_stream_open(&s, g, &config, NULL)) return false;
    for (int end = 0; end < 2; end++) {
        if (end) guard_finish(s, w, &r);
        else guard_feed(s, w, code.ptr, code.len, &r);
        for (uint32_t i = 0; i < r.n_findings && !found; i++) {
            found = !strcmp(r.findings[i].rule, u->id) && *r.findings[i].fix;
            *out = r.findings[i];
        }
    }
    guard_stream_close(&s);
    return found;
}

static bool is_whole_code(guard_worker *w, guard_language language, view code)
{
    tree *t = &w->judge.tree;
    return !tree_read(t, language, code, NULL, 0) || t->whole;
}

/* The samples with their safe forms inserted: they parse as before, and the rule finds nothing. */
static int test_fixes(const guard *g, guard_worker *w, const rule *u, FILE *out, uint32_t *n_run,
                      int *n_failed, cerium_error *err)
{
    guard_language language = GUARD_TEXT;
    uint32_t n_fixed = 0;
    for (int l = 1; l < GUARD_LANGUAGES && !language; l++)
        if (u->languages >> l & 1) language = (guard_language)l;
    if (!u->n_fixes || !guard_has_grammar(language)) return CERIUM_OK;
    for (uint32_t i = 0; i < u->n_bad; i++) {
        guard_finding f;
        char code[2048];
        view bad = u->bad[i];
        bool again;
        if (!find_fix(g, w, u, language, bad, &f) || bad.len + sizeof f.fix > sizeof code) continue;
        int n = snprintf(code, sizeof code, "%.*s%s%.*s", (int)f.begin, bad.ptr, f.fix,
                         (int)(bad.len - f.end), bad.ptr + f.end);
        view fixed = {code, (size_t)n};
        RETURN_IF(finds(g, w, u, language, fixed, false, &again, err));
        ++*n_run;
        n_fixed++;
        bool parses = is_whole_code(w, language, fixed) || !is_whole_code(w, language, bad);
        if (!again && parses) continue;
        ++*n_failed;
        fprintf(out, "%s:%u: %s: its safe form %s: %s\n", u->file, u->line, u->id,
                again ? "is found, too" : "does not parse", code);
    }
    if (n_fixed) return CERIUM_OK;
    ++*n_failed;
    fprintf(out, "%s:%u: %s: no sample has the safe form\n", u->file, u->line, u->id);
    return CERIUM_OK;
}

int guard_test_rules(const guard *g, FILE *out, uint32_t *n_run, cerium_error *err)
{
    guard_worker *w;
    int n_failed = 0, status = CERIUM_OK;
    *n_run = 0;
    RETURN_IF(guard_worker_open(&w, g, err));
    for (uint32_t i = 0; i < g->rules.n && !status; i++) {
        status = test_list(g, w, &g->rules.list[i], true, out, n_run, &n_failed, err);
        if (!status)
            status = test_list(g, w, &g->rules.list[i], false, out, n_run, &n_failed, err);
        if (!status) status = test_fixes(g, w, &g->rules.list[i], out, n_run, &n_failed, err);
    }
    guard_worker_close(&w);
    return status ? status : n_failed;
}
