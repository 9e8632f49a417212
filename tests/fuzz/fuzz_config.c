/* fuzz_config.c - a config.json, and the model that is lowered from it. */
#include "base/memory.h"
#include "wafer/shapes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cerium_error err;
    shape_facts f;
    wafer_model m;
    if (shape_parse_config(&f, (view){(const char *)data, size}, "config", &err)) {
        CHECK(!strchr(err.message, '\n'));
    } else if (!wafer_model_of(&m, &f, "config", &err)) {
        CHECK(m.program->n_ops >= 4 && m.program->shape.n_layers == f.n_layers);
        wafer_model_close(&m);
    }
    CHECK(memory_live() == 0);
    return 0;
}
