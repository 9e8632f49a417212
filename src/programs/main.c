/* main.c - cerium: picks the subcommand. */
#include "programs/programs.h"

#include "base/base.h"

static const struct {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *what;
} programs[] = {
    {"serve", program_serve, "serve a model over HTTP and WebSocket, and a page to try it"},
    {"run", program_run, "stream a completion or a chat in the terminal"},
    {"complete", program_complete, "fill in the middle at a place in a file"},
    {"edit", program_edit, "change a file as an instruction says, and show the change"},
    {"bench", program_bench, "measure speed beside the machine's own memory bandwidth"},
    {"perplexity", program_perplexity, "how well a model predicts a text"},
    {"eval", program_eval, "how well a model completes code, with intervals"},
    {"tokenize", program_tokenize, "the tokens of a text"},
    {"scan", program_scan, "find weaknesses in code as it is written: files, streams, diffs"},
    {"pull", program_pull, "download a model by its short name or address"},
    {"convert", program_convert, "a model as Hugging Face publishes it, as a GGUF file"},
    {"quantize", program_quantize, "write a model with its weights in another type"},
    {"imatrix", program_imatrix, "which columns of a model's matrices matter, for quantize"},
    {"inspect", program_inspect, "what a model file holds"},
    {"wafer", program_wafer, "what a model would do on wafer-scale silicon, beside GPUs"},
    {"keys", program_keys, "API keys of a server, with tiers"},
    {"usage", program_usage, "what was used, by key, model and day, and its price"},
};

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

int main(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return help(stdout);
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V") || !strcmp(argv[1], "version")) {
        printf("cerium %s\n", cerium_version());
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        if (!strcmp(argv[1], programs[i].name)) return programs[i].main(argc - 1, argv + 1);
    fprintf(stderr, "cerium: there is no command '%s'; see cerium --help\n", argv[1]);
    return 2;
}
