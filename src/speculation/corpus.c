/* corpus.c - the block of bytes, written and checked. */
#include "speculation/corpus.h"

static const char magic[8] = "CeriumW1";

typedef struct {
    char magic[8];
    uint64_t vocabulary, state, checksum;
    uint32_t n_files, n_tokens;
} corpus_head;

_Static_assert(sizeof(corpus_head) % sizeof(uint64_t) == 0, "files follow it");
_Static_assert(sizeof(corpus_file) == 40, "no padding is in the file");

static size_t tokens_at(uint32_t n_files)
{
    return sizeof(corpus_head) + (size_t)n_files * sizeof(corpus_file);
}

static size_t index_at(uint32_t n_files, uint32_t n_tokens)
{
    return tokens_at(n_files) + (size_t)n_tokens * sizeof(int32_t);
}

size_t corpus_bytes(uint32_t n_files, uint32_t n_tokens)
{
    return index_at(n_files, n_tokens) + ngrams_bytes_large(n_tokens);
}

static void lay_out(corpus *c, char *memory, uint32_t n_files, uint32_t n_tokens)
{
    *c = (corpus){.files = (corpus_file *)(memory + sizeof(corpus_head)),
                  .tokens = (int32_t *)(memory + tokens_at(n_files)),
                  .n_files = n_files,
                  .n_tokens = n_tokens};
}

void corpus_open(corpus *c, void *memory, uint32_t n_files, uint32_t n_tokens)
{
    CHECK(n_files <= WORKSPACE_FILES_MAX && n_tokens <= WORKSPACE_TOKENS_MAX);
    lay_out(c, memory, n_files, n_tokens);
    ngrams_open_large(&c->index, (char *)memory + index_at(n_files, n_tokens), n_tokens);
}

static uint64_t checksum_of(const corpus_head *head, const char *memory)
{
    corpus_head plain = *head;
    plain.checksum = 0;
    return hash_bytes(memory + sizeof *head,
                      corpus_bytes(head->n_files, head->n_tokens) - sizeof *head,
                      hash_bytes(&plain, sizeof plain, 0));
}

void corpus_seal(corpus *c, void *memory, uint64_t vocabulary)
{
    corpus_head head = {.vocabulary = vocabulary,
                        .state = c->state,
                        .n_files = c->n_files,
                        .n_tokens = c->n_tokens};
    memcpy(head.magic, magic, sizeof magic);
    ngrams_grow(&c->index, c->tokens, c->n_tokens);
    head.checksum = checksum_of(&head, memory);
    memcpy(memory, &head, sizeof head);
}

static bool is_sound(const corpus *c, uint32_t n_vocab)
{
    uint64_t next = 0;
    uint32_t bad = 0;
    for (uint32_t i = 0; i < c->n_files; i++) {
        if (c->files[i].first != next) return false;
        next += c->files[i].n;
    }
    if (next != c->n_tokens) return false;
    for (uint32_t i = 0; i < c->n_tokens; i++) bad |= (uint32_t)c->tokens[i] >= n_vocab;
    return !bad && ngrams_is_sound(&c->index);
}

const char *corpus_read(corpus *c, view bytes, uint64_t vocabulary, uint32_t n_vocab)
{
    corpus_head head;
    if (bytes.len < sizeof head) return "cut short";
    memcpy(&head, bytes.ptr, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic)) return "not an index of a workspace";
    if (head.vocabulary != vocabulary) return "made for another model or version";
    if (head.n_files > WORKSPACE_FILES_MAX || head.n_tokens > WORKSPACE_TOKENS_MAX ||
        bytes.len != corpus_bytes(head.n_files, head.n_tokens) ||
        head.checksum != checksum_of(&head, bytes.ptr))
        return "damaged";
    lay_out(c, (char *)(uintptr_t)bytes.ptr, head.n_files, head.n_tokens);
    c->state = head.state;
    ngrams_attach_large(&c->index, bytes.ptr + index_at(head.n_files, head.n_tokens),
                        head.n_tokens);
    return is_sound(c, n_vocab) ? NULL : "damaged";
}
