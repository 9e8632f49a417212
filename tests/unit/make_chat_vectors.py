#!/usr/bin/env python3
"""Write tests/unit/chat_vectors.txt: conversations as the published chat templates render them.

usage: make_chat_vectors.py TEMPLATES HARMONY TOKENIZER_CONFIG > tests/unit/chat_vectors.txt
  TEMPLATES         a folder with the templates of llama.cpp's models/templates
  HARMONY           a folder with the rendered prompts of openai/harmony's test-data
  TOKENIZER_CONFIG  Qwen2.5's tokenizer_config.json
Needs jinja2, set up as transformers does.  Templates that those folders lack stand below, as their
models publish them.
"""
import json
import os
import sys

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

MISTRAL_V0 = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
    "{{ message['content'] + eos_token}}{% endif %}{% endfor %}")
MISTRAL_V1 = """{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message['role'] == 'user' %}
        {%- if loop.first and system_message is defined %}
            {{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}
        {%- else %}
            {{- ' [INST] ' + message['content'] + ' [/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content'] + eos_token}}
    {%- endif %}
{%- endfor %}
"""
MISTRAL_V7 = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '[INST] ' + message['content'] + '[/INST]' }}{% elif message['role'] == 'system' %}"
    "{{ '[SYSTEM_PROMPT] ' + message['content'] + '[/SYSTEM_PROMPT]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token }}"
    "{% endif %}{% endfor %}")
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}"
    "{% endif %}{% endfor %}")
LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ "
    "message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}")
DEEPSEEK_CODER = """{%- set ns = namespace(found=false) -%}
{%- for message in messages -%}
    {%- if message['role'] == 'system' -%}
        {%- set ns.found = true -%}
    {%- endif -%}
{%- endfor -%}
{{bos_token}}{%- if not ns.found -%}
{{'You are an AI programming assistant, utilizing the Deepseek Coder model, developed by Deepseek Company, and you only answer questions related to computer science. For politically sensitive questions, security and privacy issues, and other non-computer science questions, you will refuse to answer\\n'}}
{%- endif %}
{%- for message in messages %}
    {%- if message['role'] == 'system' %}
{{ message['content'] }}
    {%- else %}
        {%- if message['role'] == 'user' %}
{{'### Instruction:\\n' + message['content'] + '\\n'}}
        {%- else %}
{{'### Response:\\n' + message['content'] + '\\n<|EOT|>\\n'}}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{% if add_generation_prompt %}
{{'### Response:'}}
{% endif %}"""
STARCODER2 = """{{bos_token}}{{'You are an exceptionally intelligent coding assistant that consistently delivers accurate and reliable responses to user instructions.\\n\\n'}}
{%- for message in messages %}
        {%- if message['role'] == 'user' %}
{{'### Instruction\\n' + message['content'] + '\\n\\n'}}
        {%- else %}
{{'### Response\\n' + message['content'] + eos_token + '\\n\\n'}}
        {%- endif %}
{%- endfor %}
{{'### Response\\n'}}"""

IM = ['<|im_start|>', '<|im_end|>', '<|endoftext|>']
HEADER = ['<|begin_of_text|>', '<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>']
INST = ['<s>', '</s>', '[INST]', '[/INST]', '[SYSTEM_PROMPT]', '[/SYSTEM_PROMPT]']
HARMONY = ['<|start|>', '<|message|>', '<|channel|>', '<|end|>', '<|return|>', '<|call|>']

# name, template (a file's name or its text), tokens (first: bos, second: eos), and the parts of
# the template by which it is known
FORMS = [
    ('qwen2.5', 'TOKENIZER_CONFIG', IM, ["<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n"]),
    ('qwen3', 'Qwen-Qwen3-0.6B.jinja', IM, ['<|im_start|>', 'last_query_index']),
    ('qwen3.5', 'Qwen3.5-4B.jinja', IM, ['<|im_start|>', 'last_query_index', '<function=', "'<think>\\n' }}"]),
    ('qwen3-coder', 'Qwen3-Coder.jinja', IM, ['<|im_start|>', '<function>']),
    ('llama2', LLAMA2, ['<s>', '</s>'], ['[INST]', '<<SYS>>']),
    ('llama3', LLAMA3, HEADER, ['<|start_header_id|>', '<|end_header_id|>']),
    ('llama3.1', 'meta-llama-Llama-3.1-8B-Instruct.jinja', HEADER, ['<|start_header_id|>', 'Cutting Knowledge Date']),
    ('mistral-v0', MISTRAL_V0, ['<s>', '</s>'], ["'[INST] '"]),
    ('mistral-v1', MISTRAL_V1, ['<s>', '</s>'], ["' [INST] '"]),
    ('mistral-v3-tekken', 'mistralai-Mistral-Nemo-Instruct-2407.jinja', INST, ['"[INST]"', '[AVAILABLE_TOOLS]']),
    ('mistral-v7', MISTRAL_V7, INST, ["'[INST] '", '[SYSTEM_PROMPT] ']),
    ('mistral-v7-tekken', 'unsloth-mistral-Devstral-Small-2507.jinja', INST, ["'[INST]'", '[SYSTEM_PROMPT]']),
    ('deepseek-coder', DEEPSEEK_CODER, ['<s>', '<|EOT|>'], ['### Instruction:', '<|EOT|>']),
    ('starcoder2-instruct', STARCODER2, ['<|endoftext|>', '<|endoftext|>'], ['### Instruction\\n', '### Response\\n']),
    ('harmony', 'openai-gpt-oss-120b.jinja', HARMONY, ['<|start|>', '<|channel|>']),
]

SYSTEM = {'role': 'system', 'content': 'Be brief.'}


def user(text):
    return {'role': 'user', 'content': text}


def assistant(text):
    return {'role': 'assistant', 'content': text}


TALKS = [
    [user('Hi')],
    [SYSTEM, user('Write quicksort.')],
    [SYSTEM, user('One?'), assistant('1'), user('\n  Two? \n')],
    [user('One?'), assistant('  1\n'), user('Two?'), assistant('2'), user('Three?')],
    [SYSTEM, user('\n\tOne? \n')],
    [SYSTEM, user('what is <|im_end|> or [/INST] or <|eot_id|> or <|end|>?')],
]
THOUGHTS = [
    [user('One?'), assistant('<think>\nhm\n</think>\n\n1'), user('Two?')],
    [user('One?'), assistant('<think>\nhm\n</think>\n\n1')],
    [user('One?'), assistant('1')],
    [user('One?'), assistant('1'), user('<tool_response>\n2\n</tool_response>')],
]


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=['jinja2.ext.loopcontrols'])

    def fail(message):
        raise jinja2.exceptions.TemplateError(message)

    env.globals['raise_exception'] = fail
    env.globals['strftime_now'] = lambda form: 'DATE'
    env.filters['tojson'] = lambda x: json.dumps(x, ensure_ascii=False)
    return env


def escape(text):
    return text.replace('\\', '\\\\').replace('\n', '\\n')


def render(name, template, tokens, talk):
    text = environment().from_string(template).render(
        messages=talk, add_generation_prompt=True, bos_token=tokens[0], eos_token=tokens[1])
    if name == 'harmony':
        # As openai/harmony renders it: no date, no empty line after the instructions.
        text = text.replace('Current date: DATE\n', '').replace('\n\n<|end|>', '<|end|>')
    return text


def put(talk, want):
    for message in talk:
        print(message['role'], escape(message['content']))
    print('want', escape(want))
    print()


def main():
    folder, harmony, config = sys.argv[1:4]
    print('# Written by make_chat_vectors.py: conversations as the published templates render them.')
    for name, template, tokens, parts in FORMS:
        if template == 'TOKENIZER_CONFIG':
            template = json.load(open(config))['chat_template']
        elif template.endswith('.jinja'):
            template = open(os.path.join(folder, template), encoding='utf-8').read()
        for part in parts:
            assert part in template, (name, part)
        print('\nform', name)
        print('template', escape(' '.join(parts)))
        print('tokens', ' '.join(tokens))
        print()
        for talk in TALKS + (THOUGHTS if name.startswith('qwen3') else []):
            has_system = talk[0]['role'] == 'system'
            if has_system and name in ('mistral-v0', 'starcoder2-instruct'):
                continue  # the template has none
            if not has_system and name == 'mistral-v7-tekken':
                continue  # the template's own is two pages about one agent
            put(talk, render(name, template, tokens, talk))
        if name == 'harmony':
            read = lambda file: open(os.path.join(harmony, file), encoding='utf-8').read().rstrip('\n')
            put([user('What is 2 + 2?')], read('test_simple_convo.txt'))
            put([{'role': 'developer', 'content': "Answer the user's questions like a robot."},
                 user('What is the capital of the largest country in the world?')],
                read('test_simple_convo_medium_effort.txt'))


main()
