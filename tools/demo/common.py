"""Helpers shared by the training scripts."""
import math
import os
import time

import numpy as np
import torch

import pictures


def picture_tensor():
    """All concept pictures in [-1, 1], float [n, 3, 64, 64]."""
    array = pictures.pictures(pictures.load_concepts())
    return torch.from_numpy(array).permute(0, 3, 1, 2).float() / 127.5 - 1


class Clock:
    """Progress of a training run in [0, 1] by wall time; survives a resume."""

    def __init__(self, minutes, spent=0.0):
        self.limit, self.before, self.start = minutes * 60, spent, time.time()

    def spent(self):
        return self.before + time.time() - self.start

    def progress(self):
        return min(1.0, self.spent() / self.limit)


def learning_rate(progress, step, peak, floor=0.02, warmup=100):
    """Warm-up by steps, then a cosine over the run's time."""
    cosine = 0.5 * (1 + math.cos(math.pi * progress))
    return peak * min(1.0, (step + 1) / warmup) * (floor + (1 - floor) * cosine)


def psnr(a, b):
    """Mean PSNR of pictures in [-1, 1] after clamping, peak 2."""
    error = ((a.clamp(-1, 1) - b) ** 2).flatten(1).mean(1).clamp_min(1e-10)
    return (10 * torch.log10(4 / error)).mean().item()


@torch.no_grad()
def update_average(average, model, step, decay=0.999):
    decay = min(decay, (step + 1) / (step + 10))
    for a, b in zip(average.parameters(), model.parameters()):
        a.lerp_(b, 1 - decay)


def save_state(path, **state):
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def shuffled(count, batch, generator):
    """Endless batches of indices, every index once a round."""
    rest = torch.empty(0, dtype=torch.long)
    while True:
        while len(rest) < batch:
            rest = torch.cat([rest, torch.randperm(count, generator=generator)])
        yield rest[:batch]
        rest = rest[batch:]
