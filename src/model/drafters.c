/* drafters.c - what files of drafters that were made for one model have in common: layers of it
 * that they read, a list of its tokens that they say, and its tables, where the file lacks its
 * own. */
#include "model/build.h"

bool model_is_drafter(const gguf_file *file)
{
    view name;
    return gguf_get_string(file, "general.architecture", &name) &&
           (view_equal(name, VIEW("eagle3")) || view_equal(name, VIEW("dflash")));
}

/* Is it a tensor of that block? */
static bool is_of_layer(const model_matrix *w, uint32_t layer)
{
    char begin[32];
    const int len = snprintf(begin, sizeof begin, "blk.%u.", layer);
    return w && view_starts(w->source->name, (view){begin, (size_t)len});
}

uint32_t model_layer_begins(const step_program *p, uint32_t layer)
{
    for (uint32_t i = 0; i + 1 < p->n_ops; i++)
        for (int k = 0; k < STEP_MATRICES_MAX; k++)
            if (is_of_layer(p->ops[i].w[k], layer)) return i;
    return p->n_ops - 1;
}

void build_taps(builder *b, const char *name, uint32_t least, uint32_t most)
{
    const step_program *of = b->options->of;
    char key[96];
    if (b->status) return;
    CHECK(of && most <= MODEL_TAPS_MAX);
    snprintf(key, sizeof key, "%s.%s", b->arch, name);
    const gguf_value *list = gguf_find(b->file, key);
    if (!list || list->type != GGUF_ARRAY || list->n_items < least || list->n_items > most ||
        list->item_type == GGUF_STRING || list->item_type == GGUF_ARRAY) {
        build_fail(b, "key %s.target_layers must have the numbers of %s%u layers", b->arch,
                   least < most ? "at most " : "", most);
        return;
    }
    b->program.shape.n_taps = (uint32_t)list->n_items;
    b->program.shape.n_tapped = of->shape.n_embd;
    for (uint32_t i = 0; i < list->n_items && !b->status; i++) {
        const int64_t layer = gguf_item_i64(list, i);
        if (layer < 0 || layer > of->shape.n_layers || (i > 0 && layer <= b->taps[i - 1]))
            build_fail(b, "key %s.target_layers: layer %lld: they must ascend, and the model has "
                       "%u", b->arch, (long long)layer, of->shape.n_layers);
        else
            b->taps[i] = (uint32_t)layer;
    }
}

/* Tokens of the model, each once. */
static void read_said(builder *b, const gguf_tensor *t, uint32_t n_model)
{
    const uint32_t n = (uint32_t)t->dims[0];
    int32_t *said = arena_take(&b->vectors, n * sizeof *said, MEMORY_ALIGN);
    uint64_t *seen = memory_zalloc(n_model / 64 + 1, sizeof *seen);
    if (!said || !seen) {
        b->status = error_set(b->err, CERIUM_ERR_MEMORY, "%s: no memory for the weights",
                              gguf_path(b->file));
    }
    for (uint32_t i = 0; i < n && !b->status; i++) {
        int64_t token;
        memcpy(&token, (const uint8_t *)t->data + i * sizeof token, sizeof token);
        if (token < 0 || token >= n_model)
            build_fail(b, "tensor d2t: token %lld, and the model has %u", (long long)token,
                       n_model);
        else if (seen[token / 64] >> token % 64 & 1)
            build_fail(b, "tensor d2t has token %lld twice", (long long)token);
        else
            seen[token / 64] |= UINT64_C(1) << token % 64;
        said[i] = b->status ? 0 : (int32_t)token;
    }
    memory_free(seen);
    b->said = said;
}

void build_said(builder *b, uint32_t n_model)
{
    const gguf_tensor *t = gguf_find_tensor(b->file, "d2t");
    if (b->status) return;
    b->program.shape.n_vocab = n_model;
    if (!t) return;
    if (t->type != BLOCK_I64 || t->n_dims != 1 || t->dims[0] > n_model)
        build_fail(b, "tensor d2t must have at most one I64 for each of the model's %u tokens",
                   n_model);
    else
        read_said(b, t, n_model);
    b->program.shape.n_vocab = (uint32_t)t->dims[0];
}

const model_matrix *build_table_of(builder *b, const char *name, uint32_t rows,
                                   const model_matrix *of_model)
{
    const uint32_t n = b->program.shape.n_embd;
    if (b->status || build_has(b, name, 0)) return build_matrix(b, name, 0, rows, n);
    if (of_model->rows == rows && of_model->cols == n) return of_model;
    build_fail(b, "tensor %s is missing, and the model's has %u rows of %u values, not %u of %u",
               name, of_model->rows, of_model->cols, rows, n);
    return NULL;
}

step_op *build_head_of(builder *b, const step_op *of_model)
{
    const step_shape *s = &b->program.shape;
    step_op *op = build_op(b, STEP_HEAD);
    op->norm = build_vector(b, "output_norm.weight", 0, s->n_embd);
    op->w[0] = build_table_of(b, "output.weight", s->n_vocab, of_model->w[0]);
    if (op->w[0] == of_model->w[0]) op->screen = of_model->screen;
    else build_head_options(b, op, false);
    return op;
}
