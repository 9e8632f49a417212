/* test_jinja.c - templates against jinja2 (jinja_vectors.jsonl, written by make_jinja_vectors.py),
 * the origin of bytes, and hostile templates. */
#include "template/jinja.h"

#include "unit.h"

/* ---- the vectors ---- */

static int render(const char *source, const json_t *context, char *text, size_t cap,
                  jinja_error *err)
{
    jinja_template *t = NULL;
    jinja_run *run = NULL;
    jinja_output out;
    const char *name;
    json_t *value;
    int status = jinja_compile(&t, view_of(source), err);
    if (status) return status;
    status = jinja_open(&run, t);
    if (!status) {
        json_object_foreach((json_t *)(uintptr_t)context, name, value)
            jinja_set(run, name, jinja_of_json(run, value, JINJA_MESSAGE));
        jinja_set_time(run, 1767225600);
        status = jinja_render(run, &out, err);
        if (!status) {
            CHECK(out.text.len < cap);
            memcpy(text, out.text.ptr, out.text.len);
            text[out.text.len] = 0;
        }
    }
    jinja_close(&run);
    jinja_free(&t);
    return status;
}

static void check_line(const json_t *line, const json_t *context)
{
    static char text[1 << 16];
    jinja_error err = {0};
    const char *source = json_string_value(json_object_get(line, "template"));
    const char *want = json_string_value(json_object_get(line, "want"));
    const char *raised = json_string_value(json_object_get(line, "raised"));
    int status = render(source, context, text, sizeof text, &err);
    if (want)
        TEST_CHECK_THAT(!status && !strcmp(text, want), "%s\n    want %s\n    have %s", source,
                        want, status ? err.message : text);
    else if (raised)
        TEST_CHECK_THAT(status && err.failure == JINJA_RAISED && !strcmp(err.message, raised),
                        "%s: %s", source, err.message);
    else
        TEST_CHECK_THAT(status == CERIUM_ERR_FORMAT && err.failure == JINJA_FAILED && err.line == 1,
                        "%s: %d, line %u: %s", source, status, err.line, err.message);
}

static void test_vectors(void)
{
    static char line[1 << 16];
    FILE *f = fopen("tests/unit/jinja_vectors.jsonl", "r");
    json_t *head = NULL;
    size_t n = 0;
    TEST_CHECK(f != NULL);
    if (!f) return;
    while (fgets(line, sizeof line, f)) {
        json_t *one = json_loads(line, 0, NULL);
        CHECK(one);
        if (!head) {
            head = one;
            continue;
        }
        check_line(one, json_object_get(head, "context"));
        json_decref(one);
        n++;
    }
    json_decref(head);
    fclose(f);
    printf("  %zu templates\n", n);
    TEST_CHECK(n > 100);
}

/* ---- the origin of bytes ---- */

/* The text with what came from messages in brackets. */
static void check_origins(const char *source, const char *want)
{
    jinja_template *t = NULL;
    jinja_run *run = NULL;
    jinja_output out;
    jinja_error err;
    char text[512];
    size_t n = 0, from = 0;
    CHECK(!jinja_compile(&t, view_of(source), &err) && !jinja_open(&run, t));
    jinja_value list = jinja_list(run), map = jinja_map(run);
    jinja_value m = jinja_text(VIEW(" <|end|> "), JINJA_MESSAGE);
    jinja_append(run, list, m);
    jinja_put(run, map, "k", m);
    jinja_set(run, "m", m);
    jinja_set(run, "list", list);
    jinja_set(run, "map", map);
    TEST_CHECK_THAT(!jinja_render(run, &out, &err), "%s: %s", source, err.message);
    for (size_t i = 0; i < out.n_pieces; from = out.pieces[i++].end)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              out.pieces[i].origin == JINJA_MESSAGE ? "[%.*s]" : "%.*s",
                              (int)(out.pieces[i].end - from), out.text.ptr + from);
    text[n] = 0;
    TEST_CHECK_THAT(!strcmp(text, want), "%s: %s", source, text);
    jinja_close(&run);
    jinja_free(&t);
}

static void test_origins(void)
{
    check_origins("<a>{{ m }}<b>", "<a>[ <|end|> ]<b>");
    check_origins("{{ '<a>' + m + '<b>' }}", "<a>[ <|end|> ]<b>");
    check_origins("{{ '<a>' ~ m|trim ~ '<b>' }}", "<a>[<|end|>]<b>");
    check_origins("{{ (m + 'x|y').split('|') | join('-') }}", "[ <]-[end]-[> ]x-y");
    check_origins("{{ m.strip()[1:-1] + '>' }}", "[|end|]>");
    check_origins("{{ (m + '<|end|>').replace('end', 'x') }}", "[ <|]x[|> ]<|x|>");
    check_origins("{{ m|upper }}{{ m|tojson }}{{ list }}",
                  "[ <|END|> \" <|end|> \"]['[ <|end|> ]']");
    check_origins("{% set b %}({{ m }}){% endset %}{{ b }}", "([ <|end|> ])");
    check_origins("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(m)|trim }}", "<[ <|end|> ]>");
    check_origins("{{ list|map('trim')|join('<s>') }}{{ '%s.'|format(m) }}", "[<|end|> <|end|> ].");
    check_origins("{{ '{}!'.format(m) }}{{ m|replace(' ', '') }}", "[ <|end|> ]![<|end|>]");
    check_origins("{% for k, v in map|items %}{{ k }}{{ v }}{% endfor %}", "k[ <|end|> ]");
    check_origins("{{ m|indent(2, true) }}{{ m[::-1] }}", "  [ <|end|>  >|dne|< ]");
}

/* ---- hostile templates ---- */

static void check_bound(const char *source, uint32_t line, const char *why)
{
    static char text[1 << 16];
    jinja_error err = {0};
    int status = render(source, NULL, text, sizeof text, &err);
    TEST_CHECK_THAT(status == CERIUM_ERR_FORMAT && err.line == line && strstr(err.message, why),
                    "%.60s: %d, line %u: %s", source, status, err.line, err.message);
}

static void test_bounds(void)
{
    static char deep[8192];
    check_bound("a\n{% for i in range(10000000000) %}{% endfor %}", 2, "too ");
    check_bound("{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}\n{% for i in range(99) %}\n"
                "{% set ns.s = ns.s + ns.s %}{% endfor %}", 3, "too ");
    check_bound("\n{{ 'x' * 100000000000 }}", 2, "too ");
    check_bound("\n{{ ' ' | center(100000000000) }}", 2, "too ");
    check_bound("\n{{ 'x' | indent(100000000000, true) }}", 2, "too ");
    check_bound("\n{{ [[1]] | tojson(indent=9223372036854775807) }}", 2, "too much");
    check_bound("\n{{ 'x' | center(9223372036854775807) }}", 2, "too ");
    check_bound("\n{{ 'x' | center('y') }}", 2, "a whole number");
    check_bound("\n{{ 'x' | truncate(1.5) }}", 2, "a whole number");
    check_bound("{% macro f() %}\n{{ f() }}{% endmacro %}{{ f() }}", 2, "too deep");
    check_bound("{% set l = [] %}{{ l.append(l) }}\n{{ l }}", 2, "too deep");
    check_bound("{% set l = [] %}{{ l.append(l) }}\n{{ l|tojson }}", 2, "too deep");
    check_bound("{% set l = [] %}{{ l.append(l) }}{% set k = [] %}{{ k.append(k) }}\n"
                "{{ l == k }}", 2, "too deep");
    check_bound("{% for i in range(3) recursive %}\n{{ loop(range(3)) }}{% endfor %}", 2, "deep");
    check_bound("a\n\n{{ x | from_yaml }}", 3, "no filter named 'from_yaml'");
    check_bound("a\n{% if x is blue %}", 2, "no test named 'blue'");
    check_bound("a\n{% import 'x' as y %}", 2, "'import' is unknown");
    check_bound("a\n{{ raise_exception('no\nway') }}", 2, "no");
    check_bound("a\n\n{% for x in y %}", 3, "endfor %} is missing");
    memset(deep, '(', sizeof deep - 1);
    memcpy(deep, "{{", 2);
    check_bound(deep, 1, "nested deeper");
    for (size_t i = 0; i + 2 < sizeof deep; i += 2) memcpy(deep + i, "-+", 2);
    memcpy(deep, "{{", 2);
    check_bound(deep, 1, "nested deeper");
    for (size_t i = 0; i + 11 < sizeof deep; i += 10) memcpy(deep + i, "{% if a %}", 11);
    check_bound(deep, 1, "nested deeper");
}

/* A piece repeated up to the maximal length of a template. */
static int compile_long(const char *head, const char *piece, jinja_error *err)
{
    jinja_template *t = NULL;
    bytes source = {.max = JINJA_SOURCE_BYTES_MAX};
    int status = bytes_append(&source, head, strlen(head));
    while (!status && source.len + strlen(piece) + 8 < JINJA_SOURCE_BYTES_MAX)
        status = bytes_append(&source, piece, strlen(piece));
    if (!status) status = bytes_append(&source, "] }}", 4);
    TEST_CHECK(!status);
    status = jinja_compile(&t, (view){source.ptr, source.len}, err);
    jinja_free(&t);
    bytes_free(&source);
    return status;
}

static void test_long(void)
{
    jinja_error err;
    TEST_CHECK(compile_long("{{ [", "'a' ", &err) == CERIUM_OK); /* neighbours are one string */
    TEST_CHECK(compile_long("{{ [", "a,", &err) == CERIUM_OK);
    TEST_CHECK(compile_long("{{ [", "a<b,", &err) == CERIUM_OK); /* a node per byte */
    check_bound("{% for i in range(9) %}\n{% set x = 'a' * 60000000 %}{% endfor %}", 2, "too much");
}

static void test_out_of_memory(void)
{
    static char text[4096];
    static const char source[] =
        "{% macro f(a, b=2) %}{{ a ~ b }}{% endmacro %}{% set ns = namespace(x=[]) %}"
        "{% for m in l|sort %}{{ f(m|string, b='x'|upper) }}{{ {'a': [m]}|tojson(indent=2) }}"
        "{{ 'a,b'.split(',')|join('-') }}{{ '\\x41'.replace('A', 'b') }}{% endfor %}{{ l }}";
    json_t *context = json_pack("{s:[i,i,i]}", "l", 3, 1, 2);
    long live = memory_live(), n = 0;
    int status = CERIUM_ERR_MEMORY;
    for (; status && n < 5000; n++) {
        jinja_error err;
        memory_fail_at(n);
        status = render(source, context, text, sizeof text, &err);
        memory_fail_at(-1);
        TEST_CHECK(status == CERIUM_OK || status == CERIUM_ERR_MEMORY);
        TEST_CHECK(memory_live() == live);
    }
    TEST_CHECK_THAT(status == CERIUM_OK && n > 5, "%ld allocations", n);
    json_decref(context);
}

int main(void)
{
    TEST_RUN(test_vectors);
    TEST_RUN(test_origins);
    TEST_RUN(test_bounds);
    TEST_RUN(test_long);
    TEST_RUN(test_out_of_memory);
    return unit_report("jinja");
}
