/* fuzz_rows.c - a CSV file of published figures, and the predictions of its first rows. */
#include <math.h>

#include "wafer/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cerium_error err;
    published_rows r;
    const wafer_style style = wafer_style_sdk();
    if (!rows_parse(&r, (view){(const char *)data, size}, "rows", &err)) {
        for (uint32_t i = 0; i < r.n_rows && i < 4; i++) {
            const validated_row v = validate_row(&r.rows[i], &style);
            CHECK(!v.is_modelled || (v.predicted > 0 && isfinite(v.predicted)));
        }
        rows_close(&r);
    }
    CHECK(memory_live() == 0);
    return 0;
}
