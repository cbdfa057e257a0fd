"""torch.randn from a CPU generator: the values of consecutive calls, in three dtypes."""

import torch

from tools.golden.common import BF16, F32, case_dir, write_json, write_tensors

DTYPES = {"f32": F32, "bf16": BF16, "f16": torch.float16}
# (seed, shapes of consecutive calls on one generator). Below 16 values torch takes another path,
# whose second normal waits for the next call; a size that is no multiple of 16 redraws the tail.
SEQUENCES = [
    (0, [[16], [16]]),
    (1, [[1], [1], [1], [2], [5]]),
    (2, [[3], [3], [15], [20], [1]]),
    (3, [[7], [32], [1], [1]]),
    (42, [[17], [31], [16]]),
    (43, [[100], [15], [100]]),
    (44, [[1000], [8]]),
    (0, [[1, 16, 8, 8], [1, 16, 8, 8]]),
    (1234, [[2, 16, 6, 4]]),
    (7, [[1, 3, 5, 7], [1, 3, 5, 7]]),
    # One draw that crosses several refills of the generator's 624 words.
    (5, [[2500], [3]]),
    (0xFFFFFFFF, [[24]]),
    # Only the low 32 bits of a seed count (this is seed 5 again); a negative seed wraps around.
    (0x100000005, [[24]]),
    (-1, [[24]]),
]


def make_all():
    path = case_dir("noise")
    tensors, listing = {}, []
    for index, (seed, shapes) in enumerate(SEQUENCES):
        for name, dtype in DTYPES.items():
            generator = torch.Generator("cpu").manual_seed(seed)
            for call, shape in enumerate(shapes):
                value = torch.randn(shape, generator=generator, dtype=dtype)
                tensors[f"{index}.{name}.{call}"] = value
        listing.append({"index": index, "seed": seed, "shapes": shapes})
    write_tensors(path / "randn.safetensors", tensors)
    write_json(path / "randn.json", listing, compact=True)
    print(f"noise: {len(tensors)} tensors")
