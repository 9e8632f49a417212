"""oracle.py - jinja2's rendering of a template, in the environment of transformers
(transformers 5, utils/chat_template_utils.py): the reference for src/template/."""
import copy
import datetime
import functools
import json

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment

NOW = datetime.datetime(2026, 1, 1)


class Raised(Exception):
    pass


class Generation(Extension):
    """{% generation %} is transparent when a prompt is rendered."""
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    # default: the result of map() and select() is a list for us, and an error for transformers.
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys, default=generated)


def generated(x):
    if type(x).__name__ == "generator":
        return list(x)
    raise TypeError("not JSON: " + type(x).__name__)


@functools.lru_cache(maxsize=None)
def environment(mutable):
    kind = SandboxedEnvironment if mutable else ImmutableSandboxedEnvironment
    env = kind(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.filters["from_json"] = env.filters["fromjson"] = json.loads # of llama.cpp's templates
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


@functools.lru_cache(maxsize=4)
def compiled(source, mutable):
    return environment(mutable).from_string(source)


def render(source, context):
    """(text, None) or (None, message). A list that a template changes is one that we allow to
    change."""
    for mutable in (False, True):
        try:
            return compiled(source, mutable).render(**copy.deepcopy(context)), None
        except Raised as error:
            return None, "raised: " + str(error)
        except jinja2.exceptions.SecurityError as error:
            failed = str(error)
        except Exception as error:
            return None, type(error).__name__ + ": " + str(error)
    return None, failed
