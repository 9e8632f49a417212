/* session_image.c - saves sessions to memory and loads them.
 *
 * An image is a head, the timeline's tokens, and the pages of its full blocks, or for models with
 * recurrent layers those up to a state, and the state (cache/page_image.c); a load computes the
 * rest.  Numbers are little-endian:
 *    0  "ceriumss", u64 hash of all that follows
 *   16  u32 version, u32 n_tokens, u32 n_blocks, u32 tokens of the last block; 0: it is full
 *   32  u64 model: what the pages are computed from, u64 numbers: how, and how they lie
 *   48  i32 tokens [n_tokens], pages */
#include "base/hash.h"
#include "base/memory.h"
#include "engine/engine.h"

enum { IMAGE_VERSION = 1, AT_HASHED = 16 };

typedef struct {
    char magic[8];
    uint64_t hash;
    uint32_t version, n_tokens, n_blocks, n_last;
    uint64_t model, numbers;
} image_head;
_Static_assert(sizeof(image_head) == 48 && offsetof(image_head, version) == AT_HASHED, "no holes");

static const char magic[] = "ceriumss";

/* Tokens whose pages are in the image. */
static uint32_t pages_of(const image_head *head)
{
    return head->n_blocks * KERNEL_PAGE - (head->n_last ? KERNEL_PAGE - head->n_last : 0);
}

static image_head head_of(const cerium_engine *e, uint32_t n_tokens, uint32_t n_blocks)
{
    image_head head = {.version = IMAGE_VERSION,
                       .n_tokens = n_tokens,
                       .n_blocks = n_blocks,
                       .model = gguf_fingerprint(e->file)};
    head.numbers = hash_bytes(CERIUM_VERSION, strlen(CERIUM_VERSION),
                              hash_u64(e->exact, kv_pool_image_key(e->pool)));
    memcpy(head.magic, magic, sizeof head.magic);
    return head;
}

static uint64_t image_bytes(const cerium_engine *e, const image_head *head)
{
    return sizeof *head + (uint64_t)head->n_tokens * sizeof(int32_t) +
           kv_pool_image_bytes(e->pool, pages_of(head));
}

/* ---- saving ---- */

static int save(cerium_session *s, uint8_t *image, size_t cap, size_t *len, cerium_error *err)
{
    cerium_engine *e = s->engine;
    image_head head;
    uint64_t n;
    do {
        /* With states the last token is computed for its logits once only. */
        uint32_t most = e->has_states ? s->n_tokens - 1 : s->n_tokens;
        most = kv_sequence_image_tokens(s->pages.sequence, most);
        head = head_of(e, s->n_tokens, (most + KERNEL_PAGE - 1) / KERNEL_PAGE);
        head.n_last = most % KERNEL_PAGE;
        n = image_bytes(e, &head);
        if (n > cap) {
            *len = (size_t)n;
            return error_set(err, CERIUM_ERR_CAPACITY, "an image of %zu bytes: it has %llu", cap,
                             (unsigned long long)n);
        }
    } while (!kv_sequence_save(s->pages.sequence, pages_of(&head),
                               image + sizeof head + s->n_tokens * sizeof *s->tokens));
    memcpy(image + sizeof head, s->tokens, s->n_tokens * sizeof *s->tokens);
    memcpy(image, &head, sizeof head);
    head.hash = hash_bytes(image + AT_HASHED, n - AT_HASHED, 0);
    memcpy(image, &head, sizeof head);
    *len = (size_t)n;
    return CERIUM_OK;
}

int cerium_session_save(cerium_session *s, void *image, size_t image_cap, size_t *image_len,
                        cerium_error *err)
{
    if (!s || !image_len || (!image && image_cap))
        return error_set(err, CERIUM_ERR_ARGUMENT, "no session or image");
    if (s->n_tokens == 0 || s->is_private)
        return error_set(err, CERIUM_ERR_ARGUMENT, "nothing to save: %s",
                         s->n_tokens ? "a note is in the timeline" : "sync a prompt first");
    RETURN_IF(session_begin_call(s, err));
    thread_turn_take(&s->engine->pass); /* held by the sequence: not evicted meanwhile */
    int status = save(s, image, image_cap, image_len, err);
    thread_turn_give(&s->engine->pass);
    return session_end_call(s, status);
}

/* ---- loading ---- */

/* Is it an image that this engine can load? */
static int check(const cerium_engine *e, const uint8_t *image, size_t len, image_head *head,
                 cerium_error *err)
{
    const int bad = CERIUM_ERR_FORMAT;
    if (len < sizeof *head) return error_set(err, bad, "no image of a session: %zu bytes", len);
    memcpy(head, image, sizeof *head);
    const image_head want = head_of(e, head->n_tokens, head->n_blocks);
    if (memcmp(head->magic, want.magic, sizeof head->magic))
        return error_set(err, bad, "no image of a session");
    if (head->version != want.version)
        return error_set(err, bad, "an image of version %u: this library knows %u", head->version,
                         want.version);
    if (head->hash != hash_bytes(image + AT_HASHED, len - AT_HASHED, 0))
        return error_set(err, bad, "the image is damaged or cut short");
    if (head->model != want.model)
        return error_set(err, bad, "the image is of another model: compute it with this one");
    if (head->numbers != want.numbers)
        return error_set(err, bad,
                         "the image is of another version of cerium, or another type of KV");
    const bool is_cut = head->n_last != 0; /* within a block: where a state is */
    if (head->n_tokens > len / sizeof(int32_t) || head->n_last >= KERNEL_PAGE ||
        (is_cut && (!e->has_states || head->n_blocks == 0)) ||
        head->n_blocks > (head->n_tokens + (is_cut ? KERNEL_PAGE - 1 : 0)) / KERNEL_PAGE ||
        pages_of(head) > head->n_tokens || image_bytes(e, head) != len)
        return error_set(err, bad, "an image of %u tokens and %zu bytes", head->n_tokens, len);
    return CERIUM_OK;
}

static int load(cerium_session *s, const image_head *head, const uint8_t *image,
                const int32_t *tokens, cerium_error *err)
{
    RETURN_IF(answer_check_tokens(s, tokens, head->n_tokens, err));
    RETURN_IF(session_begin_call(s, err));
    thread_turn_take(&s->engine->pass);
    kv_sequence_hide(s->pages.sequence, 0);
    s->n_computed = kv_sequence_load(s->pages.sequence, tokens, pages_of(head),
                                     image + head->n_tokens * sizeof *tokens);
    session_replace(s, tokens, head->n_tokens);
    s->has_logits = false;
    thread_turn_give(&s->engine->pass);
    return session_end_call(s, CERIUM_OK);
}

int cerium_session_load(cerium_session *s, const void *image, size_t image_len,
                        cerium_sync_result *result, cerium_error *err)
{
    image_head head;
    if (!s || !image) return error_set(err, CERIUM_ERR_ARGUMENT, "no session or image");
    RETURN_IF(check(s->engine, image, image_len, &head, err));
    const uint8_t *body = (const uint8_t *)image + sizeof head;
    int32_t *tokens = memory_copy(body, head.n_tokens * sizeof *tokens);
    if (!tokens) return error_set(err, CERIUM_ERR_MEMORY, "no memory to load a session");
    int status = load(s, &head, body, tokens, err);
    if (!status) status = cerium_session_sync(s, tokens, head.n_tokens, result, err);
    memory_free(tokens);
    return status;
}
