/* qwen_vl.c - the decoders of Qwen2.5-VL and Qwen3-VL, which are Qwen2's and Qwen3's, dense and
 * with experts.  Pictures, which are in a file of their own, are not read. */
#include "model/build.h"

/* Text has one position: all sections of the rotation use it, except a fourth, which files of other
 * models have. */
void build_sections(builder *b)
{
    char key[96];
    snprintf(key, sizeof key, "%s.rope.dimension_sections", b->arch);
    const gguf_value *sections = gguf_find(b->file, key);
    if (b->status || !sections) return;
    int64_t sum = 0;
    bool is_array = sections->type == GGUF_ARRAY && sections->item_type != GGUF_STRING &&
                    sections->item_type != GGUF_ARRAY && sections->n_items <= 4;
    for (uint64_t i = 0; is_array && i < sections->n_items && i < 3; i++)
        sum += gguf_item_i64(sections, i);
    if (!is_array || sum != b->program.shape.ropes[0].n_rot / 2 ||
        (sections->n_items > 3 && gguf_item_i64(sections, 3) != 0))
        build_fail(b, "key %s: these sections are not supported", key);
}

void build_qwen2vl(builder *b)
{
    build_qwen2(b);
    build_sections(b);
}

void build_qwen3vl(builder *b)
{
    build_qwen3(b);
    build_sections(b);
}

void build_qwen3vlmoe(builder *b)
{
    build_qwen3moe(b);
    build_sections(b);
}
