/* convert.c - `cerium convert`: a model from Hugging Face as one GGUF file. */
#include "convert/convert.h"

#include <sys/stat.h>
#include <unistd.h>

#include "programs/options.h"
#include "programs/programs.h"
#include "programs/terminal.h"

typedef struct {
    options o;
    block_type type;
    convert_options convert;
} conversion;

static bool take_type(void *program, const char *value)
{
    conversion *c = program;
    c->convert.type = &c->type;
    return option_type(value, &c->type);
}

static bool take_pre(void *program, const char *value)
{
    conversion *c = program;
    c->convert.pre = value;
    return (*value && strlen(value) < 64) || option_wants("a name of 1 to 63 bytes");
}

static const option_spec own[] = {
    {"for", "MODEL",
     "the model that a drafter was made for: its folder or its GGUF file. Wanted where the drafter "
     "does not say which layers it reads; its tokenizer is added to OUT, as llama.cpp wants it",
     TAKES_TEXT(conversion, convert.target)},
    {"type", "TYPE",
     "type of the matrices: F32 F16 BF16 Q8_0 ... (default: as they are; for types of 4 to 6 bits "
     "cerium quantize chooses better)",
     TAKES_CALL(take_type)},
    {"pre", "NAME",
     "the pre-tokenizer, where tokenizer.json has an unknown one: qwen2, llama-bpe, gpt-4o, "
     "gpt-2, starcoder, deepseek-coder, ...",
     TAKES_CALL(take_pre)},
};
const command_table convert_command = {
    .name = "convert",
    .usage = "[OPTIONS] FOLDER OUT.gguf",
    .about = "Make one GGUF file from a model as Hugging Face publishes it: a folder with "
             "config.json, tokenizer.json and model*.safetensors. Architectures: Llama, Mistral, "
             "Ministral 3, Qwen2, Qwen3, Qwen3-MoE, gpt-oss, StarCoder2, SmolLM3, Seed-OSS, "
             "Granite and its hybrids, Gemma 3 and 4, Mellum 2, Laguna, GLM-4.5 to 4.7, "
             "MiniMax-M2, Qwen3.5, Qwen3.6, Qwen3-Next, DeepSeek V2 and V3, GLM-4.7-Flash, and "
             "Nemotron-H. Weights: F32, F16, BF16, FP8 with a scale for each block (written as "
             "BF16), the MXFP4 of gpt-oss and NVFP4, which stay as they are. OUT appears when it "
             "is whole. Drafters for --draft-model: EAGLE-3, DFlash and DSpark, as their authors, "
             "SpecForge and speculators (vLLM) write them.",
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium convert Qwen2.5-Coder-0.5B qwen2.5-coder-0.5b.gguf",
};

static void show(size_t done, size_t n, const char *name)
{
    progress_show("%zu of %zu  %s", done + 1, n, name);
}

static void tell(const char *line) { fprintf(stderr, "cerium: %s\n", line); }

int program_convert(int argc, char **argv)
{
    conversion c = {0};
    cerium_error err;
    char size[32];
    struct stat st;
    RETURN_IF(command_parse(&convert_command, &c, argc, argv));
    if (argc - optind != 2) return usage_error("convert", "name a FOLDER and OUT");
    c.convert.folder = argv[optind];
    c.convert.out = argv[optind + 1];
    c.convert.notice = tell;
    if (progress_is_shown()) c.convert.progress = show;
    int status = convert_model(&c.convert, &err);
    if (c.convert.progress) progress_clear();
    if (status) return failed(&err);
    if (!stat(c.convert.out, &st))
        fprintf(stderr, "%s: %s\n", c.convert.out, human_bytes(size, (double)st.st_size));
    return 0;
}
