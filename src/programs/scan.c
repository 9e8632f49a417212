/* scan.c - `cerium scan`: the watchdog over files, standard input, or lines of JSON. */
#include "programs/scan.h"
#include "programs/scan_batch.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "programs/options.h"
#include "programs/output.h"
#include "programs/programs.h"
#include "programs/scan_exists.h"
#include "programs/scan_files.h"

enum { PIECE_BYTES = 4, KNOWN_BYTES_MAX = 256 << 20 };
enum { SCAN_CLEAN = 0, SCAN_FOUND = 1, SCAN_TROUBLE = 2 };

typedef struct {
    options o;
    const char *language, *rules, *known;
    bytes known_text;
    guard_form form;
    const char *env;
    bool sarif, batch, test, block_only, pedantic, exists;
    guard *guard;
    guard_worker *worker;
    json_t *log;
    bool trouble; /* something was not read or not fully judged */
    uint64_t n_found, n_hidden; /* hidden: they are probably wrong */
    int confidence;          /* the least that is shown; by default it depends on the file */
} scan;

static bool take_language(void *program, const char *value)
{
    scan *s = program;
    s->language = value;
    return guard_language_named(view_of(value)) != GUARD_TEXT || !strcmp(value, "text") ||
           option_wants("one of text, python, javascript, typescript, tsx, java, go, c, c++, "
                        "php, ruby");
}

static bool take_answer(void *program, const char *value)
{
    (void)value;
    ((scan *)program)->form = GUARD_ANSWER;
    return true;
}

static bool take_arguments(void *program, const char *value)
{
    (void)value;
    ((scan *)program)->form = GUARD_JSON;
    return true;
}

enum { CONFIDENCE_BY_FILE = 0, CONFIDENCE_LOW = 1, CONFIDENCE_HIGH = 2 };

static bool take_confidence(void *program, const char *value)
{
    scan *s = program;
    if (!strcmp(value, "low")) s->confidence = CONFIDENCE_LOW;
    if (!strcmp(value, "high")) s->confidence = CONFIDENCE_HIGH;
    return s->confidence || option_wants("low or high");
}

/* Most findings of its kind in clean code were wrong: in a project it is not shown. */
static bool is_hidden(const scan *s, bool in_project, const guard_finding *f)
{
    if (s->pedantic && !s->confidence) return false;
    bool only_high = s->confidence ? s->confidence == CONFIDENCE_HIGH : in_project;
    return only_high && f->unlikely;
}

/* clang-format off */
static const option_spec own[] = {
    {"lang", "NAME", "language of the files (default: by name, else by content)",
     TAKES_CALL(take_language)},
    {"answer", NULL,
     "the files are prose with Markdown fences, diffs or patches; findings in a diff have the "
     "file and line that it changes (a named file that begins as a diff is read so without it)",
     TAKES_CALL(take_answer)},
    {"arguments", NULL, "the files are JSON arguments of tool calls", TAKES_CALL(take_arguments)},
    {"rules", "DIR", "rules of this folder (default: CERIUM_RULES, else the program's own)",
     TAKES_TEXT(scan, rules)},
    {"block-only", NULL, "exit status 1 for what would be blocked, not for warnings",
     TAKES_FLAG(scan, block_only)},
    {"pedantic", NULL,
     "report notes, too: common defaults, and what would warn outside of a test or a document",
     TAKES_FLAG(scan, pedantic)},
    {"confidence", "low|high",
     "the least that a finding must have: low where most findings of its kind were wrong (default: "
     "high in the files of a project's folder, else low)",
     TAKES_CALL(take_confidence)},
    {"exists", NULL,
     "look for names that are not there instead: imports, what is taken from modules, keywords of "
     "calls (Python, JavaScript, TypeScript, Go, Java; headers of C and C++); with --batch the "
     "first argument is the folder whose environment counts",
     TAKES_FLAG(scan, exists)},
    {"env", "DIR", "with --exists: the workspace whose packages count (default: this folder)",
     TAKES_TEXT(scan, env), .needs = "exists"},
    {"known", "FILE",
     "the earlier version: the same weakness in the same line is not reported (secrets are)",
     TAKES_TEXT(scan, known)},
    {"json", .help = "print one JSON object for each finding, one a line"},
    {"sarif", NULL, "print a SARIF 2.1.0 log", TAKES_FLAG(scan, sarif)},
    {"batch", NULL,
     "each file holds JSON objects, one a line: {\"id\", \"language\", \"code\"}; print "
     "{\"id\", \"findings\": [{\"cwe\", \"line\", \"byte\"}]}",
     TAKES_FLAG(scan, batch)},
    {"test-rules", NULL, "run the tests that come with the rules", TAKES_FLAG(scan, test)},
};
/* clang-format on */
const command_table scan_command = {
    .name = "scan",
    .usage = "[OPTIONS] FILE|FOLDER ...",
    .about = "Read code as a stream and report where it is weak: secrets, injection, broken "
             "cryptography and more, each with its CWE number and the safe way to write it. A "
             "folder is read as git lists it, without what .gitignore leaves out; binary files "
             "are skipped. There, a rule that was mostly wrong in libraries warns, unless the "
             "value comes from outside. If the folder is a project (it has a manifest such as "
             "package.json, go.mod or a Makefile) of 20 files or more, findings of low confidence "
             "are counted, not shown. - is standard input, read as it comes.\n\n"
             "A comment `cerium: allow RULE reason` on a line, or alone on the line before it, "
             "suppresses a finding.\n\n"
             "Exit status: 0 nothing found, 1 something found, 2 something could not be read or "
             "judged (everything else was).",
    .groups = OPTIONS_JSON,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "git diff | cerium scan --answer -",
};

/* One line on standard error; the scan continues. */
static void tell_trouble(void *user, const char *text)
{
    scan *s = user;
    fflush(stdout);
    fprintf(stderr, "cerium scan: %s\n", text);
    s->trouble = true;
}

static bool is_folder(const char *path)
{
    struct stat at;
    return stat(path, &at) == 0 && S_ISDIR(at.st_mode);
}

bool scan_rules(const char *named, char *out, size_t size)
{
    static const char *const beside[] = {"rules", "../rules", "../../rules",
                                         "../share/cerium/rules"};
    const char *env = getenv("CERIUM_RULES");
    char exe[4096];
    if (!named && env && *env) named = env;
    if (named) return snprintf(out, size, "%s", named) < (int)size;
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n <= 0) return false;
    exe[n] = 0;
    char *slash = strrchr(exe, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; i < ARRAY_LEN(beside); i++)
        if (snprintf(out, size, "%s/%s", exe, beside[i]) < (int)size && is_folder(out)) return true;
    return false;
}

/* ---- files ---- */

static int show(void *user, scan_place at, const guard_finding *f, cerium_error *err)
{
    static const char *const tiers[] = {"note", "warning", "weak"};
    scan *s = user;
    if (is_hidden(s, at.in_project, f)) {
        s->n_hidden++;
        return CERIUM_OK;
    }
    if (f->severity == GUARD_BLOCK || (f->severity == GUARD_WARN && !s->block_only)) s->n_found++;
    if (s->sarif && sarif_add(s->log, at, f))
        return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory for findings", at.path);
    if (s->sarif) return CERIUM_OK;
    if (s->o.json) {
        RETURN_IF(output_json(scan_json(at, f), JSON_COMPACT, err));
    } else {
        output_name(at.path);
        printf(":%u: %s: %s (CWE-%u, %s)\n    instead: %s\n", at.line, tiers[f->severity],
               f->message, f->cwe, f->rule, *f->fix ? f->fix : f->idiom);
    }
    return output_flush(err);
}

static int scan_paths(scan *s, int n, char **paths, cerium_error *err)
{
    scan_job job = {.guard = s->guard,
                    .form = s->form,
                    .language_given = s->language != NULL,
                    .notes = s->pedantic,
                    .known = {s->known_text.ptr, s->known_text.len},
                    .found = show,
                    .trouble = tell_trouble,
                    .user = s};
    if (s->language) job.language = guard_language_named(view_of(s->language));
    int status = scan_files(&job, n, paths, err);
    if (job.n_binary)
        fprintf(stderr, "cerium scan: %llu binary files were passed over\n",
                (unsigned long long)job.n_binary);
    if (job.n_others)
        fprintf(stderr, "cerium scan: read for secrets only, as their languages have no rules: "
                "%llu of %llu files, such as %s\n", (unsigned long long)job.n_others,
                (unsigned long long)job.n_files, job.other);
    if (s->n_hidden)
        fprintf(stderr, "cerium scan: %llu findings of low confidence are not shown (--confidence "
                "low shows them)\n", (unsigned long long)s->n_hidden);
    s->trouble |= job.n_others && job.n_others == job.n_files; /* nothing was judged */
    return status;
}

/* ---- batch ---- */

static int add_findings(const scan *s, json_t *list, const guard_result *r)
{
    for (uint32_t i = 0; i < r->n_findings; i++) {
        if (is_hidden(s, false, &r->findings[i])) continue;
        scan_place at = {.path = "", .line = r->findings[i].line};
        json_t *one = scan_json(at, &r->findings[i]);
        if (!one) return CERIUM_ERR_MEMORY;
        json_object_del(one, "file");
        if (json_array_append_new(list, one)) return CERIUM_ERR_MEMORY;
    }
    return CERIUM_OK;
}

/* As a model would write it: a few bytes at a time. */
static int scan_text(void *user, guard_language language, view code, json_t *list,
                     cerium_error *err)
{
    scan *s = user;
    guard_stream *stream;
    guard_result r;
    guard_stream_config config = {.form = s->form, .language = language};
    int status = guard_stream_open(&stream, s->guard, &config, err);
    if (status) return status;
    for (size_t at = 0; at < code.len && !status; at += PIECE_BYTES) {
        size_t n = code.len - at < PIECE_BYTES ? code.len - at : PIECE_BYTES;
        guard_feed(stream, s->worker, code.ptr + at, n, &r);
        status = add_findings(s, list, &r);
    }
    guard_finish(stream, s->worker, &r);
    if (!status) status = add_findings(s, list, &r);
    if (status) error_set(err, status, "no memory for findings");
    s->n_found += json_array_size(list);
    guard_stream_close(&stream);
    return status;
}

/* ---- the whole ---- */

static int test_rules(scan *s, cerium_error *err)
{
    uint32_t n;
    int failures = guard_test_rules(s->guard, stdout, &n, err);
    if (failures < 0) return failures;
    printf("rules: %u rules, %u tests, %d failed\n", guard_n_rules(s->guard), n, failures);
    s->n_found = (uint64_t)failures;
    return CERIUM_OK;
}

static int open_rules(scan *s, cerium_error *err)
{
    char folder[4096], lacks[256];
    if (!scan_rules(s->rules, folder, sizeof folder))
        return error_set(err, CERIUM_ERR_IO, "no rules beside the program: name them with --rules");
    RETURN_IF(guard_open(&s->guard, folder, err));
    RETURN_IF(guard_worker_open(&s->worker, s->guard, err));
    guard_lacks(lacks, sizeof lacks);
    if (!*lacks) return CERIUM_OK;
    fprintf(stderr, "cerium scan: no grammar for %s: these languages cannot be judged (fetch it: "
            "make grammars)\n", lacks);
    s->trouble |= s->batch || s->test; /* the languages in it are unknown */
    return CERIUM_OK;
}

static int look_for_names(scan *s, int n, char **paths, cerium_error *err)
{
    scan_exists_job job = {.language = s->language, .root = s->env, .json = s->o.json,
                           .batch = s->batch, .trouble = tell_trouble, .user = s};
    int status = scan_exists(&job, n, paths, err);
    s->n_found = job.n_found;
    return status;
}

static int run_all(scan *s, int n, char **paths, cerium_error *err)
{
    if (s->exists) return look_for_names(s, n, paths, err);
    RETURN_IF(open_rules(s, err));
    if (s->test) return test_rules(s, err);
    s->known_text.max = KNOWN_BYTES_MAX;
    if (s->known) RETURN_IF(read_file(s->known, &s->known_text, err));
    if (s->sarif && !(s->log = sarif_begin()))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a log");
    const scan_batch_events batch = {.judge = scan_text, .trouble = tell_trouble, .user = s};
    for (int i = 0; s->batch && i < n; i++) RETURN_IF(scan_batch(paths[i], &batch, err));
    if (!s->batch) RETURN_IF(scan_paths(s, n, paths, err));
    if (!s->sarif) return CERIUM_OK;
    if (sarif_end(s->log, !s->trouble))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a log");
    return output_json(json_incref(s->log), JSON_INDENT(2), err);
}

int program_scan(int argc, char **argv)
{
    scan s = {0};
    cerium_error err;
    RETURN_IF(command_parse(&scan_command, &s, argc, argv));
    if (optind == argc && !s.test)
        return usage_error("scan", "name files, or - for standard input");
    if (optind < argc && s.test)
        return usage_error("scan", "--test-rules reads the rules, not '%s'", argv[optind]);
    if (s.sarif && (s.o.json || s.batch)) return usage_error("scan", "--sarif, --json or --batch");
    int status = run_all(&s, argc - optind, argv + optind, &err);
    json_decref(s.log);
    bytes_free(&s.known_text);
    guard_worker_close(&s.worker);
    guard_close(&s.guard);
    if (status) (void)failed(&err);
    if (status || s.trouble) return SCAN_TROUBLE;
    return s.n_found ? SCAN_FOUND : SCAN_CLEAN;
}
