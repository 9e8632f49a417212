/* fuzz_feedback.c - the file with outcomes of completions: accepted counts are consistent,
 * and thresholds stay within their bounds. */
#include "programs/feedback.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static feedback_row rows[FEEDBACK_ROWS_MAX];
    uint32_t n = 0;
    int status = feedback_read((view){(const char *)data, size}, rows, &n);
    CHECK(n <= FEEDBACK_ROWS_MAX && (!status || (status == CERIUM_ERR_FORMAT && !n)));
    for (uint32_t i = 0; i < n; i++) {
        const double standard = rows[i].standard;
        const double least = feedback_confidence_of(&rows[i], standard);
        CHECK(strlen(rows[i].model) < FEEDBACK_NAME_BYTES &&
              strlen(rows[i].language) < FEEDBACK_NAME_BYTES);
        CHECK(rows[i].promised >= 0 && standard >= 0 && standard <= 1);
        CHECK(least >= 0.5 * standard && least <= 1 && (standard > 0 || least == 0));
    }
    return 0;
}
