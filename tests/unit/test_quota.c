/* test_quota.c - limits of processor time: in the kernel's files, and in trees of groups. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/quota.h"
#include "unit.h"

static const char mixed[] = "12:cpuset:/\n5:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n"
                            "0::/system.slice/cerium.service\n";

static void test_group(void)
{
    view path;
    TEST_CHECK(quota_group(view_of(mixed), VIEW(""), &path) &&
               view_equal(path, VIEW("/system.slice/cerium.service")));
    TEST_CHECK(quota_group(view_of(mixed), VIEW("cpu"), &path) &&
               view_equal(path, VIEW("/docker/abc")));
    TEST_CHECK(quota_group(view_of(mixed), VIEW("cpuset"), &path) && view_equal(path, VIEW("/")));
    TEST_CHECK(!quota_group(view_of(mixed), VIEW("memory"), &path));
    TEST_CHECK(!quota_group(VIEW(""), VIEW(""), &path));
    TEST_CHECK(!quota_group(VIEW("0::"), VIEW(""), &path));
    TEST_CHECK(!quota_group(VIEW("3:cpu"), VIEW("cpu"), &path));
    TEST_CHECK(quota_group(VIEW("0::/a:b"), VIEW(""), &path) && view_equal(path, VIEW("/a:b")));
}

static void test_texts(void)
{
    TEST_CHECK(quota_of_max(VIEW("150000 100000\n")) == 150);
    TEST_CHECK(quota_of_max(VIEW("max 100000\n")) == QUOTA_NONE);
    TEST_CHECK(quota_of_max(VIEW("")) == QUOTA_NONE);
    TEST_CHECK(quota_of_max(VIEW("100000")) == QUOTA_NONE);
    TEST_CHECK(quota_of_max(VIEW("1000 0\n")) == QUOTA_NONE);
    TEST_CHECK(quota_of_max(VIEW("18446744073709551615 1\n")) == QUOTA_NONE);
    TEST_CHECK(quota_of_pair(VIEW("50000\n"), VIEW("100000\n")) == 50);
    TEST_CHECK(quota_of_pair(VIEW("-1\n"), VIEW("100000\n")) == QUOTA_NONE);
}

/* Writes text to root/name, and creates its folders. */
static void put(const char *root, const char *name, const char *text)
{
    char path[512];
    int n = snprintf(path, sizeof path, "%s%s", root, name);
    for (char *slash = path + 1; n > 0 && (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *f = fopen(path, "w");
    TEST_CHECK(f != NULL);
    if (!f) return;
    fputs(text, f);
    fclose(f);
}

static void remove_tree(const char *root)
{
    char command[256];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    TEST_CHECK(system(command) == 0);
}

static void test_unified(void)
{
    char root[] = "/tmp/cerium-quota-XXXXXX";
    TEST_CHECK(mkdtemp(root) != NULL);
    TEST_CHECK(quota_percent(root) == QUOTA_NONE);
    put(root, "/proc/self/cgroup", "0::/a/b\n");
    TEST_CHECK(quota_percent(root) == QUOTA_NONE);
    put(root, "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    TEST_CHECK(quota_percent(root) == QUOTA_NONE);
    put(root, "/sys/fs/cgroup/a/cpu.max", "250000 100000\n"); /* the group above is tighter */
    TEST_CHECK(quota_percent(root) == 250);
    put(root, "/sys/fs/cgroup/cpu.max", "50000 100000\n"); /* in a container: its own group */
    TEST_CHECK(quota_percent(root) == 50);
    remove_tree(root);
}

static void test_first_version(void)
{
    char root[] = "/tmp/cerium-quota-XXXXXX";
    TEST_CHECK(mkdtemp(root) != NULL);
    put(root, "/proc/self/cgroup", mixed);
    put(root, "/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "300000\n");
    put(root, "/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    TEST_CHECK(quota_percent(root) == 300);
    put(root, "/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
    put(root, "/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
    TEST_CHECK(quota_percent(root) == 300);
    remove_tree(root);
}

int main(void)
{
    TEST_RUN(test_group);
    TEST_RUN(test_texts);
    TEST_RUN(test_unified);
    TEST_RUN(test_first_version);
    return unit_report("quota");
}
