"""More programs, recorded only after the rules had been mended on the first: what is told of them was not looked at."""

from collections.abc import Iterator

import programs
import torch
from programs import DEVICE, SMALL, Photos, Run, captured, resnet, train_gpt, train_images
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader


def apart_tf32_transformer(run: Run) -> None:
    """Clean: a training in TF32, the way PyTorch's warning asks for."""
    torch.set_float32_matmul_precision("high")
    torch.set_default_device(DEVICE)
    train_gpt(run, batch=12, length=1024, width=2048, layers=12, bf16=False)


def apart_fp32_resnet(run: Run) -> None:
    """Wrong precision: convolutions in plain 32 bit."""
    torch.backends.cudnn.allow_tf32 = False
    model = resnet("resnet50")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    count, size = (2, 32) if SMALL else (128, 224)
    images = torch.randn(count, 3, size, size, device=DEVICE)
    labels = torch.randint(0, 1000, (count,), device=DEVICE)
    for _ in run.rounds():
        loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def apart_no_workers(run: Run) -> None:
    """CPU-bound: photographs are decoded by the very thread that trains."""
    torch.set_num_threads(1)
    batches: Iterator[tuple[Tensor, Tensor]] = iter(DataLoader(Photos(), batch_size=32, num_workers=0))
    train_images(run, resnet("resnet18"), batches, 2)


def apart_small_speech(run: Run) -> None:
    """Small batch: one utterance at a time through a convolutional recogniser, captured as a graph."""
    layers = [nn.Sequential(nn.Conv1d(128, 128, 5, padding=2), nn.BatchNorm1d(128), nn.ReLU()) for _ in range(24)]
    model = nn.Sequential(*layers).to(DEVICE).eval()
    sound = torch.randn(1, 128, 400, device=DEVICE)
    with torch.no_grad():
        replay = captured(lambda: model(sound))
        for _ in run.rounds(20):
            for _ in range(20):
                replay()


def apart_recommender(run: Run) -> None:
    """Memory-bound: rows of large tables are gathered and added up."""
    rows = 1000 if SMALL else 20_000_000
    table = nn.EmbeddingBag(rows, 128, mode="sum", device=DEVICE, dtype=torch.bfloat16)
    wanted = torch.randint(0, rows, (4, 16 if SMALL else 65_536, 64), device=DEVICE)
    with torch.no_grad():
        for number in run.rounds():
            table(wanted[number % 4])


programs.PROGRAMS.update({one.__name__: one for one in (
    apart_tf32_transformer, apart_fp32_resnet, apart_no_workers, apart_small_speech, apart_recommender)})
