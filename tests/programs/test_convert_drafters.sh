#!/bin/sh
# test_convert_drafters.sh - drafters as their authors, SpecForge and speculators publish them,
# converted: the logits are those of the formulas (tests/golden/make_eagle3.py, make_dflash.py),
# llama.cpp's keys are there, and what is damaged or unknown is one line.
. tests/shell.sh

fixtures=tests/golden/fixtures
mkdir "$work/made" "$work/home"
folder() { # FORM FIXTURE [CHANGE]
    rm -rf "$work/model"
    python3 tests/programs/drafters.py "$1" "$fixtures/$2.gguf" "$work/model" "$3"
}
make_it() { # FORM FIXTURE [CHANGE]
    folder "$@" && ./cerium convert "$work/model" "$work/made/$2.gguf"
}

# ---- each form, and its logits ----
while read -r form name; do
    check "$name by $form" make_it "$form" "$name"
done <<'EOF2'
eagle eagle3-llama
specforge eagle3-qwen35
speculators eagle3-wide
eagle eagle3-norms
speculators eagle3-layers
speculators dflash-llama
zlab dflash-qwen35
speculators dflash-window
zlab dflash-causal
speculators dspark-llama
specforge dspark-qwen35
EOF2
check "heads of EAGLE-3 have the logits of the formulas" "$O/engine_eagle3" "$work/made/"
check "so have drafters of blocks" "$O/engine_dflash" "$work/made/"

# ---- what llama.cpp reads ----
holds() { # KEY...: in the file that was made last
    ./cerium inspect --json "$work/x.gguf" >"$work/facts" || return 1
    for one in "$@"; do
        grep -aqF -e "$one" "$work/x.gguf" || { echo "no $one"; return 1; }
    done
}
convert() { ./cerium convert "$@" "$work/model" "$work/x.gguf" 2>"$work/told"; }
layers() { # A B C: the head reads these
    python3 - "$work/x.gguf" "$@" <<'EOF2'
import sys
sys.path.insert(0, "tests/programs")
from drafters import Gguf
have = Gguf(sys.argv[1]).keys["eagle3.target_layers"]
sys.exit(have != [int(n) for n in sys.argv[2:]] and f"layers {have}")
EOF2
}
by_ids() { # PYTHON A B C: such a list in config.json makes the head read these
    folder eagle eagle3-llama "config['eagle_aux_hidden_state_layer_ids'] = $1" && shift &&
        convert && layers "$@"
}
check "layers whose inputs are read" by_ids '[2, 18, 33]' 2 18 33
check "layers whose outputs are, as they begin with 1" by_ids '[1, 17, 32]' 2 18 33
mkdir "$work/of"
printf '%s' '{"architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 36, "hidden_size": 64}' \
    >"$work/of/config.json"
no_ids="del config['eagle_aux_hidden_state_layer_ids']"
by_model() { folder eagle eagle3-llama "$no_ids" && convert --for "$work/of" && layers 2 18 33; }
check "none are named: those that are usual for the model's layers" by_model
folder speculators eagle3-llama "config['eagle_aux_hidden_state_layer_ids'] = None"
check "the same of speculators" convert --for "$work/of"
folder zlab dflash-causal
check "a drafter of blocks for a model in GGUF" convert --for $fixtures/llama.gguf
check "has its tokenizer" holds tokenizer.ggml.tokens tokenizer.ggml.mask_token_id \
    dflash.target_layers dflash.block_size dflash.attention.causal
cp tests/golden/hf/llama3/tokenizer.json "$work/of"
folder eagle eagle3-llama
check "a head for a folder" convert --for "$work/of"
check "has that tokenizer" holds tokenizer.ggml.tokens eagle3.target_hidden_size
check "its tokens stay numbers of 64 bits" holds d2t
folder specforge dspark-qwen35 "
tensors['confidence_head.proj.weight'] = ['F32', [1, 128], bytes(512)]
tensors['confidence_head.proj.bias'] = ['F32', [1], bytes(4)]
tensors['lm_head.weight'] = ['F32', [n_vocab, 64], bytes(256 * n_vocab)]"
check "a head that says how sure it is" convert
check "is kept, as llama.cpp names it" holds conf_proj.weight conf_proj.bias \
    dflash.has_confidence_head dflash.sample_from_anchor
lacks() { # the length of the name is before it
    ! LC_ALL=C grep -aqP '\x0d\0{7}output\.weight' "$work/x.gguf"
}
check "an output that is the model's is not" lacks
folder speculators eagle3-wide "
for name in ('verifier_norm.weight', 'verifier_lm_head.weight'):
    tensors[name] = ['F32', [1], bytes(4)]"
check "what training had of the model is left out" convert
folder eagle eagle3-llama "
config['rope_scaling'] = {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0,
                          'high_freq_factor': 4.0, 'original_max_position_embeddings': 512}"
check "Llama 3's scaling" convert
check "is a tensor" holds rope_freqs.weight
is_for() { ./cerium inspect "$work/x.gguf" | grep -q "EAGLE-3"; }
check "inspect says what it is" is_for

# ---- what is damaged ----
refuse() { # TEXT [OPTION...]
    text=$1
    shift
    refused 1 "$text" ./cerium convert "$@" "$work/model" "$work/y.gguf" && [ ! -e "$work/y.gguf" ]
}
damage() { # TEXT FORM FIXTURE CHANGE
    folder "$2" "$3" "$4" && refuse "$1"
}
table() { # TEXT CHANGE of numbers, the distances in d2t
    damage "$1" eagle eagle3-llama "
numbers = array.array('q', tensors['d2t'][2])
$2
tensors['d2t'] = ['I64', [len(numbers)], numbers.tobytes()]"
}
check "a token below 0" table "d2t: value 7 is no token of the model" "numbers[7] = -8"
check "a token too high" table "d2t: value 7 is no token of the model" "numbers[7] = n_vocab"
check "one far away" table "d2t: value 7 is no token of the model" "numbers[7] = 2 ** 63 - 1"
check "one far below" table "d2t: value 7 is no token of the model" "numbers[7] = -2 ** 63"
check "a token twice" table "d2t has token " "numbers[7] = numbers[3] + 3 - 7"
check "too few" table "tensor d2t: its shape does not agree" "numbers.pop()"
check "too many" table "tensor d2t: its shape does not agree" "numbers.append(0)"
check "t2d without one" damage "t2d does not agree with d2t about token" eagle eagle3-llama "
is_said = bytearray(tensors['t2d'][2])
is_said[is_said.index(1)] = 0
tensors['t2d'][2] = bytes(is_said)"
check "t2d with one more" damage "t2d does not agree with d2t about token" eagle eagle3-llama "
is_said = bytearray(tensors['t2d'][2])
is_said[is_said.index(0)] = 1
tensors['t2d'][2] = bytes(is_said)"
check "t2d of another length" damage "tensor t2d: its shape does not agree" eagle eagle3-llama "
tensors['t2d'] = ['BOOL', [5], bytes(5)]"
check "d2t in floats" damage "tensor d2t must be I64, and t2d BOOL" eagle eagle3-llama "
tensors['d2t'] = ['F32', tensors['d2t'][1], bytes(4 * tensors['d2t'][1][0])]"
check "no d2t" damage "d2t is missing: the drafter says 100 of" eagle eagle3-llama "
del tensors['d2t']"
check "weights that are numbers of tokens" damage "its values are whole numbers" eagle \
    eagle3-llama "
shape = tensors['norm.weight'][1]
tensors['norm.weight'] = ['I64', shape, bytes(8 * shape[0])]"
check "weights that are flags" damage "its values are whole numbers" zlab dflash-causal "
shape = tensors['norm.weight'][1]
tensors['norm.weight'] = ['BOOL', shape, bytes(shape[0])]"
while read -r form name tensor; do
    check "$name by $form without $tensor" damage "tensor $tensor is missing" "$form" "$name" \
        "del tensors['$tensor']"
done <<'EOF2'
eagle eagle3-llama fc.weight
eagle eagle3-llama norm.weight
eagle eagle3-llama midlayer.hidden_norm.weight
eagle eagle3-llama midlayer.self_attn.k_proj.weight
specforge eagle3-qwen35 input_norm.weight
speculators eagle3-wide layers.0.hidden_norm.weight
speculators eagle3-layers layers.1.input_layernorm.weight
eagle eagle3-norms fc_norm.2.weight
zlab dflash-causal hidden_norm.weight
zlab dflash-causal layers.0.self_attn.q_norm.weight
zlab dflash-qwen35 layers.2.mlp.down_proj.weight
speculators dspark-llama markov_head.markov_w1.weight
speculators dspark-llama markov_head.markov_w2.weight
EOF2
while read -r n; do
    check "a norm of $n values" damage "fc_norm.1.weight: its shape does not agree" \
        eagle eagle3-norms "tensors['fc_norm.1.weight'] = ['F32', [$n], bytes(4 * $n)]"
done <<'EOF2'
1
65
EOF2
check "a tensor more" damage "tensor fc_norm.0.weight would be left out" eagle eagle3-llama "
tensors['fc_norm.0.weight'] = ['F32', [1], bytes(4)]"

# ---- what is not supported, or is of another model ----
while IFS='|' read -r form name change said; do
    check "$form: $change" damage "$said" "$form" "$name" "$change"
done <<'EOF2'
eagle|eagle3-llama|config['num_hidden_layers'] = 2|midlayer.self_attn.q_proj.weight: its shape
speculators|eagle3-layers|config['transformer_layer_config']['num_hidden_layers'] = 2|layers.2.
eagle|eagle3-llama|config['fc_norm'] = True|tensor fc_norm.0.weight is missing
eagle|eagle3-norms|config['norm_before_fc'] = True|fc_norm: what is read has one norm, or one
eagle|eagle3-llama|config['hidden_act'] = 'gelu'|hidden_act: this activation is not supported
eagle|eagle3-llama|config['target_hidden_size'] = 96|tensor fc.weight: its shape does not agree
eagle|eagle3-llama|config['eagle_aux_hidden_state_layer_ids'] = [3, 2, 1]|layers that ascend
eagle|eagle3-llama|config['eagle_aux_hidden_state_layer_ids'] = ['x']|layers that ascend
eagle|eagle3-llama|config['draft_vocab_size'] = 10 ** 6|draft_vocab_size: is not a whole number
eagle|eagle3-llama|del config['eagle_aux_hidden_state_layer_ids']|name the model that it drafts for
zlab|dflash-causal|del config['dflash_config']['mask_token_id']|mask_token_id: is missing
zlab|dflash-causal|config['dflash_config']['mask_token_id'] = 10 ** 6|is not the id of a token
zlab|dflash-causal|del config['dflash_config']['target_layer_ids']|target_layer_ids: is missing
zlab|dflash-causal|config['block_size'] = 65|block_size: is not a whole number from 1 to 64
zlab|dflash-causal|config['dflash_config']['attention_value_scale'] = 2.0|attention_value_scale
zlab|dflash-causal|config['rope_is_neox_style'] = False|rope_is_neox_style
zlab|dflash-causal|config['sample_from_anchor'] = True|is supported for DSpark only
zlab|dflash-causal|config['architectures'] = ['DFlash2DraftModel']|DFlash2DraftModel is not
zlab|dflash-causal|config['architectures'] = ['DominoDraftModel']|DominoDraftModel is not
zlab|dflash-causal|config['architectures'] = ['PEagleDraftModel']|and the drafters EAGLE-3, DFlash
zlab|dflash-causal|config['dflash_config']['projector_type'] = 'domino'|Domino is not supported
zlab|dflash-causal|config['dflash_config']['projector_type'] = 'causal_v5'|Domino is not supported
zlab|dflash-causal|config['dflash_config']['selector_rank'] = 256|DFlash2 is not supported
speculators|dflash-window|config['sliding_window_non_causal'] = False|sliding_window_non_causal
speculators|dspark-llama|config['markov_head_type'] = 'gated'|only vanilla is supported
EOF2
folder eagle eagle3-llama
check "a model of another width" refuse "for a model 64 wide, and that one is" \
    --for models/cerium-line.gguf
folder eagle eagle3-llama "config['eagle_aux_hidden_state_layer_ids'] = [2, 18, 90]"
check "a model of too few layers" refuse "reads layer 90, and that model has 36" --for "$work/of"
folder eagle eagle3-llama "$no_ids"
check "none of the usual ones" refuse "of 2 layers there are no usual ones" \
    --for $fixtures/llama.gguf
check "no such model" refuse "/nowhere" --for /nowhere
check "a folder without one" refuse "is not there; name a model's folder" --for "$work/home"
echo '{' >"$work/home/config.json"
check "one that is broken" refuse "home/config.json: line" --for "$work/home"
echo '[]' >"$work/home/config.json"
check "one that is a list" refuse "home/config.json: it is not an object" --for "$work/home"
echo '{"num_hidden_layers": 0}' >"$work/home/config.json"
check "one without layers" refuse "home/config.json: num_hidden_layers: is not" --for "$work/home"
check "--for of a model that is no drafter" refused 2 "it is no drafter" ./cerium convert \
    --for "$work/of" tests/golden/hf/qwen3 "$work/y.gguf"
folder eagle eagle3-llama
mv "$work/model/model.safetensors" "$work/model/pytorch_model.bin"
check "a pickle, and what makes safetensors of it" refuse "weights_only=True"
report convert_drafters
