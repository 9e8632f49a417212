/* solve_judge.c - runs variants in slots side by side. */
#include "programs/solve_judge.h"

#include <poll.h>
#include <unistd.h>

enum { CPU_MS_MIN = 300, WALL_MS_MIN = 4000, TIMES = 10 };

static sandbox_job job_of(const solve_judge *j, view program, const solve_tests *tests)
{
    return (sandbox_job){.language = tests->language,
                         .mode = tests->mode,
                         .flags = j->flags,
                         .program = program,
                         .tests = {tests->text.ptr, tests->text.len},
                         .name = j->name,
                         .limits = j->limits};
}

int tester_open_slots(solve_judge *j, uint32_t n, cerium_error *err)
{
    CHECK(n <= SOLVE_SLOTS_MAX);
    while (j->n_slots < n) {
        RETURN_IF(sandbox_open(&j->slots[j->n_slots], &j->config, err));
        j->running[j->n_slots++] = SOLVE_NONE;
    }
    return CERIUM_OK;
}

int tester_open(solve_judge *j, cerium_error *err)
{
    j->program.max = 2 * SOLVE_TEXT_BYTES_MAX;
    return tester_open_slots(j, 1, err);
}

void tester_close(solve_judge *j)
{
    for (uint32_t i = 0; i < j->n_slots; i++) sandbox_close(&j->slots[i]);
    bytes_free(&j->program);
    j->n_slots = 0;
}

int tester_run(solve_judge *j, view program, const solve_tests *tests, sandbox_result *out,
              cerium_error *err)
{
    const sandbox_job job = job_of(j, program, tests);
    CHECK(j->n_slots && j->running[0] == SOLVE_NONE);
    RETURN_IF(sandbox_start(j->slots[0], &job, err));
    RETURN_IF(sandbox_take(j->slots[0], out, err));
    j->cpu_ns += out->cpu_ns;
    return CERIUM_OK;
}

int tester_confirm(const solve_judge *j, view program, const solve_tests *tests, wire_verdict *out,
                  cerium_error *err)
{
    sandbox_config config = j->config;
    sandbox_job job = job_of(j, program, tests);
    sandbox *s = NULL;
    sandbox_result r;
    config.seed += 1;
    if (tests->language == WIRE_C && !access("/usr/bin/cc", X_OK)) job.flags |= WIRE_USE_CC;
    RETURN_IF(sandbox_open(&s, &config, err));
    int status = sandbox_start(s, &job, err);
    if (!status) status = sandbox_take(s, &r, err);
    if (!status) *out = r.verdict;
    sandbox_close(&s);
    return status;
}

/* Processor time is the limit: it hardly depends on other load of the machine. */
void tester_calibrate(solve_judge *j, const sandbox_result *r)
{
    uint64_t cpu_ms = TIMES * r->cpu_ns / 1000000, wall_ms = TIMES * r->wall_ns / 1000000;
    if (cpu_ms < CPU_MS_MIN) cpu_ms = CPU_MS_MIN;
    if (wall_ms < WALL_MS_MIN) wall_ms = WALL_MS_MIN;
    if (!j->limits.cpu_ms) j->limits.cpu_ms = (uint32_t)(cpu_ms < UINT32_MAX ? cpu_ms : 0);
    if (wall_ms > j->limits.wall_ms) j->limits.wall_ms = (uint32_t)wall_ms;
}

bool tester_has_room(const solve_judge *j)
{
    for (uint32_t i = 0; i < j->n_slots; i++)
        if (j->running[i] == SOLVE_NONE) return true;
    return false;
}

bool tester_is_idle(const solve_judge *j)
{
    for (uint32_t i = 0; i < j->n_slots; i++)
        if (j->running[i] != SOLVE_NONE) return false;
    return true;
}

int tester_start(solve_judge *j, const solve_set *s, uint32_t index, cerium_error *err)
{
    uint32_t at = 0;
    while (at < j->n_slots && j->running[at] != SOLVE_NONE) at++;
    CHECK(at < j->n_slots);
    if (solve_set_program(s, index, &j->program))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a variant");
    const sandbox_job job = job_of(j, (view){j->program.ptr, j->program.len}, j->tests);
    RETURN_IF(sandbox_start(j->slots[at], &job, err));
    j->running[at] = index;
    return CERIUM_OK;
}

int tester_wait(solve_judge *j, solve_set *s, int other, int ms, cerium_error *err)
{
    struct pollfd polled[SOLVE_SLOTS_MAX + 1];
    nfds_t n = j->n_slots;
    for (uint32_t i = 0; i < j->n_slots; i++)
        polled[i] = (struct pollfd){j->running[i] == SOLVE_NONE ? -1 : sandbox_fd(j->slots[i]),
                                    POLLIN, 0};
    polled[n++] = (struct pollfd){other, POLLIN, 0};
    if (poll(polled, n, ms) <= 0) return CERIUM_OK;
    for (uint32_t i = 0; i < j->n_slots; i++) {
        sandbox_result r;
        if (polled[i].fd < 0 || !polled[i].revents) continue;
        RETURN_IF(sandbox_take(j->slots[i], &r, err));
        j->cpu_ns += r.cpu_ns;
        solve_set_decide(s, j->running[i], &r);
        j->running[i] = SOLVE_NONE;
    }
    return CERIUM_OK;
}
