/* solve_set.c - variants by index; finds those that are the same program. */
#include "programs/solve.h"

#include <ctype.h>

static const char *const maker_names[] = {"mutate", "model", "repair"};
_Static_assert(ARRAY_LEN(maker_names) == MAKERS, "every maker has a name");

const char *solve_maker_name(solve_maker maker)
{
    CHECK(maker < MAKERS);
    return maker_names[maker];
}

int solve_set_open(solve_set *s, view text, wire_language language, uint32_t cap,
                   cerium_error *err)
{
    CHECK(cap >= 1 && cap <= SOLVE_VARIANTS_MAX);
    *s = (solve_set){.text = text, .language = language, .cap = cap, .n_table = 4};
    while (s->n_table < 2 * cap) s->n_table *= 2;
    s->all = memory_zalloc(cap, sizeof *s->all);
    s->keys = memory_zalloc(cap, sizeof *s->keys);
    s->table = memory_zalloc(s->n_table, sizeof *s->table);
    if (s->all && s->keys && s->table) return CERIUM_OK;
    solve_set_close(s);
    return error_set(err, CERIUM_ERR_MEMORY, "no memory for %u variants", cap);
}

void solve_set_close(solve_set *s)
{
    for (uint32_t i = 0; s->all && i < s->n; i++) {
        memory_free(s->all[i].text);
        memory_free(s->all[i].why);
    }
    memory_free(s->all);
    memory_free(s->keys);
    memory_free(s->table);
    *s = (solve_set){0};
}

uint32_t solve_set_plan(solve_set *s, solve_maker maker)
{
    if (s->n == s->cap) return SOLVE_NONE;
    s->all[s->n] = (solve_variant){.maker = maker, .same_as = SOLVE_NONE};
    return s->n++;
}

int solve_set_program(const solve_set *s, uint32_t index, bytes *out)
{
    const solve_variant *v = &s->all[index];
    out->len = 0;
    RETURN_IF(bytes_append(out, s->text.ptr, v->span.begin));
    RETURN_IF(bytes_append(out, v->text, v->n_text));
    return bytes_append(out, s->text.ptr + v->span.end, s->text.len - v->span.end);
}

/* Its slot in the table: that of an equal one, or an empty one. */
static uint32_t slot_of(const solve_set *s, hash_name key)
{
    uint32_t at = (uint32_t)key.low & (s->n_table - 1);
    while (s->table[at] && !hash_name_equal(s->keys[s->table[at] - 1], key))
        at = (at + 1) & (s->n_table - 1);
    return at;
}

/* Read whole changed lines, so that two spans that make the same line have the same key. */
static hash_name key_of(const solve_set *s, const solve_variant *v, view program)
{
    size_t begin = v->span.begin, end = v->span.begin + v->n_text;
    while (begin > 0 && program.ptr[begin - 1] != '\n') begin--;
    while (end < program.len && program.ptr[end] != '\n') end++;
    return solve_key(program, s->language, begin, end);
}

int solve_set_make(solve_set *s, uint32_t index, solve_span span, view text, cerium_error *err)
{
    solve_variant *v = &s->all[index];
    bytes program = {.max = 2 * SOLVE_TEXT_BYTES_MAX};
    CHECK(index < s->n && v->state == VARIANT_PLANNED && span.end <= s->text.len);
    v->text = memory_copy(text.ptr ? text.ptr : "", text.len);
    v->n_text = (uint32_t)text.len;
    v->span = span;
    int status = v->text ? solve_set_program(s, index, &program) : CERIUM_ERR_MEMORY;
    if (status) {
        bytes_free(&program);
        return error_set(err, status, "no memory for a variant");
    }
    s->keys[index] = key_of(s, v, (view){program.ptr, program.len});
    bytes_free(&program);
    uint32_t at = slot_of(s, s->keys[index]);
    v->state = VARIANT_MADE;
    v->n_same = 1;
    s->n_made++;
    if (s->table[at]) {
        v->same_as = s->table[at] - 1;
        s->all[v->same_as].n_same++;
        return CERIUM_OK;
    }
    s->table[at] = index + 1;
    s->n_different++;
    return CERIUM_OK;
}

void solve_set_drop(solve_set *s, uint32_t index)
{
    s->all[index].state = VARIANT_DECIDED;
    s->all[index].dropped = true;
    s->all[index].verdict = WIRE_PARSE;
    s->n_made++;
    s->n_dropped++;
}

void solve_set_decide(solve_set *s, uint32_t index, const sandbox_result *r)
{
    solve_variant *v = &s->all[index];
    v->state = VARIANT_DECIDED;
    v->verdict = r->verdict;
    v->n_passed = r->n_passed;
    v->failed_line = solve_failed_line(r, s->language);
    memory_free(v->why);
    const view why = solve_failure(r);
    v->why = memory_copy(why.ptr ? why.ptr : "",
                         why.len < SOLVE_WHY_BYTES ? why.len : SOLVE_WHY_BYTES);
    for (char *c = v->why; c && *c; c++)
        if (!isprint((unsigned char)*c)) *c = ' ';
    s->verdicts[r->verdict]++;
    s->n_tested++;
    s->n_passed += r->verdict == WIRE_PASS;
}

bool solve_set_verdict(const solve_set *s, uint32_t index, wire_verdict *out)
{
    const solve_variant *v = &s->all[index];
    if (v->same_as != SOLVE_NONE) v = &s->all[v->same_as];
    *out = v->verdict;
    return v->state == VARIANT_DECIDED;
}
