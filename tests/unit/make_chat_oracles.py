#!/usr/bin/env python3
"""Conversations, and answers with calls, by the makers of the forms: Mistral's mistral_common,
OpenAI's openai_harmony, and the published templates.

usage: make_chat_oracles.py > tests/unit/chat_oracles.txt
       make_chat_oracles.py TEMPLATES > tests/unit/call_oracles.txt
  TEMPLATES  a folder with the templates of llama.cpp's models/templates
Needs mistral_common[sentencepiece]==1.13.1, openai-harmony==0.0.8 and jinja2 from PyPI, and
TIKTOKEN_ENCODINGS_BASE, a folder with o200k_base.tiktoken, to avoid the download.

The first file is in the format of chat_vectors.txt.  In the second, `answer` is a model's output
in a turn, control tokens by their names, and `part` what the reader must find in it.
"""
import json
import os
import re
import sys

import mistral_common
import openai_harmony as harmony
from mistral_common.protocol.instruct import messages, tool_calls
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

from make_chat_vectors import (CALLS, EDIT, EXEC, FORMS, INST, LIST, NOW, SEVERAL, SYSTEM, TALKS,
                               THINKING, assistant, call, escape, put, render, result, thought,
                               user)

# form, its vocabulary in the package, its control tokens, parts of a template that identify it
MISTRALS = [
    ('mistral-v1', 'tokenizer.model.v1', ['<s>', '</s>'], ["' [INST] '"]),
    ('mistral-v3', 'mistral_instruct_tokenizer_240323.model.v3', INST,
     ['"[INST] "', '[AVAILABLE_TOOLS]']),
    ('mistral-v3-tekken', 'tekken_240911.json', INST, ['"[INST]"', '[AVAILABLE_TOOLS]']),
    ('mistral-v7', 'mistral_instruct_tokenizer_241114.model.v7', INST + ['[TOOL_CONTENT]'],
     ["'[INST] '", '[SYSTEM_PROMPT] ']),
]
HARMONY = next(form for form in FORMS if form[0] == 'harmony')
# Two calls in a turn, arguments of every kind, and words before a call.
ANSWERS = [[LIST], [LIST, call('now', {}, 'bcdefghij')],
           [call('edit', {'edits': [{'at': None, 'text': 'a\n"b" </tool_call>'}]})],
           [assistant('Let me look.'), LIST], [assistant('It is 5.')]]
TOOLS = [EXEC, NOW, EDIT]


# ---- mistral_common ----

def mistral_message(one):
    if one['role'] == 'system':
        return messages.SystemMessage(content=one['content'])
    if one['role'] == 'user':
        return messages.UserMessage(content=one['content'])
    if one['role'] == 'tool':
        return messages.ToolMessage(content=one['content'], name=one['name'],
                                    tool_call_id=one['id'])
    if one['role'] == 'assistant':
        return messages.AssistantMessage(content=one['content'])
    function = tool_calls.FunctionCall(name=one['name'], arguments=one['content'])
    return messages.AssistantMessage(tool_calls=[tool_calls.ToolCall(id=one['id'],
                                                                     function=function)])


def mistral_messages(talk):
    """Consecutive calls, and the text before them, are one message."""
    out = []
    for one in map(mistral_message, talk):
        calls = getattr(one, 'tool_calls', None)
        if calls and out and isinstance(out[-1], messages.AssistantMessage):
            out[-1].tool_calls = (out[-1].tool_calls or []) + calls
        else:
            out.append(one)
    return out


def mistral_text(tokenizer, talk, tools):
    tools = [tool_calls.Tool(function=tool_calls.Function(**tool)) for tool in tools] or None
    text = tokenizer.encode_chat_completion(
        ChatCompletionRequest(messages=mistral_messages(talk), tools=tools)).text
    text = re.sub('((?:<0x[0-9A-F]{2}>)+)', lambda m: bytes.fromhex(
        m[1].replace('<0x', '').replace('>', '')).decode(), text)
    return text.replace('\u2581', ' ')


def mistral_tokenizer(file):
    return MistralTokenizer.from_file(
        os.path.join(os.path.dirname(mistral_common.__file__), 'data', file))


# ---- openai_harmony ----

def harmony_message(one):
    role, message = harmony.Role, harmony.Message
    if one['role'] == 'user':
        return message.from_role_and_content(role.USER, one['content'])
    if one['role'] == 'reasoning':
        return message.from_role_and_content(role.ASSISTANT, one['content']).with_channel(
            'analysis')
    if one['role'] == 'assistant':
        return message.from_role_and_content(role.ASSISTANT, one['content']).with_channel('final')
    if one['role'] == 'call':
        arguments = json.dumps(one['arguments'], ensure_ascii=False)
        return (message.from_role_and_content(role.ASSISTANT, arguments)
                .with_channel('commentary').with_recipient('functions.' + one['name'])
                .with_content_type('json'))
    author = harmony.Author.new(role.TOOL, 'functions.' + one['name'])
    return message.from_author_and_content(author, one['content']).with_channel(
        'commentary').with_recipient('assistant')


def harmony_text(encoding, talk, tools):
    system = harmony.SystemContent.new().with_reasoning_effort(harmony.ReasoningEffort.MEDIUM)
    developer = harmony.DeveloperContent.new()
    has_system = talk[0]['role'] == 'system'
    if has_system:
        developer = developer.with_instructions(talk[0]['content'])
    if tools:
        # An object without properties counts as absent, as in the published template.
        developer = developer.with_function_tools(
            [harmony.ToolDescription.new(t['name'], t['description'], parameters=(
                t['parameters'] if t['parameters'].get('properties') else None)) for t in tools])
    head = [harmony.Message.from_role_and_content(harmony.Role.SYSTEM, system)]
    if has_system or tools:
        head.append(harmony.Message.from_role_and_content(harmony.Role.DEVELOPER, developer))
    conversation = harmony.Conversation.from_messages(
        head + [harmony_message(one) for one in talk[has_system:]])
    tokens = encoding.render_conversation_for_completion(conversation, harmony.Role.ASSISTANT)
    return encoding.decode_utf8(tokens)


def harmony_answers(encoding):
    """Observed outputs of models, as the format's description has them, and the parts that
    its own parser finds."""
    call_ = '<|channel|>commentary to=functions.exec_command <|constrain|>json<|message|>'
    ahead = ' to=functions.exec_command<|channel|>commentary json<|message|>'
    think = '<|channel|>analysis<|message|>hm\n<|end|><|start|>assistant'
    text = LIST['content']
    for said in (call_ + text + '<|call|>', ahead + text + '<|call|>',
                 think + call_ + text + '<|call|>', think + ahead + '{}<|call|>',
                 '<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant' + call_ +
                 text + '<|call|>',
                 think + '<|channel|>final<|message|>It is 5.<|return|>'):
        tokens = encoding.encode(said, allowed_special='all')
        parts = []
        for message in encoding.parse_messages_from_completion_tokens(
                tokens, harmony.Role.ASSISTANT):
            content = ''.join(c.text for c in message.content)
            if message.recipient and message.recipient.startswith('functions.'):
                parts.append(('call', message.recipient[len('functions.'):], content))
            else:
                parts.append(('reasoning' if message.channel == 'analysis' else 'text', '',
                              content))
        yield said, parts


# ---- the file ----

def put_form(name, tokens, parts):
    print('\nform', name)
    print('template', escape(' '.join(parts)))
    print('tokens', ' '.join(tokens))
    print()


def put_answer(said, parts):
    print('answer', escape(said))
    for kind, name, content in parts:
        print('part', kind, name or '-', escape(content))
    print()


def parts_of(turn):
    return [(('call' if one['role'] == 'call' else 'text'), one.get('name', ''), one['content'])
            for one in turn]


def put_template_answers(templates, form):
    """A template's rendering of a turn: all of it, less the prompt that the turn answers."""
    label, template, tokens, _ = form
    with open(os.path.join(templates, template), encoding='utf-8') as file:
        source = file.read()
    talk = [SYSTEM, user('Go.')]
    for turn in ANSWERS:
        if label == 'llama3.1' and len(turn) > 1:
            continue  # the template has a turn for each call, without text
        prompt = render(label, source, tokens, talk, TOOLS)
        whole = render(label, source, tokens, talk + turn, TOOLS)
        # Up to where the next turn would begin.
        end = whole.rindex(tokens[1] if label.startswith('mistral') else
                           '<|eot_id|>' if label == 'llama3.1' else '<|im_end|>')
        if not whole.startswith(prompt):
            # A finished turn is opened without the thought of a new one.
            prompt = prompt[:prompt.rindex('<|im_start|>assistant\n') +
                            len('<|im_start|>assistant\n')]
        assert whole.startswith(prompt), (label, prompt[-200:], whole[-400:])
        put_answer(whole[len(prompt):end], parts_of(turn))


def put_conversations(tokenizers, encoding):
    for name, _, tokens, parts in MISTRALS:
        put_form(name, tokens, parts)
        for talk in TALKS:
            if name == 'mistral-v3' and any(one['content'].strip() != one['content']
                                            for one in talk if one['role'] == 'assistant'):
                continue  # the published template trims the assistant's text
            put(talk, mistral_text(tokenizers[name], talk, []))
        for tools, talk in (CALLS + SEVERAL[1:] if name != 'mistral-v1' else []):
            put(talk, mistral_text(tokenizers[name], talk, tools), tools)
    put_form('harmony', HARMONY[2], HARMONY[3])
    for talk in TALKS[:-1]:
        put(talk, harmony_text(encoding, talk, []))
    for tools, talk in CALLS + THINKING[:2]:
        put(talk, harmony_text(encoding, talk, tools), tools)


def put_answers(tokenizers, encoding, templates):
    for tool in TOOLS:
        print('define', escape(json.dumps(tool, ensure_ascii=False)))
    for name in ('mistral-v3', 'mistral-v3-tekken', 'mistral-v7'):
        print('\nreads', name)
        for turn in ANSWERS[:3]:
            prompt = mistral_text(tokenizers[name], [user('Go.')], [])
            whole = mistral_text(tokenizers[name], [user('Go.')] + turn + [
                result(one['name'], '5', one['id']) for one in turn], [])
            put_answer(whole[len(prompt):whole.index('</s>', len(prompt))], parts_of(turn))
    print('\nreads harmony')
    for said, parts in harmony_answers(encoding):
        put_answer(said, parts)
    for form in FORMS:
        name = {'qwen2.5': 'chatml'}.get(form[0], form[0])
        if name in ('chatml', 'qwen3', 'qwen3-coder', 'llama3.1', 'mistral-v7-tekken'):
            print('\nreads', name)
            put_template_answers(templates, form)


def main():
    print('# Written by make_chat_oracles.py: conversations rendered by the makers of the forms.')
    tokenizers = {name: mistral_tokenizer(file) for name, file, _, _ in MISTRALS}
    encoding = harmony.load_harmony_encoding(harmony.HarmonyEncodingName.HARMONY_GPT_OSS)
    if len(sys.argv) > 1:
        put_answers(tokenizers, encoding, sys.argv[1])
    else:
        put_conversations(tokenizers, encoding)


if __name__ == '__main__':
    main()
