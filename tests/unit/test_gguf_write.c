/* test_gguf_write.c - writing model files: the result can be read, and a failure leaves
 * nothing. */
#include "base/memory.h"
#include "gguf/gguf.h"
#include "gguf/write.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "unit.h"

static char folder[] = "/tmp/cerium-write-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static size_t n_files(void)
{
    size_t n = 0;
    DIR *dir = opendir(folder);
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n - 2;
}

static void empty_folder(void)
{
    char path[512];
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        unlink(path);
    }
    if (dir) closedir(dir);
}

static int write_everything(const char *path, cerium_error *err)
{
    gguf_writer *w;
    uint8_t blocks[7 * 34];
    memset(blocks, 3, sizeof blocks);
    RETURN_IF(gguf_writer_open(&w, path, err));
    gguf_write_string(w, "general.architecture", VIEW("llama"));
    gguf_write_string(w, "binary", (view){"\0\xff\n", 3});
    gguf_write_u32(w, "u32", 5);
    gguf_write_f32(w, "f32", 0.25f);
    gguf_write_bool(w, "bool", true);
    gguf_write_strings(w, "strings", (view[]){VIEW("a"), VIEW("bc"), VIEW("")}, 3);
    gguf_write_strings(w, "none", NULL, 0);
    gguf_write_array(w, "floats", GGUF_FLOAT32, (float[]){1, 2, 3}, 3);
    gguf_write_array(w, "flags", GGUF_BOOL, (uint8_t[]){1, 0}, 2);
    gguf_write_tensor(w, VIEW("q8"), BLOCK_Q8_0, 2, (uint64_t[]){32, 7});
    gguf_write_tensor(w, VIEW("half"), BLOCK_F16, 1, (uint64_t[]){3});
    gguf_write_data(w, blocks, 100); /* any cut */
    gguf_write_data(w, blocks + 100, sizeof blocks - 100);
    gguf_write_data(w, (uint16_t[]){1, 2, 3}, 6);
    return gguf_writer_finish(&w, err);
}

/* Copies every value and tensor of one file into another. */
static int copy_file(const gguf_file *file, const char *path, cerium_error *err)
{
    gguf_writer *w;
    RETURN_IF(gguf_writer_open(&w, path, err));
    for (size_t i = 0; i < gguf_n_values(file); i++) gguf_write_value(w, gguf_value_at(file, i));
    for (size_t i = 0; i < gguf_n_tensors(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        gguf_write_tensor(w, t->name, t->type, t->n_dims, t->dims);
    }
    for (size_t i = 0; i < gguf_n_tensors(file); i++)
        gguf_write_data(w, gguf_tensor_at(file, i)->data, gguf_tensor_at(file, i)->size);
    return gguf_writer_finish(&w, err);
}

static view read_whole(const char *path)
{
    FILE *f = fopen(path, "rb");
    CHECK(f);
    char *data = memory_alloc(1 << 16);
    size_t len = fread(data, 1, 1 << 16, f);
    fclose(f);
    return (view){data, len};
}

static void test_write(void)
{
    gguf_file *file = NULL;
    cerium_error err = {0};
    empty_folder();
    TEST_CHECK_THAT(write_everything(in_folder("one.gguf"), &err) == 0, "%s", err.message);
    TEST_CHECK_THAT(gguf_open(&file, in_folder("one.gguf"), &err) == 0, "%s", err.message);
    if (!file) return;
    TEST_CHECK(gguf_n_values(file) == 9 && gguf_find(file, "none")->n_items == 0);
    TEST_CHECK(view_equal(gguf_find(file, "strings")->strings[1], VIEW("bc")));
    TEST_CHECK(gguf_item_f64(gguf_find(file, "floats"), 2) == 3.0);
    TEST_CHECK(((const uint16_t *)gguf_find_tensor(file, "half")->data)[2] == 3);
    TEST_CHECK(((const uint8_t *)gguf_find_tensor(file, "q8")->data)[7 * 34 - 1] == 3);
    TEST_CHECK_THAT(copy_file(file, in_folder("two.gguf"), &err) == 0, "%s", err.message);
    gguf_close(&file);
    view one = read_whole(in_folder("one.gguf")), two = read_whole(in_folder("two.gguf"));
    TEST_CHECK(one.len == two.len && view_equal(one, two));
    memory_free((void *)one.ptr);
    memory_free((void *)two.ptr);
    TEST_CHECK(n_files() == 2);
}

static void test_write_failures(void)
{
    cerium_error err = {0};
    gguf_writer *w;
    struct rlimit old, small;
    empty_folder();
    TEST_CHECK(write_everything("/nonexistent-folder/x.gguf", &err) == CERIUM_ERR_IO);
    TEST_CHECK(write_everything(folder, &err) == CERIUM_ERR_IO);
    TEST_CHECK_THAT(strstr(err.message, "not a regular file"), "%s", err.message);
    /* A full disk, as far as a process can make one: no file may grow past 512 bytes. */
    getrlimit(RLIMIT_FSIZE, &old);
    small = old, small.rlim_cur = 512;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    int status = write_everything(in_folder("full.gguf"), &err);
    setrlimit(RLIMIT_FSIZE, &old);
    TEST_CHECK(status == CERIUM_ERR_IO);
    TEST_CHECK_THAT(strstr(err.message, "full.gguf: cannot write"), "%s", err.message);
    TEST_CHECK(gguf_writer_open(&w, in_folder("short.gguf"), &err) == 0);
    gguf_write_tensor(w, VIEW("t"), BLOCK_F32, 1, (uint64_t[]){4});
    gguf_write_data(w, "1234", 4);
    TEST_CHECK(gguf_writer_finish(&w, &err) == CERIUM_ERR_ARGUMENT && !w);
    TEST_CHECK(gguf_writer_open(&w, in_folder("long.gguf"), &err) == 0);
    gguf_write_tensor(w, VIEW("t"), BLOCK_F32, 1, (uint64_t[]){1});
    TEST_CHECK(!gguf_write_data(w, "12345", 5));
    TEST_CHECK(gguf_writer_finish(&w, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(gguf_writer_open(&w, in_folder("shape.gguf"), &err) == 0);
    gguf_write_tensor(w, VIEW("t"), BLOCK_Q8_0, 1, (uint64_t[]){33});
    TEST_CHECK(gguf_writer_finish(&w, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK_THAT(n_files() == 0, "%zu files are left", n_files());
}

static void test_write_memory_failures(void)
{
    long live = memory_live();
    int status = CERIUM_ERR_MEMORY;
    empty_folder();
    for (int n = 0; status && n < 100; n++) {
        memory_fail_at(n);
        status = write_everything(in_folder("one.gguf"), NULL);
        memory_fail_at(-1);
        TEST_CHECK(status == 0 || status == CERIUM_ERR_MEMORY);
        TEST_CHECK_THAT(memory_live() == live, "failure %d leaks", n);
        TEST_CHECK(n_files() == (status == 0));
    }
    TEST_CHECK(status == 0);
}

int main(void)
{
    CHECK(mkdtemp(folder));
    TEST_RUN(test_write);
    TEST_RUN(test_write_failures);
    TEST_RUN(test_write_memory_failures);
    empty_folder();
    rmdir(folder);
    TEST_CHECK(memory_live() == 0);
    return unit_report("gguf_write");
}
