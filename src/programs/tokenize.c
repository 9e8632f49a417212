/* tokenize.c - `cerium tokenize`: the tokens of a text. */
#include "programs/programs.h"

#include <jansson.h>

#include "programs/options.h"

static const char help[] =
    "usage: cerium tokenize [OPTIONS] [-p TEXT | FILE]\n\n"
    "Print the tokens of a text, of a file, or of standard input: one on a line, its id and what\n"
    "it stands for.\n\n"
    "  -m, --model FILE    GGUF model (default: CERIUM_MODEL, else the bundled one)\n"
    "  -p, --prompt TEXT   the text itself\n"
    "  -f, --file FILE     the text's file (- for standard input)\n"
    "      --special       names such as <|im_start|> are special tokens, not text\n"
    "      --begin         with the begin-of-sequence token, where the model wants one\n"
    "      --ids           only the ids, on one line\n"
    "      --count         only how many\n"
    "      --json          an array of objects for a program\n\n"
    "example: cerium tokenize -p 'int main(void)'\n";

enum { OWN_SPECIAL = OPTION_OWN, OWN_BEGIN, OWN_IDS, OWN_COUNT };
enum { TEXT_BYTES_MAX = 256 << 20 };

typedef struct {
    options o;
    unsigned flags; /* CERIUM_TOKENIZE_* */
    bool ids, count;
} tokenize;

static bool take_own(void *arg, int val, const char *value)
{
    tokenize *t = arg;
    (void)value;
    switch (val) {
    case OWN_SPECIAL: t->flags |= CERIUM_TOKENIZE_SPECIAL; return true;
    case OWN_BEGIN: t->flags |= CERIUM_TOKENIZE_BEGIN; return true;
    case OWN_IDS: t->ids = true; return true;
    case OWN_COUNT: t->count = true; return true;
    default: return false;
    }
}

/* Length of the well-formed UTF-8 character at text[0], 0 when there is none. */
static size_t character_length(const uint8_t *text, size_t len)
{
    if (text[0] < 0x80) return 1;
    size_t n = text[0] < 0xC2 ? 0 : text[0] < 0xE0 ? 2 : text[0] < 0xF0 ? 3 : 4;
    if (!n || n > len || text[0] > 0xF4) return 0;
    for (size_t i = 1; i < n; i++)
        if ((text[i] & 0xC0) != 0x80) return 0;
    if (n == 3 && ((text[0] == 0xE0 && text[1] < 0xA0) || (text[0] == 0xED && text[1] > 0x9F)))
        return 0;
    if (n == 4 && ((text[0] == 0xF0 && text[1] < 0x90) || (text[0] == 0xF4 && text[1] > 0x8F)))
        return 0;
    return n;
}

/* "text" with escapes, on one line whatever the bytes are. */
static void print_quoted(const char *text, size_t len)
{
    putchar('"');
    for (size_t i = 0, n; i < len; i += n ? n : 1) {
        uint8_t c = (uint8_t)text[i];
        n = character_length((const uint8_t *)text + i, len - i);
        if (c == '\n') printf("\\n");
        else if (c == '\t') printf("\\t");
        else if (c == '\r') printf("\\r");
        else if (c == '"' || c == '\\') printf("\\%c", c);
        else if (!n || c < 0x20 || c == 0x7F) printf("\\x%02X", c);
        else fwrite(text + i, 1, n, stdout);
    }
    putchar('"');
}

/* {"id": 1, "text": "..."}; bytes that are no text are {"id": 1, "bytes": [226, 130]}. */
static json_t *token_json(const cerium_engine *engine, int32_t token)
{
    size_t len;
    const char *text = cerium_token_bytes(engine, token, &len);
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

static void print_json(const cerium_engine *engine, const int32_t *tokens, size_t n)
{
    printf("[");
    for (size_t i = 0; i < n; i++) {
        json_t *one = token_json(engine, tokens[i]);
        printf(i ? ",\n " : "\n ");
        json_dumpf(one, stdout, 0);
        json_decref(one);
    }
    printf(n ? "\n]\n" : "]\n");
}

static void print_tokens(const tokenize *t, const cerium_engine *engine, const int32_t *tokens,
                         size_t n)
{
    if (t->count) {
        printf("%zu\n", n);
    } else if (t->o.json) {
        print_json(engine, tokens, n);
    } else if (t->ids) {
        for (size_t i = 0; i < n; i++) printf(i ? " %d" : "%d", tokens[i]);
        printf("\n");
    } else {
        for (size_t i = 0; i < n; i++) {
            size_t len;
            const char *text = cerium_token_bytes(engine, tokens[i], &len);
            printf("%6d  ", tokens[i]);
            print_quoted(text, len);
            printf("\n");
        }
    }
}

static int run(const tokenize *t, const char *path, const cerium_engine *engine,
               cerium_error *err)
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
    if (!status) status = encode(engine, text, t->flags, &tokens, &n, err);
    if (!status) print_tokens(t, engine, tokens, n);
    memory_free(tokens);
    bytes_free(&file);
    return status;
}

int program_tokenize(int argc, char **argv)
{
    static const struct option own[] = {
        {"special", no_argument, NULL, OWN_SPECIAL},
        {"begin", no_argument, NULL, OWN_BEGIN},
        {"ids", no_argument, NULL, OWN_IDS},
        {"count", no_argument, NULL, OWN_COUNT},
    };
    tokenize t = {0};
    cerium_error err;
    cerium_engine *engine = NULL;
    RETURN_IF(options_parse(&t.o, argc, argv, OPTIONS_ENGINE | OPTIONS_PROMPT | OPTIONS_JSON, own,
                            ARRAY_LEN(own), take_own, &t, help));
    const char *path = optind < argc ? argv[optind++] : t.o.prompt_file;
    if (optind < argc) return usage_error("tokenize", "one text at a time");
    if (path && t.o.prompt) return usage_error("tokenize", "a text by -p or a file, not both");
    int status = options_engine(&t.o, &engine, 1, &err);
    if (!status) status = run(&t, path ? path : "-", engine, &err);
    cerium_engine_close(&engine);
    return status ? failed(&err) : 0;
}
