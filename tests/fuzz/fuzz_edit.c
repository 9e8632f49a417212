/* fuzz_edit.c - answers to "edit this file": up to the first NUL the file, then the answer.
 * No reads past the end, and the edited file differs where a diff says. */
#include "protocol/diff.h"
#include "protocol/edit_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_diff(view a, view b)
{
    diff d;
    cerium_error err;
    CHECK(diff_open(&d, a, b, false, &err) == 0);
    uint32_t at = 0;
    for (uint32_t i = 0; i < d.n_changes; i++) {
        CHECK(d.changes[i].a >= at && (d.changes[i].n_a || d.changes[i].n_b));
        at = d.changes[i].a + d.changes[i].n_a;
        CHECK(at <= d.n_lines[0] && d.changes[i].b + d.changes[i].n_b <= d.n_lines[1]);
    }
    CHECK(diff_hunks(&d) <= d.n_changes && (d.n_changes > 0) == !view_equal(a, b));
    diff_close(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *cut = size ? memchr(data, 0, size) : NULL;
    size_t n = cut ? (size_t)(cut - data) : 0, skip = cut ? n + 1 : 0;
    view file = {(const char *)data, n}, answer = {(const char *)data + skip, size - skip}, whole;
    char fault[EDIT_FAULT_MAX] = "";
    edit_blocks *blocks = memory_alloc(sizeof *blocks);
    bytes out = {.max = 1 << 20};
    CHECK(blocks);
    if (edit_blocks_read(answer, blocks, fault)) {
        CHECK(blocks->n >= 1 && blocks->n <= EDIT_BLOCKS_MAX);
        int status = edit_blocks_apply(blocks, file, &out, fault);
        CHECK(status == 0 || fault[0]);
        if (status == 0) check_diff(file, (view){out.ptr, out.len});
    } else {
        CHECK(fault[0]);
    }
    out.len = 0;
    if (edit_whole_read(answer, file, &whole, fault)) {
        CHECK(whole.ptr >= answer.ptr && whole.ptr + whole.len <= answer.ptr + answer.len);
        if (edit_whole_apply(whole, file, &out, fault) == 0)
            check_diff(file, (view){out.ptr, out.len});
    }
    check_diff(file, answer);
    bytes_free(&out);
    memory_free(blocks);
    return 0;
}
