/* wire.h - the messages between the program and the runner in its sandbox, in the bytes of one
 * machine: a job in, a result out.  System headers only: the runner has nothing else. */
#ifndef SANDBOX_WIRE_H
#define SANDBOX_WIRE_H

#include <stdint.h>

enum {
    WIRE_JOB_MAGIC = 0x6a6f6231, /* "1boj" */
    WIRE_RESULT_MAGIC = 0x72657331,
    WIRE_MARK_BYTES = 32,
    WIRE_TEXT_BYTES_MAX = 16 << 20, /* of a program, and of its tests */
    WIRE_NAME_BYTES_MAX = 256,
    WIRE_SHOWN_BYTES = 4096,        /* of a stream, from its beginning, and as many from its end */
    WIRE_NOTE_BYTES = 1024,         /* the progress report of the tests' harness */
};

/* What is run. */
typedef enum {
    WIRE_NOTHING = 0,    /* only the walls */
    WIRE_PYTHON = 1,     /* in a fork of an interpreter */
    WIRE_JAVASCRIPT = 2, /* by node */
    WIRE_C = 3,          /* by tcc, or a compiler and a linker */
    WIRE_COMMAND = 4,    /* by a shell, in a copy of a folder */
} wire_language;

/* How a Python program is tested. */
typedef enum {
    WIRE_TESTS = 0,   /* the tests' text runs after it */
    WIRE_DOCTEST = 1, /* the examples in the docstrings of the tests' text */
    WIRE_PYTEST = 2,  /* pytest in a copy of the folder; the tests' text is its arguments */
    WIRE_BEHAVIOUR = 3, /* the results of its functions for inputs like those of the tests' text */
    WIRE_LINES = 4,     /* its lines that the tests reach */
} wire_mode;

enum {
    WIRE_INNER = 1,       /* namespaces of its own for each variant */
    WIRE_USE_CC = 2,      /* C by the system's compiler, even if there is tcc */
    WIRE_MAY_LOOK = 4,    /* a Python program that looks at frames, or calls C, is not ended */
};

/* The reason for the end of a run. */
typedef enum {
    WIRE_PASS = 0,
    WIRE_FAIL = 1,    /* an assertion, or a status that is not 0 */
    WIRE_ERROR = 2,   /* another exception */
    WIRE_PARSE = 3,   /* it does not parse */
    WIRE_TIMEOUT = 4, /* of the wall clock */
    WIRE_CPU = 5,
    WIRE_MEMORY = 6,
    WIRE_OUTPUT = 7,
    WIRE_KILLED = 8,  /* a signal */
    WIRE_EXIT = 9,    /* status 0, and the last test was never reached */
    WIRE_BROKEN = 10, /* a wall failed, so nothing ran */
    WIRE_VERDICTS = 11,
} wire_verdict;

/* Exit statuses of a harness; others are failures. */
enum {
    WIRE_STATUS_FAIL = 1,
    WIRE_STATUS_ERROR = 113,
    WIRE_STATUS_PARSE = 114,
    WIRE_STATUS_MEMORY = 115,
    WIRE_STATUS_BROKEN = 116,
    WIRE_STATUS_LEFT = 117, /* the program ended it */
};

/* Followed by program, tests, name. */
typedef struct {
    uint32_t magic, language, mode, flags;
    uint32_t wall_ms, cpu_s, processes, descriptors;
    uint64_t memory_bytes, file_bytes, tmp_bytes, output_bytes;
    uint32_t n_program, n_tests, n_name, seed, cpu_ms, unused;
    char mark[WIRE_MARK_BYTES]; /* hexadecimal; chosen after the program's text */
} wire_job;

/* Followed by its output: standard output, standard error, the note. */
typedef struct {
    uint32_t magic, verdict, status, signal;
    uint64_t wall_ns, cpu_ns, memory_bytes; /* memory: of its largest process */
    uint32_t n_out, n_err, n_note, unused;
} wire_result;

/* A folder as one run of bytes: entries of this, a name and its NUL, and the contents; each padded
 * to 8 bytes.  Folders come before their contents; a link's contents are its target. */
typedef struct {
    uint32_t mode, n_name; /* n_name: with its NUL */
    uint64_t n_bytes;
} wire_entry;

#endif
