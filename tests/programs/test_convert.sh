#!/bin/sh
# test_convert.sh - models as Hugging Face publishes them, converted: transformers' logits, the ids
# of its tokenizers, and one line for what cannot be.
. tests/shell.sh

hf=tests/golden/hf
mkdir "$work/models" "$work/home"

same_ids() { # MODEL
    ./cerium tokenize -m "$work/models/$1.gguf" --begin --special --ids "$hf/$1.text" 2>/dev/null |
        tr -s ' ,' '\n\n' >"$work/ids"
    cmp "$work/ids" "$hf/$1.ids"
}
refuse() {
    refused 1 "$1" ./cerium convert "$work/model" "$work/x.gguf" && [ ! -e "$work/x.gguf" ]
}
change() { sed -i "$1" "$work/model/config.json"; }
fresh() {
    rm -rf "$work/model"
    cp -r "$hf/${1:-qwen3}" "$work/model"
    chmod -R u+w "$work/model"
}

for folder in "$hf"/*/; do
    name=$(basename "$folder")
    check "$name is converted" ./cerium convert "$folder" "$work/models/$name.gguf"
    cp "$hf/$name.expect" "$work/models/"
    check "$name has the ids of its tokenizer" same_ids "$name"
done
check "and all have the logits of transformers" "$O/golden_golden" "$work/models" /nowhere

# ---- what is asked for ----
fresh
is_q8_0() { ./cerium inspect -m "$work/q8_0.gguf" | grep -q Q8_0; }
check "another type" ./cerium convert --type q8_0 "$work/model" "$work/q8_0.gguf"
check "is taken" is_q8_0
check_fails "a type that is none" "'q3' is not a value" ./cerium convert --type q3 a b

# ---- what others write ----
converts() { ./cerium convert "$work/model" "$work/o.gguf" 2>"$work/told"; }
says() { converts && grep -qF "$1" "$work/told"; }
holds() { converts && grep -aqF -e "$1" "$work/o.gguf"; }
json() { # FILE: python changes it as j
    python3 -c "
import json
j = json.load(open('$work/model/$1'))
$2
json.dump(j, open('$work/model/$1', 'w'))"
}
fresh && echo '{}' >"$work/model/tokenizer_config.json" &&
    json tokenizer_config.json 'j["model_max_length"] = int(1e30)'
check "a limit that is none, as transformers writes it" converts
fresh && json config.json 'j["x"] = float("inf"); j["y"] = float("nan"); j["z"] = -10**40'
check "numbers that nobody reads" converts
fresh && { printf '\357\273\277'; cat "$hf/qwen3/config.json"; } >"$work/model/config.json"
check "a byte-order mark" converts
fresh mistral && json config.json 'j["sliding_window"] = 16'
check "a window of Mistral's is kept" holds llama.attention.sliding_window
fresh && json config.json 'j["eos_token_id"] = [1, 2]' &&
    echo '{"eos_token_id": [2, 5, 7]}' >"$work/model/generation_config.json"
check "all ids that end are kept" holds cerium.end_token_ids
for flag in lstrip rstrip single_word; do
    fresh && json tokenizer.json "j['added_tokens'][0]['$flag'] = True"
    check "an added token with $flag is refused by its name" refuse "has $flag, which is not"
done
fresh && json config.json 'j["use_sliding_window"] = True; j["sliding_window"] = 8'
check "windows that an architecture lacks" refuse "use_sliding_window"
fresh && json config.json 'j["partial_rotary_factor"] = 0.5'
check "rotation of a part" refuse "partial_rotary_factor"

# What foreign JSON writes otherwise, and what would be lost without a word.
set_key() { # FILE KEY VALUE (Python)
    fresh && json "$1" "
import functools
*way, last = '$2'.split('.')
functools.reduce(lambda at, k: at[k], way, j)[last] = $3"
}
for row in 'hidden_size 32.0' 'num_hidden_layers 2.0' 'num_attention_heads 4.0' 'vocab_size 272.0' \
    'max_position_embeddings 2.56e2' 'head_dim 16.0' 'eos_token_id 3.0' 'eos_token_id None' \
    'bos_token_id -1' 'rope_scaling None' 'rope_scaling {}' 'attention_bias False'; do
    set_key config.json "${row%% *}" "${row#* }"
    check "config.json: $row" converts
done
while IFS='|' read -r file key value said; do
    set_key "$file" "$key" "$value"
    check "$file: $key $value" refuse "$said"
done <<'EOF'
config.json|hidden_size|"32"|hidden_size: is not a whole number from 1 to
config.json|hidden_size|32.5|hidden_size: is not a whole number from 1 to
config.json|num_attention_heads|True|num_attention_heads: is not a whole number from 1 to 4096
config.json|vocab_size|1e30|vocab_size: is not a whole number from 1 to
config.json|eos_token_id|"5"|eos_token_id: is not the id of a token
config.json|eos_token_id|[1, 1.5]|eos_token_id: is not the id of a token
config.json|eos_token_id|99999|eos_token_id: is not the id of a token
config.json|bos_token_id|True|bos_token_id: is not the id of a token
config.json|rope_scaling|{"rope_type": "yarn", "factor": 4.0}|differs from rope_parameters
config.json|rope_scaling|{"type": "dynamic", "factor": 2.0}|differs from rope_parameters
config.json|layer_types|["x", "full_attention"]|layer_types: a kind of layer that is not supported
config.json|layer_types|["sliding_attention", "full_attention"]|windows of these layers
tokenizer.json|normalizer|{"type": "Lowercase"}|the normalizer Lowercase is not supported
tokenizer.json|normalizer|{"type": "Sequence", "normalizers": [{"type": "NFKC"}]}|NFKC is not
tokenizer.json|model.end_of_word_suffix|"</w>"|end_of_word_suffix is not supported
tokenizer.json|model.continuing_subword_prefix|"##"|prefix is not supported
tokenizer.json|model.dropout|0.1|dropout is not supported
tokenizer.json|normalizer|{"type": "Replace", "pattern": {"String": " "}}|Replace is not supported
tokenizer.json|normalizer|{"type": "Prepend", "prepend": "x"}|Prepend is not supported
tokenizer.json|pre_tokenizer|{"type": "ByteLevel", "add_prefix_space": True}|add_prefix_space is not
EOF
fresh && echo '[]' >"$work/model/config.json"
check "config.json is a list" refuse "config.json: it is not an object"
fresh && echo '{"eos_token_id": ["x"]}' >"$work/model/generation_config.json"
check "an end that is no token" refuse "generation_config.json: eos_token_id: is not the id"

# A step that GGUF has no key for, and that does nothing to most texts.
fresh && json tokenizer.json "j['normalizer'] = {'type': 'NFC'}"
check "NFC is left out in one line" says "NFC is left out"
fresh mistral && json tokenizer.json "for t in j['added_tokens']: t['normalized'] = True"
check "added tokens in normalized text" says 'although "normalized" is set'
post() { # FRONT BEHIND: a template with so many tokens
    fresh mistral && json tokenizer.json "
token = [{'SpecialToken': {'id': '<s>', 'type_id': 0}}]
text = {'Sequence': {'id': 'A', 'type_id': 0}}
j['post_processor'] = {'type': 'Sequence', 'processors': [{'type': 'TemplateProcessing',
                       'single': token * $1 + [text] + token * $2}]}"
}
kept_tokens="only the one that begins a text is kept"
post 2 0 && check "a second token in front of a text" says "$kept_tokens"
post 1 1 && check "a token at the end of a text" says "$kept_tokens"
quietly() { converts && ! grep -qF "$1" "$work/told"; }
post 1 0 && check "one in front is kept without a word" quietly "$kept_tokens"
fresh && python3 - "$work/model/model.safetensors" <<'EOF'
import json, struct, sys
with open(sys.argv[1], "rb") as f:
    n, = struct.unpack("<Q", f.read(8))
    head, data = json.loads(f.read(n)), f.read()
head["visual.patch_embed.weight"] = {"dtype": "F32", "shape": [1],
                                     "data_offsets": [len(data), len(data) + 4]}
text = json.dumps(head).encode()
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data + bytes(4))
EOF
check "a vision tower is left out in one line" says "1 tensor is left out, no part of the text"
# What would change the tokens without a word.
fresh && json tokenizer.json "
j['added_tokens'][0].update(content='a', id=j['model']['vocab']['a'] + 1)"
check "an added token with another id" refuse "added token 'a' has the id"
fresh && json tokenizer.json "
for one in j['pre_tokenizer']['pretokenizers']:
    if one['type'] == 'Split': one['behavior'] = 'MergedWithPrevious'"
check "pieces cut otherwise" refuse "unknown pre-tokenizer"
fresh mistral && json tokenizer.json "
j['normalizer'] = None
j['pre_tokenizer'] = {'type': 'Metaspace', 'replacement': chr(0x2581), 'prepend_scheme': 'first'}
j['model']['merges'].append(['a', chr(0x2581)])"
check "words that are cut at spaces" refuse "Metaspace's split is not supported"

# SentencePiece's spaces: ids of tokenizers 0.23, of texts that begin with a space, or stand
# behind a token of a name.
scheme() { # SCHEME TEXT IDS
    fresh mistral
    json tokenizer.json "j['normalizer'] = None
j['pre_tokenizer'] = {'type': 'Metaspace', 'replacement': chr(0x2581), 'prepend_scheme': '$1',
                      'split': False}"
    converts || return 1
    ./cerium tokenize -m "$work/o.gguf" --special -p "$2" >"$work/ids"
    awk '{ printf "%s ", $1 }' "$work/ids" >"$work/got"
    [ "$(cat "$work/got")" = "$3" ] || { cat "$work/ids"; return 1; }
}
check "first: ' def'" scheme first ' def' '348 362 322 '
check "first: 'def'" scheme first 'def' '348 362 322 '
check "first: 'a</s>def'" scheme first 'a</s>def' '348 317 2 362 322 '
check "first: 'a</s> def'" scheme first 'a</s> def' '348 317 2 348 362 322 '
check "first: '▁x  y'" scheme first '▁x  y' '348 340 349 341 '
check "always: ' def'" scheme always ' def' '348 362 322 '
check "always: 'def'" scheme always 'def' '348 362 322 '
check "always: 'a</s>def'" scheme always 'a</s>def' '348 317 2 348 362 322 '
check "always: 'a</s> def'" scheme always 'a</s> def' '348 317 2 348 362 322 '
check "always: '▁x  y'" scheme always '▁x  y' '348 340 349 341 '
check "never: ' def'" scheme never ' def' '348 362 322 '
check "never: 'def'" scheme never 'def' '362 322 '
check "never: 'a</s>def'" scheme never 'a</s>def' '317 2 362 322 '
check "never: 'a</s> def'" scheme never 'a</s> def' '317 2 348 362 322 '
check "never: '▁x  y'" scheme never '▁x  y' '348 340 349 341 '

# ---- NVFP4, as two makers write it ----

fp4() { # FILE, then what python does to d, its tensors by name: [dtype, shape, bytes]
    fresh "$1" && python3 - "$work/model/model.safetensors" "$2" <<'EOF'
import json, sys
path, change = sys.argv[1:]
raw = open(path, "rb").read()
n = int.from_bytes(raw[:8], "little")
d = {k: [t["dtype"], t["shape"], bytearray(raw[8 + n:][slice(*t["data_offsets"])])]
     for k, t in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
k = "model.layers.1.self_attn.k_proj.weight"
exec(change)
head, body = {}, b""
for name, (dtype, shape, data) in d.items():
    at, body = len(body), body + data
    head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, len(body)]}
text = json.dumps(head).encode()
open(path, "wb").write(len(text).to_bytes(8, "little") + text + body)
EOF
}
fp4 qwen3-nvfp4 'd[k + "_scale"][2][70] = 0x7f'
check "a scale that is no number" refuse "k_proj.weight_scale: row 17 has a scale that is below 0"
fp4 qwen3-nvfp4 'd[k + "_scale"][2][3] = 0xb8'
check "a scale below 0" refuse "k_proj.weight_scale: row 0 has a scale that is below 0 or not"
fp4 qwen3-nvfp4 'del d[k + "_scale_2"]'
check "no factor" refuse "weight_scale_2 or model.layers.1.self_attn.k_proj.weight_global_scale is"
fp4 qwen3-nvfp4 'd[k + "_scale_2"][2][:] = bytes(4)'
check "a factor of 0" refuse "k_proj.weight_scale_2 is not a number above 0"
fp4 qwen3moe-nvfp4 'd[k + "_global_scale"][2][:] = bytes(4)'
check "one divided by 0" refuse "k_proj.weight_global_scale is not a number above 0"
fp4 qwen3-nvfp4 'd[k + "_scale"][1] = [16, 8]'
check "scales of another shape" refuse "k_proj.weight: its shape does not agree"
fp4 qwen3-nvfp4 'd[k.replace("weight", "pre_quant_scale")] = d[k + "_scale_2"]'
check "a scale of columns" refuse "pre_quant_scale would be left out"
fresh qwen3-nvfp4 && json config.json 'j["quantization_config"]["quant_algo"] = "W4A8_AWQ"'
check "another algorithm" refuse "only block-scaled fp8, mxfp4 and nvfp4 are supported"
fresh qwen3-nvfp4 && json config.json 'del j["quantization_config"]'
check "its name in another file of the folder" holds blk.1.attn_k.scale
alike() { # A B: the same text as probable, to all digits shown
    for name in "$1" "$2"; do
        ./cerium perplexity --window 64 --windows 2 --exact --kv f32 -f LICENSE \
            -m "$work/$name.gguf" >"$work/$name.said" 2>"$work/told" || return 1
    done
    cmp "$work/$1.said" "$work/$2.said"
}
as_floats() {
    ./cerium convert "$work/model" "$work/o.gguf" 2>"$work/told" &&
        ./cerium convert --type f32 "$work/model" "$work/p.gguf" 2>"$work/told" &&
        ! grep -aqF blk.1.attn_k.scale "$work/p.gguf" && alike o p
}
quantized() { # the factors go into the values
    ./cerium convert --type mxfp4 "$work/model" "$work/p.gguf" 2>"$work/told" &&
        ./cerium quantize --head mxfp4 "$work/o.gguf" "$work/q.gguf" mxfp4 2>"$work/told" &&
        ! grep -aqF blk.1.attn_k.scale "$work/q.gguf" && alike p q
}
for name in qwen3-nvfp4 qwen3moe-nvfp4; do
    fresh $name
    check "$name: its values are those of the same in floats" as_floats
    check "$name: and in another type those of both ways there" quantized
done
rm -f "$work/q.gguf"

# ---- values that are not numbers ----
fresh llama3
patch() { # BYTES: the last values of the file are these
    python3 -c "
import sys
f = open('$work/o.gguf', 'r+b')
f.seek(-256, 2)
f.write(bytes.fromhex('$1') * (256 // len(bytes.fromhex('$1'))))"
}
says() { refused 1 "$@"; }
check "a model to be damaged" ./cerium convert --type f32 "$work/model" "$work/o.gguf"
patch ffff7f7f # numbers, but what they make is none
runs_into() {
    status 1 ./cerium run -m "$work/o.gguf" --raw -p x -n 4 &&
        grep -q "are not numbers: its file is damaged" "$work/err" && [ "$(cat "$work/out")" = x ]
}
check "run says that a file is damaged, and writes no text" runs_into
echo 'some text of some length' >"$work/text"
check "so does perplexity" \
    says "are not numbers: its file is damaged" ./cerium perplexity --window 16 -m "$work/o.gguf" \
    "$work/text"
patch 0000c07f
check "a weight that is not a number is named" \
    says "output_norm.weight has a value that is not a number" \
    ./cerium run -m "$work/o.gguf" --raw -p x -n 4
check "and quantize names the tensor and its row" \
    says "has a value that is not finite" ./cerium quantize "$work/o.gguf" "$work/q.gguf" Q8_0
./cerium convert --type f32 "$work/model" "$work/o.gguf" 2>/dev/null
patch 00247449
for type in F16 Q4_0; do
    check "a value beyond what $type holds" \
        says "beyond what F16 holds" ./cerium quantize "$work/o.gguf" "$work/q.gguf" $type
done
check "and none of these leaves a file" [ ! -e "$work/q.gguf" ]

# ---- what cannot be ----
check "no folder" refused 1 "/nowhere" ./cerium convert /nowhere "$work/x.gguf"
fresh && rm "$work/model/config.json"
check "no config.json" refuse "config.json"
fresh && rm "$work/model/model.safetensors"
check "no weights" refuse "no model*.safetensors"
fresh && change 's/Qwen3ForCausalLM/MambaForCausalLM/'
check "an architecture that we lack" refuse "MambaForCausalLM is not supported"
fresh && change 's/"silu"/"relu"/'
check "another activation" refuse "hidden_act"
fresh && change 's/"rope_type": "default"/"rope_type": "longrope"/'
check "another scaling" refuse "rope_type"
fresh && change 's/"num_hidden_layers": 2/"num_hidden_layers": 3/'
check "a layer too many" refuse "model.layers.2.input_layernorm.weight is missing"
fresh && change 's/"num_hidden_layers": 2/"num_hidden_layers": 1/'
check "a layer too few" refuse "would be left out"
fresh && change 's/"hidden_size": 32/"hidden_size": 64/'
check "another width" refuse "does not agree with config.json"
fresh && echo '{' >"$work/model/config.json"
check "broken JSON" refuse "config.json: line"
fresh && head -c 30000 "$hf/qwen3/model.safetensors" >"$work/model/model.safetensors"
check "cut weights" refuse "not inside the file"
fresh && head -c 100 "$hf/qwen3/model.safetensors" >"$work/model/model.safetensors"
check "a cut header" refuse "cut short"
fresh && sed -i 's/ByteLevel/ByteLovel/g' "$work/model/tokenizer.json"
check "another vocabulary" refuse "neither byte-level"
fresh && sed -i 's/lL}/lM}/; s/p{L}/p{M}/' "$work/model/tokenizer.json"
check "another pre-tokenizer" refuse "name one with --pre"
check "it can be named" ./cerium convert --pre qwen2 "$work/model" "$work/models/named.gguf"
fresh qwen3-fp8 && change 's/"fp8"/"awq"/'
check "another quantization" refuse "block-scaled fp8"
fresh qwen3moe && change 's/"norm_topk_prob": true/"norm_topk_prob": false/'
check "other weights of experts" refuse "norm_topk_prob"
check "no place for the file" refused 1 "/nowhere/x.gguf" \
    ./cerium convert "$hf/qwen3" /nowhere/x.gguf
report convert
