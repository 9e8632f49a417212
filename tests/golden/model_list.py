"""The small models of the fixtures: architecture, configuration, seed and type."""
from gguf import GGMLQuantizationType as Q
from gguf import LlamaFileType as F
from transformers import (
    GptOssConfig, GptOssForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM,
    Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM, Starcoder2Config,
    Starcoder2ForCausalLM)

import families
from gguf_file import N_VOCAB
from turned import PQ2_0, PTQ1_0

LONG = 160            # tokens of the first sequence: pages of a cache, many sliding windows
LONGEST = 560         # in two fixtures: more than a chunk of attention, too
SHORT = (4, 7, 10)    # and three short ones


def rope(kind, theta, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


TINY = dict(vocab_size=N_VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
            tie_word_embeddings=True, bos_token_id=None, eos_token_id=None)
LLAMA3 = rope("llama3", 10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
LINEAR = rope("linear", 100000.0, factor=4.0)
YARN4 = rope("yarn", 1000000.0, factor=4.0, original_max_position_embeddings=64)
YARN32 = rope("yarn", 150000.0, factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
              original_max_position_embeddings=256)


def entry(name, arch, config, model, options, seed, qtype=Q.F32, file_type=F.ALL_F32, **more):
    return dict(name=name, arch=arch, config=config, model=model, options={**TINY, **options},
                seed=seed, type=qtype, file_type=file_type, **more)


def llama(name, options, seed, *args, **more):
    return entry(name, "llama", LlamaConfig, LlamaForCausalLM,
                 dict(rope_parameters=rope("default", 10000.0), rms_norm_eps=1e-5, **options)
                 if "rope_parameters" not in options else dict(rms_norm_eps=1e-5, **options),
                 seed, *args, **more)


def qwen2(name, options, seed, *args, **more):
    return entry(name, "qwen2", Qwen2Config, Qwen2ForCausalLM,
                 {"rope_parameters": rope("default", 1000000.0), "rms_norm_eps": 1e-6, **options},
                 seed, *args, **more)


def qwen3moe(name, options, seed, *args, **more):
    return entry(name, "qwen3moe", Qwen3MoeConfig, Qwen3MoeForCausalLM,
                 dict(hidden_size=32, moe_intermediate_size=32, num_experts=8,
                      num_experts_per_tok=2, norm_topk_prob=True, head_dim=16,
                      rope_parameters=rope("default", 1000000.0)) | options,
                 seed, *args, head_dim=True, **more)


def gpt_oss(name, options, seed, *args, **more):
    return entry(name, "gpt-oss", GptOssConfig, GptOssForCausalLM,
                 dict(hidden_size=32, intermediate_size=32, num_local_experts=4,
                      num_experts_per_tok=2, num_attention_heads=6, head_dim=16,
                      sliding_window=8, max_position_embeddings=8192, tie_word_embeddings=False,
                      rope_parameters=YARN32) | options,
                 seed, *args, head_dim=True, **more)


LEGACY = dict(hidden_size=128, intermediate_size=256)                   # K multiples of 32
SUPER = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=1,
             num_key_value_heads=1)                                     # K multiples of 256

FIXTURES = [
    llama("llama", dict(intermediate_size=92, max_position_embeddings=1024), 1, long=LONGEST),
    llama("llama-rope3", dict(rope_parameters=LLAMA3, head_dim=32, intermediate_size=64), 2,
          head_dim=True, without={"rope scaling": dict(rope_parameters=rope("default", 10000.0))}),
    llama("llama-linear", dict(rope_parameters=LINEAR, attention_bias=True,
                               tie_word_embeddings=False, intermediate_size=64), 3,
          without={"rope scaling": dict(rope_parameters=rope("default", 100000.0))}),
    qwen2("qwen2", {}, 4),
    qwen2("qwen2-yarn", dict(rope_parameters=YARN4, tie_word_embeddings=False, vocab_size=275,
                             intermediate_size=64), 5,
          without={"rope scaling": dict(rope_parameters=rope("default", 1000000.0))}),
    qwen2("qwen2-fused", dict(intermediate_size=64), 11, fused=True),
    entry("qwen3", "qwen3", Qwen3Config, Qwen3ForCausalLM,
          dict(head_dim=32, intermediate_size=64, rms_norm_eps=1e-6,
               rope_parameters=rope("default", 1000000.0)), 6, head_dim=True),
    qwen3moe("qwen3moe", {}, 7),
    gpt_oss("gpt-oss", {}, 8, long=LONGEST, without={
        "exact yarn bounds": dict(rope_parameters={**YARN32, "truncate": True}),
        "rope scaling": dict(rope_parameters=rope("default", 150000.0)),
        "sliding window": dict(sliding_window=4096)}),
    entry("starcoder2", "starcoder2", Starcoder2Config, Starcoder2ForCausalLM,
          dict(rope_parameters=rope("default", 100000.0), sliding_window=12), 9,
          without={"sliding window": dict(sliding_window=None)}),
    qwen2("qwen2-f16", {}, 20, Q.F16, F.MOSTLY_F16),
    qwen2("qwen2-bf16", {}, 21, Q.BF16, F.MOSTLY_BF16),
    qwen2("qwen2-q8_0", LEGACY, 22, Q.Q8_0, F.MOSTLY_Q8_0),
    qwen2("qwen2-q4_0", LEGACY, 23, Q.Q4_0, F.MOSTLY_Q4_0),
    qwen2("qwen2-q4_1", LEGACY, 24, Q.Q4_1, F.MOSTLY_Q4_1),
    qwen2("qwen2-q5_0", LEGACY, 25, Q.Q5_0, F.MOSTLY_Q5_0),
    qwen2("qwen2-q5_1", LEGACY, 26, Q.Q5_1, F.MOSTLY_Q5_1),
    qwen2("qwen2-iq4_nl", LEGACY, 27, Q.IQ4_NL, F.MOSTLY_IQ4_NL),
    qwen2("qwen2-mxfp4", LEGACY, 28, Q.MXFP4, F.MOSTLY_MXFP4_MOE),
    qwen2("qwen2-nvfp4", LEGACY, 29, Q.NVFP4, F.MOSTLY_NVFP4),
    qwen2("qwen2-pq2_0", LEGACY, 47, PQ2_0, PQ2_0, turned=64,
          types=dict(attn_k=PTQ1_0, attn_output=PTQ1_0, ffn_down=PTQ1_0)),
    llama("llama-q4_k", SUPER, 30, Q.Q4_K, F.MOSTLY_Q4_K_S),
    llama("llama-q5_k", SUPER, 31, Q.Q5_K, F.MOSTLY_Q5_K_S),
    llama("llama-q6_k", SUPER, 32, Q.Q6_K, F.MOSTLY_Q6_K),
    llama("llama-iq4_xs", SUPER, 33, Q.IQ4_XS, F.MOSTLY_IQ4_XS),
    llama("llama-q3_k", SUPER, 34, Q.Q3_K, F.MOSTLY_Q3_K_S),
    llama("llama-q2_k", SUPER, 37, Q.Q2_K, F.MOSTLY_Q2_K,
          types=dict(attn_v=Q.Q3_K, ffn_down=Q.Q3_K, token_embd=Q.Q6_K)),
    llama("llama-iq3", SUPER, 38, Q.IQ3_S, F.MOSTLY_IQ3_XS,
          types=dict(attn_q=Q.IQ3_XXS, ffn_up=Q.IQ3_XXS, ffn_down=Q.Q4_K, token_embd=Q.Q6_K)),
    llama("llama-iq2", SUPER, 39, Q.IQ2_XS, F.MOSTLY_IQ2_XS,
          types=dict(attn_q=Q.IQ2_XXS, ffn_gate=Q.IQ2_XXS, attn_v=Q.IQ2_S, ffn_down=Q.IQ2_S,
                     token_embd=Q.Q5_K)),
    llama("llama-iq1", SUPER, 60, Q.IQ1_S, F.MOSTLY_IQ1_S,
          types=dict(attn_q=Q.IQ1_M, ffn_up=Q.IQ1_M, ffn_down=Q.IQ1_M, attn_v=Q.Q4_K,
                     token_embd=Q.Q5_K)),
    llama("llama-tq1_0", SUPER, 35, Q.TQ1_0, F.MOSTLY_TQ1_0),
    llama("llama-tq2_0", SUPER, 36, Q.TQ2_0, F.MOSTLY_TQ2_0),
    qwen3moe("qwen3moe-q4_0", dict(hidden_size=128, moe_intermediate_size=64), 40, Q.Q4_0,
             F.MOSTLY_Q4_0),
    qwen3moe("qwen3moe-nvfp4", dict(hidden_size=128, moe_intermediate_size=64), 45, Q.Q8_0,
             F.MOSTLY_NVFP4, experts=Q.NVFP4),
    gpt_oss("gpt-oss-mxfp4", dict(hidden_size=128, intermediate_size=128), 41, Q.Q8_0,
            F.MOSTLY_MXFP4_MOE, experts=Q.MXFP4),
] + families.fixtures(entry, LONGEST)


def make_model(fixture, change=None):
    config = fixture["config"](**{**fixture["options"], **(change or {})})
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    return fixture["model"](config).float().eval()


def is_float(fixture):
    return fixture["file_type"] in (F.ALL_F32, F.MOSTLY_F16, F.MOSTLY_BF16)
