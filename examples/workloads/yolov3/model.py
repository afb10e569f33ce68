"""YOLOv3 (Redmon and Farhadi 2018): Darknet-53, three scales, nine anchors. forward gives its loss.

Written so that it exports: no size and no branch depends on a value. Places without a box have the class -1.
"""

import torch
import torch.nn.functional as F
from torch import nn

# Width and height as parts of the picture's, for the fine, the middle and the coarse scale: the paper's, over its 416.
ANCHORS = [[(10, 13), (16, 30), (33, 23)], [(30, 61), (62, 45), (59, 119)], [(116, 90), (156, 198), (373, 326)]]
IGNORED = 0.5  # a prediction that overlaps a box by more is not told that there is none


def layer(inputs, outputs, size=3, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs),
                         nn.LeakyReLU(0.1))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.narrow, self.wide = layer(channels, channels // 2, 1), layer(channels // 2, channels)

    def forward(self, x):
        return x + self.wide(self.narrow(x))


def stage(channels, repeats):
    return nn.Sequential(layer(channels, 2 * channels, stride=2), *(Residual(2 * channels) for _ in range(repeats)))


class Neck(nn.Module):
    """Five layers, narrow and wide in turn; what leads up, and what is predicted."""

    def __init__(self, inputs, channels, outputs):
        super().__init__()
        self.body = nn.Sequential(layer(inputs, channels, 1), layer(channels, 2 * channels), layer(2 * channels, channels, 1),
                                  layer(channels, 2 * channels), layer(2 * channels, channels, 1))
        self.head = nn.Sequential(layer(channels, 2 * channels), nn.Conv2d(2 * channels, outputs, 1))

    def forward(self, x):
        x = self.body(x)
        return x, self.head(x)


class YoloV3(nn.Module):
    """classes; pixels: of a side, a multiple of 32; width: channels of the first layer; repeats: blocks of each stage."""

    def __init__(self, classes, pixels, width=32, repeats=(1, 2, 8, 8, 4)):
        super().__init__()
        self.classes = classes
        outputs = 3 * (5 + classes)
        self.stem = layer(3, width)
        self.stages = nn.ModuleList(stage(width << i, count) for i, count in enumerate(repeats))
        self.coarse = Neck(32 * width, 16 * width, outputs)
        self.middle = Neck(24 * width, 8 * width, outputs)
        self.fine = Neck(12 * width, 4 * width, outputs)
        self.to_middle, self.to_fine = layer(16 * width, 8 * width, 1), layer(8 * width, 4 * width, 1)
        cells = torch.tensor([pixels // 8, pixels // 16, pixels // 32])
        anchors = torch.tensor(ANCHORS, dtype=torch.float32) / 416
        self.register_buffer("cells", cells, persistent=False)
        self.register_buffer("anchors", anchors.reshape(9, 2), persistent=False)
        # For every prediction: the corner of its cell, the number of cells in a row, its anchor.
        corners, counts, sizes = [], [], []
        for scale, count in enumerate(cells.tolist()):
            y, x = torch.meshgrid(torch.arange(count), torch.arange(count), indexing="ij")
            corners.append(torch.stack([x, y], -1).expand(3, count, count, 2).reshape(-1, 2))
            counts.append(torch.full((3 * count * count, 1), count))
            sizes.append(anchors[scale][:, None].expand(3, count * count, 2).reshape(-1, 2))
        self.register_buffer("corners", torch.cat(corners).float(), persistent=False)
        self.register_buffer("counts", torch.cat(counts).float(), persistent=False)
        self.register_buffer("sizes", torch.cat(sizes), persistent=False)
        first = torch.cumsum(3 * cells * cells, 0) - 3 * cells * cells
        self.register_buffer("first", first, persistent=False)  # prediction of each scale

    def predictions(self, images):
        """[samples, predictions, 5 + classes]: place in the cell, size, whether there is something, classes."""
        x = self.stem(images)
        levels = []
        for part in self.stages:
            x = part(x)
            levels.append(x)
        x, coarse = self.coarse(levels[4])
        x = F.interpolate(self.to_middle(x), scale_factor=2, mode="nearest")
        x, middle = self.middle(torch.cat([x, levels[3]], 1))
        x = F.interpolate(self.to_fine(x), scale_factor=2, mode="nearest")
        _, fine = self.fine(torch.cat([x, levels[2]], 1))
        return torch.cat([level.unflatten(1, (3, 5 + self.classes)).flatten(3).transpose(2, 3).flatten(1, 2)
                          for level in (fine, middle, coarse)], 1)

    def forward(self, images, boxes, labels):
        """boxes: [samples, most, 4], left, top, right and bottom as parts of the picture; labels: [samples, most]."""
        given = self.predictions(images)
        samples, total, _ = given.shape
        is_box = labels >= 0
        centre, size = (boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]
        anchor = overlap_of_sizes(size[:, :, None], self.anchors).argmax(-1)
        scale, count = anchor // 3, self.cells[anchor // 3]
        # Nothing hangs on what the places without a box are.
        place = (centre * count[..., None]).clamp(min=0)
        cell = torch.minimum(place.long(), count[..., None] - 1)
        which = self.first[scale] + (anchor % 3) * count * count + cell[..., 1] * count + cell[..., 0]
        own = given.gather(1, which[..., None].expand(-1, -1, given.shape[-1]))

        with torch.no_grad():
            shown = boxes_of(given, self.corners, self.counts, self.sizes)
            overlap = overlap_of_boxes(shown[:, :, None], boxes[:, None]).masked_fill(~is_box[:, None], 0)
            ignored = overlap.amax(2) > IGNORED
            # One more, for the places without a box.
            something = torch.zeros(samples, total + 1, device=given.device)
            something = something.scatter(1, torch.where(is_box, which, total), 1.0)[:, :total]
            weight = torch.where(ignored & (something == 0), 0.0, 1.0)

        share = is_box.float() * (2 - size[..., 0] * size[..., 1])  # small boxes count more
        inside = F.binary_cross_entropy_with_logits(own[..., :2], place - cell, reduction="none").sum(-1)
        wanted = torch.log(size.clamp(min=1e-4) / self.anchors[anchor])
        apart = F.mse_loss(own[..., 2:4], wanted, reduction="none").sum(-1) / 2
        classes = F.one_hot(labels.clamp(min=0), self.classes).float()
        kinds = F.binary_cross_entropy_with_logits(own[..., 5:], classes, reduction="none").sum(-1)
        objects = F.binary_cross_entropy_with_logits(given[..., 4], something, reduction="none")
        loss = (share * (inside + apart)).sum() + (is_box.float() * kinds).sum() + (weight * objects).sum()
        return loss / samples


def overlap_of_sizes(a, b):
    """The area that two rectangles with one centre share, over the area that they cover."""
    shared = torch.minimum(a, b).prod(-1)
    return shared / (a.prod(-1) + b.prod(-1) - shared)


def boxes_of(given, corners, counts, sizes):
    """The boxes of predictions: left, top, right and bottom."""
    centre = (torch.sigmoid(given[..., :2]) + corners) / counts
    half = sizes * torch.exp(given[..., 2:4].clamp(max=8)) / 2
    return torch.cat([centre - half, centre + half], -1)


def overlap_of_boxes(a, b):
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0)
    shared = sides[..., 0] * sides[..., 1]
    area = [(box[..., 2] - box[..., 0]) * (box[..., 3] - box[..., 1]) for box in (a, b)]
    return shared / (area[0] + area[1] - shared).clamp(min=1e-9)


def example(pixels, most):
    boxes, labels = torch.zeros(2, most, 4), torch.full((2, most), -1)
    boxes[0, :2] = torch.tensor([[0.1, 0.1, 0.4, 0.5], [0.5, 0.3, 0.9, 0.8]])
    boxes[1, 0] = torch.tensor([0.2, 0.2, 0.3, 0.3])
    labels[0, :2], labels[1, 0] = torch.tensor([3, 1]), 2
    return {"images": torch.randn(2, 3, pixels, pixels), "boxes": boxes, "labels": labels}


def build():
    """For PASCAL VOC: 20 classes, at most 56 boxes in a picture."""
    return YoloV3(20, 416), example(416, 56)


def small():
    return YoloV3(10, 96, width=8, repeats=(1, 1, 2, 2, 1)), example(96, 8)
