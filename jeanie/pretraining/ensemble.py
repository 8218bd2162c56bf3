"""Pretraining of an ensemble: train all members, resume an interrupted run, and save them as one model."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from safetensors.torch import load, save

from jeanie._internal.digest import hash_json
from jeanie._internal.files import write_atomically
from jeanie.compute.cancellation import raise_if_stopped
from jeanie.compute.processes import use_one_thread
from jeanie.compute.tasks import check_workers, map_tasks
from jeanie.fewshot.model import FewShotModel
from jeanie.pretraining.config import PretrainConfig, configure_ensemble
from jeanie.pretraining.member import Progress, pretrain_member
from jeanie.pretraining.pairs import Windows

__all__ = ["pretrain"]


def pretrain(
    windows: Windows,
    config: PretrainConfig,
    out: str | Path,
    *,
    jobs: int = 1,
    cluster: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> FewShotModel:
    """Train all members and save them as one model in the folder ``out``, with 16 bits per weight.

    A trained member is stored in ``out/members`` under its seed and settings, with its loss curve (``.jsonl``). An
    interrupted run continues with the next member.

    Args:
        windows: Motion capture.
        config: Settings.
        out: Folder of the model.
        jobs: Members to train in parallel, in worker processes. The weights do not depend on it.
        cluster: Address of a Dask scheduler whose workers train members; they need ``out`` under the same path.
        progress: Called with the progress of every member. With several jobs or a cluster, workers call it, so it must
            be a function of a module.

    Returns:
        The saved model.
    """
    out = Path(out)
    (out / "members").mkdir(parents=True, exist_ok=True)
    members = config.member_settings
    numbered = [(number, *member) for number, member in enumerate(members, 1)]
    missing = [member for member in numbered if not _get_member_path(out, *member[1:]).exists()]
    check_workers(jobs, cluster)
    workers = min(jobs, max(1, len(missing)))
    shared = windows, out.absolute(), progress
    for _ in map_tasks(_train_member, missing, shared=shared, jobs=workers, cluster=cluster):
        pass
    model = FewShotModel(configure_ensemble(config))
    weights = model.state_dict()
    for index, member in enumerate(members):
        for name, tensor in load(_get_member_path(out, *member).read_bytes()).items():
            weights[name.replace("members.0.", f"members.{index}.")] = tensor
    model.load_state_dict(weights)
    model.save(out, half=True)
    return FewShotModel.load(out)


def _get_member_path(out: Path, settings: PretrainConfig, seed: int) -> Path:
    """Return the file of a member, named by its seed and a hash of its settings."""
    return out / "members" / f"{seed}-{hash_json(settings.model_dump())[:12]}.safetensors"


def _train_member(
    windows: Windows,
    out: Path,
    progress: Callable[[Progress], None] | None,
    member: tuple[int, PretrainConfig, int],
) -> None:
    """Train a member and write its weights and its loss curve."""
    number, config, seed = member
    path, curve = _get_member_path(out, config, seed), []

    def record(now: Progress) -> None:
        curve.append(json.dumps({"step": now.step, "loss": now.loss, "accuracy": now.accuracy}) + "\n")
        if progress:
            progress(replace(now, member=number))
        raise_if_stopped()

    with use_one_thread():
        model = pretrain_member(windows, config, seed, record)
    write_atomically(path.with_suffix(".jsonl"), "".join(curve).encode())
    write_atomically(path, save(dict(model.state_dict())))
