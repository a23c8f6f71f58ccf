"""A tiny GGUF model for llama.cpp that says scripted texts: the server is real, its model is a table.

The model has one layer without attention and feed-forward, and each token has an embedding of its own. So the scores of the
next token depend on the last token alone, and the output matrix is a table of which token follows which. A script is a
chain of tokens, each of which occurs once. The chat template ends the prompt with the token that begins a script: that
of ``[script:NAME]`` in the conversation, one for each round of tool results.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SIZE = 1024
"""Tokens, and dimensions of an embedding."""
HEAD = 32
CONTEXT = 65536
ENDLESS = "endless"
"""A script that never ends."""

_NORMAL, _CONTROL, _USER_DEFINED, _UNUSED = 1, 3, 4, 5
_U32, _F32, _BOOL, _STRING, _ARRAY, _I32 = 4, 6, 7, 8, 9, 5
_TENSOR_F32, _TENSOR_F16 = 0, 1
_ALIGNMENT = 32
_NEVER, _ALWAYS, _ALLOWED = -40.0, 20.0, -20.0
"""Scores; a grammar, which forbids tokens, may still choose an allowed one."""

_TEMPLATE = r"""
{%- if tools -%}
{{- '<|im_start|>system\n' -}}
{%- if messages[0].role == 'system' -%}{{- messages[0].content + '\n\n' -}}{%- endif -%}
{{- '# Tools\n\nYou may call one or more functions.\n\n<tools>' -}}
{%- for tool in tools -%}{{- '\n' -}}{{- tool | tojson -}}{%- endfor -%}
{{- '\n</tools>\n\nFor each function call, return a json object within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n' -}}
{%- elif messages[0].role == 'system' -%}
{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' -}}
{%- endif -%}
{%- set ns = namespace(script='hello', rounds=0, before='') -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}
{%- if m.content is string and '[script:' in m.content -%}
{%- set ns.script = m.content.split('[script:')[1].split(']')[0] -%}
{%- endif -%}
{{- '<|im_start|>user\n' + m.content + '<|im_end|>\n' -}}
{%- elif m.role == 'assistant' -%}
{{- '<|im_start|>assistant\n' -}}
{%- if m.reasoning_content -%}{{- '<think>\n' + m.reasoning_content + '\n</think>\n\n' -}}{%- endif -%}
{%- if m.content -%}{{- m.content -}}{%- endif -%}
{%- if m.tool_calls -%}
{%- for tc in m.tool_calls -%}
{%- if (loop.first and m.content) or (not loop.first) -%}{{- '\n' -}}{%- endif -%}
{%- if tc.function -%}{%- set tc = tc.function -%}{%- endif -%}
{{- '<tool_call>\n{"name": "' -}}{{- tc.name -}}{{- '", "arguments": ' -}}
{%- if tc.arguments is string -%}{{- tc.arguments -}}{%- else -%}{{- tc.arguments | tojson -}}{%- endif -%}
{{- '}\n</tool_call>' -}}
{%- endfor -%}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- elif m.role == 'tool' -%}
{%- if ns.before != 'tool' -%}{%- set ns.rounds = ns.rounds + 1 -%}{%- endif -%}
{{- '<|im_start|>user\n<tool_response>\n' + m.content + '\n</tool_response><|im_end|>\n' -}}
{%- endif -%}
{%- set ns.before = m.role -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\n<|s_' + ns.script + '_' + (ns.rounds | string) + '|>' -}}
{%- endif -%}
""".strip("\n")


def write(path: Path, scripts: Mapping[str, Sequence[str]]) -> None:
    """Write a model that answers with ``scripts[name][round]``; the script ``endless`` repeats its last part forever."""
    tokens, kinds, follows = _vocabulary(scripts)
    fields = _fields(tokens, kinds)
    tensors = _tensors(follows)
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)))
    for name, (kind, value) in fields.items():
        out += _text(name) + struct.pack("<I", kind) + _value(kind, value)
    offset = 0
    for name, (shape, kind, data) in tensors.items():
        out += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        offset += len(data) + -len(data) % _ALIGNMENT
    out += bytes(-len(out) % _ALIGNMENT)
    for _, _, data in tensors.values():
        out += data + bytes(-len(data) % _ALIGNMENT)
    path.write_bytes(out)


def _vocabulary(scripts: Mapping[str, Sequence[str]]) -> tuple[list[str], list[int], dict[int, int]]:
    """Return the tokens, their kinds, and which token follows which."""
    tokens = [_shown(byte) for byte in range(256)]
    kinds = [_NORMAL] * 256
    ids = {text: number for number, text in enumerate(tokens)}

    def add(text: str, kind: int) -> int:
        assert text not in ids, text
        ids[text] = len(tokens)
        tokens.append(text)
        kinds.append(kind)
        return ids[text]

    for text in ("<|endoftext|>", "<|im_start|>", "<|im_end|>"):
        add(text, _CONTROL)
    follows: dict[int, int] = {}
    for name, parts in scripts.items():
        for number, part in enumerate(parts):
            before = add(f"<|s_{name}_{number}|>", _CONTROL)
            first = None
            for piece in _pieces(part, ids):
                token = add(piece, _USER_DEFINED)
                follows[before] = before = token
                first = token if first is None else first
            endless = name == ENDLESS and number == len(parts) - 1
            follows[before] = first if endless and first is not None else ids["<|im_end|>"]
    while len(tokens) < SIZE:
        add(f"<|unused_{len(tokens)}|>", _UNUSED)
    assert len(tokens) == SIZE, "the scripts have too many pieces"
    return tokens, kinds, follows


def _pieces(text: str, taken: Mapping[str, int]) -> list[str]:
    """Cut a text into pieces that occur nowhere else, so that each has one successor."""
    found: list[str] = []
    start = 0

    def usable(piece: str) -> bool:
        return not (piece in taken or piece in found or piece.isspace())

    while start < len(text):
        end = start + 4
        while end < len(text) and not usable(text[start:end]):
            end += 1
        if not usable(text[start:end]):
            found[-1] += text[start:]
            break
        found.append(text[start:end])
        start = end
    assert "".join(found) == text
    assert len(set(found)) == len(found)
    return found


def _shown(byte: int) -> str:
    """Return a byte as the tokenizer of GPT-2 writes it: printable characters for all bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(byte) if byte in plain else chr(256 + [one for one in range(256) if one not in plain].index(byte))


def _fields(tokens: Sequence[str], kinds: Sequence[int]) -> dict[str, tuple[int, Any]]:
    end = tokens.index("<|im_end|>")
    numbers = {
        "llama.context_length": CONTEXT,
        "llama.embedding_length": SIZE,
        "llama.block_count": 1,
        "llama.feed_forward_length": 32,
        "llama.attention.head_count": 1,
        "llama.attention.head_count_kv": 1,
        "llama.attention.key_length": HEAD,
        "llama.attention.value_length": HEAD,
        "llama.rope.dimension_count": HEAD,
        "llama.vocab_size": SIZE,
        "general.file_type": 1,
        "tokenizer.ggml.bos_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.eos_token_id": end,
        "tokenizer.ggml.eot_token_id": end,
    }
    return {
        "general.architecture": (_STRING, "llama"),
        "general.name": (_STRING, "scripted"),
        **{name: (_U32, value) for name, value in numbers.items()},
        "llama.attention.layer_norm_rms_epsilon": (_F32, 1e-6),
        "tokenizer.ggml.model": (_STRING, "gpt2"),
        "tokenizer.ggml.pre": (_STRING, "default"),
        "tokenizer.ggml.tokens": (_ARRAY, (_STRING, tokens)),
        "tokenizer.ggml.token_type": (_ARRAY, (_I32, kinds)),
        "tokenizer.ggml.merges": (_ARRAY, (_STRING, ["Ġ Ġ"])),
        "tokenizer.ggml.add_bos_token": (_BOOL, False),
        "tokenizer.chat_template": (_STRING, _TEMPLATE),
    }


def _value(kind: int, value: Any) -> bytes:
    if kind == _STRING:
        return _text(value)
    if kind == _ARRAY:
        inner, values = value
        return struct.pack("<IQ", inner, len(values)) + b"".join(_value(inner, one) for one in values)
    return struct.pack({_U32: "<I", _I32: "<i", _F32: "<f", _BOOL: "<?"}[kind], value)


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _tensors(follows: Mapping[int, int]) -> dict[str, tuple[tuple[int, ...], int, bytes]]:
    """Return name → shape (the fastest dimension first), type and data."""
    scale = SIZE**-0.5  # a normalised one-hot vector has the value sqrt(SIZE)
    never, allowed, always = (struct.pack("<e", value * scale) for value in (_NEVER, _ALLOWED, _ALWAYS))
    table = [bytearray(never * SIZE) for _ in range(SIZE)]  # a row for each next token, a column for each last one
    for last, following in follows.items():
        for byte in range(32, 127):
            table[byte][2 * last : 2 * last + 2] = allowed
        table[following][2 * last : 2 * last + 2] = always
    identity = bytearray(2 * SIZE * SIZE)
    for number in range(SIZE):
        start = 2 * (number * SIZE + number)
        identity[start : start + 2] = struct.pack("<e", 1.0)
    ones = struct.pack("<f", 1.0) * SIZE
    layer = {
        "attn_q": (SIZE, HEAD), "attn_k": (SIZE, HEAD), "attn_v": (SIZE, HEAD), "attn_output": (HEAD, SIZE),
        "ffn_gate": (SIZE, 32), "ffn_up": (SIZE, 32), "ffn_down": (32, SIZE),
    }  # fmt: skip
    return {
        "token_embd.weight": ((SIZE, SIZE), _TENSOR_F16, bytes(identity)),
        "output_norm.weight": ((SIZE,), _TENSOR_F32, ones),
        "output.weight": ((SIZE, SIZE), _TENSOR_F16, b"".join(table)),
        "blk.0.attn_norm.weight": ((SIZE,), _TENSOR_F32, ones),
        "blk.0.ffn_norm.weight": ((SIZE,), _TENSOR_F32, ones),
        **{
            f"blk.0.{name}.weight": (shape, _TENSOR_F16, bytes(2 * shape[0] * shape[1]))
            for name, shape in layer.items()
        },
    }
