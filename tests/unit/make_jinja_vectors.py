#!/usr/bin/env python3
"""make_jinja_vectors.py - writes jinja_vectors.jsonl: what jinja2 makes of small templates, one for
each feature that published chat templates use, and some for what bites in Python.

    python3 tests/unit/make_jinja_vectors.py > tests/unit/jinja_vectors.jsonl      (needs jinja2)
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "template"))
import oracle  # noqa: E402

CONTEXT = {
    "s": "  Héllo, wörld! ", "n": 7, "x": 2.5, "t": True, "f": False, "z": None, "e": "",
    "l": [3, 1, 2], "w": ["b", "A", "c"], "m": {"b": 1, "a": [1, {"k": "v"}], "items": 5},
    "d": [{"n": "x", "v": 1}, {"n": "y", "v": 2}, {"n": "x", "v": 3}],
    "text": "a</think>b</think>\n\nc", "lines": "one\ntwo\n\nthree",
    "q": "it's \"quoted\" \\ back\n\ttab \x07 ü 日本 🙂",
}

TEMPLATES = r"""
{{ s }}|{{ n }}|{{ x }}|{{ t }}|{{ f }}|{{ z }}|{{ e }}|{{ l }}|{{ m }}|{{ missing }}
{{ s|trim }}|{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip() }}|{{ s.strip(' H!') }}
{{ s|upper }}{{ s|lower }}{{ s|title }}{{ s|capitalize }}{{ s.title() }}{{ s.capitalize() }}
{{ s|length }} {{ l|length }} {{ m|length }} {{ missing|length }} {{ s[2:7] }} {{ s[::-1] }} {{ s[-3] }}
{{ l[0] }}{{ l[-1] }}{{ l[1:] }}{{ l[:1] }}{{ l[::-1] }}{{ l[::2] }}{{ l[5:] }}{{ l[-2:] }}{{ l[10] }}
{{ m.b }}{{ m['a'] }}{{ m.a[1].k }}{{ m.nope }}{{ m['items'] }}{{ m.get('b') }}{{ m.get('q', 4) }}{{ m.get('q') }}
{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }}
{{ -2 ** 2 }} {{ - 3 + 1 }} {{ +5 }} {{ 10 / 4 }} {{ 10 / 5 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1e16 }} {{ 1_000 }} {{ 0.1 + 0.2 }}
{{ 'a' ~ 1 ~ none ~ true ~ 2.0 }} {{ 'a' 'b' "c" }} {{ 'ab' * 3 }} {{ [1] * 2 }} {{ [1] + [2] }} {{ (1, 2) + (3,) }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 }} {{ '1' == 1 }} {{ true == 1 }} {{ none == false }}
{{ 'b' in m }} {{ 'x' in m }} {{ 3 in l }} {{ 'wör' in s }} {{ 'zz' not in s }} {{ 'a' in missing }} {{ 1 in (1, 2) }}
{{ not t }} {{ t and n }} {{ f or 'x' }} {{ f and n }} {{ z or missing or 'last' }} {{ not z and t }}
{{ 'y' if t else 'n' }}{{ 'y' if f }}{{ 'y' if f else 'm' if f else 'n' }}
{% if n > 5 %}big{% elif n > 2 %}middle{% else %}small{% endif %}
{% for i in l %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }}:{{ i }} {% endfor %}
{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}{% for i in [] %}x{% else %}none{% endfor %}
{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}{% for k in m %}{{ k }}{% endfor %}{% for k, v in m|items %}{{ k }}{% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in l if i > 1 %}{{ loop.index }}{{ i }}{% endfor %} {% for c in 'añb' %}[{{ c }}]{% endfor %}
{% for a in d recursive %}{{ a.n }}{% if loop.first %}({{ loop([{'n': 'in'}]) }}){% endif %}{% endfor %}
{{ loop is defined }}{% for i in [1] %}{% for j in [2] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% set a = 1 %}{% for i in l %}{% set a = i %}{{ a }}{% endfor %}{{ a }}{% if t %}{% set a = 9 %}{% endif %}{{ a }}
{% set ns = namespace(c=0, s='') %}{% for i in l %}{% set ns.c = ns.c + i %}{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.c }}{{ ns.s }}{{ ns.nope }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set p = (1, 'x') %}{{ p }}{{ p[1] }}{% set c = [1, [2, 3]] %}{{ c[1][0] }}
{% set v %}  in {{ n }} block{% endset %}[{{ v }}]{% set u | upper %}abc{% endset %}{{ u }}
{% macro f(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(c=5, a=6) }} {{ f() }}
{% macro r(k) %}{{ k }}{% if k > 0 %}{{ r(k - 1) }}{% endif %}{% endmacro %}{{ r(4) }}{% set y = r(1) %}{{ y|length }}
{% macro v(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, 3, k=4) }}
{% macro c(a) %}<{{ caller(a) }}>{% endmacro %}{% call(z) c(5) %}in {{ z }}{% endcall %}
{% macro g() %}{{ n }}{{ q1 }}{% endmacro %}{% set q1 = 'late' %}{{ g() }}
{% filter upper %}abc {{ n }}{% endfilter %}{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}
{% raw %}{{ not }} {% run %}{% endraw %}{# a comment {{ x }} #}{% generation %}gen{% endgeneration %}
{{ text.split('</think>') }}{{ text.split('</think>')[-1].lstrip('\n') }}{{ text.split('</think>', 1) }}{{ text.rsplit('</think>', 1) }}
{{ ' a  b c '.split() }}{{ ' a  b c '.split(None, 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'abc'.partition('b') }}{{ 'abcb'.rpartition('b') }}{{ lines.splitlines() }}
{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'abcabc'.find('c') }}{{ 'abcabc'.rfind('c') }}{{ 'abc'.find('z') }}{{ 'ünü'.find('n') }}{{ 'aXbX'.replace('X', '-') }}{{ 'aaa'.replace('a', 'b', 2) }}{{ 'ab'.replace('', '.') }}
{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('bc') }}{{ 'aba'.count('a') }}{{ [1, 1, 2].count(1) }}{{ 'abc'.index('b') }}{{ [1, 2].index(2) }}
{{ '12'.isdigit() }}{{ 'a1'.isalnum() }}{{ 'ab'.isalpha() }}{{ ' '.isspace() }}{{ 'AB'.isupper() }}{{ 'ab'.islower() }}{{ ''.isdigit() }}
{{ ', '.join(['a', 'b']) }}{{ l|join(', ') }}{{ d|join('+', attribute='n') }}{{ l|join }}
{{ '{} {} {a}'.format(1, 'b', a=2) }} {{ '{1}{0}{{}}'.format('x', 'y') }} {{ '%s-%d-%.2f-%05d-%x%%' % ('a', 3, 1.5, 42, 255) }} {{ '%s' % 'one' }} {{ '%s|%s'|format(1, 2) }}
{{ l|sort }}{{ w|sort }}{{ w|sort(case_sensitive=true) }}{{ l|sort(reverse=true) }}{{ d|sort(attribute='v', reverse=true) }}{{ m|dictsort }}{{ {'b': 1, 'a': 2}|dictsort(by='value') }}
{{ l|first }}{{ l|last }}{{ [] |first }}{{ l|max }}{{ l|min }}{{ l|sum }}{{ d|sum('v') }}{{ l|reverse|list }}{{ 'abc'|reverse }}{{ l|list }}{{ 'ab'|list }}
{{ d|map(attribute='n')|list }}{{ w|map('upper')|list }}{{ d|map(attribute='q', default='-')|list }}{{ [1, 2]|map('string')|join }}
{{ d|selectattr('n', 'equalto', 'x')|list|length }}{{ d|rejectattr('n', 'equalto', 'x')|list }}{{ l|select('gt', 1)|list }}{{ l|reject('odd')|list }}{{ [0, 1, '']|select|list }}{{ d|selectattr('v')|list|length }}
{{ d|map(attribute='n')|unique|list }}{{ d|groupby('n')|length }}{% for k, g in d|groupby('n') %}{{ k }}{{ g|length }}{% endfor %}{{ l|batch(2)|list }}{{ l|batch(2, '-')|list }}
{{ missing|default('d') }}{{ z|default('d') }}{{ z|default('d', true) }}{{ e|d('x', true) }}{{ missing|default }}
{{ '3.7'|int }}{{ 'x'|int }}{{ 'x'|int(5) }}{{ 3.9|int }}{{ '2.5'|float }}{{ 3|float }}{{ -3|abs }}{{ 2.567|round(1) }}{{ 2.5|round }}{{ 2.1|round(0, 'ceil') }}
{{ lines|indent }}|{{ lines|indent(2, true) }}|{{ lines|indent(2, first=true, blank=true) }}|{{ lines|indent('> ') }}
{{ 'a long text that goes on and on'|truncate(15) }}|{{ 'a long text'|truncate(5, true, '') }}|{{ 'one two'|wordcount }}|{{ 'ab'|center(6) }}|
{{ q|tojson }}|{{ m|tojson }}|{{ [1, 2.0, true, none, 1e20, 1.5e-9]|tojson }}|{{ {}|tojson }}{{ []|tojson }}{{ (1, 2)|tojson }}
{{ m|tojson(indent=2) }}|{{ m|tojson(separators=(',', ':')) }}|{{ m|tojson(sort_keys=true) }}|{{ q|tojson(ensure_ascii=true) }}|{{ l|tojson(indent=1) }}
{{ '{"a": [1, "x"]}'|from_json }}{{ q }}{{ [q] }}{{ ['a\'b', "a\"b", 'a"b\'c'] }}
{{ '<a> & "b"'|e }}|{{ '<a>'|safe }}|{{ ('<' | safe) + '&' }}|{{ '<'|escape ~ '&' }}
{{ '\n\t\\\'\"\x41\u00e9\q' }}|{{ "a\
b" }}
{{ n is defined }}{{ missing is defined }}{{ missing is undefined }}{{ z is none }}{{ z is not none }}{{ s is string }}{{ n is number }}{{ n is integer }}{{ x is float }}{{ t is boolean }}{{ t is true }}{{ f is false }}{{ n is true }}
{{ m is mapping }}{{ l is mapping }}{{ l is sequence }}{{ s is sequence }}{{ m is sequence }}{{ n is sequence }}{{ l is iterable }}{{ s is iterable }}{{ n is iterable }}{{ missing is iterable }}{{ range is callable }}
{{ 3 is odd }}{{ 4 is even }}{{ 6 is divisibleby 3 }}{{ 6 is divisibleby(4) }}{{ 3 is in l }}{{ 1 is eq 1 }}{{ 2 is gt(1) }}{{ 'AB' is upper }}{{ z is sameas none }}{{ not n is odd }}
{{ [1, 'a', [2], {'k': none}, (1,), ()] }}{{ {1: 'a', 'b': true} }}{{ {'a': 1,} }}{{ [1, 2,] }}{{ range(5)|list }}{{ range(1, 8, 3)|list }}{{ range(3, 0, -1)|list }}
{{ dict(a=1, b='x') }}{{ dict(m, c=1)|length }}{{ namespace(a=1).a }}{{ strftime_now('%d %b %Y %H:%M %A %j') }}
{{ l.append(4) }}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}{{ m.pop('b') }}{{ m.update({'z': 1}) }}{{ m }}{{ m.keys()|list }}{{ m.values()|list }}
{{ missing.attribute }}
{{ missing[0] }}
{{ missing() }}
{{ missing + 1 }}
{{ 'a' + 1 }}
{{ 1 / 0 }}
{{ none|length }}
{% for i in 5 %}{% endfor %}
{{ raise_exception('no ' ~ n) }}
{{ 'abc' in none }}
{{ none.x }}{{ none['y'] }}{{ 5.x }}
{{ s.nope }}{{ s.nope() }}
{{ x.y.z }}
{{ m.b.c }}
{{ l|map(attribute='v')|list }}
{{ n|nofilter }}
{{ n is notest }}
{% nothing %}
{% if n %}
{{ n
{{ (1 }}
{% for i in l %}{{ i }}
{{ 'abc }}
{% endfor %}
{{ }}
{{ 1 2 }}
{% set 5 = 1 %}
{% include 'x' %}
{% set ns = 5 %}{% set ns.a = 1 %}
{% set a, b = [1] %}
{{ tojson(5) }}
{{ missing|tojson }}
{{ {[1]: 2} }}
{{ [1]|first|upper }}{{ 5|upper }}{{ none|string }}{{ [1]|string|length }}{{ true|string }}{{ 1.0|string }}
{{ [3,1]|sort|first }}{{ {'a': {'b': [1, 2]}}.a.b[1] }}{{ ({'a': 1}).a }}{{ [1, 2][0] }}{{ 'abc'[1] }}{{ (1, 2)[1] }}{{ 'a.b'.split('.')[0] }}
{{ 'x' if missing is defined and missing.y else 'z' }}{{ missing is defined and missing.y }}{{ (n > 3) is true }}
{{ n if n is number else 'no' }}{{ s|trim|length > 3 }}{{ (l|length) - 1 }}{{ l|length - 1 }}{{ 'a' ~ 'b' == 'ab' }}{{ 1 + 1 ~ 2 }}
""".strip("\n").split("\n")

WHITE = [
    "a\n  {% if t %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if t -%}\n  b\n  {%- endif -%}\n c",
    "  {% if t %}x{% endif %}\n  {{ n }}\n  {# c #}\n  y {% if t %} z{% endif %}\n\n",
    "{{ n }}\n{{ n -}}\n  {{- n }} \n {%+ if t %}a{%+ endif +%}\nb", "\n\n{% if t %}\n\nx\n{% endif %}\n\n\n",
    "a {#- c -#} b\n{#+ d +#}\ne", "x\r\ny\rz\r\n", "{% raw -%}\n a {{ }} \n{%- endraw %}\n b", "",
    "   ", "\n", "{% for i in l -%}\n  {{ i }}\n{%- endfor %}|\n", "a{% if t %}\n\n{% endif %}\tb \t{% if t %}c{% endif %}",
    "{%- set a = {'b': {'c': 1}} -%}{{ a.b.c }}{{ {'a': {'b': 2}}['a']['b'] }}",
    "{# x -#}   y", "\t {%- if t %} q {%- endif %} \n", "{%if t%}a{%endif%}{{n}}{{-n-}} {{n}}",
]


def main():
    for template in TEMPLATES + WHITE:
        want, failed = oracle.render(template, json.loads(json.dumps(CONTEXT)))
        line = {"template": template}
        if failed is None:
            line["want"] = want
        elif failed.startswith("raised: "):
            line["raised"] = failed[8:]
        else:
            line["error"] = failed.split(":")[0]
        print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    print(json.dumps({"context": CONTEXT}, ensure_ascii=False))
    main()
