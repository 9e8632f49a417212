#!/bin/sh
# test_families.sh - what the later families have beyond the first: broken keys named in one line,
# decoders beside models of pictures, blocks that are left out, what inspect and the wafer say.
. tests/shell.sh

fixtures=tests/golden/fixtures hf=tests/golden/hf

# patch MODEL KEY FORMAT VALUE: a copy in $work/x.gguf whose key has another value.
patch() {
    python3 - "$fixtures/$1.gguf" "$2" "$3" "$4" "$work/x.gguf" <<'PYTHON'
import struct
import sys
path, key, form, value, out = sys.argv[1:]
data = bytearray(open(path, "rb").read())
at = data.index(struct.pack("<Q", len(key)) + key.encode()) + 8 + len(key)
if form == "item":  # the last of an array of three
    at, form = at + 20, "I"
struct.pack_into("<" + form, data, at + 4, float(value) if form == "f" else int(value))
open(out, "wb").write(data)
PYTHON
}
# names WHAT MODEL KEY FORMAT VALUE: such a file gets one line that says WHAT.
names() {
    what=$1
    shift
    patch "$@" && refused 1 "$what" ./cerium run -m "$work/x.gguf" -p x -n 1
}

check "no window" names gemma3.attention.sliding_window gemma3 gemma3.attention.sliding_window I 0
check "a pattern with fewer layers" names mellum.attention.sliding_window_pattern \
    mellum mellum.block_count I 2
check "heads that differ by layer" names "maple.attention.head_count differs by layer" \
    maple maple.attention.head_count item 8
check "logits divided by nothing" names granite.logit_scale granite granite.logit_scale f 0
check "embeddings that vanish" names granite.embedding_scale granite granite.embedding_scale f -1
check "a cap below 0" names "soft cap" gemma3-cap gemma3.final_logit_softcapping f -3
check "a scale that is no number" names mistral3.attention.temperature_scale \
    mistral3 mistral3.attention.temperature_scale f nan
check "growth of queries every 0 tokens" names mistral3.rope.scaling.original_context_length \
    mistral3 mistral3.rope.scaling.original_context_length I 0
check "YaRN without bounds" names YaRN mistral3 mistral3.rope.scaling.yarn_log_multiplier f -100
check "groups that do not divide" names "3 groups" glm4moe glm4moe.expert_group_count I 3
check "no group" names "0 of 4 groups" glm4moe glm4moe.expert_group_used_count I 0
check "a gate that is none" names glm4moe.expert_gating_func glm4moe glm4moe.expert_gating_func I 9
check "no expert" names glm4moe.expert_used_count glm4moe glm4moe.expert_used_count I 0
check "part of a pair" names rope.dimension_count minimax-m2 minimax-m2.rope.dimension_count I 7
check "another width of experts" names ffn_gate_exps.weight \
    minimax-m2 minimax-m2.expert_feed_forward_length I 16

check "latents wider than kernels" names "latents of 2000 and 8 channels" \
    deepseek2 deepseek2.attention.kv_lora_rank I 2000
check "latents that are odd" names "latents of 23 and 8" \
    deepseek2 deepseek2.attention.kv_lora_rank I 23
check "another latent" names attn_kv_a_mqa.weight deepseek2 deepseek2.attention.kv_lora_rank I 26
check "no latent" names deepseek2.attention.kv_lora_rank \
    deepseek2 deepseek2.attention.kv_lora_rank I 0
check "all of a head turns" names "of which 8 turn" deepseek2 deepseek2.attention.key_length_mla I 8
check "other heads" names attn_q_b.weight deepseek2 deepseek2.attention.key_length_mla I 30
check "other values" names attn_v_b.weight deepseek2 deepseek2.attention.value_length_mla I 14
check "queries of another rank" names attn_q_a.weight deepseek2 deepseek2.attention.q_lora_rank I 30
check "queries of none" names attn_q.weight deepseek2 deepseek2.attention.q_lora_rank I 0
check "products that are scaled by nothing" names YaRN \
    deepseek2-yarn deepseek2.rope.scaling.yarn_log_multiplier f -0.3
check "older heads" names attn_kv_b.weight \
    deepseek2-yarn deepseek2.attention.value_length I 14

check "keys that heads cannot share" names "4 state heads cannot share 3 keys" \
    granitehybrid granitehybrid.ssm.group_count I 3
check "no state" names granitehybrid.ssm.state_size granitehybrid granitehybrid.ssm.state_size I 0
check "a convolution of one token" names granitehybrid.ssm.conv_kernel \
    granitehybrid granitehybrid.ssm.conv_kernel I 1
check "another state" names blk.0.ssm_in.weight granitehybrid granitehybrid.ssm.state_size I 32
check "heads of an odd width" names "8 state heads of 64 values together" \
    granitehybrid granitehybrid.ssm.time_step_rank I 8
check "no layer that attends" names granitehybrid.attention.head_count_kv \
    granitehybrid granitehybrid.attention.head_count_kv item 0
check "three KV heads" names "4 query heads cannot share 3 KV heads" \
    granitehybrid granitehybrid.attention.head_count_kv item 3
lacks() { # TENSOR OTHER: without the tensor, which has another name of the same length
    LC_ALL=C sed "s/$1\(\x01\|\x02\)/$2\1/" "$fixtures/granitehybrid.gguf" >"$work/x.gguf" &&
        refused 1 "tensor $1 is missing" ./cerium run -m "$work/x.gguf" -p x -n 1
}
for part in in.weight conv1d.weight conv1d.bias dt.bias a d norm.weight out.weight; do
    check "a state without its $part" lacks "blk.1.ssm_$part" "blk.1.sso_$part"
done
grows() { # a decay above 0
    python3 - "$fixtures/granitehybrid-dense.gguf" "$work/x.gguf" <<'PYTHON'
import re
import struct
import sys
data = bytearray(open(sys.argv[1], "rb").read())
infos = [(m.end(), m.group()) for m in re.finditer(rb"blk\.1\.ssm_a(?=\x02\0\0\0\x01)", data)]
at = infos[0][0] + 4 + 16 + 4                                   # dimensions, type, offset
offset = struct.unpack_from("<Q", data, at)[0]
last = max(m.end() for m in re.finditer(rb"output_norm\.weight", data)) + 4 + 8 + 4 + 8
start = (last + 31) // 32 * 32
assert struct.unpack_from("<f", data, start + offset)[0] < 0
struct.pack_into("<f", data, start + offset, 0.5)
open(sys.argv[2], "wb").write(data)
PYTHON
    refused 1 "blk.1.ssm_a has a value above 0" ./cerium run -m "$work/x.gguf" -p x -n 1
}
check "a state that would grow" grows

check "a layer of two parts" names "layer 2 attends and has a feed-forward" \
    nemotron_h nemotron_h.feed_forward_length item 64
check "no layer of it that attends" names "nemotron_h.attention.head_count_kv is 0" \
    nemotron_h nemotron_h.attention.head_count_kv item 0
check "more experts of a layer than there are" names nemotron_h_moe.expert_used_count \
    nemotron_h_moe-puzzle nemotron_h_moe.expert_used_count item 9
check "blocks that are taken for layers" names "layer 4 attends and has a feed-forward" \
    nemotron_h_moe nemotron_h_moe.nextn_predict_layers I 0

# ---- beside a model of pictures, and blocks for tokens further on ----

# rename FOLDER FROM TO: tensors of other names, whose bytes stay.
rename() {
    python3 - "$1/model.safetensors" "$2" "$3" <<'PYTHON'
import json
import struct
import sys
path, old, new = sys.argv[1:]
data = open(path, "rb").read()
n = struct.unpack_from("<Q", data)[0]
head = {k.replace(old, new): v for k, v in json.loads(data[8:8 + n]).items()}
text = json.dumps(head).encode()
open(path, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + n:])
PYTHON
}
config() { # python changes it as j
    python3 -c "
import json
j = json.load(open('$work/model/config.json'))
$1
json.dump(j, open('$work/model/config.json', 'w'))"
}
fresh() {
    rm -rf "$work/model" && cp -r "$hf/$1" "$work/model" && chmod -R u+w "$work/model"
}
same_logits() { # MODEL: as transformers has of it, from $work/model
    rm -rf "$work/golden" && mkdir "$work/golden" && cp "$hf/$1.expect" "$work/golden/" &&
        ./cerium convert "$work/model" "$work/golden/$1.gguf" &&
        "$O/golden_golden" "$work/golden" /nowhere
}
fresh gemma3 && rename "$work/model" model. language_model.model. &&
    config 'j = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": j}'
check "Gemma's decoder beside pictures" same_logits gemma3
fresh mistral3 && rename "$work/model" model. model.language_model. &&
    config 'j = {"architectures": ["Mistral3ForConditionalGeneration"], "text_config": j}'
check "Mistral's, which is one of two kinds" same_logits mistral3
sections='j["rope_parameters"] |= {"mrope_interleaved": True, "mrope_section": [4, 2, 2]}'
fresh qwen3 && rename "$work/model" model. model.language_model. && config "$sections
j = {'architectures': ['Qwen3VLForConditionalGeneration'], 'text_config': j}"
check "Qwen3-VL's" same_logits qwen3
fuse() { # experts in two tensors whose rows are columns, as Qwen3-VL is published
    python3 - "$work/model/model.safetensors" <<'PYTHON'
import json
import re
import struct
import sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack_from("<Q", data)[0]
head, at = json.loads(data[8:8 + n]), 8 + n
def turned(name):
    (rows, columns), (a, b) = head[name]["shape"], head[name]["data_offsets"]
    size = (b - a) // (rows * columns)
    row = [data[at + a + r * columns * size:][:columns * size] for r in range(rows)]
    return [b"".join(x[c * size:c * size + size] for x in row) for c in range(columns)]
out = {k: (v["dtype"], v["shape"], data[at + v["data_offsets"][0]:at + v["data_offsets"][1]])
       for k, v in head.items() if k != "__metadata__" and ".experts." not in k}
begins = sorted({k[:k.index("experts.")] for k in head if ".experts." in k})
for begin in begins:
    numbers = (re.match(re.escape(begin) + r"experts\.(\d+)", k) for k in head)
    count = 1 + max(int(m[1]) for m in numbers if m)
    kind = head[begin + "experts.0.down_proj.weight"]["dtype"]
    both, down = [], []
    for e in range(count):
        gate, up, low = (turned(f"{begin}experts.{e}.{s}_proj.weight")
                         for s in ("gate", "up", "down"))
        both += [g + u for g, u in zip(gate, up)]
        down += low
    ff, width = len(down) // count, len(both) // count
    out[begin + "experts.gate_up_proj"] = (kind, [count, width, 2 * ff], b"".join(both))
    out[begin + "experts.down_proj"] = (kind, [count, ff, width], b"".join(down))
new, body = {}, b""
for k, (dtype, shape, part) in out.items():
    new[k] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(part)]}
    body += part
text = json.dumps(new).encode()
open(sys.argv[1], "wb").write(struct.pack("<Q", len(text)) + text + body)
PYTHON
}
fresh qwen3moe && rename "$work/model" model. model.language_model. && fuse && config "$sections
j = {'architectures': ['Qwen3VLMoeForConditionalGeneration'], 'text_config': j}"
check "its experts, which are transposed" same_logits qwen3moe
fresh qwen2 && rename "$work/model" model. model.language_model. && config "
j = {'architectures': ['Qwen2_5_VLForConditionalGeneration'], 'text_config': j}"
check "and Qwen2.5-VL's" same_logits qwen2
fresh glm4moe && rename "$work/model" layers.2. layers.9. &&
    config 'j["num_hidden_layers"] = 2; j["num_nextn_predict_layers"] = 9'
left_out() { # N: they are, and one line says so
    ./cerium convert "$work/model" "$work/y.gguf" 2>"$work/told" &&
        [ "$(grep -c "without $1 for further tokens, which .* not run" "$work/told")" = 1 ]
}
check "blocks behind the last are left out" left_out "1 block"
config 'j["num_nextn_predict_layers"] = 0'
check "where there are none, nothing is" refused 1 "would be left out" \
    ./cerium convert "$work/model" "$work/z.gguf"
# The head of Qwen lies apart, has the shapes of a layer that attends, and its norms are 1 less.
add_head() { # a head of ones and small numbers, from the last layer's tensors
    python3 - "$work/model/model.safetensors" "$1" <<'PYTHON'
import json
import struct
import sys
path, kind = sys.argv[1:]
data = open(path, "rb").read()
n = struct.unpack_from("<Q", data)[0]
head, body = json.loads(data[8:8 + n]), bytearray(data[8 + n:])
def add(name, shape, like=None):
    count = 1
    for d in shape:
        count *= d
    at = len(body)
    values = [0.01 * (i % 7) for i in range(count)]
    body.extend(struct.pack(f"<{count}f", *values) if like is None else like)
    head[name] = {"dtype": "F32" if like is None else head[source]["dtype"], "shape": shape,
                  "data_offsets": [at, len(body)]}
last = max(int(k.split("layers.")[1].split(".")[0]) for k in head if "layers." in k)
e = head["model.norm.weight"]["shape"][0]
to = "mtp.layers.0." if kind == "qwen" else f"model.layers.{last + 1}."
for source in [k for k in head if k.startswith(f"model.layers.{last}.")]:
    begin, end = head[source]["data_offsets"]
    add(to + source.split(f"layers.{last}.")[1], head[source]["shape"], bytes(body[begin:end]))
names = (("mtp.fc", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.norm")
         if kind == "qwen" else [to + s for s in ("eh_proj", "enorm", "hnorm", "shared_head.norm")])
add(names[0] + ".weight", [e, 2 * e])
for name in names[1:]:
    add(name + ".weight", [e])
if kind != "qwen":
    vocabulary = head["model.embed_tokens.weight"]["shape"]
    add(to + "embed_tokens.weight", vocabulary)
    add(to + "shared_head.head.weight", vocabulary)
text = json.dumps(head).encode()
open(path, "wb").write(struct.pack("<Q", len(text)) + text + bytes(body))
PYTHON
}
has_head() { # it is there, and drafts; the model is what it is without
    ./cerium convert "$work/model" "$work/y.gguf" &&
        ./cerium inspect "$work/y.gguf" | grep -q "MTP head  *there: it guesses" &&
        ./cerium run -m "$work/y.gguf" --draft-model mtp -p x -n 4 >"$work/with" &&
        ./cerium convert "$hf/$1" "$work/z.gguf" &&
        ./cerium run -m "$work/z.gguf" -p x -n 4 >"$work/without" &&
        cmp "$work/with" "$work/without"
}
fresh qwen35 && add_head qwen
check "a head for further tokens is kept" has_head qwen35
check "with all of its tensors" test "$(./cerium inspect --tensors "$work/y.gguf" |
    grep -c "^blk.4.nextn")" = 4
fresh qwen35moe && add_head qwen && rename "$work/model" model. model.language_model.
check "of experts, beside pictures" has_head qwen35moe
fresh glm4moe && add_head glm && config 'j["num_nextn_predict_layers"] = 1'
check "GLM's, with a table and an output of its own" has_head glm4moe
fresh glm4moe && add_head glm && add_head glm && config 'j["num_nextn_predict_layers"] = 2'
check "several are left out" left_out "2 blocks"
fresh qwen35 && add_head qwen && rename "$work/model" mtp.pre_fc_norm_hidden mtp.odd
check "a head that lacks a tensor" refused 1 "tensor mtp.pre_fc_norm_hidden.weight is missing" \
    ./cerium convert "$work/model" "$work/z.gguf"
fresh qwen35 && add_head qwen && rename "$work/model" mtp.layers.0.mlp.up mtp.layers.0.mlp.odd
check "or one of its layer's" refused 1 "tensor mtp.layers.0.mlp.up_proj.weight is missing" \
    ./cerium convert "$work/model" "$work/z.gguf"
fresh granitehybrid && config 'kinds = {"linear_attention": "mamba", "full_attention": "attention"}
j["layer_types"] = [kinds[t] for t in j["layer_types"]]
j["position_embedding_type"] = "nope"; j["mamba_d_head"] = "auto"'
check "Granite's hybrids, in the words of older files" same_logits granitehybrid
odd_hybrid() { # WHAT PYTHON
    fresh granitehybrid && config "$2" &&
        refused 1 "$1" ./cerium convert "$work/model" "$work/z.gguf"
}
check "too few kinds of layers" odd_hybrid layer_types 'del j["layer_types"][0]'
check "a kind that is none" odd_hybrid layer_types 'j["layer_types"][0] = "sliding_attention"'
check "states alone" odd_hybrid "no layer attends" 'j["layer_types"][2] = "mamba"'
check "heads that do not agree" odd_hybrid mamba_n_heads 'j["mamba_d_head"] = 8'
check "groups that heads cannot share" odd_hybrid mamba_n_groups 'j["mamba_n_groups"] = 3'
check "biases of a state" odd_hybrid mamba_proj_bias 'j["mamba_proj_bias"] = True'
check "limits of steps" odd_hybrid time_step_limit 'j["time_step_limit"] = [0.001, 0.1]'
check "a wider state" odd_hybrid "mamba.in_proj.weight: its shape" 'j["mamba_d_state"] = 32'
check "no experts where there are some" odd_hybrid "would be left out" 'j["num_local_experts"] = 0'
fresh nemotron_h_moe && config 'del j["layers_block_type"]; j["hybrid_override_pattern"] = "ME*E"'
check "Nemotron's layers by letters" same_logits nemotron_h_moe
odd_nemotron() { # WHAT PYTHON
    fresh nemotron_h_moe && config "$2" &&
        refused 1 "$1" ./cerium convert "$work/model" "$work/z.gguf"
}
check "a letter that is none" odd_nemotron hybrid_override_pattern \
    'del j["layers_block_type"]; j["hybrid_override_pattern"] = "MEXE"'
check "no layers" odd_nemotron layers_block_type 'j["layers_block_type"] = []'
check "another kind" odd_nemotron layers_block_type 'j["layers_block_type"][1] = "conv"'
check "nothing that attends" odd_nemotron "layers that attend" 'j["layers_block_type"][2] = "moe"'
check "a latent that is not there" odd_nemotron "mixer.fc1_latent_proj.weight is missing" \
    'j["moe_latent_size"] = 16'
fresh nemotron_h_moe-latent && config 'j["moe_latent_size"] = 12'
check "a latent of another width" refused 1 "mixer.fc1_latent_proj.weight: its shape" \
    ./cerium convert "$work/model" "$work/z.gguf"
odd_puzzle() { # WHAT PYTHON
    fresh nemotron_h_moe-puzzle && config "$2" &&
        refused 1 "$1" ./cerium convert "$work/model" "$work/y.gguf"
}
check "a layer without its number of experts" odd_puzzle "num_experts_per_tok: is missing" \
    'del j["block_configs"][3]["num_experts_per_tok"]'
check "more experts than there are" odd_puzzle "num_experts_per_tok: is not a whole number" \
    'j["block_configs"][1]["num_experts_per_tok"] = 9'
check "another width of one layer" odd_puzzle "its shape does not agree" \
    'j["block_configs"][4]["moe_intermediate_size"] = 32'
check "layers that are lists" odd_puzzle "a kind of layer that is not supported" \
    'j["block_configs"][2] = []'
check "biases of a feed-forward" odd_nemotron mlp_bias 'j["mlp_bias"] = True'
check "another activation" odd_nemotron mlp_hidden_act 'j["mlp_hidden_act"] = "silu"'
check "a part that is missing" odd_nemotron "mixer.up_proj.weight is missing" \
    'j["layers_block_type"][3] = "mlp"'
fresh smollm3 && config 'j["no_rope_layers"] = [1, 0, 1, 0]'
check "other layers without RoPE" refused 1 no_rope_layers \
    ./cerium convert "$work/model" "$work/z.gguf"
fresh gemma3 && config 'j["attn_logit_softcapping"] = 50.0'
check "a cap on attention" refused 1 attn_logit_softcapping \
    ./cerium convert "$work/model" "$work/z.gguf"
fresh minimax-m2 && config 'j["scoring_func"] = "softmax"'
check "another score of experts" refused 1 scoring_func \
    ./cerium convert "$work/model" "$work/z.gguf"

# ---- in plain words ----

inspect() { ./cerium inspect "$fixtures/$1.gguf" | grep -q "$2"; }
check "windows by a pattern" inspect mellum "8 tokens in 2 of 3 layers, the others see everything"
check "windows by the family" inspect gemma3 "8 tokens in 5 of every 6 layers"
check "heads by layer" inspect maple "heads           4$"
patch maple maple.attention.head_count item 2
differs() { ./cerium inspect "$work/x.gguf" | grep -q "heads  *4 in some layers, fewer in others"; }
check "that differ" differs
check "an expert that all take" inspect glm4moe "2 of 8 for each token, beside one that all take"
latent_stays() {
    ./cerium quantize "$fixtures/deepseek2-old-q8_0.gguf" "$work/q.gguf" Q4_0 2>"$work/told" &&
        ./cerium inspect --tensors "$work/q.gguf" >"$work/list" &&
        grep -q "blk.1.attn_kv_b.weight  *Q8_0" "$work/list" &&
        grep -q "blk.1.attn_q.weight  *Q4_0" "$work/list"
}
check "what makes keys and values of latents keeps 8 bits" latent_stays
importance() { # MODEL TENSOR: what it has of that one, and of no other matrix of heads
    ./cerium imatrix -m "$fixtures/$1.gguf" tests/programs/odd_inputs.txt "$work/i.gguf" \
        2>"$work/told" && ./cerium inspect --tensors "$work/i.gguf" >"$work/list" &&
        grep -q "blk.1.$2.weight.in_sum2" "$work/list"
}
check "importance of heads' matrices" importance deepseek2 attn_k_b
check "and of older ones" importance deepseek2-yarn attn_kv_b
check "states of Mamba-2" inspect granitehybrid "3 of the layers keep one in place of"
state_stays() { # what a state is made with keeps its type, what is large does not
    ./cerium quantize "$fixtures/granitehybrid-wide.gguf" "$work/q.gguf" Q8_0 2>"$work/told" &&
        ./cerium inspect --tensors "$work/q.gguf" >"$work/list" &&
        grep -q "blk.0.ssm_in.weight  *Q8_0" "$work/list" &&
        [ "$(grep -c "ssm_[acdn].*F32 " "$work/list")" = 6 ] &&
        ./cerium run -m "$work/q.gguf" -p x -n 4 >"$work/told"
}
check "which quantized files keep" state_stays
check "and importance of its input" importance granitehybrid ssm_in
check "turned weights" inspect qwen35-turned "turned  *25 matrices, by a Hadamard transform of 32"
unturned() { # the type that another fork gives another meaning, without the keys
    LC_ALL=C sed "s/prism.hadamard/prosm.hadamard/g" "$fixtures/qwen2-pq2_0.gguf" >"$work/x.gguf" &&
        refused 1 "has type 143 without keys prism.hadamard" \
            ./cerium run -m "$work/x.gguf" -p x -n 1
}
check "a type that means something else without their keys" unturned
told_unturned() {
    "$O/tool_make_model" --shape test-llama --type pq2_0 -o "$work/x.gguf" >"$work/told" 2>&1 &&
        ./cerium inspect "$work/x.gguf" | grep -q "turned  *not said, though" &&
        ./cerium run -m "$work/x.gguf" -p x -n 1 2>&1 | grep -q "PQ2_0 without keys prism.hadamard"
}
check "and one that is nonsense without them" told_unturned
check "which cannot be written" refused 2 "PQ2_0 is read, not written" \
    ./cerium quantize "$fixtures/llama.gguf" "$work/q.gguf" PQ2_0
check "a head for further tokens" inspect mtp-qwen35 "MTP head  *there: it guesses"
check "one that the file lacks" inspect qwen35-wide "MTP head  *not in this file"
partial() { # without a tensor of the head the model serves as without the head, and says so once
    LC_ALL=C sed "s/blk.4.ffn_up.weight/blk.4.ffn_xp.weight/" "$fixtures/mtp-qwen35.gguf" \
        >"$work/x.gguf" &&
        ./cerium inspect "$work/x.gguf" | grep -q "MTP head  *not all of it is there" &&
        ./cerium run -m "$work/x.gguf" -p x -n 8 >"$work/with" 2>"$work/told" &&
        ./cerium run -m "$fixtures/mtp-qwen35.gguf" --draft-model off -p x -n 8 >"$work/without" \
            2>"$work/told2" &&
        cmp "$work/with" "$work/without" &&
        [ "$(grep -c "does not draft: tensor blk.4.ffn_up.weight is missing" "$work/told")" = 1 ] &&
        refused 1 "tensor blk.4.ffn_up.weight is missing" \
            ./cerium run -m "$work/x.gguf" --draft-model mtp -p x -n 8
}
check "one of which a part is missing" partial
check "one that is asked for" refused 1 "has no MTP head" \
    ./cerium run -m "$fixtures/qwen35-wide.gguf" --draft-model mtp -p x -n 1
several() { # the model serves without them, and says so once
    patch nemotron_h_moe nemotron_h_moe.nextn_predict_layers I 2 &&
        LC_ALL=C sed "s/blk.3.ffn_down_exps.weight/blk.3.nextn.eh_proj.weight/" "$work/x.gguf" \
            >"$work/y.gguf" &&
        ./cerium inspect "$work/y.gguf" | grep -q "MTP head  *there, but not run: 2 blocks" &&
        ./cerium run -m "$work/y.gguf" -p x -n 8 >"$work/with" 2>"$work/told" &&
        ./cerium run -m "$work/x.gguf" -p x -n 8 >"$work/without" 2>"$work/told2" &&
        cmp "$work/with" "$work/without" && ! grep -q "MTP" "$work/told2" &&
        [ "$(grep -c "does not draft: 2 blocks of nemotron_h_moe, which are not run" \
            "$work/told")" = 1 ] &&
        refused 1 "can draft: 2 blocks" \
            ./cerium run -m "$work/y.gguf" --draft-model mtp -p x -n 8
}
check "several blocks for further tokens" several
check "a head in a file of its own" inspect eagle3-llama "drafter  *EAGLE-3: it drafts for another"
check "and what it guesses" inspect eagle3-llama "guesses  *100 of the model's tokens"
check "which is no model" refused 1 "an EAGLE-3 head drafts for another model" \
    ./cerium run -m "$fixtures/eagle3-llama.gguf" -p x -n 1
check "a drafter of blocks" inspect dflash-llama \
    "drafter  *DFlash: it drafts for another model, blocks of 8 tokens"
check "one whose tokens are chosen in turn" inspect dspark-llama "drafter  *DSpark: it drafts"
check "and what it guesses" inspect dflash-llama "guesses  *100 of the model's tokens"
check "which is no model" refused 1 "a DFlash drafter drafts for another model" \
    ./cerium run -m "$fixtures/dflash-llama.gguf" -p x -n 1
drafted() { # quantized, it drafts, and the text stays
    ./cerium quantize "$fixtures/$1.gguf" "$work/head.gguf" Q8_0 2>"$work/told" &&
        ./cerium inspect --tensors "$work/head.gguf" | grep -q "d2t  *I64" &&
        ./cerium run -m "$fixtures/llama.gguf" -p x -n 24 --draft-model "$work/head.gguf" \
            >"$work/with" 2>"$work/told" &&
        ./cerium run -m "$fixtures/llama.gguf" -p x -n 24 >"$work/without" 2>"$work/told" &&
        cmp "$work/with" "$work/without"
}
check "experts of a latent" inspect nemotron_h_moe-latent \
    "experts  *3 of 8 for each token, beside one that all take, of a latent of 24"
check "in layers that differ" inspect nemotron_h_moe-puzzle \
    "experts  *3 of 8 for each token in some layers, fewer in others, beside one that all take"
check "of which a token reads only those" inspect nemotron_h_moe-puzzle "one token reads 207.1 kB"
check "and drafts for one" drafted eagle3-llama
check "and so does one of blocks" drafted dflash-llama
check "and one whose tokens are chosen in turn" drafted dspark-llama
check "latents" inspect deepseek2 "24 + 8 values of a token in each layer are keys and values of"
check "their heads" inspect deepseek2 "28 of queries, of which 8 turn, 12 of values$"
check "of older files" inspect deepseek2-yarn "12 of values; an older file"
for model in mistral3 smollm3 granite granitemoe granitehybrid gemma3 mellum maple glm4moe \
    minimax-m2 deepseek2 deepseek2-yarn deepseek2-softmax nemotron_h nemotron_h_moe-latent \
    nemotron_h_moe-puzzle mistral4; do
    check "the wafer does not model $model" refused 1 "not modelled: " \
        ./cerium wafer simulate -m "$fixtures/$model.gguf" -p x -n 1
done
check "but what it can" ./cerium wafer simulate -m "$fixtures/seed_oss.gguf" -p x -n 1
report families
