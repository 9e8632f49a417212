/* test_page_files.c - the page in the program equals web/ to the byte, and loads nothing else. */
#include <dirent.h>

#include "base/memory.h"
#include "server/page_files.h"

#include "unit.h"

enum { FILE_BYTES_MAX = 1 << 20, PAGE_BYTES_MAX = 125000 };

static char *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    char *content = memory_alloc(FILE_BYTES_MAX);
    CHECK(file && content);
    *len = fread(content, 1, FILE_BYTES_MAX, file);
    CHECK(*len < FILE_BYTES_MAX);
    fclose(file);
    return content;
}

static void test_every_file(void)
{
    DIR *folder = opendir("web");
    CHECK(folder);
    size_t n = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        char path[512], source[512];
        snprintf(path, sizeof path, "/%s", entry->d_name);
        snprintf(source, sizeof source, "web/%s", entry->d_name);
        const page_file *file =
            page_find(strcmp(entry->d_name, "index.html") ? view_of(path) : VIEW("/"));
        TEST_CHECK_THAT(file, "%s is not in the program", source);
        if (!file) continue;
        n++;
        size_t len;
        char *content = read_file(source, &len);
        TEST_CHECK_THAT(view_equal(file->content, (view){content, len}), "%s", source);
        memory_free(content);
    }
    closedir(folder);
    TEST_CHECK_THAT(n == page_n_files, "%zu of %zu", n, page_n_files);
}

static void test_types_and_tags(void)
{
    TEST_CHECK(!strcmp(page_find(VIEW("/"))->type, "text/html; charset=utf-8"));
    TEST_CHECK(!strcmp(page_find(VIEW("/app.js"))->type, "text/javascript; charset=utf-8"));
    TEST_CHECK(!strcmp(page_find(VIEW("/style.css"))->type, "text/css; charset=utf-8"));
    TEST_CHECK(!strcmp(page_find(VIEW("/icon.svg"))->type, "image/svg+xml"));
    for (size_t i = 0; i < page_n_files; i++) {
        const char *tag = page_files[i].etag;
        size_t len = strlen(tag);
        TEST_CHECK(len > 10 && tag[0] == '"' && tag[len - 1] == '"');
        TEST_CHECK(strcspn(tag + 1, "\"\\ \n") == len - 2);
        for (size_t j = 0; j < i; j++) TEST_CHECK(strcmp(tag, page_files[j].etag));
    }
}

static void test_what_is_not_there(void)
{
    TEST_CHECK(!page_find(VIEW("")));
    TEST_CHECK(!page_find(VIEW("/index.html")));
    TEST_CHECK(!page_find(VIEW("/app.j")));
    TEST_CHECK(!page_find(VIEW("/app.js/")));
    TEST_CHECK(!page_find(VIEW("/../web/app.js")));
    TEST_CHECK(!page_find((view){"/app.js", 8})); /* with the NUL */
}

static void test_small_and_alone(void)
{
    size_t total = 0;
    for (size_t i = 0; i < page_n_files; i++) {
        view content = page_files[i].content;
        total += content.len;
        const char *at = content.ptr, *end = content.ptr + content.len;
        while ((at = memmem(at, (size_t)(end - at), "://", 3))) {
            /* SVG's namespace name is not an address that is fetched. */
            bool fine = (size_t)(end - at) > 13 && !memcmp(at, "://www.w3.org", 13);
            TEST_CHECK_THAT(fine, "%s has an address", page_files[i].path);
            at += 3;
        }
        TEST_CHECK(!memmem(content.ptr, content.len, "innerHTML", 9));
        TEST_CHECK(!memmem(content.ptr, content.len, " style=\"", 8));
    }
    TEST_CHECK_THAT(total < PAGE_BYTES_MAX, "%zu bytes", total);
    TEST_CHECK(!strstr(PAGE_POLICY, "unsafe"));
}

int main(void)
{
    TEST_RUN(test_every_file);
    TEST_RUN(test_types_and_tags);
    TEST_RUN(test_what_is_not_there);
    TEST_RUN(test_small_and_alone);
    return unit_report("page_files");
}
