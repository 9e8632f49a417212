/* chat_hermes.c - owns tools in the form of Hermes and Qwen, JSON between tags; forms without their
 * own tools use it too, as text. */
#include "tokenizer/chat_forms.h"

void chat_hermes_tools(const talk *k)
{
    prompt_scaffold(k->p, "# Tools\n\nYou may call one or more functions to assist with the user "
                          "query.\n\nYou are provided with function signatures within "
                          "<tools></tools> XML tags:\n<tools>");
    for (size_t i = 0; i < k->n_tools; i++) {
        prompt_scaffold(k->p, "\n");
        chat_json(k->p, k->tools[i].spec, 0);
    }
    prompt_scaffold(k->p, "\n</tools>\n\nFor each function call, return a json object with "
                          "function name and arguments within <tool_call></tool_call> XML tags:\n"
                          "<tool_call>\n{\"name\": <function-name>, \"arguments\": "
                          "<args-json-object>}\n</tool_call>");
}

void chat_hermes_call(const talk *k, const piece *call)
{
    prompt_scaffold(k->p, "<tool_call>\n{\"name\": \"");
    prompt_text(k->p, call->name);
    prompt_scaffold(k->p, "\", \"arguments\": ");
    chat_arguments(k, call);
    prompt_scaffold(k->p, "}\n</tool_call>");
}
