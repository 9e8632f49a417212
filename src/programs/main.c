/* main.c - cerium: picks the subcommand. */
#include "programs/programs.h"

#include <signal.h>
#include <sys/resource.h>

#include "base/base.h"
#include "base/thread.h"
#include "programs/completion.h"
#include "programs/options.h"
#include "programs/output.h"
#include "programs/terminal.h"

typedef int program_main(int argc, char **argv);

static const struct {
    const char *name;
    program_main *main;
    const command_table *table;
    const char *what;
} programs[] = {
#define COMMAND(name, what) {#name, program_##name, &name##_command, what}
    COMMAND(serve, "serve a model over HTTP and WebSocket, and a page to try it"),
    COMMAND(health, "whether a server takes requests, for scripts and probes"),
    COMMAND(run, "stream a completion or a chat in the terminal"),
    COMMAND(verify, "compute a recorded answer again in other ways: the same bits?"),
    COMMAND(complete, "fill in the middle at a place in a file"),
    COMMAND(edit, "change a file as an instruction says, and show the change"),
    COMMAND(solve, "try many variants of a place in a file, and show one that passes its tests"),
    COMMAND(lsp, "complete, warn and edit in an editor: a language server"),
    COMMAND(mcp, "tools for agents: solve, and search of the workspace"),
    COMMAND(bench, "measure speed beside the machine's own memory bandwidth"),
    COMMAND(perplexity, "how well a model predicts a text"),
    COMMAND(eval, "how well a model completes code, with intervals"),
    COMMAND(tokenize, "the tokens of a text"),
    COMMAND(scan, "find weaknesses in code as it is written: files, streams, diffs"),
    COMMAND(pull, "download a model by its short name or address"),
    COMMAND(convert, "a model as Hugging Face publishes it, as a GGUF file"),
    COMMAND(quantize, "write a model with its weights in another type"),
    COMMAND(imatrix, "which columns of a model's matrices matter, for quantize"),
    COMMAND(inspect, "what a model file holds"),
    COMMAND(wafer, "what a model would do on wafer-scale silicon, beside GPUs"),
    COMMAND(keys, "API keys of a server, with tiers"),
    COMMAND(usage, "usage by key, model and day, and its price"),
};

/* Commands of `cerium wafer`. */
static const completion_command parts[] = {
    {"wafer plan", NULL, &wafer_plan_command},
    {"wafer compare", NULL, &wafer_compare_command},
    {"wafer validate", NULL, &wafer_validate_command},
    {"wafer simulate", NULL, &wafer_simulate_command},
};

/* For man/cerium.1: tools/make_man.sh. */
static int print_mdoc(void)
{
    printf(".Sh COMMANDS\n");
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        command_print_mdoc(programs[i].table, stdout);
        for (size_t k = 0; programs[i].table == &wafer_command && k < ARRAY_LEN(parts); k++)
            command_print_mdoc(parts[k].table, stdout);
    }
    printf(".Sh SHARED OPTIONS\n");
    command_print_shared_mdoc(stdout);
    return 0;
}

/* --completion SHELL: prints the script with which a shell completes commands and options. */
static int print_completion(const char *shell)
{
    completion_command all[ARRAY_LEN(programs) + ARRAY_LEN(parts)];
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        all[n++] = (completion_command){programs[i].name, programs[i].what, programs[i].table};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) all[n++] = parts[i];
    if (completion_print(shell, all, n)) return 0;
    fprintf(stderr, "cerium: there is no completion for '%s': it is there for bash, zsh and fish\n",
            shell);
    return 2;
}

static int help(FILE *out)
{
    fputs("cerium - real-time code models on your own processor\n\n"
          "usage: cerium COMMAND [OPTIONS]\n\n",
          out);
    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        fprintf(out, "  %-11s %s\n", programs[i].name, programs[i].what);
    fputs("\nEvery command explains itself: cerium COMMAND --help\n\n"
          "example: cerium run -p 'def fibonacci(n):' -n 64\n",
          out);
    return 0;
}

/* ---- room on the stack ---- */

typedef struct {
    program_main *main;
    int argc;
    char **argv;
    int status;
    sigset_t mask; /* of the calling thread */
} program_call;

static void *call_program(void *user)
{
    program_call *call = user;
    pthread_sigmask(SIG_SETMASK, &call->mask, NULL); /* it is the program's only thread */
    call->status = call->main(call->argc, call->argv);
    return NULL;
}

/* If the shell gives the first thread less stack than our threads have (ulimit -s 256), the program
 * runs in a thread. */
static int run_program(program_call *call)
{
    struct rlimit stack;
    pthread_t thread;
    pthread_sigmask(SIG_SETMASK, NULL, &call->mask);
    bool is_small = !getrlimit(RLIMIT_STACK, &stack) && stack.rlim_cur < THREAD_STACK_BYTES;
    if (is_small && !thread_start(&thread, "cerium", call_program, call))
        pthread_join(thread, NULL);
    else
        call_program(call);
    return call->status;
}

static program_main *program_named(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        if (!strcmp(name, programs[i].name)) return programs[i].main;
    return NULL;
}

static int no_program(const char *name)
{
    const char *names[ARRAY_LEN(programs)];
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) names[i] = programs[i].name;
    const char *near = nearest_name(name, names, ARRAY_LEN(names));
    if (near)
        fprintf(stderr, "cerium: there is no command '%s'; did you mean '%s'?\n", name, near);
    else
        fprintf(stderr, "cerium: there is no command '%s'; see cerium --help\n", name);
    return 2;
}

static int run(int argc, char **argv)
{
    static char ask[] = "--help";
    char *explain[] = {NULL, ask, NULL};
    const char *first = argc > 1 ? argv[1] : "";
    if (argc < 2) {
        help(stderr);
        return 2;
    }
    if (!strcmp(first, "help") && argc == 3 && program_named(argv[2])) {
        explain[0] = argv[2];
        return program_named(argv[2])(2, explain);
    }
    if (!strcmp(first, "help") && argc > 3) {
        fprintf(stderr, "cerium: help is of one command at a time\n");
        return 2;
    }
    if (!strcmp(first, "help") && argc > 2) return no_program(argv[2]);
    if (!strcmp(first, "--help") || !strcmp(first, "-h") || !strcmp(first, "help"))
        return help(stdout);
    if (!strcmp(first, "--mdoc")) return print_mdoc();
    if (!strcmp(first, "--completion") && argc == 3) return print_completion(argv[2]);
    if (!strcmp(first, "--version") || !strcmp(first, "-V") || !strcmp(first, "version")) {
        printf("cerium %s\n", cerium_version());
        return 0;
    }
    program_main *program = program_named(first);
    if (!program) return no_program(first);
    return run_program(&(program_call){.main = program, .argc = argc - 1, .argv = argv + 1});
}

int main(int argc, char **argv)
{
    output_begin();
    command_share(options_shared, options_n_shared);
    int status = run(argc, argv);
    /* Findings of `scan` are not an error; every other failure has one status. */
    return output_finish(status, argc > 1 && !strcmp(argv[1], "scan") ? 2 : 1);
}
