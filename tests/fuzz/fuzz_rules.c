/* fuzz_rules.c - files of rules: read or refused with a line, never anything else. */
#include "guard/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rule_set set;
    cerium_error err = {0};
    if (size > 1 << 16 || rules_begin(&set)) return 0;
    long live = memory_live();
    int status = rules_read(&set, "f", (view){(const char *)data, size}, &err);
    if (status == CERIUM_ERR_FORMAT) CHECK(!strncmp(err.message, "f:", 2));
    CHECK(memory_live() >= live);
    rules_close(&set);
    return 0;
}
