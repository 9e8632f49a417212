/* test_convert.c - every allocation fails in turn while a drafter's folder is converted: an error
 * is returned, no file appears, and nothing leaks. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/convert.h"

#include "faults.h"

static char folder[] = "/tmp/cerium-convert-XXXXXX";

static void put(const char *name, const char *from, size_t len)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(from, 1, len, f) == len);
    CHECK(fclose(f) == 0);
}

/* A seed of fuzz_drafter.c is both files, with a NUL between them. */
static void make_folder(const char *seed)
{
    static char all[1 << 16];
    char path[128];
    snprintf(path, sizeof path, "tests/fuzz/corpus/drafter/%s", seed);
    FILE *f = fopen(path, "rb");
    CHECK(f);
    const size_t len = fread(all, 1, sizeof all, f);
    CHECK(fclose(f) == 0 && len < sizeof all);
    const char *end = memchr(all, 0, len);
    CHECK(end);
    put("config.json", all, (size_t)(end - all));
    put("model.safetensors", end + 1, len - (size_t)(end + 1 - all));
}

static void check_all(const char *seed, const char *target)
{
    char out[128];
    long n = 0;
    int status = CERIUM_ERR_MEMORY;
    make_folder(seed);
    snprintf(out, sizeof out, "%s/out.gguf", folder);
    for (; status && n < 10000; n++) {
        const convert_options options = {.folder = folder, .out = out, .target = target};
        const long live = memory_live();
        cerium_error err = {0};
        memory_fail_at(n);
        status = convert_model(&options, &err);
        memory_fail_at(-1);
        CHECK_THAT(memory_live() == live, n);
        /* jansson reports a failed allocation as bad syntax. */
        CHECK_THAT(!status || status == CERIUM_ERR_MEMORY || status == CERIUM_ERR_FORMAT, n);
        CHECK_THAT(!status || err.message[0], n);
        CHECK_THAT((access(out, F_OK) == 0) == (status == 0), n);
    }
    CHECK_THAT(status == 0 && n > 20, n);
    printf("  %s: %ld allocations\n", seed, n - 1);
    passed++;
    unlink(out);
}

int main(void)
{
    static const char *const names[] = {"config.json", "model.safetensors", "of/config.json", "of"};
    static const char of[] = "{\"num_hidden_layers\": 12, \"hidden_size\": 8}";
    char target[64], path[128];
    CHECK(mkdtemp(folder));
    snprintf(target, sizeof target, "%s/of", folder);
    CHECK(mkdir(target, 0700) == 0);
    put("of/config.json", of, strlen(of));
    check_all("eagle3", NULL);
    check_all("eagle3-default", target);
    check_all("eagle3-norms", NULL);
    check_all("dspark", NULL);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        CHECK(remove(path) == 0);
    }
    CHECK(rmdir(folder) == 0);
    printf("faults_convert: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
