/* test_cache_files.c - the bound of a cache folder, by last use. */
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "unit.h"

static char folder[64], path[160];

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void make(const char *name, int days_ago)
{
    int fd = open(in_folder(name), O_WRONLY | O_CREAT, 0600);
    const time_t then = time(NULL) - days_ago * 24L * 60 * 60;
    const struct timespec times[2] = {{.tv_sec = then}, {.tv_sec = then}};
    CHECK(fd >= 0 && !futimens(fd, times));
    close(fd);
}

static bool is_there(const char *name)
{
    struct stat about;
    return !lstat(in_folder(name), &about);
}

static void test_bound(void)
{
    make("a-1", 1);
    make("a-2", 2);
    make("a-3", 3);
    make("a-old", 31);
    make("b-old", 400);
    CHECK(!symlink("/nowhere", in_folder("a-link")) && !mkdir(in_folder("a-folder"), 0700));
    file_bound(folder, "a-*", 9, 30);
    TEST_CHECK(!is_there("a-old"));
    TEST_CHECK(is_there("a-1") && is_there("a-2") && is_there("a-3"));
    file_bound(folder, "a-*", 2, 30);
    TEST_CHECK(is_there("a-1") && is_there("a-2") && !is_there("a-3"));
    int fd = open(in_folder("a-2"), O_RDONLY);
    file_used(fd);
    close(fd);
    file_bound(folder, "a-*", 1, 30);
    TEST_CHECK(!is_there("a-1") && is_there("a-2"));
    /* Files of other kinds, links and folders stay. */
    TEST_CHECK(is_there("b-old") && is_there("a-link") && is_there("a-folder"));
    file_bound(folder, "*", 0, 30);
    TEST_CHECK(!is_there("b-old") && !is_there("a-2") && is_there("a-link"));
    CHECK(!unlink(in_folder("a-link")) && !rmdir(in_folder("a-folder")));
    file_bound(in_folder("none"), "*", 0, 0); /* no folder: nothing happens */
}

int main(void)
{
    snprintf(folder, sizeof folder, "/tmp/cerium-cache-XXXXXX");
    CHECK(mkdtemp(folder));
    TEST_RUN(test_bound);
    CHECK(!rmdir(folder));
    return unit_report("cache_files");
}
