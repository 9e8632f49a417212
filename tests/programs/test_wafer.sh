#!/bin/sh
# test_wafer.sh - the wafer's commands as a user meets them: plans of known shapes, pictures,
# comparisons, predictions beside published figures, and one line for what cannot be.
. tests/shell.sh

wafer="./cerium wafer"
configs=tests/wafer/configs

check "help" status 0 $wafer --help
check "help has an example" says "example: cerium wafer plan"
check "no part" refused 2 "say plan, compare, validate or simulate" $wafer
check "an unknown part" refused 2 "unknown part 'fly'" $wafer fly

# ---- plans ----
for shape in llama-3-8b llama-3-70b qwen3-coder-30b-a3b gpt-oss-20b gpt-oss-120b; do
    check "a plan of $shape" status 0 $wafer plan -m "$configs/$shape.json" --machine cs3 --json
    check "and it fits" says '"fits": true'
done
check "a plan from a model file" status 0 $wafer plan -m models/cerium-line.gguf --machine small
check "says where the time goes" says "where the time goes"
head -c 300000 models/cerium-line.gguf >"$work/cerium-line.gguf"
cp "$work/out" "$work/whole"
check "from its beginning, without weights" status 0 $wafer plan -m "$work/cerium-line.gguf" \
    --machine small
check "the same plan" cmp "$work/out" "$work/whole"
head -c 100000 models/cerium-line.gguf >"$work/short.gguf"
check "a beginning without all of the header" refused 1 "the file ends inside" \
    $wafer plan -m "$work/short.gguf" --machine small
check "a draft" status 0 $wafer plan -m llama-3-8b --machine wse3 --draft 4 --host-sampling \
    --kv-gbytes 25
check "says when its KV arrives" says "its KV from elsewhere, ms"
check "what the other policy of the cache would cost" says "round-robin; shift +"
check "a service around it" status 0 $wafer plan -m llama-3-8b --service-us 500
check "is a line of its own" says "with the service around it"
check "full cores" status 0 $wafer plan -m llama-3-70b --machine cs3
check "have room for a prompt token by token" says "  1 (1), as decoding"
check "a small model alone" status 0 $wafer plan -m models/cerium-line.gguf --machine wse3 --json
check "says what its prompt takes of a core" says '"pass_bytes"'
check "an option of another part" refused 2 "option --csv is unknown" \
    $wafer plan -m llama-3-8b --csv "$work/map.csv"
check "another one" refused 2 "option --picture is unknown" \
    $wafer compare -m llama-3-8b --picture "$work/map.svg"
check "drafts from idle cores" status 0 $wafer plan -m llama-3-8b --draft 4 \
    --draft-model llama-3.2-1b
check "say what is best" says "best of 1 to 4, overlapped"
check "as JSON" status 0 $wafer plan -m llama-3-8b --draft 4 --draft-model llama-3.2-1b --json
check "have passes" says '"verify_us"'
check "drafts without a length" refused 2 "needs --draft N of 2" \
    $wafer plan -m llama-3-8b --draft-model llama-3.2-1b
check "drafts of another vocabulary" refused 2 "of the same vocabulary" \
    $wafer plan -m llama-3-8b --draft 4 --draft-model qwen3-0.6b
check "a draft model without room" refused 1 "--quant fp8 would fit" \
    $wafer plan -m llama-3-8b --draft 4 --draft-model llama-3.1-8b --context 4096
check "no draft model" refused 1 "No such file" \
    $wafer plan -m llama-3-8b --draft 4 --draft-model nothing.gguf
check "a map" status 0 $wafer plan -m llama-3-8b --picture "$work/map.svg"
check "has the layers" grep -q "layers 0-10" "$work/map.svg"
check "a page" status 0 $wafer plan -m gpt-oss-20b --picture "$work/map.html"
check "has both kinds of layers" grep -q "sliding window" "$work/map.html"
if command -v python3 >/dev/null; then
    check "the map is XML" python3 -c "import xml.dom.minidom as m; m.parse('$work/map.svg')"
fi
printf '[mesh]\n' >"$work/half.ini"
sed 's/^width = 8.*/width = 80/' machines/small.ini >"$work/wide.ini"
check "does not fit" refused 1 "would hold it" $wafer plan -m llama-3-70b --machine wse3
check "a mesh that is far too small" refused 1 "it takes 257 such wafers or more" \
    $wafer plan -m llama-3-8b --machine small
check "a smaller context would" refused 1 "a context of" \
    $wafer plan -m qwen3-coder-30b-a3b --machine wse3 --context 262144 --quant fp8
check "a context over the model's" refused 2 "the nearest is 8192" \
    $wafer plan -m llama-3-8b --context 8193
check "an impossible machine" refused 1 "wide.ini:7: width = 80, but the grid is 10 wide" \
    $wafer plan -m llama-3-8b --machine "$work/wide.ini"
check "half a machine" refused 1 "half.ini:1: key" $wafer plan --machine "$work/half.ini"
check "an unknown machine" refused 1 "unknown machine 'abacus'" $wafer plan --machine abacus
check "an unknown model" refused 2 "unknown model 'gpt-9'" $wafer plan -m gpt-9
check "GPUs have no plan" refused 2 "not a mesh" $wafer plan -m llama-3-8b --machine dgx-h100
check "a picture of another kind" refused 2 "a file.svg or a file.html" \
    $wafer plan -m llama-3-8b --picture "$work/map.png"
check "a bad quantization" refused 2 "'fp3' is not a value" $wafer plan --quant fp3

# ---- comparisons ----
check "a comparison" status 0 $wafer compare -m llama-3-8b --machines wse3,dgx-h100 \
    --contexts 4096,8192 --drafts 1,4 --csv "$work/all.csv" --plots "$work/all.html"
for kind in stock tuned floor sdk; do check "has $kind" says " $kind "; done
check "its table" grep -q "^dgx-h100,floor,8192,4,64," "$work/all.csv"
check "its plots" grep -q "joules a token" "$work/all.html"
check "as JSON" status 0 $wafer compare -m gpt-oss-120b --machines wse3,dgx-b200 --json
check "what does not fit says why" says '"why": "wse3: '
check "with a model that drafts" status 0 $wafer compare -m llama-3-8b --machines wse3,dgx-h100 \
    --drafts 1,3 --draft-model llama-3.2-1b --csv "$work/drafted.csv" --plots "$work/drafted.svg"
for kind in "tuned turns" "tuned overlap" "sdk turns" "sdk overlap"; do
    check "$kind" grep -q "^wse3,$kind,8192,3,1,[0-9.]*," "$work/drafted.csv"
done
check "on GPUs too" test "$(grep -c '^dgx-h100,floor,8192,3,' "$work/drafted.csv")" -ge 3
check "drafts of no guess" refused 2 "needs --drafts" $wafer compare -m llama-3-8b \
    --draft-model llama-3.2-1b
check "of another vocabulary" refused 2 "of the same vocabulary" $wafer compare -m llama-3-8b \
    --drafts 2 --draft-model qwen3-0.6b --machines dgx-h100
check "meshes alone" status 0 $wafer compare -m llama-3-8b --machines wse3 --service-us 100
for kind in stock tuned floor; do check "have GPUs, $kind" says "dgx-h100   $kind "; done
check "and a service" says "100 us of each step"
check "nothing fits" refused 1 "do not fit" $wafer compare -m llama-3.1-405b --machines wse2

# ---- published figures ----
# below CLASS WHAT LIMIT: an error of that class, as JSON, is under the limit.
below() {
    python3 - "$work/out" "$@" <<'END'
import json, sys
path, name, what, limit = sys.argv[1:]
for c in json.load(open(path))["classes"]:
    if c["class"] == name:
        print(c)
        sys.exit(not (c["predicted"] > 0 and c[what] < float(limit)))
sys.exit(1)
END
}
if command -v python3 >/dev/null; then
    check "calibration rows" status 0 $wafer validate tests/wafer/calibration.csv --json
    check "decode within 2 %" below wse_decode mean_absolute_error 0.02
    check "decode, worst within 4 %" below wse_decode worst_absolute_error 0.04
    check "prefill within 4 %" below wse_prefill mean_absolute_error 0.04
    check "pipelines within 4 %" below wse_pipeline mean_absolute_error 0.04
    check "GPUs within 8 %" below gpu_decode mean_absolute_error 0.08
fi
cat >"$work/rows.csv" <<'END'
unit,value,metric,model,class,system,color
cycles,3072,reduce,"Reduce chain, 64 wavelets",wse_collective,CS-2 512x1,red
tok/s,1000,decode,GPT-9,wse_decode,WSE-2 420x420 PEs,red
tok/s,1000,speed,LLaMA3-8B,poetry,WSE-2 420x420 PEs,red
END
cat >"$work/gpus.csv" <<'END'
class,system,model,precision,unit
gpu_decode,1x H200,Llama 3.1 8B,fp16,tok/s
gpu_decode,1x H200 vLLM,Llama 3.1 8B,fp16,tok/s
END
check "GPUs of no software" status 0 $wafer validate "$work/gpus.csv"
check "are a band" says " (launched by the host: 1" out
check "with software they are not" test "$(grep -c 'launched by' "$work/out")" = 1
check "rows in other columns" status 0 $wafer validate "$work/rows.csv"
check "a chain of 512 cores" says "| 3130 | +1.89 % |"
check "an unknown model is not modelled" says "not modelled: the model's shapes"
check "an unknown class is not modelled" says "not modelled: no protocol"
check "sensitivity" status 0 $wafer validate tests/wafer/calibration.csv --sensitivity
check "of every constant" says "| gemm_row: "
check "rows without values" refused 1 "no column class" $wafer validate machines/wse2.ini
check "no rows" refused 1 "No such file" $wafer validate "$work/nowhere.csv"
check "no file" refused 2 "name one file" $wafer validate
report wafer
