/* fuzz_quota.c - texts of control groups: the first line as a limit, all of it as groups. */
#include "base/quota.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    view text = {(const char *)data, size}, path;
    static const view controllers[] = {{"", 0}, {"cpu", 3}};
    uint64_t limit = quota_of_max(text);
    CHECK(limit == QUOTA_NONE || limit <= UINT64_MAX / 100 * 100);
    for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
        if (quota_group(text, controllers[i], &path))
            CHECK(path.len >= 1 && path.ptr[0] == '/' && path.ptr >= text.ptr &&
                  path.ptr + path.len <= text.ptr + text.len);
    return 0;
}
