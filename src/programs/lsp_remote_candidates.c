/* lsp_remote_candidates.c - several texts for one place, by the server of `cerium lsp --server`:
 * one request, whose answer has them all.  A server that does not know it gives one. */
#include "programs/lsp_remote_parts.h"

#include <math.h>

#include "base/limits.h"

uint32_t lsp_remote_rows(uint32_t n_candidates)
{
    const uint32_t n = 2 * n_candidates - 1; /* some repeat another one */
    return n < PROTOCOL_CANDIDATES_MAX ? n : PROTOCOL_CANDIDATES_MAX;
}

void lsp_remote_ask_candidates(const transfer_slot *t, json_t *request)
{
    if (!request || !t->n_candidates) return;
    json_object_set_new(request, "candidates", json_integer((json_int_t)t->n_candidates));
    if (!t->is_line) json_object_del(request, "stop");
}

void lsp_remote_candidates_done(transfer_slot *t, lsp_server *s, view first, bool is_cut,
                                const json_t *answer)
{
    const json_t *list = json_object_get(answer, "candidates"), *one;
    const uint64_t serial = t->serial;
    lsp_candidate all[PROTOCOL_CANDIDATES_MAX];
    lsp_piece pieces[PROTOCOL_CANDIDATES_MAX];
    size_t n = 0, i;
    if (first.len) {
        pieces[n] = (lsp_piece){(uint32_t)first.len, 0};
        all[n] = (lsp_candidate){first, &pieces[n], 1, is_cut};
        n++;
    }
    json_array_foreach(list, i, one) {
        const json_t *text = json_object_get(one, "text");
        const double sure = json_number_value(json_object_get(one, "confidence"));
        if (n == ARRAY_LEN(all)) break;
        if (!json_string_length(text)) continue;
        pieces[n] = (lsp_piece){(uint32_t)json_string_length(text),
                                sure > 0 && sure < 1 ? (float)log(sure) : 0};
        all[n] = (lsp_candidate){{json_string_value(text), json_string_length(text)}, &pieces[n],
                                 1, json_is_true(json_object_get(one, "cut"))};
        n++;
    }
    t->serial = 0;
    if (serial) lsp_server_candidates(s, t->document, serial, all, n, clock_ns());
}
