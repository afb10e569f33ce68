"""T5 (Raffel et al. 2020), Hugging Face's: it reads a text with gaps and says what was there. forward gives its loss."""

import torch
from transformers import T5Config, T5ForConditionalGeneration


class Filling(T5ForConditionalGeneration):
    """Takes the arrays of the data by their names; parameters have those of transformers."""

    def forward(self, ids, mask, labels):
        """ids, mask: [samples, length]; labels: [samples, said], -100 where nothing is to be said."""
        return super().forward(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False, return_dict=False)[0]


def example(vocabulary, length, said):
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, length // 2:] = 0
    labels = torch.randint(4, vocabulary, (2, said))
    labels[1, said // 2:] = -100
    return {"ids": torch.randint(4, vocabulary, (2, length)), "mask": mask, "labels": labels}


def build():
    """t5-small."""
    return Filling(T5Config(decoder_start_token_id=0)), example(32128, 512, 128)


def small():
    config = T5Config(vocab_size=2000, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
                      decoder_start_token_id=0)
    return Filling(config), example(2000, 32, 8)
