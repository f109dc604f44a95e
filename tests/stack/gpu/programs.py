"""Real PyTorch programs, one or two for each cause of underuse, and clean ones: ``PROGRAMS`` by name.

Each prepares itself, says that it is ready, and works until the clock says that it is over. They are ordinary code as
people write it: nothing is made slower than its cause makes it.
"""

import io
import math
import mmap
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

SMALL = bool(os.environ.get("PROGRAMS_SMALL"))
"""Tiny sizes on the CPU: only to see that the programs run at all."""
DEVICE = "cpu" if SMALL else "cuda"
MEBIBYTE = 1 << 20


class Run:
    """Says when a program is ready, and how long it goes on from there."""

    def __init__(self, seconds: float, ready: Callable[[], None], over: Callable[[], None] = lambda: None) -> None:
        self.seconds, self.ready, self._over = seconds, ready, over

    def rounds(self, warmup: int = 3) -> Iterator[int]:
        """Count a few rounds to warm up, say that it is ready, then go on until the time is over."""
        yield from range(warmup)
        synchronize()
        self.ready()
        end, number = time.monotonic() + self.seconds, warmup
        while time.monotonic() < end:
            yield number
            number += 1
            if number % 8 == 0:
                synchronize()
        synchronize()
        self._over()


def synchronize() -> None:
    if not SMALL:
        torch.cuda.synchronize()


class Block(nn.Module):
    """One layer of a transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        query, key, value = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.after(x))


class Gpt(nn.Module):
    """A language model."""

    def __init__(self, width: int, layers: int, words: int = 32_000) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.blocks = nn.Sequential(*(Block(width, width // 64) for _ in range(layers)))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.blocks(self.embed(tokens)))


def train_gpt(run: Run, *, batch: int, length: int, width: int, layers: int, bf16: bool) -> None:
    """Train a language model on tokens that lie on the GPU already."""
    if SMALL:
        batch, length, width, layers = 2, 16, 64, 2
    model = Gpt(width, layers).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), fused=not SMALL)
    data = torch.randint(0, 32_000, (8, batch, length + 1), device=DEVICE)
    for number in run.rounds():
        tokens = data[number % 8]
        with torch.autocast(DEVICE, torch.bfloat16, enabled=bf16):
            loss = functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def clean_transformer(run: Run) -> None:
    """Train in bfloat16 with a full batch."""
    train_gpt(run, batch=12, length=1024, width=2048, layers=12, bf16=True)


def precision_transformer(run: Run) -> None:
    """The same in plain 32 bit, as PyTorch does by default."""
    train_gpt(run, batch=12, length=1024, width=2048, layers=12, bf16=False)


def launch_bound(run: Run) -> None:
    """Train a tiny model from Python, kernel by kernel."""
    train_gpt(run, batch=2, length=64, width=256, layers=12, bf16=True)


def resnet(name: str) -> nn.Module:
    import torchvision
    return getattr(torchvision.models, name)().to(DEVICE, memory_format=torch.channels_last)


def train_images(run: Run, model: nn.Module, batches: Iterator[tuple[Tensor, Tensor]], warmup: int = 3) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in run.rounds(warmup):
        images, labels = next(batches)
        images = images.to(DEVICE, non_blocking=True).to(memory_format=torch.channels_last).float().div_(255)
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = functional.cross_entropy(model(images), labels.to(DEVICE, non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def clean_resnet(run: Run) -> None:
    """Train ResNet-50 on images that lie on the GPU already."""
    count, size = (2, 32) if SMALL else (256, 224)
    images = torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, device=DEVICE)
    labels = torch.randint(0, 1000, (count,), device=DEVICE)

    def again() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield images, labels
    train_images(run, resnet("resnet50"), again())


class Photos(Dataset):
    """Compressed photographs that are decoded, cropped and coloured on the CPU, as everybody does."""

    def __init__(self) -> None:
        from PIL import Image
        grid = np.add.outer(np.arange(375), np.arange(500)) % 256
        noise = np.random.default_rng(0).integers(0, 64, (375, 500, 3))
        buffer = io.BytesIO()
        Image.fromarray(((grid[..., None] + noise) % 256).astype(np.uint8)).save(buffer, "jpeg", quality=90)
        self.photo = buffer.getvalue()

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        from PIL import Image, ImageEnhance
        image = Image.open(io.BytesIO(self.photo)).convert("RGB")
        left, top = random.randrange(100), random.randrange(75)
        image = image.crop((left, top, left + 400, top + 300)).resize((224, 224), Image.Resampling.BICUBIC)
        image = ImageEnhance.Color(ImageEnhance.Contrast(image).enhance(1.2)).enhance(0.9)
        return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1), number % 1000


def loaded(data: Dataset, batch: int, workers: int) -> Iterator[tuple[Tensor, Tensor]]:
    torch.set_num_threads(1)
    return iter(DataLoader(data, batch_size=batch, num_workers=workers, pin_memory=not SMALL, prefetch_factor=2))


def waiting_for_cpus(run: Run) -> None:
    """Train ResNet-18; every CPU decodes photographs, and they are too few."""
    train_images(run, resnet("resnet18"), loaded(Photos(), 8 if SMALL else 256, os.cpu_count() or 1), 2)


class Volumes(Dataset):
    """Raw volumes in one large file, read past the cache as a set larger than memory is."""

    SIZE = 3 * 512 * 512 * 4

    def __init__(self) -> None:
        piece = mmap.mmap(-1, 16 * self.SIZE)
        piece.write(os.urandom(self.SIZE) * 16)
        self.count = 16 * (1 if SMALL else 75)
        with tempfile.NamedTemporaryFile(dir="/var/tmp") as named:
            self.file = os.dup(named.fileno())
        for _ in range(self.count // 16):
            os.write(self.file, piece)
        os.fsync(self.file)
        os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_DONTNEED)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        place = random.randrange(self.count) * self.SIZE
        raw = os.pread(self.file, self.SIZE, place)
        os.posix_fadvise(self.file, place, self.SIZE, os.POSIX_FADV_DONTNEED)
        whole = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(12, 512, 512)
        return whole[:3, 144:368, 144:368].clone(), number % 1000


def waiting_for_disk(run: Run) -> None:
    """Train ResNet-18 on volumes that come from a disk."""
    train_images(run, resnet("resnet18"), loaded(Volumes(), 4 if SMALL else 64, 6), 2)


def python_bound(run: Run) -> None:
    """Reinforcement learning: one Python thread plays the games, the network is asked for each step."""
    policy = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4)).to(DEVICE)
    optimizer = torch.optim.Adam(policy.parameters())
    games = [[random.random() for _ in range(64)] for _ in range(64)]
    for _ in run.rounds():
        acted = policy(torch.tensor(games, device=DEVICE))
        actions = torch.distributions.Categorical(logits=acted).sample()
        for game, action in zip(games, actions.tolist(), strict=True):
            for place in range(64):
                game[place] = math.tanh(0.9 * game[place] + 0.1 * math.sin(place + action))
        loss = functional.cross_entropy(acted, actions)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def captured(step: Callable[[], object]) -> Callable[[], object]:
    """Return a step that is launched as one CUDA graph."""
    if SMALL:
        return step
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def small_graph(run: Run) -> None:
    """Serve a small model one sentence at a time, without gaps between kernels."""
    model = Gpt(256, 8).to(DEVICE, torch.bfloat16).eval()
    tokens = torch.randint(0, 32_000, (1, 64), device=DEVICE)
    with torch.no_grad():
        replay = captured(lambda: model.blocks(model.embed(tokens)))
        for _ in run.rounds(50):
            for _ in range(1 if SMALL else 20):
                replay()


def small_lstm(run: Run) -> None:
    """Train a recurrent network with a batch of four."""
    length = 10 if SMALL else 2000
    model = nn.LSTM(256, 256, 2).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(length, 4, 256, device=DEVICE)
    for _ in run.rounds():
        optimizer.zero_grad()
        model(data)[0].square().mean().backward()
        optimizer.step()


def memory_decode(run: Run) -> None:
    """Write text with a large model, one token after the other: every weight is read for each."""
    width, layers = (64, 2) if SMALL else (8192, 60)
    model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(layers))).to(DEVICE, torch.bfloat16)
    token = torch.randn(1, width, device=DEVICE, dtype=torch.bfloat16)
    with torch.no_grad():
        replay = captured(lambda: model(token))
        for _ in run.rounds():
            replay()


def memory_stencil(run: Run) -> None:
    """Heat in a block of matter, cell by cell."""
    side = 16 if SMALL else 768
    heat = torch.rand(side, side, side, device=DEVICE)
    for _ in run.rounds():
        inner = heat[1:-1, 1:-1, 1:-1]
        inner += 0.1 * (heat[2:, 1:-1, 1:-1] + heat[:-2, 1:-1, 1:-1] + heat[1:-1, 2:, 1:-1] + heat[1:-1, :-2, 1:-1]
                        + heat[1:-1, 1:-1, 2:] + heat[1:-1, 1:-1, :-2] - 6 * inner)


def offload(run: Run) -> None:
    """A model larger than the GPU is given: layers come from the host's memory, gradients go back to it."""
    width, layers = (64, 4) if SMALL else (8192, 12)
    pinned = [torch.randn(width, width, dtype=torch.bfloat16) for _ in range(layers)]
    back = [torch.empty(width, width, dtype=torch.bfloat16) for _ in range(layers)]
    if not SMALL:
        pinned, back = [one.pin_memory() for one in pinned], [one.pin_memory() for one in back]
    places = [torch.empty(width, width, dtype=torch.bfloat16, device=DEVICE) for _ in range(2)]
    x = torch.randn(256, width, dtype=torch.bfloat16, device=DEVICE)
    copies = Copies()
    for _ in run.rounds(1):
        copies.bring(places[0], pinned[0])
        for number in range(layers):
            copies.arrived()
            if number + 1 < layers:
                copies.bring(places[(number + 1) % 2], pinned[number + 1])
            y = functional.silu(x @ places[number % 2].T)
            copies.take(back[number], y.T @ x)
        synchronize()


class Copies:
    """Copies in both directions beside the computing."""

    def __init__(self) -> None:
        self.inward, self.outward = (None, None) if SMALL else (torch.cuda.Stream(), torch.cuda.Stream())

    def bring(self, place: Tensor, layer: Tensor) -> None:
        self._copy(self.inward, place, layer)

    def take(self, place: Tensor, gradient: Tensor) -> None:
        self._copy(self.outward, place, gradient)
        if self.outward is not None:
            gradient.record_stream(self.outward)

    def arrived(self) -> None:
        if self.inward is not None:
            torch.cuda.current_stream().wait_stream(self.inward)

    def _copy(self, stream: "torch.cuda.Stream | None", place: Tensor, source: Tensor) -> None:
        if stream is None:
            place.copy_(source)
            return
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            place.copy_(source, non_blocking=True)


def clean_double(run: Run) -> None:
    """Molecules' electrons: double precision matrix products."""
    side = 32 if SMALL else 8192
    one, other = (torch.randn(side, side, dtype=torch.float64, device=DEVICE) for _ in range(2))
    for _ in run.rounds():
        torch.mm(one, other)


def requests(run: Run) -> None:
    """Serve a model that is asked for now and then."""
    model = Gpt(64 if SMALL else 1024, 2 if SMALL else 12).to(DEVICE, torch.bfloat16).eval()
    tokens = torch.randint(0, 32_000, (4, 16 if SMALL else 512), device=DEVICE)
    with torch.no_grad():
        for _ in run.rounds():
            model(tokens)
            time.sleep(random.expovariate(12.0))


def idle(run: Run) -> None:
    """Hold a GPU's memory, as a notebook that somebody left."""
    held = torch.zeros(MEBIBYTE if SMALL else 10 * 1024 * MEBIBYTE, dtype=torch.uint8, device=DEVICE)
    for _ in run.rounds():
        time.sleep(0.2)
    del held


SPIN = r"""
extern "C" __global__ void collective(volatile int* others, long long nanoseconds) {
    long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (!*others && now - begin < nanoseconds);
}
"""


def hung(run: Run) -> None:
    """A collective whose partner never comes: its 24 blocks ask a flag for ever, as NCCL's kernels do."""
    if SMALL:
        return idle(run)
    import cupy
    kernel, flag = cupy.RawKernel(SPIN, "collective"), cupy.zeros(1, dtype=cupy.int32)
    stream, waiting = cupy.cuda.Stream(non_blocking=True), threading.Event()
    kernel.compile()
    run.ready()
    kernel((24,), (544,), (flag, int(run.seconds * 1e9)), stream=stream)
    waiting.wait(run.seconds)
    stream.synchronize()
    return None


def duty(share: float) -> Callable[[Run], None]:
    """Return a program that multiplies matrices for this share of each 100 ms."""
    def work(run: Run) -> None:
        side = 32 if SMALL else 4096
        one, other = (torch.randn(side, side, dtype=torch.bfloat16, device=DEVICE) for _ in range(2))
        for _ in run.rounds(20):
            begin = time.monotonic()
            while time.monotonic() - begin < 0.1 * share:
                torch.mm(one, other)
                synchronize()
            time.sleep(max(0.0, 0.1 - (time.monotonic() - begin)))
    return work


PROGRAMS: dict[str, Callable[[Run], None]] = {one.__name__: one for one in (
    clean_transformer, clean_resnet, clean_double, waiting_for_cpus, waiting_for_disk, python_bound, launch_bound,
    small_graph, small_lstm, memory_decode, memory_stencil, offload, precision_transformer, requests, idle, hung)} | {
    f"duty_{percent}": duty(percent / 100) for percent in (10, 25, 50, 75, 100)}
