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
