/* embedding_request.c - requests for vectors of texts: OpenAI's /v1/embeddings, Ollama's /api/embed
 * and its older /api/embeddings. */
#include "protocol/parse.h"

/* The number of dimensions: a model file does not say that a shorter vector is meaningful. */
static int dimensions_parse(parser *p)
{
    const place at = {NULL, "dimensions", 0};
    int64_t n = p->defaults->n_embedding;
    RETURN_IF(field_integer(p, NULL, p->root, at.key, 1, INT32_MAX, &n));
    if (n == p->defaults->n_embedding) return CERIUM_OK;
    return parse_fail(p, &at, "invalid_value",
                      "Invalid 'dimensions': this model's embeddings have %u.",
                      p->defaults->n_embedding);
}

static int encoding_parse(parser *p)
{
    const char *format = "float";
    const place at = {NULL, "encoding_format", 0};
    RETURN_IF(field_string(p, NULL, p->root, at.key, &format));
    p->r->as_base64 = !strcmp(format, "base64");
    if (p->r->as_base64 || !strcmp(format, "float")) return CERIUM_OK;
    return parse_fail_value(p, &at, format, "'float' and 'base64'");
}

int embeddings_parse(parser *p)
{
    protocol_request *r = p->r;
    const bool is_old = r->api == PROTOCOL_OLLAMA_EMBED && !json_object_get(p->root, "input");
    if (!p->defaults->n_embedding)
        return protocol_error_set(p->error, 501, "not_supported_error", "embeddings_not_served", "",
                                  "this model makes no embeddings: ask a server that runs an "
                                  "embedding model, whose file names a pooling_type");
    RETURN_IF(prompts_parse(p, is_old ? "prompt" : "input", PROTOCOL_EMBEDDED_MAX));
    RETURN_IF(dimensions_parse(p));
    RETURN_IF(encoding_parse(p));
    r->truncate = r->api == PROTOCOL_OLLAMA_EMBED;
    if (r->truncate) RETURN_IF(field_bool(p, NULL, p->root, "truncate", &r->truncate));
    r->embeds = r->whole_tokens = true;
    r->stream = r->warm_up = false;
    r->new_tokens_max = 0;
    r->sampling.logprobs = false;
    r->sampling.n_stops = 0;
    if (!r->service_tier) r->class_ = CERIUM_CLASS_BATCH;
    return CERIUM_OK;
}
