/* pretokenizer.c - owns the regular expressions of the model families and runs them by PCRE2.
 *
 * The expressions are those that the models were trained with, as their tokenizer.json files and
 * llama.cpp's llama-vocab.cpp publish them, in a form that PCRE2 walks in linear time. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pretokenizer.h"

#include "base/memory.h"

#include <pcre2.h>

/* ---- the expressions ---- */

/* \s as Unicode's White_Space; PCRE2's own \s also takes U+180E.  For use inside brackets. */
#define SPACE                                                                                      \
    "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"      \
    "\\x{3000}"
/* \s+(?!\S)|\s+ */
#define SPACES      "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define SPACE_LINES "[" SPACE "]*[\\r\\n]+|"
#define SHORTENED   "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORD        "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define SYMBOLS     " ?[^" SPACE "\\p{L}\\p{N}]+"
#define UPPER       "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER       "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end)                                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|"                                           \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" end "|"
#define CJK_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{30FF}]+"
#define ASCII_SYMBOL_WORD "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" SYMBOLS "|" SPACES
/* cl100k and its descendants: digits is how many stay together */
#define CL100K(digits) SHORTENED "|" WORD digits "|" SYMBOLS "[\\r\\n]*|" SPACE_LINES SPACES
#define O200K CASED(SHORTENED "?") "\\p{N}{1,3}|" SYMBOLS "[\\r\\n/]*|" SPACE_LINES SPACES
#define TEKKEN CASED("") "\\p{N}|" SYMBOLS "[\\r\\n/]*|" SPACE_LINES SPACES
#define QWEN35                                                                                     \
    SHORTENED "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" SPACE                           \
              "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACE_LINES SPACES
#define DEEPSEEK3                                                                                  \
    ASCII_SYMBOL_WORD "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|"    \
    SPACE_LINES SPACES
#define SEED_CODER                                                                                 \
    SHORTENED "|" WORD "\\p{N}| ?[^" SPACE "\\p{L}\\p{N}\\r\\n]+|" SPACE_LINES SPACES
#define BAILING                                                                                    \
    "'(?i:[sdmt]|ll|ve|re)|" WORD "\\p{N}|" SYMBOLS "[\\r\\n]*|[" SPACE "]*[\\r\\n]|" SPACES

/* The cased letters that DeepSeek LLM lists. */
#define DEEPSEEK_LETTERS                                                                           \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}" \
    "\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}" \
    "\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}" \
    "\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}" \
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}" \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}" \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}" \
    "\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}" \
    "\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}" \
    "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}" \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}" \
    "\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}" \
    "\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}" \
    "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}" \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}" \
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}" \
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}" \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"
typedef struct {
    const char *names; /* values of tokenizer.ggml.pre, space-separated */
    pretokenizer_facts facts;
    const char *passes[TOKENIZER_PASSES_MAX];
} family;

static const family families[] = {
    {.names = "qwen2 deepseek-r1-qwen stablelm2 megrez hunyuan solar-open grok-2 kormo",
     .passes = {CL100K("\\p{N}")}},
    {.names = "qwen35", .passes = {QWEN35}},
    {.names = "llama-bpe llama3 llama-v3 pixtral falcon3 falcon-h1 midm-2.0 lfm2",
     .facts = {.whole_words = true, .adds_bos = true},
     .passes = {CL100K("\\p{N}{1,3}")}},
    {.names = "smaug-bpe dbrx glm4 chatglm-bpe", .passes = {CL100K("\\p{N}{1,3}")}},
    {.names = "gpt-4o llama4 kanana2 minimax-m2", .passes = {O200K}},
    {.names = "tekken",
     .facts = {.whole_words = true, .adds_bos = true},
     .passes = {TEKKEN}},
    {.names = "gpt-2 mpt olmo phi-2 jais mellum trillion granite-docling exaone4 gigachat a.x-4.0 "
              "modern-bert roberta-bpe jina-v1-en jina-v2-code jina-v2-es jina-v2-de jina-es "
              "jina-de",
     .passes = {GPT2}},
    {.names = "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
     .passes = {"\\p{N}", GPT2}},
    {.names = "deepseek-coder",
     .passes = {"[\\r\\n]", "[" SPACE "]?\\p{L}+", "[" SPACE "]?\\p{P}+",
                "[\\x{800}-\\x{9FA5}\\x{AC00}-\\x{D7FF}]+", "\\p{N}"}},
    {.names = "deepseek-llm",
     .passes = {"[\\r\\n]", "[" SPACE "]?[" DEEPSEEK_LETTERS "]+",
                "[" SPACE "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}"
                "\\x{3000}-\\x{3002}]+",
                /* \s+$ tried once for each run of spaces */
                "(?<![" SPACE "])[" SPACE "]++$", "[\\x{800}-\\x{9FA5}\\x{AC00}-\\x{D7FF}]+",
                "\\p{N}+"}},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm",
     .passes = {"\\p{N}{1,3}", CJK_KANA, DEEPSEEK3}},
    {.names = "seed-coder", .passes = {SEED_CODER}},
    {.names = "bailingmoe bailingmoe2 llada-moe", .passes = {BAILING}},
    {.names = "falcon", .passes = {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = "default", .passes = {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
};

static bool names_have(const char *names, view name)
{
    while (*names) {
        size_t len = strcspn(names, " ");
        if (view_equal((view){names, len}, name)) return true;
        names += len + (names[len] == ' ');
    }
    return false;
}

static const family *family_of(view name)
{
    for (size_t i = 0; i < ARRAY_LEN(families); i++)
        if (names_have(families[i].names, name)) return &families[i];
    return NULL;
}

/* ---- compiling ---- */

struct pretokenizer {
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    unsigned n_passes;
    pcre2_code *passes[TOKENIZER_PASSES_MAX];
    bool jit[TOKENIZER_PASSES_MAX];
};

static void *pcre2_take(size_t size, void *user)
{
    (void)user;
    return memory_alloc(size);
}

static void pcre2_give(void *p, void *user)
{
    (void)user;
    memory_free(p);
}

static int unknown_family(view name, const char *path, cerium_error *err)
{
    return error_set(err, CERIUM_ERR_FORMAT,
                     "%s: pre-tokenizer \"%.*s\" is not supported; supported are qwen2, qwen35, "
                     "llama-bpe, gpt-4o, tekken, gpt-2, starcoder, smollm, deepseek-coder, "
                     "deepseek-llm, deepseek-v3, seed-coder, falcon, glm4, default and others",
                     path, (int)(name.len < 64 ? name.len : 64), name.ptr);
}

static int compile_passes(pretokenizer *p, const family *f)
{
    p->memory = pcre2_general_context_create(pcre2_take, pcre2_give, NULL);
    p->limits = p->memory ? pcre2_match_context_create(p->memory) : NULL;
    pcre2_compile_context *context = p->memory ? pcre2_compile_context_create(p->memory) : NULL;
    int status = p->limits && context ? CERIUM_OK : CERIUM_ERR_MEMORY;
    /* These expressions backtrack over one run of characters at most, and keep no state for it. */
    if (!status) pcre2_set_match_limit(p->limits, UINT32_MAX);
    for (unsigned i = 0; !status && i < TOKENIZER_PASSES_MAX && f->passes[i]; i++) {
        int code;
        PCRE2_SIZE where;
        p->passes[i] = pcre2_compile((PCRE2_SPTR)f->passes[i], PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &code, &where,
                                     context);
        /* The expressions are constants that the tests compile, so only memory can be short. */
        if (!p->passes[i]) status = CERIUM_ERR_MEMORY;
        else p->jit[i] = pcre2_jit_compile(p->passes[i], PCRE2_JIT_COMPLETE) == 0;
        p->n_passes = i + 1;
    }
    pcre2_compile_context_free(context);
    return status;
}

int pretokenizer_open(pretokenizer **out, view name, const char *path, pretokenizer_facts *facts,
                      cerium_error *err)
{
    CHECK(out && facts);
    const family *f = family_of(name);
    if (!f) return unknown_family(name, path, err);
    pretokenizer *p = memory_zalloc(1, sizeof *p);
    if (!p || compile_passes(p, f)) {
        pretokenizer_close(&p);
        return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory for the pre-tokenizer", path);
    }
    *facts = f->facts;
    *out = p;
    return CERIUM_OK;
}

void pretokenizer_close(pretokenizer **p)
{
    if (!p || !*p) return;
    for (unsigned i = 0; i < (*p)->n_passes; i++) pcre2_code_free((*p)->passes[i]);
    pcre2_match_context_free((*p)->limits);
    pcre2_general_context_free((*p)->memory);
    memory_free(*p);
    *p = NULL;
}

/* ---- running ---- */

int pretokenizer_run_open(pretokenizer_run *run, const pretokenizer *p)
{
    *run = (pretokenizer_run){.owner = p};
    run->match_data = pcre2_match_data_create(1, p->memory);
    return run->match_data ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

void pretokenizer_run_close(pretokenizer_run *run)
{
    pcre2_match_data_free(run->match_data);
    run->match_data = NULL;
}

void pretokenizer_start(pretokenizer_run *run, view text)
{
    memset(run->levels, 0, sizeof run->levels);
    run->levels[0].segment = text;
}

/* Find the next match of a level; none leaves match_end 0. */
static int find_match(pretokenizer_run *run, unsigned depth)
{
    const pretokenizer *p = run->owner;
    pretokenizer_level *level = &run->levels[depth];
    PCRE2_SPTR subject = (PCRE2_SPTR)level->segment.ptr;
    int rc = PCRE2_ERROR_JIT_BADOPTION;
    if (p->jit[depth])
        rc = pcre2_jit_match(p->passes[depth], subject, level->segment.len, level->at, 0,
                             run->match_data, p->limits);
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) /* no JIT, or its stack is full: interpret */
        rc = pcre2_match(p->passes[depth], subject, level->segment.len, level->at,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, run->match_data, p->limits);
    level->match_from = level->match_end = 0;
    if (rc == PCRE2_ERROR_NOMATCH) return CERIUM_OK;
    if (rc < 0) return CERIUM_ERR_MEMORY;
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(run->match_data);
    CHECK(ends[0] >= level->at && ends[1] > ends[0] && ends[1] <= level->segment.len);
    level->match_from = ends[0];
    level->match_end = ends[1];
    return CERIUM_OK;
}

/* The next part of a level's segment: the gap before the match, the match, or the rest. */
static int take_part(pretokenizer_run *run, unsigned depth, view *part)
{
    pretokenizer_level *level = &run->levels[depth];
    if (!level->match_end) RETURN_IF(find_match(run, depth));
    size_t end = level->segment.len;
    if (level->match_end)
        end = level->at < level->match_from ? level->match_from : level->match_end;
    *part = (view){level->segment.ptr + level->at, end - level->at};
    level->at = end;
    if (end == level->match_end) level->match_end = 0;
    return CERIUM_OK;
}

int pretokenizer_next(pretokenizer_run *run, view *piece)
{
    unsigned n_passes = run->owner->n_passes, depth = n_passes - 1;
    for (;;) {
        pretokenizer_level *level = &run->levels[depth];
        if (level->at == level->segment.len) {
            if (depth == 0) {
                *piece = (view){0};
                return CERIUM_OK;
            }
            depth--;
            continue;
        }
        view part = {0};
        RETURN_IF(take_part(run, depth, &part));
        if (depth == n_passes - 1) {
            *piece = part;
            return CERIUM_OK;
        }
        run->levels[++depth] = (pretokenizer_level){.segment = part};
    }
}
