"""FewShotModel: views, encoder and comparison as one distance between motions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from jeanie.alignment import Alignment
from jeanie.encoders import BlockEncoder
from jeanie.errors import ConfigError, DataError, JeanieError
from jeanie.fewshot.cameras import HiddenJoints, check_has_depth
from jeanie.fewshot.chunks import encode_in_chunks
from jeanie.fewshot.classes import average_classes
from jeanie.fewshot.comparison.build import build_comparison
from jeanie.fewshot.comparison.persons import compare_persons, match_persons
from jeanie.fewshot.config import RAWS, ModelConfig, check_model_config
from jeanie.fewshot.features import Features
from jeanie.fewshot.hubness import HubnessCorrection
from jeanie.fewshot.inputs import Batch, Store, arrange, find_layout
from jeanie.fewshot.packing import encode_blocks
from jeanie.fewshot.pair_match import PairMatch
from jeanie.fewshot.parts import (
    EncoderPart,
    MetricPart,
    PartError,
    list_parts,
    resolve_encoder,
    resolve_metric,
    reuse_parts,
)
from jeanie.fewshot.persistence import is_measured, load_weights, read_model, write_model
from jeanie.skeleton.blocks import compute_stride, count_blocks
from jeanie.skeleton.canonical_body import BODY
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["SHIPPED", "FewShotModel", "PairMatch", "Side"]

Side = Literal["query", "support"]

_BATCH = 64  # motions of a hubness correction that are encoded at once
SHIPPED = Path(__file__).parent.parent / "models" / "default"


class FewShotModel(nn.Module):
    """Distance of queries to supports: simulated views, block features, alignment (paper, Sec. 4).

    A query is seen from every view; a support as recorded, or from every view if ``views.sides`` is "both". The
    distances of ``components`` are added: d = sum over models of weight * d_model / unit.

    Args:
        config: Inputs, views, encoder and comparison.
        layout: Joints of the motions, unless the configuration determines them; encoders with weights need it.
        encoder: An encoder from outside: a module that maps blocks [n, block, joint, channel] to features
            [n, feature], a class or function that makes one from ``layout``, ``block`` and ``channels``, or the import
            path of ``config.encoder.module``, which permits its import.
        metric: A base distance from outside: a function of blocks [batch, m, feature] and [batch, n, feature] that
            returns [batch, m, n], or the import path of ``config.align.metric``, which permits its import.

    Raises:
        ConfigError: If sections of the configuration do not fit together, or a layout is missing.

    >>> import jeanie
    >>> model = FewShotModel.raw()
    >>> clips = jeanie.open_dataset("synthetic").motions[:3]
    >>> model.distances(clips, clips).argmin(1).tolist()
    [0, 1, 2]
    """

    def __init__(
        self,
        config: ModelConfig,
        layout: Layout | None = None,
        *,
        encoder: EncoderPart = None,
        metric: MetricPart = None,
    ) -> None:
        super().__init__()
        check_model_config(config)
        inputs, prepare = config.inputs, config.inputs.prepare
        if prepare.body == "canonical":
            layout = BODY
        elif prepare.layout is not None:
            layout = find_layout(prepare.layout)
        config, module = resolve_encoder(config, layout, encoder)
        config, base_distance = resolve_metric(config, metric)
        self.config, self.layout = config, layout
        if layout is not None and config.views.kind != "none":
            check_has_depth(layout, config.views.kind)
        self.views = config.views.build(layout)
        self.hidden_joints = HiddenJoints()
        self.autocast_dtype: torch.dtype | None = None  # of the encoder; training sets both
        self.recompute = False
        self.encoder = BlockEncoder(
            layout, block=inputs.block, channels=inputs.channels, config=config.encoder, module=module
        )
        self.comparison = build_comparison(config.align, self.views, self.encoder, base_distance)
        self.hubness_correction: HubnessCorrection | None = None
        if config.hubness and prepare.frames is not None:
            stride = compute_stride(inputs.block, inputs.stride)
            blocks = count_blocks(torch.tensor(prepare.frames), inputs.block, stride)
            outputs = int(self.encoder.counts(blocks))
            self.hubness_correction = HubnessCorrection(outputs, self.encoder.features, config.hubness)
        others = {"encoder": list_parts(encoder), "metric": list_parts(metric)}
        self.components = nn.ModuleList(FewShotModel(part, layout, **others) for part in config.components)
        if config.components:
            self.config = config.with_values(components=tuple(part.config for part in self._models()))

    @classmethod
    def raw(cls, config: ModelConfig | str = "reference") -> "FewShotModel":
        """Return a model without learning, for any layout: block coordinates are the features.

        Args:
            config: A configuration with a raw encoder, or a name: "reference" is the best model without learning,
                "dtw" is plain DTW on recorded coordinates.

        Raises:
            ConfigError: If the name is unknown.
        """
        if isinstance(config, str):
            if config not in RAWS:
                raise ConfigError(f"no raw model {config!r}; the known raw models are {', '.join(RAWS)}")
            config = RAWS[config]
        return cls(config).eval()

    @classmethod
    def load(
        cls, path: str | Path | None = None, *, encoder: EncoderPart = None, metric: MetricPart = None
    ) -> "FewShotModel":
        """Return the model of a folder that ``save`` wrote, in evaluation mode.

        Args:
            path: The folder; by default that of the shipped model.
            encoder, metric: Parts from outside jeanie, or their import paths, if the model has such parts. A folder
                never causes an import by itself.

        Raises:
            ConfigError: If the model has a part that the caller did not name.
            DataError: If the folder holds no model, a damaged one, or one of another version.
        """
        path = SHIPPED if path is None else path
        config, layout, weights = read_model(Path(path))
        try:
            model = cls(ModelConfig(**config), layout, encoder=encoder, metric=metric)
            dtypes = {tensor.dtype for name, tensor in weights.items() if not is_measured(name)}
            if dtypes == {torch.float64}:
                model.double()
            model.load_state_dict(weights)
        except PartError as error:
            raise PartError(f"{path}: {error}") from None
        except (JeanieError, RuntimeError, TypeError) as error:
            raise DataError(f"{path}: not a model of this version: {error}") from None
        return model.eval()

    def save(self, path: str | Path, *, half: bool = False) -> None:
        """Write the model into the folder ``path``: weights as safetensors, configuration as JSON.

        Args:
            path: The folder; it is created.
            half: Write weights with 16 bits (three digits), in half the space; ``load`` converts them to 32 bits.
        """
        config = self.config.model_dump(mode="json")
        write_model(Path(path), config, self.layout, self.state_dict(), half=half)

    def with_config(self, changes: Mapping[str, Any] | None = None, /, **named: Any) -> "FewShotModel":
        """Return a copy with other settings, such as views or components, and the same weights.

        Args:
            changes: New values by dotted name; see ``Config.with_values``.
            **named: New values by name.

        Raises:
            ConfigError: If a setting is wrong, or the weights do not fit it.

        >>> model = FewShotModel.load().with_config({"views.kind": "euler", "views.altitude": 0})
        >>> model.views.shape
        (7, 1)
        """
        config = self.config.with_values(changes, **named)
        with torch.random.fork_rng(devices=[]):  # the initial weights are replaced, so they draw nothing
            model = type(self)(config, self.layout, **reuse_parts(self, config)).to(self.device, self.dtype)
        load_weights(model, self.state_dict())
        return model.train(self.training)

    @torch.no_grad()
    def with_hubness_correction(self, motions: Sequence[Motion], hubness: float = 0.5) -> "FewShotModel":
        """Return a copy that increases distances to supports that are near to all motions.

        Some supports are near to every query because of the way they were recorded. The correction learns from
        ``motions`` to detect them. ``trace`` returns distances without the correction.

        Args:
            motions: Two motions or more of the same sensor, of actions that will not be recognised.
            hubness: Exponent of the correction.

        Raises:
            ConfigError: If the exponent is 0, or the model cannot be corrected.
            DataError: If there are fewer than two motions.
        """
        model = self.with_config(hubness=hubness)
        if model.hubness_correction is None:
            raise ConfigError(f"hubness is an exponent above 0, got {hubness}")
        starts = range(0, len(motions), _BATCH)
        batches = (self.collate(motions[start : start + _BATCH]) for start in starts)
        model.hubness_correction.learn(self.features(batch, "support") for batch in batches)
        return model

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of weights, features and distances."""
        return next((weight.dtype for weight in self.parameters()), torch.float32)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.comparison.get_buffer("cost_scale").device

    def _models(self) -> "list[FewShotModel]":
        return [part for part in self.components if isinstance(part, FewShotModel)]

    def store(self, motions: Sequence[Motion], *, limit: int = 2**30) -> Store:
        """Return a cache of prepared clips, in the dtype of the model.

        Args:
            motions: The clips; each is prepared on its first use.
            limit: Largest size of the cache in bytes.
        """
        views = None if self.config.views.kind == "none" else self.config.views
        store = Store(motions, self.config.inputs.prepare, dtype=self.dtype, limit=limit, views=views)
        parts = (part.store(motions, limit=limit) for part in self._models())
        store.components = [
            store if part.prepares_like(store) and not part.components else part for part in parts
        ]
        return store

    def collate(self, motions: Sequence[Motion]) -> Batch:
        """Return one batch of prepared motions, padded to the longest."""
        return self.store(motions)[range(len(motions))]

    def features(self, batch: Batch, side: Side = "query") -> Features:
        """Return the block features of every clip; queries are encoded in every simulated view.

        Persons are encoded separately and then averaged or matched. Without gradients, clips are encoded in chunks.
        With ``mirror_penalty`` the mirror image of a query is encoded, too, except in training: a network learns to
        distinguish mirror images.
        """
        batch = batch.to(self.device, self.dtype)
        features = self._encode(batch, side)
        if side == "support" or self.config.mirror_penalty is None or self.training:
            return features
        return replace(features, mirrored=self._encode(batch.mirror(), side))

    def _encode(self, batch: Batch, side: Side) -> Features:
        views = self.views if side == "query" or self.config.views.sides == "both" else None
        needs_gradients = torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters())
        own_features = encode_in_chunks(
            partial(self._encode_chunk, views=views), batch, self._count_numbers(batch, views), self.encoder,
            needs_gradients=needs_gradients, recompute=self.recompute,
        )  # fmt: skip
        components = tuple(
            part._encode(clips, side) for part, clips in zip(self._models(), batch.components, strict=True)
        )
        return replace(own_features, components=components, factor=self._compute_hubness_factor(own_features))

    def _count_numbers(self, batch: Batch, views: Any) -> int:
        """Return the number of input values of the encoder per clip."""
        overlap = max(1.0, 1 / self.config.inputs.stride) * len(self.config.inputs.streams)
        count = 1 if views is None else torch.Size(views.shape).numel()
        return int(batch.joints[0].numel() * overlap * count)

    def _encode_chunk(self, batch: Batch, views: Any) -> Features:
        blocks, counts = arrange(batch, self.config.inputs, views, self.hidden_joints)
        encoded = encode_blocks(self.encoder, blocks, batch, self.config.inputs, self.autocast_dtype)
        counts = self.encoder.counts(counts)
        present = batch.people
        if self.config.align.persons == "matched":
            first = present.int().argmax(1)
            values = encoded[torch.arange(len(first), device=first.device), first].movedim(-2, 1)
            second = encoded[:, -1].movedim(-2, 1)
            return Features(values, counts, second=second, paired=present.sum(1) == 2)
        share = nn.functional.normalize(present.to(encoded.dtype), p=1)  # absent persons do not count
        return Features(torch.einsum("np,np...->n...", share, encoded).movedim(-2, 1), counts)

    def _compute_hubness_factor(self, features: Features) -> Tensor | None:
        """Return the hubness factors of clips as supports; None for queries in several views."""
        if self.hubness_correction is None or features.values.dim() > 3:
            return None
        return self.hubness_correction.factor(features)

    def compare(self, query: Features, support: Features) -> Float[Tensor, "query support"]:
        """Return the distance of every query to every support; differentiable.

        If the query has a mirror image, the distance is min(d, mirror_penalty * d of the mirror image).
        """
        table = self._compare_unmirrored(query, support)
        penalty = self.config.mirror_penalty
        if query.mirrored is None or penalty is None:
            return table
        return torch.minimum(table, penalty * self._compare_unmirrored(query.mirrored, support))

    def _compare_unmirrored(self, query: Features, support: Features) -> Tensor:
        """Return the sum of the distances of this model and of its components."""
        total = compare_persons(query, support, self.comparison)
        if self.config.weight != self.config.unit:
            total = total * (self.config.weight / self.config.unit)
        for part, left, right in zip(self._models(), query.components, support.components, strict=True):
            total = total + part._compare_unmirrored(left, right)
        return total if support.factor is None else total * support.factor

    def prototypes(self, support: Features, labels: Int[Tensor, " support"], way: int) -> Features:
        """Return one support per class: the mean features of its supports.

        Raises:
            ShapeError: If a class has no support.
        """
        components = tuple(
            part.prototypes(features, labels, way)
            for part, features in zip(self._models(), support.components, strict=True)
        )
        own_features = average_classes(self.comparison.reduce(support), labels, way)
        return replace(own_features, components=components, factor=self._compute_hubness_factor(own_features))

    def forward(self, query: Batch, support: Batch) -> Float[Tensor, "query support"]:
        """Return the distance of every query to every support."""
        return self.compare(self.features(query, "query"), self.features(support, "support"))

    @torch.no_grad()
    def distances(
        self, queries: Sequence[Motion], supports: Sequence[Motion]
    ) -> Float[Tensor, "query support"]:
        """Return the distance of every query to every support, without gradients, in evaluation mode."""
        training = self.training
        self.eval()
        try:
            return self.forward(self.collate(queries), self.collate(supports))
        finally:
            self.train(training)

    @torch.no_grad()
    def match(self, query: Motion, support: Motion) -> PairMatch:
        """Return distance, matched persons, mirroring and alignment of two motions; each is encoded once."""
        training = self.training
        self.eval()
        try:
            left, right, is_mirrored = self._encode_pair(query, support)
            factor = self.config.mirror_penalty if is_mirrored else None
            distance = float(self._compare_unmirrored(left, right)) * (1.0 if factor is None else factor)
            persons = match_persons(left, right, self.comparison)
            alignment = self.comparison.trace([(left.person(q), right.person(s)) for q, s in persons])
        finally:
            self.train(training)
        return PairMatch(distance, persons, is_mirrored, alignment)

    @torch.no_grad()
    def trace(self, query: Motion, support: Motion) -> Alignment:
        """Return the alignment of two motions: the best path through time and views, its cost per step, the plan.

        - Matched persons share one path through the mean of their costs. In ``distances`` each pair of persons has its
          own path, whose cost is not higher.
        - If ``is_mirrored_match``, the path is that of the query's mirror image.
        - With "euler-simple" views, the path is the one through the better row, and views are indices in that row.
        - Methods that compare means do not align. Their path is that of free viewpoint matching.
        """
        left, right, _ = self._encode_pair(query, support)
        matches = match_persons(left, right, self.comparison)
        return self.comparison.trace([(left.person(q), right.person(s)) for q, s in matches])

    @torch.no_grad()
    def match_persons(self, query: Motion, support: Motion) -> tuple[tuple[int, int], ...]:
        """Return the pairs (query person, support person) that ``distances`` compares.

        Persons are numbered among those that the model uses. If the model compares means over persons, the result is
        ((0, 0),).
        """
        left, right, _ = self._encode_pair(query, support)
        return match_persons(left, right, self.comparison)

    @torch.no_grad()
    def is_mirrored_match(self, query: Motion, support: Motion) -> bool:
        """Return whether ``distances`` uses the mirror image of the query because it is closer despite the penalty."""
        return self._encode_pair(query, support)[2]

    def _encode_pair(self, query: Motion, support: Motion) -> tuple[Features, Features, bool]:
        """Return the features of a query or its closer mirror image, those of a support, and whether it is mirrored."""
        left = self.features(self.collate([query]), "query")
        right = self.features(self.collate([support]), "support")
        if left.mirrored is not None and bool(
            self.compare(left, right) < self._compare_unmirrored(left, right)
        ):
            return left.mirrored, right, True
        return left, right, False

    def costs(self, query: Features, support: Features) -> Float[Tensor, "pair t s *views"]:
        """Return the cost of every query block, support block and view; pairs are in the order of the queries."""
        return self.comparison.costs(query, support)
