/* mcp_server.c - messages of the Model Context Protocol: checks requests, writes answers. */
#include "programs/mcp_server.h"

#include "base/json.h"
#include "cerium.h"
#include "programs/output.h"

enum {
    PARSE_ERROR = -32700, INVALID_REQUEST = -32600, NO_METHOD = -32601, INVALID_PARAMS = -32602,
    INTERNAL_ERROR = -32603, NO_VERSION = -32022,
};

static const char *const versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
static const char MODERN[] = "2026-07-28";

#define META "io.modelcontextprotocol/"

static const char instructions[] =
    "solve tries many variants of a place in a file, tests each in a sandbox, and returns the diff "
    "of one that passes: use it for a line or a function that a test shows to be wrong. Nothing is "
    "written; apply the diff yourself. search finds where a name is defined and used.";

typedef struct {
    json_t *id;    /* NULL: the entry is free */
    json_t *token; /* for its progress, or NULL */
    bool is_modern;
} mcp_call;

struct mcp_server {
    mcp_host host;
    bool is_initialized;
    mcp_call calls[MCP_CALLS_MAX];
};

/* ---- tools ---- */

#define TEXT(about) "{\"type\": \"string\", \"description\": \"" about "\"}"
#define NUMBER(about) "{\"type\": \"integer\", \"minimum\": 1, \"description\": \"" about "\"}"

static const char tools[] =
    "[{\"name\": \"solve\", \"title\": \"Try many variants, return one that passes\","
    " \"description\": \"Tries many variants of a place in a file, runs the tests on each in a "
    "sandbox, and returns a unified diff of one that passes, or says that none does. Writes "
    "nothing. Give one kind of tests.\","
    " \"inputSchema\": {\"type\": \"object\", \"additionalProperties\": false,"
    " \"required\": [\"path\"], \"properties\": {"
    "\"path\": " TEXT("the file, from the workspace's folder") ","
    "\"line\": " NUMBER("write this line anew; without a place every line is a candidate") ","
    "\"last_line\": " NUMBER("and those up to this one") ","
    "\"column\": " NUMBER("insert something at this column of the line") ","
    "\"function\": " TEXT("write the body of this function anew") ","
    "\"test_file\": " TEXT("a file of tests: Python, JavaScript, C") ","
    "\"examples\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}, \"maxItems\": 64,"
    " \"description\": \"expressions that must be true, as f(2) == 3\"},"
    "\"doctest\": {\"type\": \"boolean\", \"description\": \"the file's own docstrings\"},"
    "\"pytest\": " TEXT("arguments of pytest") ","
    "\"command\": " TEXT("a command that is run in a copy of the folder; status 0 passes") ","
    "\"makers\": " TEXT("some of mutate,model,repair, with commas; all if not given") ","
    "\"variants\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 100000,"
    " \"description\": \"at most so many; 256 if not given\"},"
    "\"seed\": {\"type\": \"integer\", \"minimum\": 0}}},"
    " \"annotations\": {\"readOnlyHint\": true, \"openWorldHint\": false}},"
    "{\"name\": \"search\", \"title\": \"Where a name is defined and used\","
    " \"description\": \"Finds an identifier in the files of the workspace that git does not "
    "ignore: definitions first, then uses, each with the lines around it.\","
    " \"inputSchema\": {\"type\": \"object\", \"additionalProperties\": false,"
    " \"required\": [\"name\"], \"properties\": {"
    "\"name\": " TEXT("the identifier, whole") ","
    "\"limit\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 200,"
    " \"description\": \"places at most; 20 if not given\"}}},"
    " \"annotations\": {\"readOnlyHint\": true, \"openWorldHint\": false}},"
    "{\"name\": \"related\", \"title\": \"Code that is about the same\","
    " \"description\": \"Finds up to three pieces of code in the workspace that share the rare "
    "identifiers of a text and say more about them: where its names are defined, and lines like "
    "it. The text is code, or words; its last lines count most.\","
    " \"inputSchema\": {\"type\": \"object\", \"additionalProperties\": false,"
    " \"required\": [\"text\"], \"properties\": {"
    "\"text\": " TEXT("code or words") ","
    "\"path\": " TEXT("a file of which nothing is wanted: that of the text") "}},"
    " \"annotations\": {\"readOnlyHint\": true, \"openWorldHint\": false}}]";

static json_t *tools_json(void)
{
    json_t *all = json_loads(tools, 0, NULL);
    return all;
}

static bool is_of_type(const json_t *value, const json_t *schema)
{
    const char *type = json_string_value(json_object_get(schema, "type"));
    const json_t *low = json_object_get(schema, "minimum");
    const json_t *high = json_object_get(schema, "maximum"), *one;
    size_t i;
    if (!strcmp(type, "string"))
        return json_is_string(value) && json_string_length(value) &&
               strlen(json_string_value(value)) == json_string_length(value);
    if (!strcmp(type, "boolean")) return json_is_boolean(value);
    if (!strcmp(type, "integer"))
        return json_is_integer(value) &&
               (!low || json_integer_value(value) >= json_integer_value(low)) &&
               (!high || json_integer_value(value) <= json_integer_value(high));
    if (!json_is_array(value)) return false;
    if (json_array_size(value) > (size_t)json_integer_value(json_object_get(schema, "maxItems")))
        return false;
    json_array_foreach(value, i, one)
        if (!is_of_type(one, json_object_get(schema, "items"))) return false;
    return true;
}

/* Check the arguments; false: nothing is wrong, else why says what. */
static bool is_wrong(const json_t *tool, json_t *arguments, char why[200])
{
    const json_t *schema = json_object_get(tool, "inputSchema"), *required;
    const json_t *properties = json_object_get(schema, "properties");
    const char *key;
    json_t *value;
    size_t i;
    json_object_foreach(arguments, key, value) {
        const json_t *one = json_object_get(properties, key);
        if (one && is_of_type(value, one)) continue;
        snprintf(why, 200, one ? "%.80s: not of its type, or out of range"
                               : "%.80s: there is no such argument", key);
        return true;
    }
    json_array_foreach(json_object_get(schema, "required"), i, required) {
        if (json_object_get(arguments, json_string_value(required))) continue;
        snprintf(why, 200, "%s is missing", json_string_value(required));
        return true;
    }
    return false;
}

/* ---- out ---- */

/* Takes the message. */
static void send(mcp_server *s, json_t *message)
{
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    if (text) s->host.send(s->host.user, view_of(text));
    memory_release(text);
    json_decref(message);
}

/* data (or NULL) is taken. */
static void fail(mcp_server *s, json_t *id, int code, const char *why, json_t *data)
{
    json_t *error = json_pack("{s:i, s:s}", "code", code, "message", why);
    if (data && error) json_object_set_new(error, "data", data);
    else json_decref(data);
    send(s, json_pack("{s:s, s:o, s:o}", "jsonrpc", "2.0", "id",
                      id ? json_incref(id) : json_null(), "error", error));
}

static json_t *server_info(void)
{
    return json_pack("{s:s, s:s}", "name", "cerium", "version", cerium_version());
}

/* Takes the result. */
static void answer(mcp_server *s, json_t *id, json_t *result, bool is_modern)
{
    if (result && is_modern) {
        json_object_set_new(result, "resultType", json_string("complete"));
        json_object_set_new(result, "_meta", json_pack("{s:o}", META "serverInfo", server_info()));
    }
    if (!result) fail(s, id, INTERNAL_ERROR, "out of memory", NULL);
    else send(s, json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result));
}

/* ---- calls ---- */

static void forget(mcp_call *c)
{
    json_decref(c->id);
    json_decref(c->token);
    *c = (mcp_call){0};
}

void mcp_server_progress(mcp_server *s, uint32_t call, double at, double of, const char *text)
{
    CHECK(call < MCP_CALLS_MAX);
    if (!s->calls[call].id || !s->calls[call].token) return;
    send(s, json_pack("{s:s, s:s, s:{s:O, s:f, s:f, s:s}}", "jsonrpc", "2.0", "method",
                      "notifications/progress", "params", "progressToken", s->calls[call].token,
                      "progress", at, "total", of, "message", text));
}

static json_t *result_of(view text, json_t *facts, bool is_error)
{
    json_t *result = json_pack("{s:[{s:s, s:o}], s:b}", "content", "type", "text", "text",
                               json_text(text), "isError", (int)is_error);
    if (facts && result) json_object_set_new(result, "structuredContent", facts);
    else json_decref(facts);
    return result;
}

void mcp_server_end(mcp_server *s, uint32_t call, view text, json_t *facts, bool is_error)
{
    CHECK(call < MCP_CALLS_MAX);
    mcp_call *c = &s->calls[call];
    if (!c->id) {
        json_decref(facts);
        return;
    }
    answer(s, c->id, result_of(text, facts, is_error), c->is_modern);
    forget(c);
}

static const json_t *find_tool(const json_t *all, const char *name)
{
    const json_t *tool;
    size_t i;
    json_array_foreach(all, i, tool)
        if (name && !strcmp(json_string_value(json_object_get(tool, "name")), name)) return tool;
    return NULL;
}

static void call_tool(mcp_server *s, json_t *id, const json_t *params, bool is_modern)
{
    json_t *arguments = json_object_get(params, "arguments");
    const json_t *token = json_object_get(json_object_get(params, "_meta"), "progressToken");
    const char *name = json_string_value(json_object_get(params, "name"));
    char why[200];
    uint32_t at = 0;
    json_t *all = tools_json(), *none = json_object();
    const json_t *tool = find_tool(all, name);
    if (!arguments) arguments = none;
    while (at < MCP_CALLS_MAX && s->calls[at].id) at++;
    if (!tool) {
        fail(s, id, INVALID_PARAMS, "there is no such tool: solve, search and related are there",
             NULL);
    } else if (!json_is_object(arguments)) {
        fail(s, id, INVALID_PARAMS, "arguments: not an object", NULL);
    } else if (token && !json_is_string(token) && !json_is_integer(token)) {
        fail(s, id, INVALID_PARAMS, "progressToken: neither a string nor an integer", NULL);
    } else if (is_wrong(tool, arguments, why)) { /* a model can correct that */
        answer(s, id, result_of(view_of(why), NULL, true), is_modern);
    } else if (at == MCP_CALLS_MAX) {
        answer(s, id, result_of(VIEW("too many calls at a time: wait for one"), NULL, true),
               is_modern);
    } else {
        s->calls[at] = (mcp_call){json_incref(id), json_incref((json_t *)(uintptr_t)token),
                                  is_modern};
        const char *wrong = s->host.call(s->host.user, at, name, arguments);
        if (wrong) mcp_server_end(s, at, view_of(wrong), NULL, true);
    }
    json_decref(all);
    json_decref(none);
}

static void cancel(mcp_server *s, const json_t *params)
{
    const json_t *id = json_object_get(params, "requestId");
    for (uint32_t i = 0; i < MCP_CALLS_MAX && id; i++) {
        if (!s->calls[i].id || !json_equal(s->calls[i].id, id)) continue;
        s->host.cancel(s->host.user, i);
        forget(&s->calls[i]);
    }
}

/* ---- in ---- */

static void initialize(mcp_server *s, json_t *id, const json_t *params)
{
    const char *asked = json_string_value(json_object_get(params, "protocolVersion"));
    const char *taken = versions[0];
    if (s->is_initialized || !asked) {
        fail(s, id, INVALID_REQUEST, asked ? "it is initialized already"
                                           : "protocolVersion is missing", NULL);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(versions); i++)
        if (!strcmp(asked, versions[i])) taken = versions[i];
    s->is_initialized = true;
    answer(s, id, json_pack("{s:s, s:{s:{}}, s:o, s:s}", "protocolVersion", taken, "capabilities",
                            "tools", "serverInfo", server_info(), "instructions", instructions),
           false);
}

static json_t *supported(void)
{
    json_t *all = json_pack("[s]", MODERN);
    for (size_t i = 0; i < ARRAY_LEN(versions); i++)
        json_array_append_new(all, json_string(versions[i]));
    return all;
}

/* The version in a request; false: the error was sent. */
static bool check_version(mcp_server *s, json_t *id, const json_t *meta)
{
    const json_t *version = json_object_get(meta, META "protocolVersion");
    if (!json_is_string(version) ||
        !json_is_object(json_object_get(meta, META "clientCapabilities"))) {
        fail(s, id, INVALID_PARAMS, "_meta: no protocolVersion, or no clientCapabilities", NULL);
        return false;
    }
    if (!strcmp(json_string_value(version), MODERN)) return true;
    fail(s, id, NO_VERSION, "that version of the protocol is not served",
         json_pack("{s:o, s:O}", "supported", supported(), "requested", version));
    return false;
}

static json_t *with_cache(json_t *result, bool is_modern)
{
    if (!is_modern || !result) return result;
    json_object_set_new(result, "ttlMs", json_integer(3600000));
    json_object_set_new(result, "cacheScope", json_string("public"));
    return result;
}

static void request(mcp_server *s, json_t *id, const char *method, const json_t *params)
{
    const json_t *meta = json_object_get(params, "_meta");
    bool is_modern = json_object_get(meta, META "protocolVersion") != NULL;
    bool discovers = !strcmp(method, "server/discover");
    if (!strcmp(method, "initialize")) {
        initialize(s, id, params);
        return;
    }
    if ((is_modern || discovers) && !check_version(s, id, meta)) return;
    if (discovers) {
        json_t *result = json_pack("{s:o, s:{s:{}}, s:s}", "supportedVersions", supported(),
                                   "capabilities", "tools", "instructions", instructions);
        answer(s, id, with_cache(result, true), true);
    } else if (!strcmp(method, "ping")) {
        answer(s, id, json_object(), is_modern);
    } else if (strcmp(method, "tools/list") && strcmp(method, "tools/call")) {
        fail(s, id, NO_METHOD, "there is no such method", NULL);
    } else if (!is_modern && !s->is_initialized) {
        fail(s, id, INVALID_REQUEST, "initialize comes first", NULL);
    } else if (!strcmp(method, "tools/list")) {
        answer(s, id, with_cache(json_pack("{s:o}", "tools", tools_json()), is_modern), is_modern);
    } else {
        call_tool(s, id, params, is_modern);
    }
}

static bool is_known_id(const mcp_server *s, const json_t *id)
{
    for (uint32_t i = 0; i < MCP_CALLS_MAX; i++)
        if (s->calls[i].id && json_equal(s->calls[i].id, id)) return true;
    return false;
}

void mcp_server_take(mcp_server *s, view line)
{
    json_error_t why;
    json_t *m = json_read(line, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    json_t *id = json_object_get(m, "id");
    const json_t *params = json_object_get(m, "params");
    const char *version = json_string_value(json_object_get(m, "jsonrpc"));
    const char *method = json_string_value(json_object_get(m, "method"));
    bool is_id = json_is_string(id) || json_is_integer(id);
    if (!m) {
        fail(s, NULL, PARSE_ERROR, "not JSON", NULL);
    } else if (!json_is_object(m) || !version || strcmp(version, "2.0") || (id && !is_id)) {
        fail(s, is_id ? id : NULL, INVALID_REQUEST, "not a message of JSON-RPC 2.0", NULL);
    } else if (!method) { /* an answer to no request of ours */
        if (!json_object_get(m, "result") && !json_object_get(m, "error"))
            fail(s, id, INVALID_REQUEST, "there is no method", NULL);
    } else if (params && !json_is_object(params)) {
        if (id) fail(s, id, INVALID_PARAMS, "params: not an object", NULL);
    } else if (!id) {
        if (!strcmp(method, "notifications/cancelled")) cancel(s, params);
    } else if (is_known_id(s, id)) {
        fail(s, id, INVALID_REQUEST, "a call with this id is under way", NULL);
    } else {
        request(s, id, method, params);
    }
    json_decref(m);
}

void mcp_server_too_long(mcp_server *s)
{
    fail(s, NULL, INVALID_REQUEST, "a message is too long", NULL);
}

int mcp_server_open(mcp_server **out, const mcp_host *host)
{
    *out = memory_zalloc(1, sizeof **out);
    if (!*out) return CERIUM_ERR_MEMORY;
    (*out)->host = *host;
    return CERIUM_OK;
}

void mcp_server_close(mcp_server **server)
{
    if (!server || !*server) return;
    for (uint32_t i = 0; i < MCP_CALLS_MAX; i++) forget(&(*server)->calls[i]);
    memory_free(*server);
    *server = NULL;
}
