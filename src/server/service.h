/* service.h - the handlers of POST routes that sample, and of routes about the server. */
#ifndef SERVER_SERVICE_H
#define SERVER_SERVICE_H

#include "server/state.h"

void service_responses(connection *c);
void service_compact(connection *c);
void service_chat(connection *c);
void service_completions(connection *c);
void service_edits(connection *c);
void service_infill(connection *c);
void service_completion(connection *c);
void service_embeddings(connection *c);
void service_ollama_embed(connection *c);
void service_messages(connection *c);
void service_ollama_chat(connection *c);
void service_ollama_generate(connection *c);
void service_responses_count(connection *c);
void service_chat_count(connection *c);
void service_messages_count(connection *c);
void service_chat_render(connection *c);
void service_completions_render(connection *c);
void service_apply_template(connection *c);
void service_hello(connection *c); /* 200, for clients that check for a server */
void service_tokenize(connection *c);
void service_health(connection *c);
void service_live(connection *c);
void service_ready(connection *c);
void service_metrics(connection *c);
void service_page(connection *c);

#endif
