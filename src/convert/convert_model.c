/* convert_model.c - the folder: its files, and their conversion to a GGUF file. */
#include <dirent.h>
#include <errno.h>
#include <unistd.h>

#include "base/memory.h"
#include "convert/convert_files.h"
#include "convert/convert_fp4.h"

enum { SLAB_BYTES = 4 << 20 };

typedef struct {
    const convert_options *o;
    view *files;        /* [n_files] of weights */
    safetensors *parts; /* [n_files] */
    size_t n_files;
    safetensors set;    /* all of them; names and bytes belong to the parts, or names */
    char *names;
    view config, tokenizer, tokenizer_config, chat, generation;
    convert_config facts;
    convert_vocabulary *vocabulary; /* NULL: of a drafter, whose model's is not at hand */
    convert_target target;
    convert_tensor *tensors;
    size_t n_tensors;
    gguf_writer *writer;
} conversion;

/* ---- files ---- */

static int is_weights(const struct dirent *entry)
{
    const char *name = entry->d_name;
    size_t len = strlen(name);
    return len > 12 && !strcmp(name + len - 12, ".safetensors") && !strncmp(name, "model", 5);
}

static int open_part(conversion *x, const char *name, cerium_error *err)
{
    char path[CONVERT_PATH_BYTES];
    view *m = &x->files[x->n_files];
    snprintf(path, sizeof path, "%s/%s", x->o->folder, name);
    RETURN_IF(convert_map_file(m, path, err));
    int status =
        safetensors_parse(&x->parts[x->n_files], *m, path, err);
    if (status) {
        convert_unmap(m);
        return status;
    }
    x->n_files++;
    return CERIUM_OK;
}

static int join_parts(conversion *x, cerium_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < x->n_files; i++) n += x->parts[i].n;
    x->set.tensors = memory_zalloc(n, sizeof *x->set.tensors);
    if (!x->set.tensors)
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a list of tensors");
    for (size_t i = 0; i < x->n_files; i++)
        for (size_t k = 0; k < x->parts[i].n; k++)
            x->set.tensors[x->set.n++] = x->parts[i].tensors[k];
    qsort(x->set.tensors, n, sizeof *x->set.tensors, safetensor_compare);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(x->set.tensors[i - 1].name, x->set.tensors[i].name))
            return error_set(err, CERIUM_ERR_FORMAT, "%s: tensor %s is there twice", x->o->folder,
                             x->set.tensors[i].name);
    return CERIUM_OK;
}

/* All of model-00001-of-00003.safetensors and the like: tensors of a missing file may be optional,
 * so the loss would go unnoticed. */
static int check_parts(const conversion *x, struct dirent **names, int n, cerium_error *err)
{
    char name[64];
    unsigned part, of = 0;
    if (!n || sscanf(names[0]->d_name, "model-%5u-of-%5u", &part, &of) < 2) return CERIUM_OK;
    for (unsigned i = 1, at = 0; i <= of; i++) {
        snprintf(name, sizeof name, "model-%05u-of-%05u.safetensors", i, of);
        if (at < (unsigned)n && !strcmp(names[at]->d_name, name)) at++;
        else
            return error_set(err, CERIUM_ERR_IO, "%s/%s: it is missing; fetch it", x->o->folder,
                             name);
    }
    return CERIUM_OK;
}

/* Older models are pickles, which only their own program can read. */
static int no_weights(const char *folder, cerium_error *err)
{
    static const char old[] = "pytorch_model.bin";
    char path[CONVERT_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, old);
    if (access(path, F_OK))
        return error_set(err, CERIUM_ERR_IO, "%s: no model*.safetensors in it", folder);
    return error_set(err, CERIUM_ERR_IO,
                     "%s: only Python reads a pickle; there, make safetensors of it: python3 -c "
                     "\"import torch, safetensors.torch as s; s.save_file({k: v.contiguous() for "
                     "k, v in torch.load('%s', weights_only=True).items()}, "
                     "'model.safetensors')\"", path, old);
}

/* model.safetensors, or model-00001-of-00003.safetensors and the like. */
static int open_weights(conversion *x, cerium_error *err)
{
    struct dirent **names = NULL;
    int n = scandir(x->o->folder, &names, is_weights, alphasort), status = CERIUM_OK;
    if (n < 0) return error_set(err, CERIUM_ERR_IO, "%s: %s", x->o->folder, strerror(errno));
    x->files = memory_zalloc((size_t)n + 1, sizeof *x->files);
    x->parts = memory_zalloc((size_t)n + 1, sizeof *x->parts);
    if (!x->files || !x->parts) status = error_set(err, CERIUM_ERR_MEMORY, "no memory for files");
    if (!status && n == 0) status = no_weights(x->o->folder, err);
    if (!status) status = check_parts(x, names, n, err);
    for (int i = 0; !status && i < n; i++) status = open_part(x, names[i]->d_name, err);
    for (int i = 0; i < n; i++) memory_release(names[i]);
    memory_release(names);
    return status ? status : join_parts(x, err);
}

/* ---- writing ---- */

static int write_tensor(conversion *x, const convert_tensor *t, cerium_error *err)
{
    size_t row_bytes = 0;
    const uint64_t n_rows = t->dims[1] * t->dims[2] * t->dims[3];
    CHECK(block_row_bytes(t->type, t->dims[0], &row_bytes));
    const uint64_t step = row_bytes < SLAB_BYTES ? SLAB_BYTES / row_bytes : 1;
    uint8_t *slab = memory_alloc((step < n_rows ? step : n_rows) * row_bytes);
    float *values = memory_zalloc(2 * t->dims[0], sizeof *values);
    int status = slab && values ? CERIUM_OK
                                : error_set(err, CERIUM_ERR_MEMORY, "no memory for rows");
    for (uint64_t first = 0; !status && first < n_rows; first += step) {
        uint64_t n = n_rows - first < step ? n_rows - first : step;
        status = convert_rows(t, &x->facts, &x->set, first, n, slab, values, err);
        /* gguf_writer_finish() reports any error. */
        if (!status && !gguf_write_data(x->writer, slab, n * row_bytes)) break;
    }
    memory_free(slab);
    memory_free(values);
    return status;
}

/* llama.cpp's number for "mostly of this type", for the types that occur here. */
static uint32_t file_type(const conversion *x)
{
    const convert_tensor *t = &x->tensors[0]; /* the embedding: a matrix in any case */
    for (size_t i = 0; i < x->n_tensors; i++)
        if (x->tensors[i].type == BLOCK_MXFP4) return 38;
    for (size_t i = 0; i < x->n_tensors; i++)
        if (x->tensors[i].type == BLOCK_NVFP4) return 39;
    switch (t->type) {
    case BLOCK_F32: return 0;
    case BLOCK_F16: return 1;
    case BLOCK_Q8_0: return 7;
    default: return 32; /* BF16 */
    }
}

static void say_left_out(const conversion *x)
{
    char line[320];
    const char *setting;
    for (size_t i = 0;
         x->vocabulary && (setting = convert_vocabulary_left_out(x->vocabulary, i)); i++)
        x->o->notice(setting);
    if (convert_is_drafter(&x->facts)) return; /* convert_plan_drafter() leaves nothing out */
    const convert_left_out out = convert_find_left_out(&x->facts, &x->set, x->tensors,
                                                       x->n_tensors);
    if (out.n_blocks) {
        snprintf(line, sizeof line, "without %u block%s for further tokens, which %s not run",
                 out.n_blocks, out.n_blocks > 1 ? "s" : "", out.n_blocks > 1 ? "are" : "is");
        x->o->notice(line);
    }
    if (!out.n_tensors) return;
    snprintf(line, sizeof line, "%zu tensor%s left out, no part of the text model: %.200s%s",
             out.n_tensors, out.n_tensors == 1 ? " is" : "s are", out.first,
             out.n_tensors > 1 ? ", ..." : "");
    x->o->notice(line);
}

static int write_all(conversion *x, cerium_error *err)
{
    view name = view_of(x->o->folder);
    while (name.len > 1 && name.ptr[name.len - 1] == '/') name.len--;
    for (size_t i = name.len; i > 0; i--) {
        if (name.ptr[i - 1] != '/') continue;
        name = (view){name.ptr + i, name.len - i};
        break;
    }
    RETURN_IF(gguf_writer_open(&x->writer, x->o->out, err));
    convert_config_write(&x->facts, name, x->writer);
    gguf_write_u32(x->writer, "general.file_type", file_type(x));
    gguf_write_u32(x->writer, "general.quantization_version", 2);
    if (x->vocabulary)
        convert_vocabulary_write(x->vocabulary, x->facts.bos, x->facts.eos,
                                 x->chat,
                                 x->facts.arch == CONVERT_GEMMA4 || x->target.is_gemma4,
                                 x->writer);
    convert_target_write(&x->target, x->writer);
    for (size_t i = 0; i < x->n_tensors; i++) {
        const convert_tensor *t = &x->tensors[i];
        gguf_write_tensor(x->writer, view_of(t->name), t->type, t->n_dims, t->dims);
    }
    for (size_t i = 0; i < x->n_tensors; i++) {
        if (x->o->progress) x->o->progress(i, x->n_tensors, x->tensors[i].name);
        RETURN_IF(write_tensor(x, &x->tensors[i], err));
    }
    return gguf_writer_finish(&x->writer, err);
}

static int read_vocabulary(conversion *x, const char *folder, cerium_error *err)
{
    RETURN_IF(convert_map_text(folder, &x->tokenizer, "tokenizer.json", false, err));
    RETURN_IF(convert_map_text(folder, &x->tokenizer_config, "tokenizer_config.json", true, err));
    if (!convert_is_drafter(&x->facts))
        RETURN_IF(convert_map_text(folder, &x->chat, "chat_template.jinja", true, err));
    return convert_vocabulary_parse(
        &x->vocabulary, x->tokenizer,
        x->tokenizer_config, x->o->pre, x->facts.n_vocab,
        err);
}

/* Its tokens are those of its model. */
static int plan_drafter(conversion *x, cerium_error *err)
{
    const char *of = x->o->target;
    char path[CONVERT_PATH_BYTES];
    if (of) RETURN_IF(convert_target_open(&x->target, of, err));
    RETURN_IF(convert_complete_drafter(&x->facts, &x->set, of ? &x->target : NULL, err));
    snprintf(path, sizeof path, "%s/tokenizer.json", of ? of : "");
    if (of && !access(path, F_OK)) RETURN_IF(read_vocabulary(x, of, err));
    return convert_plan_drafter(&x->tensors, &x->n_tensors, &x->facts, &x->set, x->o->type, err);
}

static int plan_model(conversion *x, cerium_error *err)
{
    if (x->o->target)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "%s: it is no drafter, so it is not --for another model", x->o->folder);
    RETURN_IF(convert_map_text(x->o->folder, &x->generation, "generation_config.json", true, err));
    RETURN_IF(convert_config_ends(&x->facts, x->generation, err));
    RETURN_IF(convert_find_fp4(&x->set, &x->names, err));
    convert_find_mtp(&x->facts, &x->set);
    RETURN_IF(read_vocabulary(x, x->o->folder, err));
    return convert_plan(&x->tensors, &x->n_tensors, &x->facts, &x->set, x->o->type, err);
}

static int run(conversion *x, cerium_error *err)
{
    RETURN_IF(convert_map_text(x->o->folder, &x->config, "config.json", false, err));
    RETURN_IF(open_weights(x, err)); /* before reading the files: is the folder complete? */
    RETURN_IF(convert_config_parse(&x->facts, x->config, err));
    RETURN_IF(convert_is_drafter(&x->facts) ? plan_drafter(x, err) : plan_model(x, err));
    if (x->o->notice) say_left_out(x);
    return write_all(x, err);
}

int convert_model(const convert_options *options, cerium_error *err)
{
    conversion x = {.o = options};
    int status = run(&x, err);
    gguf_writer_close(&x.writer);
    memory_free(x.tensors);
    memory_free(x.set.tensors);
    memory_free(x.names);
    convert_vocabulary_free(&x.vocabulary);
    convert_target_close(&x.target);
    for (size_t i = 0; i < x.n_files; i++) {
        safetensors_free(&x.parts[i]);
        convert_unmap(&x.files[i]);
    }
    memory_free(x.files);
    memory_free(x.parts);
    convert_unmap(&x.config);
    convert_unmap(&x.tokenizer);
    convert_unmap(&x.tokenizer_config);
    convert_unmap(&x.chat);
    convert_unmap(&x.generation);
    return status;
}
