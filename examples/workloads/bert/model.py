"""BERT (Devlin et al. 2019) that answers questions by a part of the text, Hugging Face's. forward gives its loss."""

import torch
from transformers import BertConfig, BertForQuestionAnswering


class QuestionAnswering(BertForQuestionAnswering):
    """Takes the arrays of the data by their names; parameters have those of transformers."""

    def forward(self, ids, mask, types, start, end):
        """ids, mask, types: [samples, length]; start, end: [samples], the answer's first and last place."""
        return super().forward(input_ids=ids, attention_mask=mask, token_type_ids=types, start_positions=start,
                               end_positions=end, return_dict=False)[0]


def example(vocabulary, length):
    ids = torch.randint(4, vocabulary, (2, length))
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, length // 2:] = 0
    types = torch.zeros(2, length, dtype=torch.long)
    types[:, length // 4:] = 1
    return {"ids": ids, "mask": mask, "types": types, "start": torch.tensor([9, 7]), "end": torch.tensor([9, 8])}


def build():
    """bert-base-uncased; weights of a pre-training come by model.init."""
    return QuestionAnswering(BertConfig()), example(30522, 384)


def small():
    config = BertConfig(vocab_size=2000, hidden_size=96, num_hidden_layers=2, num_attention_heads=3,
                        intermediate_size=192, max_position_embeddings=48)
    return QuestionAnswering(config), example(2000, 48)
