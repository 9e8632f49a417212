/* quota.c - from the group of this process up to the root, in both versions of control groups. */
#include "base/quota.h"

enum { TEXT_MAX = 4096 };

/* Text up to the next sep; both are removed from text. */
static view cut(view *text, char sep)
{
    const char *end = text->len ? memchr(text->ptr, sep, text->len) : NULL;
    size_t n = end ? (size_t)(end - text->ptr) : text->len;
    view before = {text->ptr, n};
    n += end != NULL;
    *text = (view){text->ptr + n, text->len - n};
    return before;
}

bool quota_group(view text, view controller, view *path)
{
    while (text.len) {
        view line = cut(&text, '\n'), number = cut(&line, ':'), names = cut(&line, ':');
        bool is_it = controller.len == 0 && names.len == 0 && view_equal(number, VIEW("0"));
        while (controller.len && names.len) is_it |= view_equal(cut(&names, ','), controller);
        if (!is_it || !view_starts(line, VIEW("/"))) continue;
        *path = line;
        return true;
    }
    return false;
}

uint64_t quota_of_pair(view quota, view period)
{
    uint64_t q, p;
    if (!parse_u64(cut(&quota, '\n'), &q) || !parse_u64(cut(&period, '\n'), &p)) return QUOTA_NONE;
    if (p == 0 || q > UINT64_MAX / 100) return QUOTA_NONE;
    return q * 100 / p;
}

uint64_t quota_of_max(view text)
{
    view line = cut(&text, '\n'), quota = cut(&line, ' ');
    return quota_of_pair(quota, line);
}

/* The file root/under/group/name; text [TEXT_MAX]; empty: it cannot be read whole. */
static view read_text(const char *root, const char *under, view group, const char *name, char *text)
{
    char path[2 * TEXT_MAX];
    int n = snprintf(path, sizeof path, "%s%s%.*s%s%s", root, under, (int)group.len, group.ptr,
                     *name ? "/" : "", name);
    FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "r") : NULL;
    if (!f) return (view){text, 0};
    size_t len = fread(text, 1, TEXT_MAX, f);
    fclose(f);
    return (view){text, len < TEXT_MAX ? len : 0};
}

static uint64_t limit_of(const char *root, const char *under, view group, bool is_unified)
{
    char text[TEXT_MAX], period[TEXT_MAX];
    if (is_unified) return quota_of_max(read_text(root, under, group, "cpu.max", text));
    view quota = read_text(root, under, group, "cpu.cfs_quota_us", text);
    return quota_of_pair(quota, read_text(root, under, group, "cpu.cfs_period_us", period));
}

uint64_t quota_percent(const char *root)
{
    static const struct {
        const char *under;
        view controller;
    } places[] = {
        {"/sys/fs/cgroup", {"", 0}},
        {"/sys/fs/cgroup/unified", {"", 0}},
        {"/sys/fs/cgroup/cpu", {"cpu", 3}},
        {"/sys/fs/cgroup/cpu,cpuacct", {"cpu", 3}},
    };
    char text[TEXT_MAX];
    uint64_t least = QUOTA_NONE;
    view groups = read_text(root, "/proc/self/cgroup", VIEW(""), "", text);
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        view group;
        bool is_unified = places[i].controller.len == 0;
        if (!quota_group(groups, places[i].controller, &group)) continue;
        /* In a container the path may be the host's, and the host's groups are not visible here. So
         * a missing file means nothing, and the visible root is the container's own group. */
        for (;;) {
            while (group.len && group.ptr[group.len - 1] == '/') group.len--;
            uint64_t limit = limit_of(root, places[i].under, group, is_unified);
            if (limit < least) least = limit;
            if (group.len == 0) break;
            while (group.len && group.ptr[group.len - 1] != '/') group.len--;
        }
    }
    return least;
}
