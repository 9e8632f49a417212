/* test_not_numbers.c - an infinite or NaN weight is refused with its tensor's name: in
 * every type that is read, and in every tensor of every architecture. */
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "cerium.h"
#include "gguf/gguf.h"
#include "gguf/write.h"

#include "../unit/unit.h"

static char path[] = "/tmp/cerium-not-numbers-XXXXXX";
static const char *model; /* that the file at path, a head, drafts for; NULL: it is the model */

static int open_engine(cerium_error *err)
{
    cerium_engine_config config;
    cerium_engine *e = NULL;
    cerium_engine_config_defaults(&config);
    config.model_path = model ? model : path;
    if (model) config.draft_model = path;
    config.threads = 1;
    config.context_tokens_max = 64;
    config.cache = config.kv_disk = "off";
    const int status = cerium_engine_open(&e, &config, err);
    cerium_engine_close(&e);
    return status;
}

static bool is_refused(const gguf_tensor *t)
{
    char want[200];
    cerium_error err = {.message = ""};
    snprintf(want, sizeof want, "tensor %.*s has a value that is not a number", (int)t->name.len,
             t->name.ptr);
    const bool is = open_engine(&err) == CERIUM_ERR_FORMAT && strstr(err.message, want);
    if (!is) printf("  %s: %s\n", want, err.message);
    return is;
}

/* A block whose scales or values are all NaN or infinite: of 1 bits, or infinity. */
static void spoil(block_type type, uint8_t *block, bool is_infinite)
{
    static const uint8_t f32[4] = {0, 0, 0x80, 0x7f}, bf16[2] = {0x80, 0x7f}, f16[2] = {0, 0x7c};
    const uint32_t size = block_bytes(type);
    for (uint32_t i = 0; i < size; i++) {
        block[i] = 0xff;
        if (!is_infinite) continue;
        if (type == BLOCK_F32)
            block[i] = f32[i % 4];
        else if (type == BLOCK_BF16)
            block[i] = bf16[i % 2];
        else if (type == BLOCK_MXFP4)
            block[i] = i ? 0x77 : 254; /* the largest value times the largest scale */
        else if (type == BLOCK_IQ1_M) /* d is in the highest bits of four halves at the end */
            block[i] = i == 55 ? 0x70 : i == 53 ? 0xc0 : 0;
        else if (type == BLOCK_NVFP4)
            block[i] = 0x7f; /* it has no infinity, but two numbers that are none */
        else
            block[i] = f16[i % 2];
    }
}

/* Every `step`th tensor of the file at path, its first and its last block. */
static void check_file(const char *of, size_t step)
{
    cerium_error err;
    gguf_file *file = NULL;
    struct stat st;
    const int fd = open(path, O_RDWR);
    TEST_CHECK(fd >= 0 && fstat(fd, &st) == 0);
    uint8_t *all = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    TEST_CHECK_THAT(open_engine(&err) == 0, "%s: %s", of, err.message);
    TEST_CHECK(gguf_open_bytes(&file, (view){(char *)all, (size_t)st.st_size}, of, &err) == 0);
    for (size_t i = 0; i < gguf_n_tensors(file); i += step) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        const uint32_t size = block_bytes(t->type);
        if (t->type == BLOCK_I64) continue; /* any bits are a number */
        for (int last = 0; last < 2; last++)
            for (int is_infinite = 0; is_infinite < 2; is_infinite++) {
                uint8_t was[512];
                uint8_t *block = all + ((const uint8_t *)t->data - all) +
                                 (last ? t->size - size : 0);
                memcpy(was, block, size);
                spoil(t->type, block, is_infinite);
                TEST_CHECK_THAT(is_refused(t), "%s: %s, the %s block of %.*s", of,
                                is_infinite ? "infinite" : "no number", last ? "last" : "first",
                                (int)t->name.len, t->name.ptr);
                memcpy(block, was, size);
            }
    }
    gguf_close(&file);
    munmap(all, (size_t)st.st_size);
}

/* The values of t in another type, where it is a matrix. */
static void write_as(gguf_writer *w, const gguf_tensor *t, block_type type)
{
    const size_t n = t->dims[0] * t->dims[1];
    float *values = memory_alloc(n * sizeof *values);
    uint8_t *blocks = memory_alloc(n * sizeof *values);
    TEST_CHECK(values && blocks);
    block_decode(t->type, values, t->data, n);
    if (block_is_written(type)) block_encode(type, blocks, values, n);
    else memset(blocks, 0, n / block_values(type) * block_bytes(type));
    TEST_CHECK(gguf_write_data(w, blocks, n / block_values(type) * block_bytes(type)));
    memory_free(blocks);
    memory_free(values);
}

/* The model at `from` with its matrices in type, at path. */
static void write_model(const char *from, block_type type)
{
    cerium_error err;
    gguf_file *file = NULL;
    gguf_writer *w = NULL;
    TEST_CHECK_THAT(gguf_open(&file, from, &err) == 0, "%s", err.message);
    TEST_CHECK_THAT(gguf_writer_open(&w, path, &err) == 0, "%s", err.message);
    for (size_t i = 0; i < gguf_n_values(file); i++) gguf_write_value(w, gguf_value_at(file, i));
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        gguf_write_tensor(w, t->name, t->n_dims > 1 ? type : t->type, t->n_dims, t->dims);
    }
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        write_as(w, t, t->n_dims > 1 ? type : t->type);
    }
    TEST_CHECK_THAT(gguf_writer_finish(&w, &err) == 0, "%s", err.message);
    gguf_close(&file);
}

static void test_every_type(void)
{
    for (uint32_t type = 0; type < BLOCK_TYPE_END; type++) {
        if (!block_bytes(type) || type == BLOCK_I64) continue; /* no type of weights */
        if (type == BLOCK_PTQ1_0) continue; /* not without its keys: qwen2-pq2_0 has it */
        write_model("tests/golden/fixtures/llama-q6_k.gguf", (block_type)type);
        check_file(block_name(type), UNIT_TIMES(1, 3));
    }
}

static void copy(const char *from)
{
    static char buffer[1 << 16];
    FILE *in = fopen(from, "r"), *out = fopen(path, "w");
    TEST_CHECK(in && out);
    for (size_t n; in && out && (n = fread(buffer, 1, sizeof buffer, in));)
        TEST_CHECK(fwrite(buffer, 1, n, out) == n);
    if (in) fclose(in);
    TEST_CHECK(out && fclose(out) == 0);
}

/* The model that a drafter is made for; NULL: it is no drafter. */
static const char *model_of(const char *drafter)
{
    if (!strstr(drafter, "/eagle3-") && !strstr(drafter, "/dflash-") &&
        !strstr(drafter, "/dspark-"))
        return NULL;
    if (strstr(drafter, "-planted")) return "tests/golden/fixtures/mtp-planted-state.gguf";
    const bool is_llamas = strstr(drafter, "-llama") || strstr(drafter, "-causal") ||
                           strstr(drafter, "-norms");
    return is_llamas ? "tests/golden/fixtures/llama.gguf" : "tests/golden/fixtures/qwen35.gguf";
}

static void test_every_architecture(void)
{
    glob_t files;
    TEST_CHECK(glob("tests/golden/fixtures/*.gguf", 0, NULL, &files) == 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        model = model_of(files.gl_pathv[i]);
        copy(files.gl_pathv[i]);
        check_file(files.gl_pathv[i], UNIT_TIMES(1, 7));
    }
    model = NULL;
    globfree(&files);
}

int main(void)
{
    const int fd = mkstemp(path);
    TEST_CHECK(fd >= 0);
    close(fd);
    TEST_RUN(test_every_type);
    TEST_RUN(test_every_architecture);
    unlink(path);
    return unit_report("not_numbers");
}
