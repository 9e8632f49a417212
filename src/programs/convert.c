/* convert.c - `cerium convert`: a model from Hugging Face as one GGUF file. */
#include "convert/convert.h"

#include <sys/stat.h>
#include <unistd.h>

#include "programs/options.h"
#include "programs/programs.h"
#include "programs/terminal.h"

static const char help[] =
    "usage: cerium convert [OPTIONS] FOLDER OUT.gguf\n\n"
    "Make one GGUF file of a model as Hugging Face publishes it: a folder with config.json,\n"
    "tokenizer.json and model*.safetensors.  Architectures: Llama, Mistral, Qwen2, Qwen3,\n"
    "Qwen3-MoE, gpt-oss and StarCoder2; weights in F32, F16, BF16, FP8 with a scale for each\n"
    "block (written as BF16), and gpt-oss' MXFP4, which stays as it is.\n\n"
    "      --type TYPE     of matrices: F32 F16 BF16 Q8_0 ... (default: as they are; for types of\n"
    "                      4 to 6 bits cerium quantize chooses better)\n"
    "      --pre NAME      the pre-tokenizer, where tokenizer.json has an unknown one:\n"
    "                      qwen2, llama-bpe, gpt-4o, gpt-2, starcoder, deepseek-coder, ...\n\n"
    "OUT appears when it is whole.\n\n"
    "example: cerium convert Qwen2.5-Coder-0.5B qwen2.5-coder-0.5b.gguf\n";

enum { OWN_TYPE = OPTION_OWN, OWN_PRE };

typedef struct {
    options o;
    block_type type;
    convert_options convert;
} conversion;

static bool take_own(void *arg, int val, const char *value)
{
    conversion *c = arg;
    switch (val) {
    case OWN_TYPE:
        c->convert.type = &c->type;
        return option_type(value, &c->type);
    case OWN_PRE:
        c->convert.pre = value;
        return (*value && strlen(value) < 64) || option_wants("a name of 1 to 63 bytes");
    default: return false;
    }
}

static void show(size_t done, size_t n, const char *name)
{
    progress_show("%zu of %zu  %s", done + 1, n, name);
}

int program_convert(int argc, char **argv)
{
    static const struct option own[] = {
        {"type", required_argument, NULL, OWN_TYPE},
        {"pre", required_argument, NULL, OWN_PRE},
    };
    conversion c = {0};
    cerium_error err;
    char size[32];
    struct stat st;
    RETURN_IF(options_parse(&c.o, argc, argv, 0, own, ARRAY_LEN(own), take_own, &c, help));
    if (argc - optind != 2) return usage_error("convert", "name a FOLDER and OUT");
    c.convert.folder = argv[optind];
    c.convert.out = argv[optind + 1];
    if (progress_is_shown()) c.convert.progress = show;
    int status = convert_model(&c.convert, &err);
    if (c.convert.progress) progress_clear();
    if (status) return failed(&err);
    if (!stat(c.convert.out, &st))
        fprintf(stderr, "%s: %s\n", c.convert.out, human_bytes(size, (double)st.st_size));
    return 0;
}
