#!/usr/bin/env python3
"""Write tests/unit/chat_vectors.txt: conversations as the published chat templates render them.

usage: make_chat_vectors.py TEMPLATES HARMONY > tests/unit/chat_vectors.txt
  TEMPLATES  a folder with the templates of llama.cpp's models/templates
  HARMONY    a folder with the rendered prompts of openai/harmony's test-data
Needs jinja2, set up as transformers does.  Templates that those folders lack are below, as their
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

IM = ['<|im_start|>', '<|im_end|>', '<|endoftext|>', '<tool_call>', '</tool_call>']
HEADER = ['<|begin_of_text|>', '<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>']
INST = ['<s>', '</s>', '[INST]', '[/INST]', '[SYSTEM_PROMPT]', '[/SYSTEM_PROMPT]', '[TOOL_CALLS]',
        '[ARGS]', '[TOOL_RESULTS]', '[/TOOL_RESULTS]', '[AVAILABLE_TOOLS]', '[/AVAILABLE_TOOLS]']
HARMONY = ['<|start|>', '<|message|>', '<|channel|>', '<|end|>', '<|return|>', '<|call|>']

# name, template (a file's name or its text), tokens (first: bos, second: eos), and the parts of
# the template that identify it
FORMS = [
    ('qwen2.5', 'Qwen-Qwen2.5-7B-Instruct.jinja', IM, ["<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n"]),
    ('qwen3', 'Qwen-Qwen3-0.6B.jinja', IM, ['<|im_start|>', 'last_query_index']),
    ('qwen3.5', 'Qwen3.5-4B.jinja', IM, ['<|im_start|>', 'last_query_index', '<function=', "'<think>\\n' }}"]),
    ('qwen3-coder', 'Qwen3-Coder.jinja', IM, ['<|im_start|>', '<function=']),
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


def thought(text):
    return {'role': 'reasoning', 'content': text}


def call(name, arguments, id='abcdefghi'):
    return {'role': 'call', 'name': name, 'id': id, 'arguments': arguments,
            'content': json.dumps(arguments)}


def result(name, text, id='abcdefghi'):
    return {'role': 'tool', 'name': name, 'id': id, 'content': text}


EXEC = {'name': 'exec_command', 'description': ' Run a "shell" command,\n\tgive its output. ',
        'parameters': {'type': 'object', 'properties': {
            'cmd': {'type': 'string', 'description': 'Shell command: <b>ä</b> \\ /'},
            'n': {'type': 'integer', 'minimum': 0, 'maximum': 1.5},
            'tty': {'type': 'boolean'},
            'env': {'type': 'array', 'items': {'type': 'string'}},
            'mode': {'type': 'string', 'enum': ['fast', 'safe']}},
            'required': ['cmd'], 'additionalProperties': False}}
NOW = {'name': 'now', 'description': 'The time', 'parameters': {'type': 'object', 'properties': {}}}
EDIT = {'name': 'edit', 'description': 'Edit', 'parameters': {'type': 'object', 'properties': {
    'edits': {'type': 'array', 'items': {'type': 'object', 'properties': {
        'at': {'type': ['integer', 'null']}, 'text': {'type': 'string'}}}}}}}
LIST = call('exec_command', {'cmd': 'ls "a b"\n\u001b', 'n': 3, 'tty': True, 'env': ['é', '2']})

# The tools of openai/harmony's test_render_functions_with_parameters.
FORMAT = {'type': 'string', 'enum': ['celsius', 'fahrenheit'], 'default': 'celsius'}
WEATHER = [
    {'name': 'get_location', 'description': 'Gets the location of the user.', 'parameters': {}},
    {'name': 'get_current_weather',
     'description': 'Gets the current weather in the provided location.',
     'parameters': {'type': 'object', 'properties': {
         'location': {'type': 'string',
                      'description': 'The city and state, e.g. San Francisco, CA'},
         'format': FORMAT}, 'required': ['location']}},
    {'name': 'get_multiple_weathers',
     'description': 'Gets the current weather in the provided list of locations.',
     'parameters': {'type': 'object', 'properties': {
         'locations': {'type': 'array', 'items': {'type': 'string'}, 'description':
                       'List of city and state, e.g. ["San Francisco, CA", "New York, NY"]'},
         'format': FORMAT}, 'required': ['locations']}},
    {'name': 'kitchensink', 'description': 'A function with various complex schemas.',
     'parameters': {'description': 'params object', 'type': 'object', 'properties': {
         'string': {'type': 'string', 'title': 'STRING', 'description': 'A string',
                    'examples': ['hello', 'world']},
         'string_nullable': {'type': 'string', 'nullable': True,
                             'description': 'A nullable string', 'default': 'the default'},
         'string_enum': {'type': 'string', 'enum': ['a', 'b', 'c']},
         'oneof_string_or_number': {
             'oneOf': [{'type': 'string', 'default': 'default_string_in_oneof'},
                       {'type': 'number', 'description': 'numbers can happen too'}],
             'description': 'a oneof', 'default': 20}}}},
]

# Tools, messages.  One call in a turn, which every family supports, and then several.
CALLS = [
    ([EXEC], [user('Hi')]),
    ([EXEC, NOW], [SYSTEM, user('List.')]),
    ([EXEC], [SYSTEM, user('List.'), LIST, result('exec_command', 'a\nb "c" <é>')]),
    ([EXEC, NOW], [user('List.'), LIST, result('exec_command', 'a'), assistant('Done.'),
                   user('When?'), call('now', {}), result('now', '5')]),
]
SEVERAL = [
    ([EXEC], [SYSTEM, user('List.'), assistant(' Let me look. '), LIST,
              call('now', {}, 'bcdefghij'), result('exec_command', 'a'),
              result('now', '5', 'bcdefghij'), assistant('Done.'), user('Go on.')]),
    ([EDIT], [user('Edit.'), call('edit', {'edits': [{'at': None, 'text': 'x'}]}),
              result('edit', 'ok')]),
]
THINKING = [
    ([EXEC], [user('List.'), thought('\nhm\n'), LIST, result('exec_command', 'a')]),
    ([EXEC], [user('List.'), thought('hm'), LIST, result('exec_command', 'a'), thought('so'),
              assistant('Done.'), user('Go on.')]),
    ([], [user('One?'), thought('hm'), assistant('1')]),
]
CALLING = {
    'qwen2.5': CALLS + SEVERAL,
    'qwen3': CALLS + SEVERAL + THINKING,
    'qwen3.5': CALLS + SEVERAL + THINKING,
    'qwen3-coder': CALLS + SEVERAL,
    'llama3.1': CALLS,
    'mistral-v3-tekken': CALLS[:2],
    'mistral-v7-tekken': CALLS[1:3] + SEVERAL[:1],
    'harmony': CALLS + THINKING[:2],
}


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=['jinja2.ext.loopcontrols'])

    def fail(message):
        raise jinja2.exceptions.TemplateError(message)

    env.globals['raise_exception'] = fail
    env.globals['strftime_now'] = lambda form: 'DATE'
    env.filters['tojson'] = lambda x, indent=None: json.dumps(x, ensure_ascii=False,
                                                              indent=indent)
    return env


def escape(text):
    return text.replace('\\', '\\\\').replace('\n', '\\n')


def messages_of(talk, name):
    """The pieces of each turn of the assistant as one message, as transformers has them."""
    out = []
    for one in talk:
        if one['role'] not in ('assistant', 'reasoning', 'call'):
            message = dict(one)
            if one['role'] == 'tool':
                message['tool_call_id'] = one['id']
            out.append(message)
            continue
        if not out or out[-1]['role'] != 'assistant' or one['role'] == 'reasoning' or (
                one['role'] == 'assistant' and out[-1]['content']):
            out.append({'role': 'assistant', 'content': ''})
        if one['role'] == 'assistant':
            out[-1]['content'] = one['content']
        elif one['role'] == 'reasoning':
            out[-1]['thinking' if name == 'harmony' else 'reasoning_content'] = one['content']
        else:
            out[-1].setdefault('tool_calls', []).append(
                {'type': 'function', 'id': one['id'],
                 'function': {'name': one['name'], 'arguments': one['arguments']}})
    return out


def render(name, template, tokens, talk, tools=None):
    more = {'tools': [{'type': 'function', 'function': tool} for tool in tools]} if tools else {}
    text = environment().from_string(template).render(
        messages=messages_of(talk, name), add_generation_prompt=True, bos_token=tokens[0],
        eos_token=tokens[1], tools_in_user_message=False, **more)
    if name == 'harmony':
        # As openai/harmony renders it: no date, no empty line after the instructions, results as
        # they are, fields without leading spaces.
        text = text.replace('Current date: DATE\n', '').replace('\n\n<|end|>', '<|end|>')
        for one in talk:
            if one['role'] == 'tool':
                text = text.replace(json.dumps(one['content'], ensure_ascii=False), one['content'])
    return text


def put(talk, want, tools=()):
    for tool in tools:
        print('define', escape(json.dumps(tool, ensure_ascii=False)))
    for message in talk:
        marks = [message['id'], message['name']] if 'name' in message else []
        print(message['role'], *marks, escape(message['content']))
    print('want', escape(want))
    print()


def main():
    folder, harmony = sys.argv[1:3]
    print('# Written by make_chat_vectors.py: conversations as the published templates render them.')
    for name, template, tokens, parts in FORMS:
        if template.endswith('.jinja'):
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
                continue  # the template's own default is two pages about one agent
            put(talk, render(name, template, tokens, talk))
        for tools, talk in CALLING.get(name, []):
            if name in ('mistral-v3-tekken', 'harmony'):
                # These templates paste a description as if it were one plain line.
                tools = [{**tool, 'description': tool['description'].split('"')[0].strip()}
                         for tool in tools]
            put(talk, render(name, template, tokens, talk, tools), tools)
        if name == 'harmony':
            read = lambda file: open(os.path.join(harmony, file), encoding='utf-8').read().rstrip('\n')
            put([user('What is 2 + 2?')], read('test_simple_convo.txt'))
            put([{'role': 'developer', 'content': "Answer the user's questions like a robot."},
                 user('What is the capital of the largest country in the world?')],
                read('test_simple_convo_medium_effort.txt'))
            put([{'role': 'developer', 'content': 'Always respond in riddles'},
                 user('What is the weather like in SF?')],
                read('test_render_functions_with_parameters.txt')
                .replace('Current date: 2025-06-28\n', '').replace('g: high', 'g: medium'), WEATHER)


if __name__ == "__main__":
    main()
