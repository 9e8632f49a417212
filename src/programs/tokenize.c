/* tokenize.c - `cerium tokenize`: the tokens of a text.
 *
 * Reads only the vocabulary: it loads no weights, and also works for models that the engine cannot
 * run. */
#include "programs/programs.h"

#include <jansson.h>

#include "gguf/gguf.h"
#include "programs/options.h"
#include "programs/output.h"
#include "tokenizer/tokenizer.h"

enum { TEXT_BYTES_MAX = 256 << 20 };

typedef struct {
    options o;
    bool special, begin, ids, count;
} tokenize;

static const option_spec own[] = {
    {"prompt", .help = "the text itself"},
    {"file", .help = "the file of the text; - is standard input"},
    {"special", NULL, "names such as <|im_start|> are special tokens, not text",
     TAKES_FLAG(tokenize, special)},
    {"begin", NULL, "begin with the begin-of-sequence token, where the model wants one",
     TAKES_FLAG(tokenize, begin)},
    {"ids", NULL, "print only the ids, on one line", TAKES_FLAG(tokenize, ids)},
    {"count", NULL, "print only the number of tokens", TAKES_FLAG(tokenize, count)},
    {"json", .help = "print an array of objects"},
};
const command_table tokenize_command = {
    .name = "tokenize",
    .usage = "[OPTIONS] [-p TEXT | FILE]",
    .about = "Print the tokens of a text, of a file, or of standard input: one on a line, its id "
             "and its text.",
    .groups = OPTIONS_MODEL | OPTIONS_PROMPT | OPTIONS_JSON,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium tokenize -p 'int main(void)'",
};

/* "text" with escapes, always on one line. */
static void print_quoted(const char *text, size_t len)
{
    uint32_t code;
    putchar('"');
    for (size_t i = 0, n; i < len; i += n ? n : 1) {
        uint8_t c = (uint8_t)text[i];
        n = utf8_at((const uint8_t *)text + i, len - i, &code);
        if (c == '\n') printf("\\n");
        else if (c == '\t') printf("\\t");
        else if (c == '\r') printf("\\r");
        else if (c == '"' || c == '\\') printf("\\%c", c);
        else if (!n || c < 0x20 || c == 0x7F) printf("\\x%02X", c);
        else fwrite(text + i, 1, n, stdout);
    }
    putchar('"');
}

/* {"id": 1, "text": "..."}; bytes that are not UTF-8 are {"id": 1, "bytes": [226, 130]}. */
static json_t *token_json(const tokenizer *vocabulary, int32_t token)
{
    size_t len;
    const char *text = tokenizer_bytes(vocabulary, token, &len);
    json_t *one = json_object(), *string = json_stringn(text ? text : "", len);
    json_object_set_new(one, "id", json_integer(token));
    if (string) {
        json_object_set_new(one, "text", string);
        return one;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < len; i++) json_array_append_new(list, json_integer((uint8_t)text[i]));
    json_object_set_new(one, "bytes", list);
    return one;
}

static void print_json(const tokenizer *vocabulary, const int32_t *tokens, size_t n)
{
    printf("[");
    for (size_t i = 0; i < n; i++) {
        json_t *one = token_json(vocabulary, tokens[i]);
        printf(i ? ",\n " : "\n ");
        json_dumpf(one, stdout, 0);
        json_decref(one);
    }
    printf(n ? "\n]\n" : "]\n");
}

static void print_tokens(const tokenize *t, const tokenizer *vocabulary, const int32_t *tokens,
                         size_t n)
{
    if (t->count) {
        printf("%zu\n", n);
    } else if (t->o.json) {
        print_json(vocabulary, tokens, n);
    } else if (t->ids) {
        for (size_t i = 0; i < n; i++) printf(i ? " %d" : "%d", tokens[i]);
        printf("\n");
    } else {
        for (size_t i = 0; i < n; i++) {
            size_t len;
            const char *text = tokenizer_bytes(vocabulary, tokens[i], &len);
            printf("%6d  ", tokens[i]);
            print_quoted(text, len);
            printf("\n");
        }
    }
}

/* Into an owned array. */
static int encode_text(const tokenize *t, const tokenizer *vocabulary, view text, int32_t **tokens,
                       size_t *n, cerium_error *err)
{
    size_t cap = text.len / 2 + 16;
    for (;;) {
        *tokens = memory_alloc(cap * sizeof **tokens);
        if (!*tokens) return error_set(err, CERIUM_ERR_MEMORY, "no memory for %zu tokens", cap);
        int status = tokenizer_encode(vocabulary, text, t->special, t->begin, *tokens, cap, n,
                                      err);
        if (!status) return CERIUM_OK;
        memory_free(*tokens);
        *tokens = NULL;
        if (status != CERIUM_ERR_CAPACITY) return status;
        cap = *n;
    }
}

static int run(const tokenize *t, const char *path, const tokenizer *vocabulary, cerium_error *err)
{
    bytes file = {.max = TEXT_BYTES_MAX};
    int32_t *tokens = NULL;
    size_t n = 0;
    view text = view_of(t->o.prompt);
    int status = CERIUM_OK;
    if (!t->o.prompt) {
        status = read_file(path, &file, err);
        text = (view){file.ptr, file.len};
    }
    if (!status) status = encode_text(t, vocabulary, text, &tokens, &n, err);
    if (!status) print_tokens(t, vocabulary, tokens, n);
    memory_free(tokens);
    bytes_free(&file);
    return status;
}

static int open_and_run(const tokenize *t, const char *path, cerium_error *err)
{
    gguf_file *file = NULL;
    tokenizer *vocabulary = NULL;
    const char *model = options_model(&t->o);
    if (!model)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "no model: name one with -m FILE.gguf or CERIUM_MODEL");
    RETURN_IF(options_model_check(model, err));
    RETURN_IF(gguf_open(&file, model, err));
    int status = tokenizer_open(&vocabulary, file, err);
    if (!status) status = run(t, path, vocabulary, err);
    tokenizer_close(&vocabulary);
    gguf_close(&file);
    return status;
}

int program_tokenize(int argc, char **argv)
{
    tokenize t = {0};
    cerium_error err;
    RETURN_IF(command_parse(&tokenize_command, &t, argc, argv));
    if (optind < argc && t.o.prompt_file)
        return usage_error("tokenize", "FILE and -f exclude each other");
    const char *path = optind < argc ? argv[optind++] : t.o.prompt_file;
    if (optind < argc) return usage_error("tokenize", "one text at a time");
    if (path && t.o.prompt) return usage_error("tokenize", "a text by -p or a file, not both");
    return open_and_run(&t, path ? path : "-", &err) ? failed(&err) : 0;
}
