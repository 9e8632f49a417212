/* infill.c - owns the fill-in-the-middle forms.  Sources: the model cards of Qwen2.5-Coder,
 * StarCoder2, DeepSeek-Coder, CodeLlama, CodeGemma, GLM and Mellum; mistral-common for Codestral;
 * the layout with a repository and files is that of llama.cpp's /infill. */
#include "tokenizer/infill.h"

#include "tokenizer/prompt.h"

static bool is_named(const tokenizer *t, int32_t id, view name)
{
    size_t len;
    const char *text = tokenizer_bytes(t, id, &len);
    return text && view_equal((view){text, len}, name);
}

infill_form infill_detect(const tokenizer *t)
{
    CHECK(t);
    infill_form form = {
        .pre = tokenizer_role(t, TOKEN_FIM_PRE),
        .suf = tokenizer_role(t, TOKEN_FIM_SUF),
        .mid = tokenizer_role(t, TOKEN_FIM_MID),
        .rep = tokenizer_role(t, TOKEN_FIM_REP),
        .sep = tokenizer_role(t, TOKEN_FIM_SEP),
    };
    if (form.pre < 0 || form.suf < 0) return form;
    view pre = tokenizer_pre(t);
    if (is_named(t, form.suf, VIEW("[SUFFIX]"))) form.order = INFILL_CODESTRAL;
    else if (form.mid < 0) return form;
    else if (tokenizer_suffix_first(t) || view_equal(pre, VIEW("mellum")) ||
             view_equal(pre, VIEW("mellum2")))
        form.order = INFILL_SUFFIX_FIRST;
    else form.order = INFILL_PREFIX_FIRST;
    form.repo_line = is_named(t, form.rep, VIEW("<|repo_name|>"));
    return form;
}

static void render_file(prompt *p, const infill_form *form, const char *path, view text)
{
    prompt_token(p, form->sep);
    prompt_text(p, view_of(path));
    prompt_scaffold(p, "\n");
    prompt_text(p, text);
    if (text.len && text.ptr[text.len - 1] != '\n') prompt_scaffold(p, "\n");
}

/* [rep] repository [sep] file ... [sep] this file's name */
static void render_context(prompt *p, const infill_form *form, const cerium_infill *infill)
{
    if (form->sep < 0 || (!infill->n_files && !infill->path && !infill->repo)) return;
    if (form->rep >= 0 && (infill->repo || infill->n_files)) {
        prompt_token(p, form->rep);
        prompt_text(p, view_of(infill->repo ? infill->repo : "myproject"));
        if (form->repo_line) prompt_scaffold(p, "\n");
    }
    for (size_t i = 0; i < infill->n_files; i++) {
        const cerium_context_file *file = &infill->files[i];
        render_file(p, form, file->path ? file->path : "file",
                    (view){file->text, file->text_len});
    }
    render_file(p, form, infill->path ? infill->path : "filename", (view){0});
}

static void render_hole(prompt *p, const infill_form *form, view prefix, view suffix)
{
    if (form->order == INFILL_PREFIX_FIRST) {
        prompt_token(p, form->pre);
        prompt_text(p, prefix);
        prompt_token(p, form->suf);
        prompt_bare_text(p, suffix);
        prompt_token(p, form->mid);
        return;
    }
    prompt_token(p, form->suf);
    prompt_bare_text(p, suffix);
    prompt_token(p, form->pre);
    prompt_text(p, prefix);
    if (form->order == INFILL_SUFFIX_FIRST) prompt_token(p, form->mid);
}

/* NULL with a length: a caller's mistake that is not checked before. */
static bool is_whole(const cerium_infill *infill)
{
    bool whole = (infill->prefix || !infill->prefix_len) &&
                 (infill->suffix || !infill->suffix_len) && (infill->files || !infill->n_files);
    for (size_t i = 0; whole && i < infill->n_files; i++)
        whole = infill->files[i].text || !infill->files[i].text_len;
    return whole;
}

int infill_render(const tokenizer *t, const infill_form *form, const cerium_infill *infill,
                  int32_t *tokens, size_t cap, size_t *n_tokens, cerium_error *err)
{
    CHECK(t && form && infill && n_tokens && (tokens || !cap));
    if (form->order == INFILL_NONE)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "the vocabulary has no fill-in-the-middle tokens; use a model with them");
    if (!is_whole(infill))
        return error_set(err, CERIUM_ERR_ARGUMENT, "fill in the middle: a text is missing");
    prompt p;
    prompt_open(&p, t, tokenizer_adds_bos(t), tokens, cap, err);
    render_context(&p, form, infill);
    render_hole(&p, form, (view){infill->prefix, infill->prefix_len},
                (view){infill->suffix, infill->suffix_len});
    return prompt_finish(&p, n_tokens);
}
