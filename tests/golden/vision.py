"""Decoders of models of pictures and text (Qwen2.5-VL, Qwen3-VL), alone: transformers has classes
for them without a head.

Their files differ from those of the text models by the sections of the rotation.  Of text all
sections have the same position.
"""
from torch.nn import Linear
from transformers import (
    PreTrainedModel, Qwen2_5_VLTextConfig, Qwen2_5_VLTextModel, Qwen3VLMoeTextConfig,
    Qwen3VLMoeTextModel, Qwen3VLTextConfig, Qwen3VLTextModel)
from transformers.modeling_outputs import CausalLMOutputWithPast

ARCHS = ("qwen2vl", "qwen3vl", "qwen3vlmoe")


class Decoder(PreTrainedModel):
    inner = None

    def __init__(self, config):
        super().__init__(config)
        self.model = self.inner(config)
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, input_ids, **more):
        out = self.model(input_ids=input_ids, **more)
        return CausalLMOutputWithPast(logits=self.lm_head(out.last_hidden_state),
                                      past_key_values=out.past_key_values)


class Qwen2VL(Decoder):
    config_class, inner = Qwen2_5_VLTextConfig, Qwen2_5_VLTextModel


class Qwen3VL(Decoder):
    config_class, inner = Qwen3VLTextConfig, Qwen3VLTextModel


class Qwen3VLMoe(Decoder):
    config_class, inner = Qwen3VLMoeTextConfig, Qwen3VLMoeTextModel


def add_keys(w, c):
    w.add_rope_dimension_sections([*c.rope_parameters["mrope_section"], 0])


def fixtures(family):
    def rope(sections, **more):
        return {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": sections, **more}

    one = dict(intermediate_size=64, rms_norm_eps=1e-6)
    return [
        family("qwen2vl", "qwen2vl", Qwen2_5_VLTextConfig, Qwen2VL,
               dict(one, rope_parameters=rope([4, 2, 2])), 130),
        family("qwen3vl", "qwen3vl", Qwen3VLTextConfig, Qwen3VL,
               dict(one, head_dim=32, rope_parameters=rope([6, 5, 5], mrope_interleaved=True)),
               131, head_dim=True),
        family("qwen3vlmoe", "qwen3vlmoe", Qwen3VLMoeTextConfig, Qwen3VLMoe,
               dict(one, head_dim=32, num_experts=8, num_experts_per_tok=2,
                    moe_intermediate_size=32,
                    rope_parameters=rope([6, 5, 5], mrope_interleaved=True)), 132, head_dim=True),
    ]
