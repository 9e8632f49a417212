/* sandbox.c - one slot: starts bubblewrap with the runner in it, sends jobs, reads results. */
#include "sandbox/sandbox.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "sandbox/enter.h"
#include "sandbox/sandbox_parts.h"

enum { TEXT_MAX = 4 * WIRE_SHOWN_BYTES + WIRE_NOTE_BYTES, ERRORS_BYTES = 400 };

struct sandbox {
    sandbox_config config;
    sandbox_place place;  /* its descriptors: pid, socket, bubblewrap's output */
    bool used;            /* of SANDBOX_BASIC: it takes only one job */
    char text[TEXT_MAX];  /* of the last result */
    char why[2 * ERRORS_BYTES];
};

static const char *const verdict_names[] = {"pass", "fail", "error", "parse", "timeout", "cpu",
                                            "memory", "output", "killed", "exit", "broken"};
_Static_assert(ARRAY_LEN(verdict_names) == WIRE_VERDICTS, "every verdict has a name");

const char *sandbox_verdict_name(wire_verdict verdict)
{
    CHECK(verdict < WIRE_VERDICTS);
    return verdict_names[verdict];
}

/* This many processes of this much memory: their sum is limited, too. */
sandbox_limits sandbox_limits_of(wire_language language)
{
    sandbox_limits l = {.wall_ms = 2000, .cpu_s = 2, .processes = 32, .descriptors = 64,
                        .memory_bytes = 512u << 20, .file_bytes = 1 << 20, .tmp_bytes = 16u << 20,
                        .output_bytes = 64u << 10};
    if (language == WIRE_C) l.file_bytes = 8 << 20;
    if (language == WIRE_COMMAND) {
        l.wall_ms = 60000;
        l.cpu_s = 60;
        l.processes = 64;
        l.descriptors = 256;
        l.memory_bytes = 2048u << 20;
        l.file_bytes = 64 << 20;
        l.tmp_bytes = 256 << 20;
        l.output_bytes = 1 << 20;
    }
    return l;
}

/* ---- bytes ---- */

static bool send_all(int fd, const void *from, size_t n)
{
    const char *p = from;
    while (n > 0) {
        ssize_t done = send(fd, p, n, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

static bool receive_all(int fd, void *to, size_t n)
{
    char *p = to;
    while (n > 0) {
        ssize_t got = recv(fd, p, n, MSG_WAITALL);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
}

/* A secret that a program cannot guess: chosen after its text is fixed. */
static int make_mark(char mark[WIRE_MARK_BYTES], cerium_error *err)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t random[WIRE_MARK_BYTES / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return error_set(err, CERIUM_ERR_IO, "no random bytes: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++) {
        mark[2 * i] = digits[random[i] >> 4];
        mark[2 * i + 1] = digits[random[i] & 15];
    }
    return CERIUM_OK;
}

/* ---- jobs ---- */

int sandbox_start(sandbox *s, const sandbox_job *job, cerium_error *err)
{
    const sandbox_limits *l = &job->limits;
    if (s->used || !s->place.pid) {
        sandbox_leave(&s->place);
        RETURN_IF(sandbox_enter(&s->place, &s->config, err));
    }
    s->used = s->config.level == SANDBOX_BASIC;
    if (job->program.len > WIRE_TEXT_BYTES_MAX || job->tests.len > WIRE_TEXT_BYTES_MAX ||
        job->name.len > WIRE_NAME_BYTES_MAX)
        return error_set(err, CERIUM_ERR_CAPACITY, "a program or its tests over %d MB",
                         WIRE_TEXT_BYTES_MAX >> 20);
    wire_job wire = {.magic = WIRE_JOB_MAGIC,
                     .language = job->language,
                     .mode = job->mode,
                     .flags = job->flags | (s->used ? 0 : WIRE_INNER),
                     .wall_ms = l->wall_ms,
                     .cpu_s = l->cpu_s,
                     .cpu_ms = l->cpu_ms,
                     .processes = l->processes,
                     .descriptors = l->descriptors,
                     .memory_bytes = l->memory_bytes,
                     .file_bytes = l->file_bytes,
                     .tmp_bytes = l->tmp_bytes,
                     .output_bytes = l->output_bytes,
                     .n_program = (uint32_t)job->program.len,
                     .n_tests = (uint32_t)job->tests.len,
                     .n_name = (uint32_t)job->name.len,
                     .seed = s->config.seed};
    RETURN_IF(make_mark(wire.mark, err));
    /* If it is gone, sandbox_take() reports it. */
    (void)(send_all(s->place.fd, &wire, sizeof wire) &&
           send_all(s->place.fd, job->program.ptr, job->program.len) &&
           send_all(s->place.fd, job->tests.ptr, job->tests.len) &&
           send_all(s->place.fd, job->name.ptr, job->name.len));
    return CERIUM_OK;
}

int sandbox_fd(const sandbox *s) { return s->place.fd; }

/* In a note, ".": a test passed; after "!", the failed one.  One printable line of it. */
static void read_note(sandbox *s, view note, sandbox_result *out)
{
    size_t n = 0;
    while (n < note.len && note.ptr[n] == '.') n++;
    out->n_passed = (uint32_t)n;
    if (n < note.len && note.ptr[n] == '!') n++;
    size_t len = 0;
    for (; n < note.len && len < ERRORS_BYTES && note.ptr[n] != '\n'; n++)
        s->why[len++] = isprint((unsigned char)note.ptr[n]) ? note.ptr[n] : '?';
    out->why = (view){s->why, len};
}

static bool is_sane(const wire_result *r)
{
    return r->magic == WIRE_RESULT_MAGIC && r->verdict < WIRE_VERDICTS &&
           r->n_out <= 2 * WIRE_SHOWN_BYTES && r->n_err <= 2 * WIRE_SHOWN_BYTES &&
           r->n_note <= WIRE_NOTE_BYTES;
}

int sandbox_take(sandbox *s, sandbox_result *out, cerium_error *err)
{
    wire_result r;
    *out = (sandbox_result){.verdict = WIRE_KILLED};
    bool whole = receive_all(s->place.fd, &r, sizeof r) && is_sane(&r) &&
                 receive_all(s->place.fd, s->text, r.n_out + r.n_err + r.n_note);
    if (!whole) { /* the server is gone, or its answer is invalid: start a new one */
        out->why = VIEW("it ended its sandbox");
        sandbox_leave(&s->place);
        return sandbox_enter(&s->place, &s->config, err);
    }
    *out = (sandbox_result){.verdict = (wire_verdict)r.verdict,
                            .status = r.status,
                            .signal = r.signal,
                            .wall_ns = r.wall_ns,
                            .cpu_ns = r.cpu_ns,
                            .memory_bytes = r.memory_bytes,
                            .out = {s->text, r.n_out},
                            .err = {s->text + r.n_out, r.n_err}};
    read_note(s, (view){s->text + r.n_out + r.n_err, r.n_note}, out);
    return CERIUM_OK;
}

/* ---- opening ---- */

/* A job that only sets up the walls. */
static int probe(sandbox *s, cerium_error *err)
{
    sandbox_job nothing = {.language = s->config.python ? WIRE_PYTHON : WIRE_NOTHING,
                           .tests = VIEW("True\n"), .name = VIEW("probe.py"),
                           .limits = sandbox_limits_of(WIRE_PYTHON)};
    sandbox_result result;
    char errors[ERRORS_BYTES];
    nothing.limits.wall_ms = 20000; /* the first one of a cold machine */
    nothing.limits.cpu_s = 20;
    RETURN_IF(sandbox_start(s, &nothing, err));
    wire_result r;
    if (!receive_all(s->place.fd, &r, sizeof r) || !is_sane(&r) ||
        !receive_all(s->place.fd, s->text, r.n_out + r.n_err + r.n_note)) {
        sandbox_errors(&s->place, errors, sizeof errors);
        return sandbox_refusal(errors, s->config.level, err);
    }
    s->used = s->config.level == SANDBOX_BASIC;
    if (r.verdict == WIRE_PASS) return CERIUM_OK;
    result = (sandbox_result){0};
    read_note(s, (view){s->text + r.n_out + r.n_err, r.n_note}, &result);
    snprintf(errors, sizeof errors, "%s: %.*s", verdict_names[r.verdict], (int)result.why.len,
             result.why.len ? result.why.ptr : "");
    return sandbox_refusal(errors, s->config.level, err);
}

int sandbox_open(sandbox **out, const sandbox_config *config, cerium_error *err)
{
    sandbox *s = memory_zalloc(1, sizeof *s);
    if (!s) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a sandbox");
    s->config = *config;
    int status = sandbox_enter(&s->place, &s->config, err);
    if (!status) status = probe(s, err);
    if (status)
        sandbox_close(&s);
    else
        *out = s;
    return status;
}

void sandbox_close(sandbox **s)
{
    if (!s || !*s) return;
    sandbox_leave(&(*s)->place);
    memory_free(*s);
    *s = NULL;
}
