/* fuzz_jinja.c - any template is compiled or refused with a line, and rendered or refused with one,
 * within its bounds; the output is divided into pieces that know their origin. */
#include "template/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char context[] =
    "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\","
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"string\"}}}}}],"
    "\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\","
    "\"content\": \"x\"}, {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\":"
    "[{\"id\": \"1\", \"function\": {\"name\": \"f\", \"arguments\": {\"a\": \"b\"}}}]},"
    "{\"role\": \"tool\", \"content\": \"r\"}]}";

static void render(const jinja_template *t, const json_t *variables)
{
    jinja_run *run = NULL;
    jinja_output out;
    jinja_error err;
    const char *name;
    json_t *value;
    CHECK(!jinja_open(&run, t));
    json_object_foreach((json_t *)(uintptr_t)variables, name, value)
        jinja_set(run, name, jinja_of_json(run, value, JINJA_MESSAGE));
    jinja_set(run, "add_generation_prompt", jinja_bool(true));
    jinja_set(run, "bos_token", jinja_text(VIEW("<s>"), JINJA_TEMPLATE));
    int status = jinja_render(run, &out, &err);
    CHECK(!status || (status == CERIUM_ERR_FORMAT && err.line > 0));
    size_t from = 0;
    for (size_t i = 0; !status && i < out.n_pieces; from = out.pieces[i++].end)
        CHECK(out.pieces[i].end > from && out.pieces[i].end <= out.text.len);
    CHECK(status || from == out.text.len);
    jinja_close(&run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    jinja_template *t = NULL;
    jinja_error err;
    json_t *variables = json_loads(context, 0, NULL);
    CHECK(variables);
    int status = jinja_compile(&t, (view){(const char *)data, size}, &err);
    CHECK(!status || status == CERIUM_ERR_FORMAT);
    CHECK(!status || err.line > 0 || size > JINJA_SOURCE_BYTES_MAX);
    if (!status) render(t, variables);
    jinja_free(&t);
    json_decref(variables);
    return 0;
}
