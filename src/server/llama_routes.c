/* llama_routes.c - the information routes of llama.cpp's server, and tokens back to text. */
#include "server/llama_routes.h"

#include "base/json.h"
#include "protocol/json_out.h"
#include "server/http.h"
#include "server/model_list.h"

/* Clients send these values back, so a field without a limit is 1, as in llama.cpp. */
static json_t *sampling(const served_model *m)
{
    const cerium_sampling *d = &m->defaults.sampling;
    return json_pack("{s:f, s:i, s:f, s:f, s:f, s:f, s:f, s:i}", "temperature",
                     (double)d->temperature, "top_k", (int)d->top_k, "top_p",
                     d->top_p > 0 ? (double)d->top_p : 1, "min_p", (double)d->min_p,
                     "repeat_penalty",
                     d->repetition_penalty > 0 ? (double)d->repetition_penalty : 1,
                     "presence_penalty", (double)d->presence_penalty, "frequency_penalty",
                     (double)d->frequency_penalty, "n_predict", -1);
}

/* ?model=NAME, else the first that completes; NULL: an error was answered. */
static served_model *asked_for(connection *c)
{
    char name[SERVER_ID_BYTES];
    protocol_error e;
    http_argument(c, "model", name, sizeof name);
    served_model *m = models_choose(c->s, name, MODEL_COMPLETES);
    if (m) return m;
    (void)models_unknown(c->s, name, &e);
    http_error(c, &e);
    return NULL;
}

void llama_props(connection *c)
{
    const server *s = c->s;
    const served_model *m = asked_for(c);
    if (!m) return;
    json_t *settings = json_pack("{s:i, s:o}", "n_ctx", (int)m->info.context_tokens_max, "params",
                                 sampling(m));
    http_json(c, 200,
              json_pack("{s:o, s:i, s:s, s:s, s:{s:b, s:b}, s:{s:b, s:b}, s:s, s:b}",
                        "default_generation_settings", settings, "total_slots",
                        (int)s->config.running_max, "model_path", m->info.name, "chat_template",
                        "", "chat_template_caps", "supports_tools", m->listed.chats,
                        "supports_parallel_tool_calls", m->listed.chats, "modalities", "vision", 0,
                        "audio", 0, "build_info", cerium_version(), "is_sleeping",
                        m->engine == NULL));
}

/* Shows which slots run, never their text. */
void llama_slots(connection *c)
{
    const server *s = c->s;
    const served_model *m = asked_for(c);
    if (!m) return;
    json_t *list = json_array();
    char wanted[8];
    protocol_error e;
    uint32_t n = 0;
    http_argument(c, "fail_on_no_slot", wanted, sizeof wanted);
    if (wanted[0] && wanted[0] != '0' && s->n_running >= s->config.running_max) {
        json_decref(list);
        (void)protocol_error_set(&e, 503, "server_error", "no_slot", "", "no slot available");
        http_error(c, &e);
        return;
    }
    for (; n < s->config.running_max && n < SERVER_RUNNING_MAX; n++)
        json_array_append_new(list, json_pack("{s:i, s:i, s:b}", "id", (int)n, "n_ctx",
                                              (int)m->info.context_tokens_max, "is_processing",
                                              n < s->n_running));
    http_json(c, 200, list);
}

/* The text of tokens; bytes that are not UTF-8 are replaced. */
static int write_text(const served_model *m, const json_t *tokens, bytes *out, protocol_error *e)
{
    bytes all = {.max = SERVER_OUT_BYTES_MAX / 8};
    json_out t = {.b = {.max = SERVER_OUT_BYTES_MAX / 2}};
    int status = CERIUM_OK;
    for (size_t i = 0; i < json_array_size(tokens) && !status; i++) {
        const json_t *one = json_array_get(tokens, i);
        json_int_t id = json_integer_value(one);
        size_t len = 0;
        if (!json_is_integer(one) || id < 0 || id >= m->info.n_vocab) {
            bytes_free(&all);
            return protocol_error_set(e, 400, "invalid_request_error", "invalid_value", "tokens",
                                      "tokens[%zu] is not a token of the vocabulary", i);
        }
        const char *text = cerium_token_bytes(m->vocab, (int32_t)id, &len);
        if (text) status = bytes_append(&all, text, len);
    }
    bytes repaired = {.max = SERVER_OUT_BYTES_MAX / 2};
    if (!status) status = utf8_repair(&repaired, (view){all.ptr ? all.ptr : "", all.len});
    json_out_literal(&t, "{\"content\":");
    if (!status) json_out_quoted(&t, (view){repaired.ptr ? repaired.ptr : "", repaired.len});
    json_out_literal(&t, "}");
    if (!status) status = t.status;
    bytes_free(&all);
    bytes_free(&repaired);
    *out = t.b;
    return status ? protocol_error_memory(e) : CERIUM_OK;
}

void llama_detokenize(connection *c)
{
    json_t *root = http_body_object(c, SERVER_SMALL_BYTES_MAX);
    if (!root) return;
    const json_t *tokens = json_object_get(root, "tokens");
    const char *name = json_string_value(json_object_get(root, "model"));
    const served_model *m = models_choose(c->s, name, MODEL_TALKS);
    bytes out = {.max = 0};
    protocol_error e;
    int status = !m                      ? models_unknown(c->s, name, &e)
                 : json_is_array(tokens) ? write_text(m, tokens, &out, &e)
                     : protocol_error_set(&e, 400, "invalid_request_error", "invalid_value",
                                          "tokens", "tokens is an array and has to be there");
    json_decref(root);
    if (status)
        http_error(c, &e);
    else
        http_answer(c, &(http_head){.status = 200}, (view){out.ptr, out.len});
    bytes_free(&out);
}
