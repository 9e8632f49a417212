/* fuzz_machine.c - descriptions of machines, and of models by name. */
#include "base/memory.h"
#include "wafer/machines.h"
#include "wafer/shapes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    view text = {(const char *)data, size};
    cerium_error err;
    wafer_machine m;
    shape_facts f;
    int status = machine_parse(&m, text, "machine", &err);
    if (!status) {
        CHECK(m.is_gpu || (m.mesh.width <= m.mesh.grid_width && m.mesh.simd_fp16));
        machine_close(&m);
    } else {
        CHECK(!strchr(err.message, '\n'));
    }
    if (!shape_parse_known(&f, text, "models", "llama", &err))
        CHECK(f.n_layers && f.n_heads && f.n_experts_used <= f.n_experts);
    CHECK(memory_live() == 0);
    return 0;
}
