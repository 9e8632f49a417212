/* solve.c - `cerium solve FILE[:PLACE] TESTS`: tests many variants of a place in a file in a
 * sandbox, and shows only one that passes. */
#include "programs/programs.h"

#include <unistd.h>

#include "programs/solve_run.h"

static bool take_temperature(void *program, const char *value)
{
    solve *s = program;
    double x;
    s->temperature = -1;
    if (!strcmp(value, "auto")) return true;
    if (!option_f64(value, 0, 100, &x)) return false;
    s->temperature = (float)x;
    return true;
}

static bool take_makers(void *program, const char *value)
{
    solve *s = program;
    memset(s->makers, 0, sizeof s->makers);
    for (view rest = view_of(value); rest.len;) {
        const char *comma = memchr(rest.ptr, ',', rest.len);
        size_t n = comma ? (size_t)(comma - rest.ptr) : rest.len;
        bool known = false;
        for (solve_maker m = MAKER_MUTATE; m < MAKERS; m++)
            if (view_equal((view){rest.ptr, n}, view_of(solve_maker_name(m))))
                known = s->makers[m] = true;
        if (!known) return option_wants("some of mutate,model,repair");
        n += comma != NULL;
        rest = (view){rest.ptr + n, rest.len - n};
    }
    return s->makers[MAKER_MUTATE] || s->makers[MAKER_MODEL] ||
           option_wants("mutate or model, or both; repair goes on from what they made");
}

/* clang-format off */
static const option_spec own[] = {
    {"test", "COMMAND", "a command that is run in a copy of the folder (--root); status 0 passes",
     TAKES_CALL(solve_takes_test)},
    {"test-file", "FILE", "tests that see what the file defines, or import it: assertions, "
     "functions test_*, unittest (Python); statements that throw (JavaScript); a main (C)",
     TAKES_CALL(solve_takes_test_file)},
    {"example", "EXPRESSION", "an expression of the file's language that is true, as in "
     "'f(2) == 3'; may be given several times", TAKES_CALL(solve_takes_example)},
    {"doctest", NULL, "the examples in the file's own docstrings", TAKES_CALL(solve_takes_doctest)},
    {"pytest", "ARGS", "pytest with these arguments, in a copy of the folder (--root)",
     TAKES_CALL(solve_takes_pytest)},
    {"hidden", "FILE", "more tests, of the kind of --test-file: what passes the others must pass "
     "these, too", TAKES_CALL(solve_takes_hidden)},
    {"root", "DIR", "a folder that the tests need, with the file in it; a copy of it is in the "
     "sandbox (default: the file's folder for --test and --pytest, else none)",
     TAKES_TEXT(solve, root)},
    {"function", "NAME", "write the body of this function anew", TAKES_TEXT(solve, function)},
    {"variants", "N", "try at most N (default 256)",
     TAKES_U32(solve, n_variants, 1, SOLVE_VARIANTS_MAX), .letter = 'N'},
    {"first", NULL, "show the first that passes", TAKES_FLAG(solve, first)},
    {"survivors", "K", "go on until K different ones pass; without it, as far again as to the "
     "first, for at most 8. The one is shown that most of them agree with on other inputs, then "
     "the smallest change", TAKES_U32(solve, n_survivors, 1, SOLVE_SURVIVORS_MAX),
     GIVEN(solve, survivors_given)},
    {"all", NULL, "try all of them, and compare up to 64 that pass", TAKES_FLAG(solve, all)},
    {"makers", "LIST", "some of mutate (edits of a few tokens, without a model), model, and repair "
     "(the failing test says which lines come first and what the model sees, and what passes more "
     "tests is edited again), with commas; all is the default", TAKES_CALL(take_makers)},
    {"tokens", "N", "of a variant at most (default: 48 for a line, 256 for more)",
     TAKES_U32(solve, n_tokens, 1, 4096), .letter = 'n'},
    {"temp", "X", "sampling temperature; auto, the default: the likeliest first, then 0.4 to 1.0 "
     "in turn", TAKES_CALL(take_temperature)},
    {"seed", "N", "of the first variant; the same seed gives the same result on every machine",
     TAKES_U64(solve, o.sampling.seed)},
    {"budget", "SECONDS", "stop after so long: the result then depends on the machine",
     TAKES_F64(solve, budget_s, 0.001, 1e6)},
    {"apply", NULL, "write the file: whole or not at all, and only if it is still what was read",
     TAKES_FLAG(solve, apply)},
    {"show-nearest", NULL, "where none passes, show the diff of the one that passes most tests",
     TAKES_FLAG(solve, show_nearest)},
    {"keep", "FILE", "write all variants and their verdicts there, as JSON Lines",
     TAKES_TEXT(solve, keep)},
    {"quiet", NULL, "print no progress and no figures", TAKES_FLAG(solve, quiet)},
    {"sandbox", NULL, "strict: namespaces for each variant; basic, slow: a sandbox for each, where "
     "namespaces do not nest", TAKES_WORD(solve, level, "strict, basic")},
    {"slots", "N", "tests side by side (default: one for each processor, at most 8)",
     TAKES_U32(solve, n_slots, 1, SOLVE_SLOTS_MAX)},
    {"wall", "SECONDS", "of one run at most (default: ten times what the tests take now, at least "
     "4)", TAKES_F64(solve, wall_s, 0.01, 86400)},
    {"cpu", "SECONDS", "of processor time of one run at most (default: ten times what the tests "
     "take now, at least 0.3)", TAKES_F64(solve, cpu_s, 0.01, 86400)},
    {"memory", "SIZE", "of one run at most (default 512M; 2G for --test)",
     TAKES_BYTES(solve, memory_bytes)},
    {"processes", "N", "of one run at most (default 32; 64 for --test)",
     TAKES_U32(solve, processes, 1, 4096)},
    {"output", "SIZE", "that one run prints at most (default 64K; 1M for --test)",
     TAKES_BYTES(solve, output_bytes)},
    {"ask", NULL, "have the model's variants made by who reads the events of --json: each event "
     "`ask` is the body of a Completions request, and its answer is read from standard input, one "
     "line", TAKES_FLAG(solve, asks), .needs = "json"},
    {"json", .help = "print events as JSON Lines: begin, progress, pass, end"},
    {"guard", .help = "what the watchdog does about a weak line that a variant adds: block (leave "
     "the variant out; the default), warn or off. CLASS=WHAT sets one class; may be given several "
     "times"},
};
/* clang-format on */
const command_table solve_command = {
    .name = "solve",
    .usage = "[OPTIONS] FILE[:LINE[-LINE]|:LINE:COL] TESTS",
    .about = "Try many variants of a place in FILE, test each in a sandbox, and show one that "
             "passes as a unified diff. A line, or several, are written anew; at a column "
             "something is inserted; without a place every line is a candidate. TESTS is one of "
             "--test-file, --example, --doctest, --pytest and --test. The file stays as it is "
             "without --apply.\n\n"
             "Variants are numbered, and their numbers decide, not which is first in time: the "
             "same seed gives the same result on every machine, unless --budget ends it. "
             "What is shown passed twice, the second time in a new sandbox.\n\n"
             "The tests are run on the file as it is first: they must be able to run, and must "
             "fail. When no variant passes, the exit status is 1, and nothing is printed on "
             "standard output and nothing written. Variants see a copy of what they need, and no "
             "network.",
    .groups = OPTIONS_ENGINE | OPTIONS_JSON | OPTIONS_GUARD,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium solve examples/mean.py:9 --doctest\n"
                "cerium solve examples/mean.py --example 'mean([]) == 0' --makers mutate",
};

static wire_language language_of(const char *path)
{
    switch ((int)guard_language_of_path(view_of(path))) {
    case GUARD_PYTHON:
        return WIRE_PYTHON;
    case GUARD_JAVASCRIPT:
        return WIRE_JAVASCRIPT;
    case GUARD_C:
        return WIRE_C;
    default:
        return WIRE_COMMAND;
    }
}

static int open_file(solve *s, cerium_error *err)
{
    RETURN_IF(apply_open(&s->file, s->place.path, err));
    if (s->apply) RETURN_IF(apply_check(&s->file, err));
    s->text = (view){s->file.text.ptr ? s->file.text.ptr : "", s->file.text.len};
    if (s->text.len > SOLVE_TEXT_BYTES_MAX)
        return error_set(err, CERIUM_ERR_CAPACITY, "%s: longer than %d MB: too long to be sent for "
                         "each test", s->place.path, SOLVE_TEXT_BYTES_MAX >> 20);
    if (memchr(s->text.ptr, 0, s->text.len))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: not a text: it has NUL bytes", s->place.path);
    s->language = language_of(s->place.path);
    return CERIUM_OK;
}

/* ---- places ---- */

/* Lines that the tests reach: only they can be at fault; all lines, if that is not known. */
static int reached_lines(solve *s, bytes *out, cerium_error *err)
{
    solve_tests lines = s->tests;
    sandbox_result r;
    out->max = 1 << 16;
    if (s->tests.language != WIRE_PYTHON || s->tests.mode != WIRE_TESTS) return CERIUM_OK;
    lines.mode = WIRE_LINES;
    RETURN_IF(tester_run(&s->judge, s->text, &lines, &r, err));
    return r.verdict == WIRE_PASS ? bytes_append(out, r.out.ptr, r.out.len) : CERIUM_OK;
}

static int find_lines(solve *s, cerium_error *err)
{
    bytes reached = {0};
    int status = reached_lines(s, &reached, err);
    uint32_t n = 0;
    for (size_t at = 0; at < reached.len && !status && s->n_spans < SOLVE_HOLES_MAX; at++) {
        char c = reached.ptr[at];
        if (c >= '0' && c <= '9' && n < 1u << 24) n = n * 10 + (uint32_t)(c - '0');
        if (c >= '0' && c <= '9' && at + 1 < reached.len) continue;
        solve_span line = solve_line_span(s->text, n);
        if (n && line.begin < line.end) s->spans[s->n_spans++] = line;
        n = 0;
    }
    bytes_free(&reached);
    for (uint32_t i = 1; s->n_spans < SOLVE_HOLES_MAX && !n; i++) {
        solve_span line = solve_line_span(s->text, i);
        if (line.begin == s->text.len || s->spans[0].end) break;
        if (line.begin < line.end) s->spans[s->n_spans++] = line;
    }
    return status;
}

static int find_places(solve *s, cerium_error *err)
{
    uint32_t lines = 1;
    if (s->function) {
        RETURN_IF(solve_function_span(s->text, s->language, s->function, &s->spans[0], err));
        s->n_spans = 1;
    } else if (s->place.line) {
        RETURN_IF(solve_place_span(&s->place, s->text, &s->spans[0], err));
        s->n_spans = 1;
    } else {
        RETURN_IF(find_lines(s, err));
        if (s->makers[MAKER_REPAIR]) solve_sort_places(s);
    }
    for (size_t at = s->spans[0].begin; at < s->spans[0].end; at++)
        lines += s->text.ptr[at] == '\n';
    if (!s->n_tokens) s->n_tokens = lines > 1 ? 256 : 48;
    if (s->n_spans) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_ARGUMENT, "%s: there is no line with code", s->place.path);
}

/* ---- the sandbox ---- */

/* A file that looks at frames or calls C itself may do so when it is tested. */
static bool may_look(view text)
{
    static const char *const words[] = {"_getframe", "inspect", "_frame", "settrace", "setprofile",
                                        "ctypes", "cffi", "marshal", "audithook", "_traceback",
                                        "gc.get_", "__code__", "print_stack", "extract_stack",
                                        "format_stack"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (text.len && memmem(text.ptr, text.len, words[i], strlen(words[i]))) return true;
    return false;
}

static int open_judge(solve *s, cerium_error *err)
{
    solve_judge *j = &s->judge;
    sandbox_limits l = sandbox_limits_of(s->tests.language);
    if (s->wall_s > 0) l.wall_ms = (uint32_t)(s->wall_s * 1000);
    if (s->cpu_s > 0) l.cpu_ms = (uint32_t)(s->cpu_s * 1000);
    if (s->cpu_s > 0) l.cpu_s = (uint32_t)s->cpu_s + 2;
    if (s->memory_bytes) l.memory_bytes = s->memory_bytes;
    if (s->processes) l.processes = s->processes;
    if (s->output_bytes) l.output_bytes = s->output_bytes;
    if (s->tests.mode == WIRE_PYTEST) l.tmp_bytes = sandbox_limits_of(WIRE_COMMAND).tmp_bytes;
    j->limits = l;
    j->tests = &s->tests;
    j->flags = may_look(s->text) ? WIRE_MAY_LOOK : 0;
    j->config.level = s->level ? SANDBOX_BASIC : SANDBOX_STRICT;
    j->config.python = s->tests.language == WIRE_PYTHON;
    if (s->tests.mode == WIRE_PYTEST) j->config.modules = "pytest";
    return tester_open(j, err);
}

static int run(solve *s, cerium_error *err)
{
    RETURN_IF(open_file(s, err));
    RETURN_IF(solve_tests_open(s, err));
    RETURN_IF(open_judge(s, err));
    RETURN_IF(solve_tests_check(s, err));
    RETURN_IF(find_places(s, err));
    RETURN_IF(watchdog_open(&s->watchdog, &s->o, err));
    RETURN_IF(watchdog_check(&s->watchdog, err));
    RETURN_IF(solve_set_open(&s->set, s->text, s->language, s->n_variants, err));
    RETURN_IF(solve_show_begin(s, err));
    return solve_run(s, err);
}

static void close_all(solve *s)
{
    maker_close(&s->model);
    cerium_engine_close(&s->engine);
    tester_close(&s->judge);
    watchdog_close(&s->watchdog);
    solve_set_close(&s->set);
    apply_close(&s->file);
    bytes_free(&s->tests.text);
    bytes_free(&s->hidden.text);
    bytes_free(&s->folder);
    bytes_free(&s->solved);
    bytes_free(&s->hint);
}

int program_solve(int argc, char **argv)
{
    static solve s = {.n_variants = 256, .n_survivors = 8, .temperature = -1,
                      .makers = {[MAKER_MUTATE] = true, [MAKER_MODEL] = true,
                                 [MAKER_REPAIR] = true},
                      .winner = SOLVE_NONE};
    cerium_error err;
    RETURN_IF(command_parse(&solve_command, &s, argc, argv));
    if (argc - optind != 1) return usage_error("solve", "name one place, as in FILE:LINE");
    if (!solve_place_read(argv[optind], access(argv[optind], F_OK) == 0, &s.place))
        return usage_error("solve", "'%s' is not FILE, FILE:LINE, FILE:LINE-LINE or FILE:LINE:COL",
                           argv[optind]);
    if (s.function && s.place.line) return usage_error("solve", "--function is a place, too");
    if (s.all) s.n_survivors = SOLVE_SURVIVORS_MAX;
    if (s.first) s.n_survivors = 1;
    int status = run(&s, &err);
    bool found = !status && s.winner != SOLVE_NONE, applied = false;
    if (!status) status = solve_keep(&s, &err);
    if (!status && found && s.apply) {
        status = apply_write(&s.file, (view){s.solved.ptr, s.solved.len}, &err);
        applied = !status;
    }
    if (status && s.asks) solve_show_error(&err);
    int result = status ? failed(&err) : solve_show_end(&s, applied);
    close_all(&s);
    return result;
}
