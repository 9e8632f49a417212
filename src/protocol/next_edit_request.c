/* next_edit_request.c - POST /v1/edit-predictions, and the message edit.predict: the caret and the
 * user's last changes become a prompt in the model's form. */
#include "protocol/parse.h"

/* Text without CR before LF; *at moves with it. */
static int take_text(parser *p, view text, size_t *at, view *out)
{
    const char *made = NULL;
    bytes lf = {.max = SIZE_MAX};
    size_t caret = *at;
    int status = next_edit_take_lf(&lf, text, &caret);
    if (!status) status = make_text(p, (view){lf.ptr ? lf.ptr : "", lf.len}, &made);
    bytes_free(&lf);
    if (status) return status;
    /* A NUL became three bytes. */
    *out = view_of(made);
    *at = caret < out->len ? caret : out->len;
    return CERIUM_OK;
}

static int read_text(parser *p, const place *up, const json_t *object, const char *key, view *out)
{
    const char *text = NULL;
    size_t none = 0;
    RETURN_IF(field_string(p, up, object, key, &text));
    *out = (view){NULL, 0};
    return text ? take_text(p, view_of(text), &none, out) : CERIUM_OK;
}

static int read_needed(parser *p, const place *up, const json_t *object, const char *key, view *out)
{
    RETURN_IF(read_text(p, up, object, key, out));
    return out->ptr ? CERIUM_OK : parse_fail_missing(p, &(place){up, key, 0});
}

static int read_changes(parser *p, next_edit_order *order)
{
    json_t *list = NULL;
    const place at = {NULL, "changes", 0};
    RETURN_IF(field_array(p, NULL, p->root, at.key, NEXT_EDIT_CHANGES_MAX, &list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const place here = {&at, NULL, i};
        next_edit_change *c = &order->changes[i];
        RETURN_IF(expect_object(p, &here, one));
        RETURN_IF(read_needed(p, &here, one, "path", &c->path));
        RETURN_IF(read_needed(p, &here, one, "diff", &c->diff));
        RETURN_IF(field_bool(p, &here, one, "accepted", &c->is_accepted));
        order->place.n_changes++;
    }
    return CERIUM_OK;
}

static int read_snippets(parser *p, next_edit_order *order)
{
    json_t *list = NULL;
    const place at = {NULL, "context", 0};
    RETURN_IF(field_array(p, NULL, p->root, at.key, NEXT_EDIT_SNIPPETS_MAX, &list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const place here = {&at, NULL, i};
        next_edit_snippet *s = &order->snippets[i];
        RETURN_IF(expect_object(p, &here, one));
        RETURN_IF(read_needed(p, &here, one, "path", &s->path));
        RETURN_IF(read_needed(p, &here, one, "text", &s->text));
        RETURN_IF(field_bool(p, &here, one, "part", &s->is_part));
        order->place.n_snippets++;
    }
    return CERIUM_OK;
}

/* The file is the text before the caret and the text after it. */
static int read_file(parser *p, next_edit_order *order)
{
    const char *sides[2] = {NULL, NULL};
    static const char *const keys[] = {"prefix", "suffix"};
    bytes all = {.max = SIZE_MAX};
    int status = CERIUM_OK;
    for (int i = 0; i < 2; i++) {
        RETURN_IF(field_string(p, NULL, p->root, keys[i], &sides[i]));
        if (!sides[i]) return parse_fail_missing(p, &(place){NULL, keys[i], 0});
    }
    for (int i = 0; i < 2 && !status; i++) status = bytes_append(&all, sides[i], strlen(sides[i]));
    order->place.caret = strlen(sides[0]);
    if (!status)
        status = take_text(p, (view){all.ptr ? all.ptr : "", all.len}, &order->place.caret,
                           &order->place.text);
    bytes_free(&all);
    RETURN_IF(status);
    RETURN_IF(read_text(p, NULL, p->root, "original", &order->place.original));
    return read_needed(p, NULL, p->root, "path", &order->place.path);
}

/* A newer request for the same file makes older ones stale, but not completions of it. */
static int name_document(parser *p)
{
    static const view head = VIEW("edits of ");
    protocol_request *r = p->r;
    bytes name = {.max = SIZE_MAX};
    int status = bytes_append(&name, head.ptr, head.len);
    if (!status) status = bytes_append(&name, r->infill.path, strlen(r->infill.path));
    if (!status) status = make_text(p, (view){name.ptr, name.len}, &r->document);
    bytes_free(&name);
    return status;
}

/* The message of a WebSocket has an id, to cancel it. */
static int id_parse(parser *p)
{
    const char *type = json_string_value(json_object_get(p->root, "type"));
    if (!p->defaults->is_socket || !type || strcmp(type, "edit.predict") != 0) return CERIUM_OK;
    const protocol_body body = {.root = p->root};
    p->r->inline_id = protocol_inline_id(&body);
    return p->r->inline_id ? CERIUM_OK
                           : parse_fail(p, &(place){NULL, "id", 0}, "invalid_value",
                                        "id is 1 to 64 of A-Za-z0-9_.-");
}

/* A model without such a form fills the hole at the caret; else its form is used. */
static int make_prompt(parser *p, next_edit_order *order)
{
    protocol_request *r = p->r;
    const next_edit_place *at = &order->place;
    const char *text = NULL;
    const view before = {at->text.ptr, at->caret};
    int status = next_edit_ask(&order->prompt, order->form, at, &order->why);
    if (status == CERIUM_ERR_CAPACITY)
        return protocol_error_set(p->error, 413, "invalid_request_error", NULL, "prefix",
                                  "edits are predicted in files of up to %d bytes",
                                  NEXT_EDIT_TEXT_BYTES_MAX);
    RETURN_IF(status);
    if (order->why)
        return protocol_error_set(p->error, 400, "invalid_request_error", "nothing_to_predict",
                                  "prefix", "no edit can be predicted here: %s", order->why);
    r->infill.path = at->path.ptr;
    r->infill.suffix = at->text.ptr + at->caret;
    r->infill.suffix_len = at->text.len - at->caret;
    RETURN_IF(make_text(p, before, &r->infill.prefix));
    r->infill.prefix_len = before.len;
    RETURN_IF(name_document(p));
    r->fill_in = r->ends_hole = order->form == NEXT_EDIT_FIM;
    if (r->fill_in) return CERIUM_OK;
    const view prompt = {order->prompt.text.ptr, order->prompt.text.len};
    RETURN_IF(make_text(p, prompt, &text));
    for (uint32_t i = 0; i < order->prompt.n_stops; i++) r->stops[i] = order->prompt.stops[i];
    r->sampling.n_stops = order->prompt.n_stops;
    r->whole_tokens = true;
    return prompt_of(p, text);
}

int edits_parse(parser *p)
{
    protocol_request *r = p->r;
    next_edit_order *order = memory_zalloc(1, sizeof *order);
    if (!order) return CERIUM_ERR_MEMORY;
    r->edits = order;
    order->place.changes = order->changes;
    order->place.snippets = order->snippets;
    order->form = p->defaults->edit_form;
    if (!order->form && p->defaults->fills_in) order->form = NEXT_EDIT_FIM;
    if (!order->form)
        return protocol_error_set(p->error, 501, "not_supported_error", NULL, "",
                                  "This model predicts no edits: it has no form for them, and "
                                  "cannot fill in the middle.");
    r->stream = p->defaults->is_socket;
    r->sampling.n_stops = 0;
    r->sampling.temperature = 0;
    if (r->new_tokens_max > NEXT_EDIT_NEW_TOKENS) r->new_tokens_max = NEXT_EDIT_NEW_TOKENS;
    if (order->form == NEXT_EDIT_FIM) {
        r->sampling.pointer = p->defaults->pointer;
        r->confidence_min = p->defaults->confidence_min;
        if (r->new_tokens_max > 64) r->new_tokens_max = 64;
    }
    RETURN_IF(id_parse(p));
    RETURN_IF(read_file(p, order));
    RETURN_IF(read_changes(p, order));
    RETURN_IF(read_snippets(p, order));
    return make_prompt(p, order);
}
