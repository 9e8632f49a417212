/* sandbox.h - runs untrusted programs: without network, files of the user, other processes, or much
 * time and memory; and reports whether each passed its tests.
 *
 * A sandbox is one slot: bubblewrap around a fork server (guest/), and namespaces, limits and a
 * filter of system calls around each program.  A program passes if, after its last test, a mark
 * that it cannot know was written, and it ended with status 0: its output, and its end alone, prove
 * nothing.
 * The traces of a program are removed before the next one begins. */
#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include "base/memory.h"
#include "sandbox/wire.h"

typedef struct sandbox sandbox;

typedef enum {
    SANDBOX_STRICT = 0, /* namespaces of its own for each program */
    SANDBOX_BASIC = 1,  /* a new sandbox for each: slow, for systems that do not nest namespaces */
} sandbox_level;

typedef struct {
    sandbox_level level;
    bool python;          /* programs are in Python: an interpreter is kept warm */
    const bytes *folder;  /* from sandbox_pack(), borrowed while the sandbox is open; or NULL */
    const char *modules;  /* names with blanks between, imported before the first fork; or NULL */
    uint32_t seed;        /* of Python's hashes */
} sandbox_config;

/* The limits of a program.  See sandbox_limits_of(). */
typedef struct {
    uint32_t wall_ms, cpu_s, processes, descriptors;
    uint32_t cpu_ms;       /* of all its processes, finer than cpu_s, which is of each; 0: none */
    uint64_t memory_bytes; /* of each process, and of all */
    uint64_t file_bytes, tmp_bytes, output_bytes;
} sandbox_limits;

typedef struct {
    wire_language language;
    wire_mode mode;
    unsigned flags;            /* WIRE_USE_CC, WIRE_MAY_LOOK */
    view program, tests, name; /* name: of the file, or its path in the folder */
    sandbox_limits limits;
} sandbox_job;

/* Views are valid until the next call on the sandbox. */
typedef struct {
    wire_verdict verdict;
    uint32_t status, signal, n_passed; /* n_passed: number of tests, if they can be counted */
    uint64_t wall_ns, cpu_ns, memory_bytes;
    view out, err; /* their beginnings and ends */
    view why;      /* one line of the failed test, or of the error; may be empty */
} sandbox_result;

sandbox_limits sandbox_limits_of(wire_language language);
const char *sandbox_verdict_name(wire_verdict verdict);

/* Open a slot and try its walls.  As root, everything runs as another user.
 * CERIUM_ERR_IO with one line: the missing part here, and the remedy. */
CERIUM_CHECKED int sandbox_open(sandbox **out, const sandbox_config *config, cerium_error *err);
void sandbox_close(sandbox **s);

/* Begin a job; none is running.  When the descriptor is readable, sandbox_take() does not wait
 * long. */
CERIUM_CHECKED int sandbox_start(sandbox *s, const sandbox_job *job, cerium_error *err);
int sandbox_fd(const sandbox *s);
/* The result of the last started job; waits for it.  A program that ends the fork server has a
 * verdict like any other, and the slot is made anew.  CERIUM_ERR_IO, _MEMORY. */
CERIUM_CHECKED int sandbox_take(sandbox *s, sandbox_result *out, cerium_error *err);

/* The current contents of a folder, into *out: files of at most out->max bytes together, links, no
 * version control.  CERIUM_ERR_CAPACITY with the remedy, CERIUM_ERR_IO. */
CERIUM_CHECKED int sandbox_pack(const char *path, bytes *out, cerium_error *err);

#endif
