/* test_gguf.c - reading model files: whole ones, split ones, and one broken file for every rule. */
#include "base/memory.h"
#include "gguf/gguf.h"
#include "gguf/write.h"

#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static char folder[] = "/tmp/cerium-gguf-XXXXXX";

/* ---- a file, byte by byte ---- */

static bytes image = {.max = 1 << 20};

static void put(const void *from, size_t size)
{
    CHECK(bytes_append(&image, from, size) == 0);
}
static void put_u8(uint8_t x)
{
    put(&x, sizeof x);
}
static void put_u32(uint32_t x)
{
    put(&x, sizeof x);
}
static void put_u64(uint64_t x)
{
    put(&x, sizeof x);
}
static void put_string(const char *s)
{
    put_u64(strlen(s));
    put(s, strlen(s));
}

static void begin(uint32_t version, uint64_t n_tensors, uint64_t n_values)
{
    image.len = 0;
    put("GGUF", 4);
    put_u32(version);
    put_u64(n_tensors);
    put_u64(n_values);
}

static void put_key(const char *key, uint32_t type)
{
    put_string(key);
    put_u32(type);
}

static void put_tensor_dims(const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                            uint64_t offset)
{
    put_string(name);
    put_u32(n_dims);
    put(dims, n_dims * sizeof *dims);
    put_u32(type);
    put_u64(offset);
}

static void put_tensor(const char *name, uint64_t n, uint32_t type, uint64_t offset)
{
    put_tensor_dims(name, 1, &n, type, offset);
}

static void put_data(size_t n)
{
    while (image.len % GGUF_ALIGNMENT) put_u8(0);
    for (size_t i = 0; i < n; i++) put_u8((uint8_t)i);
}

/* Open the image from a copy of its exact size, so that a sanitizer sees a read past its end. */
static int open_image(gguf_file **out, void **copy, cerium_error *err)
{
    *copy = memory_alloc(image.len);
    CHECK(*copy);
    memcpy(*copy, image.ptr, image.len);
    return gguf_open_bytes(out, (view){*copy, image.len}, "m.gguf", err);
}

/* ---- one broken file for every rule ---- */

static const uint64_t huge_dims[] = {UINT64_C(1) << 33, UINT64_C(1) << 33, 2, 2};
static const uint64_t wide_dims[] = {32, UINT64_C(1) << 44};
static const uint64_t five_dims[] = {1, 1, 1, 1, 1};

/* clang-format off */
static void break_nothing(void) { image.len = 0; }
static void break_magic(void) { begin(3, 0, 0), image.ptr[0] = 'X'; }
static void break_header(void) { begin(3, 0, 0), image.len = 20; }
static void break_version_0(void) { begin(0, 0, 0); }
static void break_version_1(void) { begin(1, 0, 0); }
static void break_version_4(void) { begin(4, 0, 0); }
static void break_endianness(void) { begin(0x03000000, 0, 0); }
static void break_n_values(void) { begin(3, 0, 1000), put_key("a", GGUF_UINT8), put_u8(1); }
static void break_n_values_more(void) { begin(3, 0, UINT64_MAX); }
static void break_n_tensors(void) { begin(3, 7, 0), put_tensor("t", 1, 0, 0); }
static void break_n_tensors_more(void) { begin(3, UINT64_MAX, 0); }
static void break_key_empty(void) { begin(3, 0, 1), put_key("", GGUF_UINT32), put_u32(1); }
static void break_key_length(void) { begin(3, 0, 1), put_u64(257), put_data(300); }
static void break_key_end(void) { begin(3, 0, 1), put_u64(200), put_data(20); }
static void break_key_twice(void)
{
    begin(3, 0, 2);
    put_key("same", GGUF_UINT32), put_u32(1);
    put_key("same", GGUF_UINT8), put_u8(1);
}
static void break_type(void) { begin(3, 0, 1), put_key("k", 13), put_u64(0); }
static void break_bool(void) { begin(3, 0, 1), put_key("flag", GGUF_BOOL), put_u8(2); }
static void break_value_end(void) { begin(3, 0, 1), put_key("k12", GGUF_UINT64), put_u32(0); }
static void break_string_length(void)
{
    begin(3, 0, 1), put_key("k", GGUF_STRING), put_u64(UINT64_C(1) << 63);
}
static void break_string_end(void)
{
    begin(3, 0, 1), put_key("k", GGUF_STRING), put_u64(5), put("abcd", 4);
}
static void put_array(uint32_t type, uint64_t n)
{
    begin(3, 0, 1), put_key("list", GGUF_ARRAY), put_u32(type), put_u64(n);
}
static void break_array_nested(void) { put_array(GGUF_ARRAY, 1), put_u32(4), put_u64(0); }
static void break_array_type(void) { put_array(77, 1), put_u64(0); }
static void break_array_items(void) { put_array(GGUF_UINT8, UINT64_C(1) << 40); }
static void break_array_end(void) { put_array(GGUF_UINT64, 3), put_u64(1), put_u64(2); }
static void break_array_strings(void) { put_array(GGUF_STRING, 1000), put_string("x"); }
static void break_array_string(void) { put_array(GGUF_STRING, 1), put_u64(9), put("abcd", 4); }
static void break_array_bool(void) { put_array(GGUF_BOOL, 2), put_u8(1), put_u8(9); }
static void break_alignment_type(void)
{
    begin(3, 0, 1), put_key("general.alignment", GGUF_STRING), put_string("32");
}
static void put_alignment(uint32_t n)
{
    begin(3, 0, 1), put_key("general.alignment", GGUF_UINT32), put_u32(n);
}
static void break_alignment_0(void) { put_alignment(0); }
static void break_alignment_48(void) { put_alignment(48); }
static void break_alignment_4(void) { put_alignment(4); }
static void break_alignment_big(void) { put_alignment(1 << 20); }
static void break_tensor_name(void) { begin(3, 1, 0), put_tensor("", 32, 0, 0), put_data(128); }
static void break_tensor_twice(void)
{
    begin(3, 2, 0), put_tensor("t", 32, 0, 0), put_tensor("t", 32, 0, 0), put_data(128);
}
static void break_tensor_dims_0(void)
{
    begin(3, 1, 0), put_tensor_dims("t", 0, huge_dims, 0, 0), put_data(128);
}
static void break_tensor_dims_5(void)
{
    begin(3, 1, 0), put_tensor_dims("t", 5, five_dims, 0, 0), put_data(128);
}
static void break_tensor_dim(void) { begin(3, 1, 0), put_tensor("t", 0, 0, 0), put_data(128); }
static void break_tensor_overflow(void)
{
    begin(3, 1, 0), put_tensor_dims("t", 4, huge_dims, 0, 0), put_data(128);
}
static void break_tensor_values(void)
{
    begin(3, 1, 0), put_tensor_dims("t", 2, wide_dims, 2, 0), put_data(128);
}
static void break_tensor_block(void) { begin(3, 1, 0), put_tensor("t", 48, 2, 0), put_data(128); }
static void break_tensor_type(void)
{
    begin(3, 1, 0), put_tensor("blk.3.attn_q.weight", 256, 28, 0), put_data(128);
}
static void break_tensor_type_new(void)
{
    begin(3, 1, 0), put_tensor("t", 256, 4000000000u, 0), put_data(128);
}
static void break_tensor_offset(void) { begin(3, 1, 0), put_tensor("t", 4, 0, 8), put_data(128); }
static void break_tensor_past(void) { begin(3, 1, 0), put_tensor("t", 32, 0, 32), put_data(128); }
static void break_q2_0_between(void)
{
    begin(3, 2, 0), put_tensor("t", 4096, 42, 0), put_tensor("u", 8, 0, 1088), put_data(4096);
}
static void break_q2_0_last(void) { begin(3, 1, 0), put_tensor("t", 4096, 42, 0), put_data(1088); }
static void break_tensor_far(void)
{
    begin(3, 1, 0), put_tensor("t", 32, 0, UINT64_MAX - 31), put_data(128);
}
static void break_tensor_no_data(void) { begin(3, 1, 0), put_tensor("t", 32, 0, 0); }
static void break_tensor_end(void)
{
    begin(3, 1, 0), put_tensor("tensor", 32, 0, 0), image.len -= 4;
}
static void break_split(void)
{
    begin(3, 0, 1), put_key("split.count", GGUF_UINT16), put_u8(2), put_u8(0);
}
static void break_split_count(void)
{
    begin(3, 0, 1), put_key("split.count", GGUF_UINT32), put_u32(100000);
}

static const struct {
    void (*make)(void);
    const char *want; /* in the message */
} broken[] = {
    {break_nothing, "not a GGUF file"},
    {break_magic, "not a GGUF file"},
    {break_header, "the file ends inside the header"},
    {break_version_0, "GGUF version 0 is not supported"},
    {break_version_1, "GGUF version 1 is not supported"},
    {break_version_4, "GGUF version 4 is not supported; supported are 2 and 3"},
    {break_endianness, "a big-endian GGUF file"},
    {break_n_values, "counts 1000 metadata keys"},
    {break_n_values_more, "counts 18446744073709551615 metadata keys"},
    {break_n_tensors, "counts 7 tensors"},
    {break_n_tensors_more, "counts 18446744073709551615 tensors"},
    {break_key_empty, "a metadata key before byte 32 is empty"},
    {break_key_length, "is 257 bytes long; the limit is 256"},
    {break_key_end, "the file ends inside a metadata key"},
    {break_key_twice, "key same occurs twice"},
    {break_type, "key k: unknown value type 13"},
    {break_bool, "key flag: a boolean is 2"},
    {break_value_end, "the file ends inside a metadata value"},
    {break_string_length, "is 9223372036854775808 bytes long"},
    {break_string_end, "the file ends inside a metadata string"},
    {break_array_nested, "key list: arrays of arrays are not supported"},
    {break_array_type, "key list: array of unknown type 77"},
    {break_array_items, "key list: 1099511627776 items"},
    {break_array_end, "the file ends inside a metadata value"},
    {break_array_strings, "the file ends inside an array of strings"},
    {break_array_string, "the file ends inside a string in an array"},
    {break_array_bool, "key list: a boolean is 9"},
    {break_alignment_type, "general.alignment is not an integer"},
    {break_alignment_0, "general.alignment is 0; it must be a power of two"},
    {break_alignment_48, "general.alignment is 48; it must be a power of two"},
    {break_alignment_4, "general.alignment is 4; it must be a power of two from 8"},
    {break_alignment_big, "general.alignment is 1048576"},
    {break_tensor_name, "a tensor's name before byte 32 is empty"},
    {break_tensor_twice, "tensor t occurs twice"},
    {break_tensor_dims_0, "tensor t: 0 dimensions"},
    {break_tensor_dims_5, "tensor t: 5 dimensions"},
    {break_tensor_dim, "tensor t: dimension 0 is 0"},
    {break_tensor_overflow, "tensor t: its dimensions multiply to more than 2^48"},
    {break_tensor_values, "tensor t: its dimensions multiply to more than 2^48"},
    {break_tensor_block, "tensor t: rows of 48 values are not a multiple of Q4_0's block of 32"},
    {break_tensor_type, "m.gguf: tensor blk.3.attn_q.weight: type 28 (F64) is not supported; "
                        "supported are F32 F16 Q4_0"},
    {break_tensor_type_new, "tensor t: type 4000000000 (unknown) is not supported"},
    {break_tensor_offset, "tensor t: offset 8 is not aligned to 32"},
    {break_tensor_past, "tensor t: its 128 bytes reach past the end of the file"},
    {break_q2_0_between, "tensor t: Q2_0 takes 1152 bytes here, and there are 1088: older files"},
    {break_q2_0_last, "tensor t: Q2_0 takes 1152 bytes here, and there are 1088: older files"},
    {break_tensor_far, "tensor t: its 128 bytes reach past the end of the file"},
    {break_tensor_no_data, "tensor t: its 128 bytes reach past the end of the file"},
    {break_tensor_end, "the file ends inside the tensor table"},
    {break_split, "one of 2 parts; open it by its path"},
    {break_split_count, "split.count is not a number up to 1024"},
};
/* clang-format on */

static void test_broken_files(void)
{
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        gguf_file *file = NULL;
        void *copy;
        cerium_error err = {0};
        long live = memory_live();
        broken[i].make();
        int status = open_image(&file, &copy, &err);
        memory_free(copy);
        TEST_CHECK_THAT(status == CERIUM_ERR_FORMAT && !file, "variant %zu", i);
        TEST_CHECK_THAT(strstr(err.message, broken[i].want), "variant %zu says: %s", i,
                        err.message);
        TEST_CHECK_THAT(memory_live() == live, "variant %zu leaks", i);
    }
}

/* Truncate a good file anywhere: no cut may be accepted before the data, none may crash. */
static void make_good(uint32_t version)
{
    static const uint64_t dims[] = {32, 2, 3};
    begin(version, 2, 9);
    put_key("general.architecture", GGUF_STRING), put_string("llama");
    put_key("a.u8", GGUF_UINT8), put_u8(200);
    put_key("a.i8", GGUF_INT8), put_u8(0xff);
    put_key("a.u64", GGUF_UINT64), put_u64(UINT64_MAX);
    put_key("a.f32", GGUF_FLOAT32), put(&(float){1.5f}, 4);
    put_key("a.f64", GGUF_FLOAT64), put(&(double){-2.5}, 8);
    put_key("a.bool", GGUF_BOOL), put_u8(1);
    put_key("words", GGUF_ARRAY), put_u32(GGUF_STRING), put_u64(2);
    put_string("one"), put_string("");
    put_key("numbers", GGUF_ARRAY), put_u32(GGUF_INT32), put_u64(2);
    put_u32((uint32_t)-7), put_u32(9);
    put_tensor_dims("q", 3, dims, 2, 0);
    put_tensor("f", 5, 0, 128);
    put_data(128 + 20);
}

static void test_truncation(void)
{
    make_good(3);
    size_t whole = image.len;
    for (size_t len = 0; len < whole; len++) {
        gguf_file *file = NULL;
        void *copy;
        cerium_error err;
        image.len = len;
        TEST_CHECK_THAT(open_image(&file, &copy, &err) == CERIUM_ERR_FORMAT, "cut at %zu", len);
        gguf_close(&file);
        memory_free(copy);
    }
}

/* Metadata and table determine a file's length; its 148 bytes of data need not be there. */
static void test_a_header_alone(void)
{
    make_good(3);
    const size_t whole = image.len;
    bool is_enough = false;
    for (size_t len = 0; len <= whole; len++) {
        cerium_error err;
        uint64_t says = 0;
        void *copy = memory_copy(image.ptr, len); /* a sanitizer sees a read past its end */
        const int status = gguf_whole_bytes(&says, (view){copy, len}, "head", &err);
        TEST_CHECK_THAT(!status || (status == CERIUM_ERR_FORMAT && !is_enough), "cut at %zu", len);
        if (!status) {
            TEST_CHECK_THAT(says == whole, "%zu of %zu", (size_t)says, whole);
            TEST_CHECK(is_enough || (len <= whole - 148 && len + 148 + 32 > whole));
            is_enough = true;
        }
        memory_free(copy);
    }
    TEST_CHECK(is_enough);
    cerium_error err;
    uint64_t says = 7;
    for (long at = 0; at < 40; at++) {
        memory_fail_at(at);
        const int status = gguf_whole_bytes(&says, (view){(char *)image.ptr, whole}, "head", &err);
        memory_fail_at(-1);
        if (!status) break;
        TEST_CHECK(status == CERIUM_ERR_MEMORY);
        TEST_CHECK(at < 39);
    }
}

/* ---- good files ---- */

static void check_good(const gguf_file *file, uint32_t version)
{
    uint64_t u = 77;
    float f = 0;
    bool b = false;
    view text = {0};
    TEST_CHECK(gguf_version(file) == version && gguf_n_values(file) == 9);
    TEST_CHECK(gguf_get_u64(file, "a.u8", &u) && u == 200);
    TEST_CHECK(gguf_get_u64(file, "a.u64", &u) && u == UINT64_MAX);
    u = 77;
    TEST_CHECK(!gguf_get_u64(file, "a.i8", &u) && !gguf_get_u64(file, "a.f32", &u));
    TEST_CHECK(!gguf_get_u64(file, "absent", &u) && !gguf_get_u64(file, "a.bool", &u) && u == 77);
    TEST_CHECK(gguf_get_f32(file, "a.f32", &f) && f == 1.5f);
    TEST_CHECK(gguf_get_f32(file, "a.f64", &f) && f == -2.5f);
    TEST_CHECK(gguf_get_f32(file, "a.i8", &f) && f == -1.0f);
    TEST_CHECK(gguf_get_f32(file, "a.u64", &f) && f == 0x1p64f);
    TEST_CHECK(!gguf_get_f32(file, "words", &f) && !gguf_get_f32(file, "a.bool", &f));
    TEST_CHECK(gguf_get_bool(file, "a.bool", &b) && b && !gguf_get_bool(file, "a.u8", &b));
    TEST_CHECK(gguf_get_string(file, "general.architecture", &text) &&
               view_equal(text, VIEW("llama")));
    TEST_CHECK(!gguf_get_string(file, "words", &text));
    const gguf_value *words = gguf_find(file, "words"), *numbers = gguf_find(file, "numbers");
    TEST_CHECK(words && words->n_items == 2 && view_equal(words->strings[0], VIEW("one")) &&
               words->strings[1].len == 0);
    TEST_CHECK(numbers && numbers->item_type == GGUF_INT32 && !numbers->strings);
    TEST_CHECK(gguf_item_i64(numbers, 0) == -7 && gguf_item_f64(numbers, 1) == 9.0);
    TEST_CHECK(gguf_n_tensors(file) == 2 && gguf_tensor_at(file, 1)->n_dims == 1);
    const gguf_tensor *q = gguf_find_tensor(file, "q");
    TEST_CHECK(q && q->type == BLOCK_Q4_0 && q->size == 108 && q->dims[0] == 32 &&
               q->dims[1] == 2 && q->dims[2] == 3 && q->dims[3] == 1);
    TEST_CHECK(q && ((const uint8_t *)q->data)[5] == 5);
    TEST_CHECK(!gguf_find_tensor(file, "Q") && !gguf_find_tensor(file, ""));
}

static void test_good_files(void)
{
    for (uint32_t version = 2; version <= 3; version++) {
        gguf_file *file = NULL;
        void *copy;
        cerium_error err = {0};
        make_good(version);
        int status = open_image(&file, &copy, &err);
        TEST_CHECK_THAT(status == 0, "%s", err.message);
        if (status == 0) {
            check_good(file, version);
            TEST_CHECK(gguf_file_bytes(file) == image.len);
            TEST_CHECK(strcmp(gguf_path(file), "m.gguf") == 0);
            gguf_release(file, copy, image.len);
        }
        gguf_close(&file);
        memory_free(copy);
    }
    gguf_close(NULL);
}

static void test_memory_failures(void)
{
    make_good(3);
    void *copy = memory_copy(image.ptr, image.len);
    long live = memory_live();
    int status = CERIUM_ERR_MEMORY, n = 0;
    for (; status && n < 100; n++) {
        gguf_file *file = NULL;
        cerium_error err = {0};
        memory_fail_at(n);
        status = gguf_open_bytes(&file, (view){copy, image.len}, "m.gguf", &err);
        memory_fail_at(-1);
        TEST_CHECK_THAT(status == 0 || status == CERIUM_ERR_MEMORY, "failure %d: %d", n, status);
        TEST_CHECK((status == 0) == (file != NULL));
        gguf_close(&file);
        TEST_CHECK_THAT(memory_live() == live, "failure %d leaks", n);
    }
    TEST_CHECK_THAT(status == 0 && n > 8, "%d allocations", n);
    memory_free(copy);
}

/* ---- files on the disk ---- */

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
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

/* One part of a set: tensors "a<part>" and "b<part>" of 40 floats. */
static int write_part(const char *name, uint32_t no, uint32_t count, uint32_t n_tensors)
{
    gguf_writer *w;
    cerium_error err;
    float data[40];
    for (int i = 0; i < 40; i++) data[i] = (float)(no * 100) + (float)i;
    RETURN_IF(gguf_writer_open(&w, in_folder(name), &err));
    if (no == 0) gguf_write_string(w, "general.architecture", VIEW("llama"));
    gguf_write_u32(w, "split.no", no);
    gguf_write_u32(w, "split.count", count);
    gguf_write_u32(w, "split.tensors.count", n_tensors);
    for (char letter = 'a'; letter <= 'b'; letter++) {
        char tensor[] = {letter, (char)('0' + no), 0};
        gguf_write_tensor(w, view_of(tensor), BLOCK_F32, 2, (uint64_t[]){20, 2});
    }
    gguf_write_data(w, data, sizeof data);
    gguf_write_data(w, data, sizeof data);
    return gguf_writer_finish(&w, &err);
}

static void write_set(void)
{
    empty_folder();
    TEST_CHECK(write_part("m-00001-of-00003.gguf", 0, 3, 6) == 0);
    TEST_CHECK(write_part("m-00002-of-00003.gguf", 1, 3, 6) == 0);
    TEST_CHECK(write_part("m-00003-of-00003.gguf", 2, 3, 6) == 0);
}

static void expect_refused(const char *name, int want_status, const char *want)
{
    gguf_file *file = NULL;
    cerium_error err = {0};
    long live = memory_live();
    TEST_CHECK_THAT(gguf_open(&file, in_folder(name), &err) == want_status, "%s", err.message);
    TEST_CHECK_THAT(strstr(err.message, want), "\"%s\" in: %s", want, err.message);
    TEST_CHECK(!file && memory_live() == live);
}

static void test_split_files(void)
{
    gguf_file *file = NULL;
    cerium_error err = {0};
    write_set();
    TEST_CHECK_THAT(gguf_open(&file, in_folder("m-00001-of-00003.gguf"), &err) == 0, "%s",
                    err.message);
    if (!file) return;
    TEST_CHECK(gguf_n_tensors(file) == 6 && gguf_n_values(file) == 4);
    const gguf_tensor *b2 = gguf_find_tensor(file, "b2");
    TEST_CHECK(b2 && b2->size == 160 && ((const float *)b2->data)[39] == 239.0f);
    TEST_CHECK(b2 && (uintptr_t)b2->data % 32 == 0);
    if (b2) gguf_release(file, b2->data, b2->size);
    TEST_CHECK(b2 && ((const float *)b2->data)[39] == 239.0f);
    gguf_close(&file);
    TEST_CHECK(file == NULL);
}

static void test_broken_sets(void)
{
    write_set();
    expect_refused("m-00002-of-00003.gguf", CERIUM_ERR_FORMAT,
                   "this is part 2 of 3; name the first");
    unlink(in_folder("m-00003-of-00003.gguf"));
    expect_refused("m-00001-of-00003.gguf", CERIUM_ERR_IO, "m-00003-of-00003.gguf: No such file");
    TEST_CHECK(write_part("m-00003-of-00003.gguf", 1, 3, 6) == 0);
    expect_refused("m-00001-of-00003.gguf", CERIUM_ERR_FORMAT,
                   "split.no is 1 where 2 was expected");
    TEST_CHECK(write_part("m-00003-of-00003.gguf", 2, 4, 6) == 0);
    expect_refused("m-00001-of-00003.gguf", CERIUM_ERR_FORMAT, "split.count is 4, in the first");
    TEST_CHECK(write_part("m-00003-of-00003.gguf", 2, 3, 6) == 0);
    TEST_CHECK(write_part("m-00001-of-00003.gguf", 0, 3, 7) == 0);
    expect_refused("m-00001-of-00003.gguf", CERIUM_ERR_FORMAT,
                   "hold 6 tensors, split.tensors.count says 7");
    TEST_CHECK(write_part("other.gguf", 0, 3, 6) == 0);
    expect_refused("other.gguf", CERIUM_ERR_FORMAT, "does not end in -00001-of-00003.gguf");
}

static void test_unreadable(void)
{
    expect_refused("absent.gguf", CERIUM_ERR_IO, "absent.gguf: No such file");
    expect_refused(".", CERIUM_ERR_IO, "is a folder");
    FILE *f = fopen(in_folder("empty.gguf"), "w");
    if (f) fclose(f);
    expect_refused("empty.gguf", CERIUM_ERR_FORMAT, "the file is empty");
    CHECK(mkfifo(in_folder("pipe.gguf"), 0600) == 0);
    expect_refused("pipe.gguf", CERIUM_ERR_IO, "not a regular file");
}

static void test_memory_failures_of_sets(void)
{
    int status = CERIUM_ERR_MEMORY;
    long live = memory_live();
    write_set();
    for (int n = 0; status && n < 200; n++) {
        gguf_file *file = NULL;
        memory_fail_at(n);
        status = gguf_open(&file, in_folder("m-00001-of-00003.gguf"), NULL);
        memory_fail_at(-1);
        TEST_CHECK(status == 0 || status == CERIUM_ERR_MEMORY);
        gguf_close(&file);
        TEST_CHECK_THAT(memory_live() == live, "failure %d leaks", n);
    }
    TEST_CHECK(status == 0);
}

/* ---- files of other programs ---- */

static void test_real_files(void)
{
    static const char *const patterns[] = {"../shared/data/vocabs/llamacpp/*.gguf",
                                           "../shared/data/weights/*/*.gguf"};
    glob_t found = {0};
    if (access("../shared/data", R_OK)) {
        TEST_SKIP("public vocabularies and weights: there is no ../shared/data");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
        glob(patterns[i], i ? GLOB_APPEND : 0, NULL, &found);
    TEST_CHECK(found.gl_pathc >= 3);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        gguf_file *file = NULL;
        cerium_error err = {0};
        view arch;
        int status = gguf_open(&file, found.gl_pathv[i], &err);
        TEST_CHECK_THAT(status == 0, "%s", err.message);
        if (status) continue;
        TEST_CHECK(gguf_get_string(file, "general.architecture", &arch));
        gguf_close(&file);
    }
    globfree(&found);
}

int main(void)
{
    CHECK(mkdtemp(folder));
    TEST_RUN(test_good_files);
    TEST_RUN(test_broken_files);
    TEST_RUN(test_truncation);
    TEST_RUN(test_a_header_alone);
    TEST_RUN(test_memory_failures);
    TEST_RUN(test_split_files);
    TEST_RUN(test_broken_sets);
    TEST_RUN(test_memory_failures_of_sets);
    TEST_RUN(test_unreadable);
    TEST_RUN(test_real_files);
    empty_folder();
    rmdir(folder);
    bytes_free(&image);
    TEST_CHECK(memory_live() == 0);
    return unit_report("gguf");
}
