#!/usr/bin/env python3
"""Turns SQuAD into the arrays that bert/ and electra/ train on.

    python squad.py train-v1.1.json vocab.txt squad.h5
    python squad.py dev-v1.1.json vocab.txt squad-test.h5

The JSON files come from https://rajpurkar.github.io/SQuAD-explorer/ (CC BY-SA 4.0), vocab.txt is that of
bert-base-uncased. Needs tokenizers, numpy and h5py. Written are ids, mask and types [samples, 384], and start and end
[samples], the first and last place of the answer in ids. A question whose answer lies beyond the 384 is left out.
"""

import argparse
import json
import pathlib

import h5py
import numpy
from tokenizers import BertWordPieceTokenizer

LENGTH = 384


def questions(path):
    """(question, text, where in the text the answer begins and ends)."""
    for article in json.loads(pathlib.Path(path).read_text())["data"]:
        for paragraph in article["paragraphs"]:
            for asked in paragraph["qas"]:
                answer = asked["answers"][0]
                begin = answer["answer_start"]
                yield asked["question"], paragraph["context"], begin, begin + len(answer["text"])


def sample(tokenizer, question, text, begin, end):
    """None where the answer is not in what fits."""
    encoded = tokenizer.encode(question, text)
    inside = [i for i, (kind, (first, last)) in enumerate(zip(encoded.type_ids, encoded.offsets))
              if kind == 1 and first < end and last > begin]
    has_end = inside and encoded.offsets[inside[-1]][1] >= end
    return (encoded.ids, encoded.attention_mask, encoded.type_ids, inside[0], inside[-1]) if has_end else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("squad")
    parser.add_argument("vocabulary")
    parser.add_argument("out")
    arguments = parser.parse_args()
    tokenizer = BertWordPieceTokenizer(arguments.vocabulary, lowercase=True)
    tokenizer.enable_truncation(LENGTH, strategy="only_second")
    tokenizer.enable_padding(length=LENGTH)
    found = [sample(tokenizer, *question) for question in questions(arguments.squad)]
    samples = [one for one in found if one]
    with h5py.File(arguments.out, "w") as file:
        for name, column in zip(("ids", "mask", "types", "start", "end"), zip(*samples)):
            file[name] = numpy.array(column, numpy.int32 if name == "ids" else numpy.int16)
    print(f"{arguments.out}: {len(samples)} questions; {len(found) - len(samples)} left out: their answer is beyond {LENGTH}")


if __name__ == "__main__":
    main()
