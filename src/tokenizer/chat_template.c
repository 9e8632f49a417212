/* chat_template.c - owns rendering a conversation with the model's own template: messages as its
 * values, and its text as tokens, with sampled turns as their tokens. */
#include "tokenizer/chat_template.h"

#include "base/text.h"

/* 1 January 2026: a fixed date, so that the prompt is the same tomorrow and is found in the
 * cache. */
enum { FIXED_TIME = 1767225600 };

static view chat_template_mark(char out[CHAT_MARK_BYTES], size_t i)
{
    int n = snprintf(out, CHAT_MARK_BYTES, "\xFF\xFE%zu\xFF", i); /* is not UTF-8 */
    return (view){out, (size_t)n};
}

/* ---- messages as values ---- */

typedef struct {
    const chat_template *c;
    const talk *k;
    chat_rendering *r;
    jinja_run *run;
    jinja_value messages;
    size_t n_marks;
    bool bare_calls;    /* a sampled turn with calls has no text */
    bool merges_system; /* into the first user message */
    view system;        /* with text waiting for it */
    bool wrote_tools;   /* as text */
} builder;

static void keep(builder *b, json_t *json)
{
    if (json) b->r->kept[b->r->n_kept++] = json;
}

/* Values of the run that borrow from it: `spoken` rendered with one variable. */
static view spoken(builder *b, const char *name, const piece *call)
{
    jinja_run *run = NULL;
    jinja_output out;
    jinja_error err;
    json_t *owner = NULL, *arguments = NULL;
    if (jinja_open(&run, b->c->spoken)) {
        prompt_fail(b->k->p, CERIUM_ERR_MEMORY);
        return (view){0};
    }
    jinja_value list = jinja_list(run);
    for (size_t i = 0; !call && i < b->k->n_tools; i++)
        jinja_append(run, list, jinja_of_json(run, b->k->tools[i].spec, JINJA_MESSAGE));
    if (call) {
        arguments = chat_arguments_object(b->k, call);
        list = jinja_text(call->name, JINJA_MESSAGE);
        if (arguments)
            jinja_set(run, "arguments", jinja_of_json(run, arguments, JINJA_MESSAGE));
    }
    jinja_set(run, name, list);
    if (!jinja_render(run, &out, &err)) owner = json_stringn_nocheck(out.text.ptr, out.text.len);
    jinja_close(&run);
    json_decref(arguments);
    if (!owner) {
        prompt_fail(b->k->p, CERIUM_ERR_MEMORY);
        return (view){0};
    }
    keep(b, owner);
    return (view){json_string_value(owner), json_string_length(owner)};
}

static jinja_value message_text(view text) { return jinja_text(text, JINJA_MESSAGE); }

static void put_content(builder *b, jinja_value message, jinja_value text)
{
    if (!b->c->parts) {
        jinja_put(b->run, message, "content", text);
        return;
    }
    jinja_value list = jinja_list(b->run), part = jinja_map(b->run);
    jinja_put(b->run, part, "type", jinja_text(VIEW("text"), JINJA_TEMPLATE));
    jinja_put(b->run, part, "text", text);
    jinja_append(b->run, list, part);
    jinja_put(b->run, message, "content", list);
}

static jinja_value begin_message(builder *b, const char *role)
{
    jinja_value out = jinja_map(b->run);
    jinja_put(b->run, out, "role", jinja_text(view_of(role), JINJA_TEMPLATE));
    jinja_append(b->run, b->messages, out);
    return out;
}

static void add_call(builder *b, jinja_value calls, view id, jinja_value name,
                     jinja_value arguments)
{
    jinja_value function = jinja_map(b->run), call = jinja_map(b->run);
    jinja_put(b->run, function, "name", name);
    jinja_put(b->run, function, "arguments", arguments);
    jinja_put(b->run, call, "type", jinja_text(VIEW("function"), JINJA_TEMPLATE));
    jinja_put(b->run, call, "id", message_text(id.len ? id : VIEW("call00000")));
    jinja_put(b->run, call, "function", function);
    jinja_append(b->run, calls, call);
}

static void add_piece_call(builder *b, jinja_value calls, const piece *one)
{
    jinja_value arguments = message_text(one->content.len ? one->content : VIEW("{}"));
    if (!b->c->text_arguments) {
        json_t *object = chat_arguments_object(b->k, one);
        keep(b, object);
        if (object) arguments = jinja_of_json(b->run, object, JINJA_MESSAGE);
    }
    add_call(b, calls, one->id, message_text(one->name), arguments);
}

/* Both texts, which live as long as the run. */
static view joined(builder *b, view one, view between, view other)
{
    size_t len = one.len + between.len + other.len, at = 0;
    char *text = memory_alloc(len);
    json_t *owner = NULL;
    const view parts[] = {one, between, other};
    for (size_t i = 0; text && i < ARRAY_LEN(parts); at += parts[i++].len)
        if (parts[i].len) memcpy(text + at, parts[i].ptr, parts[i].len);
    if (text) owner = json_stringn_nocheck(text, len);
    memory_free(text);
    if (!owner) prompt_fail(b->k->p, CERIUM_ERR_MEMORY);
    else keep(b, owner);
    return owner ? (view){json_string_value(owner), len} : (view){"", 0};
}

/* The joined text of the pieces of one kind in a turn, each on its own line. */
static view gather(builder *b, size_t from, size_t to, piece_kind kind)
{
    view out = {0};
    bool any = false;
    for (size_t i = from; i < to; i++) {
        if (b->k->list[i].kind != kind) continue;
        out = any ? joined(b, out, VIEW("\n"), b->k->list[i].content) : b->k->list[i].content;
        any = true;
    }
    return out;
}

static void put_thought(builder *b, jinja_value message, jinja_value thought)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (jinja_mentions(b->c->program, view_of(names[i]))) {
            jinja_put(b->run, message, names[i], thought);
            return;
        }
}

static void add_assistant(builder *b, size_t from, size_t to)
{
    jinja_value message = begin_message(b, "assistant"), calls = jinja_list(b->run);
    bool calls_any = false, thinks = false;
    view answered = gather(b, from, to, PIECE_CONTENT);
    for (size_t i = from; i < to; i++) {
        const piece *one = &b->k->list[i];
        thinks = thinks || one->kind == PIECE_THOUGHT;
        if (one->kind != PIECE_CALL) continue;
        calls_any = !b->c->spoken;
        if (b->c->spoken)
            answered = joined(b, answered, answered.len ? VIEW("\n") : VIEW(""),
                              spoken(b, "name", one));
        else add_piece_call(b, calls, one);
    }
    put_content(b, message, message_text(answered));
    if (thinks) put_thought(b, message, message_text(gather(b, from, to, PIECE_THOUGHT)));
    if (calls_any) jinja_put(b->run, message, "tool_calls", calls);
}

/* A sampled turn, kept as tokens: a mark for its text, and for its calls if results of those follow
 * from piece `next` on. */
static void add_sampled(builder *b, size_t next)
{
    char *text = b->r->marks + CHAT_MARK_BYTES * b->n_marks;
    view mark = chat_template_mark(text, b->n_marks++);
    jinja_value value = jinja_text(mark, JINJA_TEMPLATE), calls = jinja_list(b->run);
    jinja_value message = begin_message(b, "assistant");
    bool called = !b->c->spoken && next < b->k->n && b->k->list[next].kind == PIECE_RESULT;
    put_content(b, message, called && b->bare_calls ? message_text(VIEW("")) : value);
    for (; !b->c->spoken && next < b->k->n && b->k->list[next].kind == PIECE_RESULT; next++) {
        jinja_value arguments = value;
        if (!b->c->text_arguments) {
            arguments = jinja_map(b->run);
            jinja_put(b->run, arguments, text, value);
        }
        const piece *result = &b->k->list[next];
        add_call(b, calls, result->id, result->name.len ? message_text(result->name) : value,
                 arguments);
        jinja_put(b->run, message, "tool_calls", calls);
    }
}

/* Results as text are joined to one message of the user: neighbours of one role would not
 * alternate. */
static void add_spoken_results(builder *b, size_t from, size_t to)
{
    view text = {0};
    for (size_t i = from; i < to; i++) {
        view one = joined(b, VIEW("<tool_response>\n"), b->k->list[i].content,
                          VIEW("\n</tool_response>"));
        text = i > from ? joined(b, text, VIEW("\n"), one) : one;
    }
    put_content(b, begin_message(b, "user"), message_text(text));
}

static void add_result(builder *b, const piece *one)
{
    jinja_value message = begin_message(b, "tool");
    put_content(b, message, message_text(one->content));
    jinja_put(b->run, message, "name", message_text(one->name));
    jinja_put(b->run, message, "tool_call_id",
              message_text(one->id.len ? one->id : VIEW("call00000")));
}

static void add_user(builder *b, const piece *one)
{
    view text = one->content;
    if (b->system.len) text = joined(b, b->system, VIEW("\n\n"), text);
    b->system.len = 0;
    put_content(b, begin_message(b, "user"), message_text(text));
}

/* The system messages, with the tools if the template has none. */
static void add_system(builder *b, const piece *one)
{
    view text = one ? one->content : VIEW("");
    if (b->c->spoken && b->k->says_tools && !b->wrote_tools) {
        text = joined(b, text, text.len ? VIEW("\n\n") : VIEW(""), spoken(b, "tools", NULL));
        b->wrote_tools = true;
    }
    if (b->merges_system)
        b->system = b->system.len ? joined(b, b->system, VIEW("\n\n"), text) : text;
    else put_content(b, begin_message(b, "system"), message_text(text));
}

static void add_messages(builder *b)
{
    if (b->c->spoken && b->k->says_tools && (!b->k->n || b->k->list[0].kind != PIECE_SYSTEM))
        add_system(b, NULL);
    for (size_t i = 0, end; i < b->k->n; i = end) {
        const piece *one = &b->k->list[i];
        end = i + 1;
        switch (one->kind) {
        case PIECE_SYSTEM: add_system(b, one); break;
        case PIECE_USER: add_user(b, one); break;
        case PIECE_RESULT:
            if (b->c->spoken) add_spoken_results(b, i, end = chat_turn_end(b->k, i));
            else add_result(b, one);
            break;
        case PIECE_SAMPLED: add_sampled(b, end); break;
        case PIECE_CONTENT:
        case PIECE_THOUGHT:
        case PIECE_CALL:
            end = chat_turn_end(b->k, i);
            add_assistant(b, i, end);
            break;
        }
    }
}

static jinja_value token_text(const tokenizer *t, token_role role)
{
    view text = {0};
    int32_t id = tokenizer_role(t, role);
    if (id >= 0) text.ptr = tokenizer_bytes(t, id, &text.len);
    return jinja_text(text, JINJA_TEMPLATE);
}

static void set_variables(builder *b, bool generation)
{
    const tokenizer *t = b->k->p->t;
    jinja_value tools = jinja_none();
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)b->k->variables, name, value)
        jinja_set(b->run, name, jinja_of_json(b->run, value, JINJA_MESSAGE));
    bool says = b->k->says_tools && b->k->n_tools && !b->c->spoken;
    if (says || b->c->tools_always) tools = jinja_list(b->run);
    for (size_t i = 0; says && i < b->k->n_tools; i++)
        jinja_append(b->run, tools,
                     jinja_of_json(b->run, b->k->tools[i].spec, JINJA_MESSAGE));
    jinja_set(b->run, "messages", b->messages);
    jinja_set(b->run, "tools", tools);
    jinja_set(b->run, "documents", jinja_none());
    jinja_set(b->run, "add_generation_prompt", jinja_bool(generation));
    jinja_set(b->run, "bos_token", token_text(t, TOKEN_BOS));
    jinja_set(b->run, "eos_token", token_text(t, TOKEN_EOS));
    jinja_set(b->run, "unk_token", token_text(t, TOKEN_UNK));
    jinja_set(b->run, "pad_token", token_text(t, TOKEN_PAD));
    jinja_set_time(b->run, FIXED_TIME);
}

/* The fallbacks if a template raises. */
enum { BARE_CALLS = 1, MERGED_SYSTEM = 2, WAYS = 4 };

static int render_once(const chat_template *c, const talk *k, bool generation, unsigned way,
                       chat_rendering *out, jinja_error *err)
{
    *out = (chat_rendering){0};
    *err = (jinja_error){0};
    /* At most four objects of a piece are kept. */
    out->kept = memory_zalloc(4 * k->n + 4, sizeof *out->kept);
    out->marks = memory_zalloc(k->n + 1, CHAT_MARK_BYTES);
    int status = out->kept && out->marks ? jinja_open(&out->run, c->program) : CERIUM_ERR_MEMORY;
    if (status) {
        chat_template_text_free(out);
        return status;
    }
    builder b = {.c = c, .k = k, .r = out, .run = out->run, .messages = jinja_list(out->run),
                 .bare_calls = way & BARE_CALLS, .merges_system = way & MERGED_SYSTEM};
    add_messages(&b);
    set_variables(&b, generation);
    status = k->p->status ? k->p->status : jinja_render(out->run, &out->out, err);
    if (status) chat_template_text_free(out);
    return status;
}

static bool leads_with_system(const talk *k)
{
    return (k->n && k->list[0].kind == PIECE_SYSTEM) ||
           (k->form->template->spoken && k->says_tools);
}

static bool calls_sampled(const talk *k)
{
    for (size_t i = 0; i + 1 < k->n; i++)
        if (k->list[i].kind == PIECE_SAMPLED && k->list[i + 1].kind == PIECE_RESULT) return true;
    return false;
}

int chat_template_text(const chat_template *c, const talk *k, bool generation, chat_rendering *out,
                       jinja_error *err)
{
    int status = render_once(c, k, generation, 0, out, err);
    /* Some templates have no system role, and raise: then its text goes before the first question.
     * Others reject a message with both text and calls. */
    unsigned ways = (leads_with_system(k) ? MERGED_SYSTEM : 0) |
                    (calls_sampled(k) ? BARE_CALLS : 0);
    for (unsigned way = 1; way < WAYS; way++) {
        jinja_error other;
        if (status != CERIUM_ERR_FORMAT || err->failure != JINJA_RAISED) break;
        if (!(way & ~ways)) status = render_once(c, k, generation, way, out, &other);
    }
    return status;
}

void chat_template_text_free(chat_rendering *r)
{
    jinja_close(&r->run);
    for (size_t i = 0; i < r->n_kept; i++) json_decref(r->kept[i]);
    memory_free(r->kept);
    memory_free(r->marks);
    *r = (chat_rendering){0};
}

/* ---- text as tokens ---- */

static void fail(const talk *k, int status, const jinja_error *err)
{
    if (k->p->status) return;
    if (status == CERIUM_ERR_MEMORY) prompt_fail(k->p, status);
    else if (err->failure == JINJA_RAISED)
        k->p->status = error_set(k->p->err, CERIUM_ERR_FORMAT, "the chat template says: %s",
                                 err->message);
    else
        k->p->status = error_set(k->p->err, CERIUM_ERR_FORMAT, "the chat template, line %u: %s",
                                 err->line, err->message);
}

/* Bytes [from, to) of the rendered text. */
static void emit(const talk *k, const jinja_output *out, size_t from, size_t to)
{
    for (size_t i = 0, at = 0; i < out->n_pieces && at < to; at = out->pieces[i++].end) {
        size_t a = at > from ? at : from, b = out->pieces[i].end < to ? out->pieces[i].end : to;
        if (a >= b) continue;
        view text = {out->text.ptr + a, b - a};
        if (out->pieces[i].origin == JINJA_TEMPLATE) prompt_scaffold_view(k->p, text);
        else prompt_text(k->p, text);
    }
}

/* The first place of part in text from `from` on; text.len: none. */
static size_t find(view text, size_t from, view part)
{
    const char *at = NULL;
    if (part.len && from < text.len)
        at = memmem(text.ptr + from, text.len - from, part.ptr, part.len);
    return at ? (size_t)(at - text.ptr) : text.len;
}

static size_t find_last(view text, size_t from, size_t to, view part)
{
    size_t out = to;
    for (size_t at = from; part.len && (at = find(text, at, part)) + part.len <= to; at++) out = at;
    return out;
}

/* The text with which this template opens and closes turns of the assistant, with the variables of
 * this talk. */
typedef struct {
    chat_rendering asked, open, answered; /* u; u and the generation prompt; u and a mark */
    view prompt; /* the generation prompt */
    view header; /* the part of it with which every turn of the assistant begins */
    view close;  /* after its text */
    view end;    /* the part up to the special token */
} turns;

static view rest_of(view text, size_t n) { return (view){text.ptr + n, text.len - n}; }

static int read_turns(const chat_template *c, const talk *k, turns *w, jinja_error *err)
{
    const piece list[] = {{.kind = PIECE_USER, .content = VIEW("x")}, {.kind = PIECE_SAMPLED}};
    char buffer[CHAT_MARK_BYTES];
    talk one = *k;
    one.list = list;
    one.n = 1;
    one.says_tools = false;
    *w = (turns){0};
    RETURN_IF(chat_template_text(c, &one, false, &w->asked, err));
    RETURN_IF(chat_template_text(c, &one, true, &w->open, err));
    one.n = 2;
    RETURN_IF(chat_template_text(c, &one, false, &w->answered, err));
    view asked = w->asked.out.text, open = w->open.out.text, answered = w->answered.out.text;
    view mark = chat_template_mark(buffer, 0);
    size_t at = find(answered, 0, mark), len = 0, n = 0;
    if (view_starts(open, asked)) w->prompt = rest_of(open, asked.len);
    if (view_starts(answered, asked))
        w->header = (view){w->prompt.ptr, view_common(w->prompt, rest_of(answered, asked.len))};
    if (at < answered.len) w->close = rest_of(answered, at + mark.len);
    w->end = w->close;
    if (tokenizer_find_special(k->p->t, w->close, &n, &len) >= 0)
        w->end = (view){w->close.ptr, n + len};
    return CERIUM_OK;
}

static void free_turns(turns *w)
{
    chat_template_text_free(&w->asked);
    chat_template_text_free(&w->open);
    chat_template_text_free(&w->answered);
}

/* Whether tokens end with these bytes of the template. */
static bool ends_with(const talk *k, const int32_t *tokens, size_t n, view scaffold)
{
    char text[64];
    if (!scaffold.len || scaffold.len >= sizeof text) return false;
    memcpy(text, scaffold.ptr, scaffold.len);
    text[scaffold.len] = 0;
    return chat_ends(k->p->t, tokens, n, text);
}

/* Where the text continues after the turn of these tokens: its closing is skipped as far as they
 * have it. */
static size_t skip_closing(const talk *k, const turns *w, view text, size_t at,
                           const int32_t *tokens, size_t n)
{
    size_t end = find(text, at, w->end);
    if (end < text.len) at = end; /* the text before it closes a call, which was sampled */
    view rest = rest_of(text, at);
    if (view_starts(rest, w->close) && ends_with(k, tokens, n, w->close)) return at + w->close.len;
    if (view_starts(rest, w->end) && ends_with(k, tokens, n, w->end)) return at + w->end.len;
    return at;
}

/* Tokens of a text in which marks replace some turns. */
static void join_turns(const talk *k, const turns *w, const jinja_output *out)
{
    char buffer[CHAT_MARK_BYTES];
    size_t at = 0, n_marks = 0;
    for (size_t i = 0; i < k->n; i++) {
        const piece *one = &k->list[i];
        if (one->kind != PIECE_SAMPLED) continue;
        bool timeline = k->continues && n_marks == 0;
        view mark = chat_template_mark(buffer, n_marks++);
        size_t first = find(out->text, at, mark);
        if (first == out->text.len) {
            jinja_error err = {.message = "it does not show what the assistant said"};
            fail(k, CERIUM_ERR_FORMAT, &err);
            return;
        }
        size_t open = w->header.len ? find_last(out->text, at, first, w->header) : first;
        if (!timeline) {
            emit(k, out, at, open);
            if (open < first) prompt_scaffold_view(k->p, w->prompt);
            chat_sampled(k, one);
        }
        size_t last = find_last(out->text, first, out->text.len, mark) + mark.len;
        at = skip_closing(k, w, out->text, last, one->tokens, one->n_tokens);
    }
    emit(k, out, at, out->text.len);
}

static bool any_sampled(const talk *k)
{
    for (size_t i = 0; i < k->n; i++)
        if (k->list[i].kind == PIECE_SAMPLED) return true;
    return false;
}

static void begin_text(const talk *k, const jinja_output *out)
{
    size_t len = 0;
    int32_t bos = tokenizer_role(k->p->t, TOKEN_BOS);
    if (bos < 0 || !tokenizer_adds_bos(k->p->t)) return;
    const char *text = tokenizer_bytes(k->p->t, bos, &len);
    if (!view_starts(out->text, (view){text, len})) prompt_token(k->p, bos);
}

static void render_talk(const chat_template *c, const talk *k)
{
    chat_rendering whole;
    jinja_error err;
    turns w = {0};
    int status = chat_template_text(c, k, !k->open, &whole, &err);
    if (status) {
        fail(k, status, &err);
        return;
    }
    if (!k->continues) begin_text(k, &whole.out);
    if (any_sampled(k)) status = read_turns(c, k, &w, &err);
    if (status) fail(k, status, &err);
    else if (!any_sampled(k)) emit(k, &whole.out, 0, whole.out.text.len);
    else join_turns(k, &w, &whole.out);
    free_turns(&w);
    chat_template_text_free(&whole);
}

bool chat_template_uses(const chat_template *c, const char *name)
{
    return jinja_mentions(c->program, view_of(name));
}

void chat_render_template(const talk *k)
{
    const chat_template *c = k->form->template;
    CHECK(c && c->program);
    if (!k->continues) {
        render_talk(c, k);
        return;
    }
    /* The tokens after a timeline: render some question, and the timeline as a sampled turn. */
    piece *list = memory_zalloc(k->n + 2, sizeof *list);
    if (!list) {
        prompt_fail(k->p, CERIUM_ERR_MEMORY);
        return;
    }
    list[0] = (piece){.kind = PIECE_USER, .content = VIEW("x")};
    list[1] = (piece){.kind = PIECE_SAMPLED, .tokens = k->after, .n_tokens = k->n_after};
    if (k->n) memcpy(list + 2, k->list, k->n * sizeof *list);
    talk whole = *k;
    whole.list = list;
    whole.n = k->n + 2;
    render_talk(c, &whole);
    memory_free(list);
}
