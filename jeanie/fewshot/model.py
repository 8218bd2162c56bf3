"""FewShotModel: views, encoder and alignment as one measure of how far two motions are apart."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from jeanie.align import Alignment, distances, trace
from jeanie.align.cost import base_distance, squared_distances
from jeanie.encoders import BlockEncoder
from jeanie.errors import ConfigError, DataError, JeanieError
from jeanie.fewshot.baselines import (
    Uncertainty,
    pair_squares,
    prototypes,
    reduced,
    uncertain_cost,
    uncertain_distances,
)
from jeanie.fewshot.config import RAWS, ModelConfig, check_whole
from jeanie.fewshot.features import Features
from jeanie.fewshot.inputs import Batch, Store, arrange, named_layout
from jeanie.fewshot.persons import matched, pairing
from jeanie.fewshot.saving import measured, read_model, write_model
from jeanie.fewshot.usual import Usual
from jeanie.skeleton.blocks import block_counts, stride_of
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.normal import BODY
from jeanie.views import EulerSimple

__all__ = ["FewShotModel"]

Side = Literal["query", "support"]

_CHUNK = 2**23  # numbers that an encoder is given at once where no gradient is kept
_MOMENTUM = 0.05
_KNOWN = 64  # known motions that are encoded at once

SHIPPED = Path(__file__).parent.parent / "models" / "default"


class FewShotModel(nn.Module):
    """Distance of queries to supports: simulated views, block features, alignment (paper, Sec. 3).

    A query is seen from every view, a support as recorded (with ``views.sides`` "both" from every view as
    well). Models ``beside`` this one are added: d = sum over models of weight * d_model / unit.

    >>> model = FewShotModel.raw()
    >>> from jeanie.datasets import open_dataset
    >>> clips = open_dataset("synthetic").motions[:3]
    >>> model.distances(clips, clips).argmin(1).tolist()
    [0, 1, 2]
    """

    def __init__(self, config: ModelConfig, layout: Layout | None = None) -> None:
        super().__init__()
        self.config = config
        check_whole(config)
        prepare = config.inputs.prepare
        if prepare.body == "normal":
            layout = BODY
        elif prepare.layout is not None:
            layout = named_layout(prepare.layout)
        self.layout = layout
        self.views = config.views.build()
        inputs = config.inputs
        self.encoder = BlockEncoder(
            self.layout, block=inputs.block, channels=inputs.channels, config=config.encoder
        )
        self.register_buffer("cost_scale", torch.zeros((), dtype=torch.float64))
        if config.align.method == "udtw":
            self.uncertainty = Uncertainty(self.encoder.features)
        self.usual: Usual | None = None
        if config.hubs and prepare.frames is not None:
            blocks = block_counts(
                torch.tensor(prepare.frames), inputs.block, stride_of(inputs.block, inputs.stride)
            )
            self.usual = Usual(int(self.encoder.counts(blocks)), self.encoder.features, config.hubs)
        self.beside = nn.ModuleList(FewShotModel(part, layout) for part in config.beside)

    @classmethod
    def raw(cls, config: ModelConfig | str = "reference") -> "FewShotModel":
        """A model without learning for any layout: blocks of coordinates are the features.

        By name: "reference", the strongest there is, or "dtw", plain DTW on coordinates as recorded.
        """
        if isinstance(config, str):
            if config not in RAWS:
                raise ConfigError(f"no raw model {config!r}; the known ones are {', '.join(RAWS)}")
            config = RAWS[config]
        return cls(config).eval()

    def but(self, changes: Mapping[str, Any] | None = None, /, **named: Any) -> "FewShotModel":
        """A copy with other settings, such as views or a model beside it, and the same weights.

        >>> model = FewShotModel.load().but({"views.kind": "euler", "views.altitude": 0})
        >>> model.views.shape
        (7, 1)
        """
        with torch.random.fork_rng(devices=[]):  # the first weights are not kept, nor is what they draw
            model = type(self)(self.config.but(changes, **named), self.layout).to(self.device, self.dtype)
        weights = self.state_dict()
        try:
            missing, unknown = model.load_state_dict(weights, strict=False)
        except RuntimeError as error:
            raise ConfigError(f"these settings make a network that the weights do not fit: {error}") from None
        learnt, unknown = ([name for name in names if not measured(name)] for names in (missing, unknown))
        if learnt or unknown:
            raise ConfigError(
                f"these settings make another network: no weights for {learnt[:3]}, no place for {unknown[:3]}; "
                "change views, alignment or what is beside it, and train other networks anew"
            )
        return model.train(self.training)

    @torch.no_grad()
    def among(self, motions: Sequence[Motion], hubs: float = 0.5) -> "FewShotModel":
        """A copy that knows some motions of the same sensor and holds back supports that are near to all of them.

        Some examples are near to whatever is asked, for the way they were recorded; what is known tells which. Give
        motions of other actions than those to be told apart. ``trace`` tells distances as they are without this.
        """
        model = self.but(hubs=hubs)
        if model.usual is None:
            raise ConfigError(f"hubs is a power above 0, got {hubs}")
        steps = range(0, len(motions), _KNOWN)
        model.usual.learn(self.features(self.collate(motions[at : at + _KNOWN]), "support") for at in steps)
        return model

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights, and so of features and distances."""
        return next((weight.dtype for weight in self.parameters()), torch.float32)

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.get_buffer("cost_scale").device

    def _parts(self) -> "list[FewShotModel]":
        return [part for part in self.beside if isinstance(part, FewShotModel)]

    def store(self, motions: Sequence[Motion], *, limit: int = 4 * 2**30) -> Store:
        """Prepared clips that are kept, at most ``limit`` bytes of them, for work on a data set.

        They are prepared in the model's dtype: a float64 model sees float64 from the recording on.
        """
        own = Store(motions, self.config.inputs.prepare, dtype=self.dtype, limit=limit)
        parts = [part.store(motions, limit=limit) for part in self._parts()]
        own.beside = [own if part.config == own.config and not part.beside else part for part in parts]
        return own

    def collate(self, motions: Sequence[Motion]) -> Batch:
        """Motions prepared and padded to one batch."""
        return self.store(motions)[range(len(motions))]

    def features(self, batch: Batch, side: Side = "query") -> Features:
        """Block features of every clip, for a query from every simulated view.

        Several persons are encoded one by one and averaged. Without gradients, clips go through in chunks. With
        ``reflection`` a query is encoded once more in a mirror, but not in training, which is to tell both apart.
        """
        batch = batch.to(self.device, self.dtype)
        found = self._features(batch, side)
        if side == "support" or self.config.reflection is None or self.training:
            return found
        return replace(found, reflected=self._features(batch.reflected(), side))

    def _features(self, batch: Batch, side: Side) -> Features:
        seen = side == "query" or self.config.views.sides == "both"
        views = self.views if seen else None
        whole = torch.is_grad_enabled() and any(weight.requires_grad for weight in self.parameters())
        step = len(batch) if whole else max(1, _CHUNK // self._numbers(batch, views is not None))
        own = Features.cat([self._encode(batch[i : i + step], views) for i in range(0, len(batch), step)])
        beside = tuple(
            part._features(one, side) for part, one in zip(self._parts(), batch.beside, strict=True)
        )
        return replace(own, beside=beside, factor=self._factor(own))

    def _factor(self, own: Features) -> Tensor | None:
        """How much distances to clips count, where the usual course is known; a query from many views has none."""
        return None if self.usual is None or own.values.dim() > 3 else self.usual.factor(own)

    def _numbers(self, batch: Batch, viewed: bool) -> int:
        overlap = max(1.0, 1 / self.config.inputs.stride) * len(self.config.inputs.streams)
        views = torch.Size(self.views.shape).numel() if viewed and self.views is not None else 1
        return int(batch.joints[0].numel() * overlap * views)

    def _encode(self, batch: Batch, views: Any) -> Features:
        blocks, counts = arrange(batch, self.config.inputs, views)
        encoded: Tensor = self.encoder(blocks)
        counts = self.encoder.counts(counts)
        there = batch.people
        if self.config.align.persons == "matched":
            first = there.int().argmax(1)
            one = encoded[torch.arange(len(first), device=first.device), first].movedim(-2, 1)
            two = encoded[:, -1].movedim(-2, 1)
            return Features(one, counts, second=two, paired=there.sum(1) == 2)
        share = there.to(encoded.dtype)
        share = share / share.sum(1, keepdim=True).clamp_min(1)
        return Features(torch.einsum("np,np...->n...", share, encoded).movedim(-2, 1), counts)

    def compare(self, query: Features, support: Features) -> Float[Tensor, "query support"]:
        """Distance of every query to every support; differentiable.

        Of a query that is there in a mirror as well: min(d, reflection * d of the mirror image).
        """
        found = self._added(query, support)
        if query.reflected is None or self.config.reflection is None:
            return found
        return torch.minimum(found, self.config.reflection * self._added(query.reflected, support))

    def _added(self, query: Features, support: Features) -> Tensor:
        """Distances of this model and of those beside it."""
        config = self.config
        paired = query.second is not None
        total = matched(query, support, self._compare) if paired else self._compare(query, support)
        if config.weight != config.unit:
            total = total * (config.weight / config.unit)
        for part, left, right in zip(self._parts(), query.beside, support.beside, strict=True):
            total = total + part._added(left, right)
        return total if support.factor is None else total * support.factor

    def prototypes(self, support: Features, labels: Int[Tensor, " support"], way: int) -> Features:
        """One support a class that stands for all of its class: their mean features, also of models beside."""
        beside = tuple(
            part.prototypes(features, labels, way)
            for part, features in zip(self._parts(), support.beside, strict=True)
        )
        own = prototypes(reduced(support, self.config.align), labels, way)
        return replace(own, beside=beside, factor=self._factor(own))

    def _compare(self, query: Features, support: Features) -> Tensor:
        config = self.config.align
        query, support = reduced(query, config), reduced(support, config)
        if config.metric == "cosine":
            query, support = query.unit(), support.unit()
        if config.method == "pool":
            return self._base(squared_distances(query.values[:, 0][None], support.values[:, 0][None])[0])
        gamma = self._gamma(query, support)
        if not isinstance(self.views, EulerSimple) or query.values.dim() == 3:
            return self._aligned(query, support, gamma)
        rows = [
            self._aligned(Features(query.values[:, :, row], query.counts), support, gamma)
            for row in (self.views.azimuth_rows, self.views.altitude_rows)
        ]
        if gamma == 0:
            return torch.minimum(*rows)
        return -gamma * torch.logsumexp(torch.stack(rows) / -gamma, 0)

    def _aligned(self, query: Features, support: Features, gamma: float) -> Tensor:
        config = self.config.align
        if config.method == "udtw":
            return uncertain_distances(self._uncertain, query, support, config, gamma)
        view_gamma = config.view_gamma
        if view_gamma is not None and config.relative:
            view_gamma = view_gamma * self.get_buffer("cost_scale").item()
        return distances(
            query.values, support.values,
            metric=self._metric, sigma=config.sigma, gamma=gamma, shift=config.shift,
            query_lengths=query.counts, support_lengths=support.counts,
            normalise=config.normalise, band=config.band, plan=config.plan,
            matching="fvm" if config.method == "fvm" else "jeanie", view_gamma=view_gamma,
        )  # fmt: skip

    @property
    def _metric(self) -> str:
        """The base distance of features as they are compared: |x - y|^2 = 2 - 2 cos for those of length 1."""
        metric = self.config.align.metric
        return "sqeuclidean" if metric == "cosine" else metric

    def _base(self, squared: Tensor) -> Tensor:
        return base_distance(squared, self._metric, self.config.align.sigma)

    def _uncertain(self, query: Tensor, support: Tensor) -> Tensor:
        """Costs of uDTW, with its learnt uncertainty."""
        return uncertain_cost(
            query, support, self.uncertainty, self._base, weight=self.config.align.uncertainty
        )

    def _gamma(self, query: Features, support: Features) -> float:
        """gamma, times the running mean of the base distance where it is relative (measured in training)."""
        config = self.config.align
        if not config.relative or config.gamma == 0:
            return config.gamma
        scale = self.get_buffer("cost_scale")
        if self.training or not bool(scale > 0):
            now = self._mean_cost(query, support)
            blend = torch.where(scale > 0, scale + _MOMENTUM * (now - scale), now)
            scale.copy_(blend)
        return config.gamma * max(scale.item(), 1e-12)

    @torch.no_grad()
    def _mean_cost(self, query: Features, support: Features) -> Tensor:
        """The base distance of the mean squared distance: E|x - y|^2 = E|x|^2 + E|y|^2 - 2 E x E y."""
        x, y = (part.inside().double() for part in (query, support))
        squared = x.square().sum(-1).mean() + y.square().sum(-1).mean() - 2 * (x.mean(0) * y.mean(0)).sum()
        return self._base(squared.clamp_min(0))

    def forward(self, query: Batch, support: Batch) -> Float[Tensor, "query support"]:
        """Distance of every query to every support."""
        return self.compare(self.features(query, "query"), self.features(support, "support"))

    @torch.no_grad()
    def distances(
        self, queries: Sequence[Motion], supports: Sequence[Motion]
    ) -> Float[Tensor, "query support"]:
        """Distance of every query motion to every support motion, without gradients, in evaluation mode."""
        training = self.training
        self.eval()
        try:
            return self.forward(self.collate(queries), self.collate(supports))
        finally:
            self.train(training)

    @torch.no_grad()
    def trace(self, query: Motion, support: Motion) -> Alignment:
        """How two motions were aligned: the best path through time and views, its cost a step, the plan.

        Of matched persons it is one path for all who meet, through the mean of their costs: in ``distances`` each
        has a path of its own, whose costs are no higher. Where the query's mirror image ``reflects`` the support, the
        path is that of the image. Of "euler-simple" views it is the path through the better
        row; its view counts within that row.
        A method that takes means aligns nothing; its path is that of free viewpoint matching on the same features.
        """
        left, right, _ = self._nearer(query, support)
        who = pairing(left, right, self._compare)
        met = [(left.person(q), right.person(s)) for q, s in who]
        if not isinstance(self.views, EulerSimple):
            return self._trace(met)
        rows = (self.views.azimuth_rows, self.views.altitude_rows)
        paths = [self._trace([(Features(q.values[:, :, row], q.counts), s) for q, s in met]) for row in rows]
        return min(paths, key=lambda path: float(path.distance))

    @torch.no_grad()
    def pairing(self, query: Motion, support: Motion) -> tuple[tuple[int, int], ...]:
        """Which persons ``distances`` compares: of query and support, counted among those whom the model looks at.

        Where the mean over persons is compared, it is all of them, told as (0, 0).
        """
        left, right, _ = self._nearer(query, support)
        return pairing(left, right, self._compare)

    @torch.no_grad()
    def reflects(self, query: Motion, support: Motion) -> bool:
        """Whether it is the query's mirror image that ``distances`` finds nearer."""
        return self._nearer(query, support)[2]

    def _nearer(self, query: Motion, support: Motion) -> tuple[Features, Features, bool]:
        """Features of a query, or of its mirror image where that is what counts, of a support, and which it is."""
        left = self.features(self.collate([query]), "query")
        right = self.features(self.collate([support]), "support")
        image = left.reflected
        if image is not None and bool(self.compare(left, right) < self._added(left, right)):
            return image, right, True
        return left, right, False

    def _trace(self, met: Sequence[tuple[Features, Features]]) -> Alignment:
        config = self.config.align
        cost = torch.stack([self.costs(query, support) for query, support in met]).mean(0)
        shift = config.shift if config.method in ("jeanie", "udtw") else max(cost.shape[3:], default=0)
        return trace(cost, gamma=self._gamma(*met[0]), shift=shift, band=config.band)[0]

    def costs(self, query: Features, support: Features) -> Float[Tensor, "pair t s *views"]:
        """What a path pays at every block of every query, support and view; pairs go query by query."""
        if self.config.align.metric == "cosine":
            query, support = query.unit(), support.unit()
        if self.config.align.method == "udtw":
            return self._uncertain(query.values, support.values)
        return self._base(pair_squares(query.values, support.values))

    def save(self, path: str | Path, *, half: bool = False) -> None:
        """Write the model into the folder ``path``: weights as safetensors, configuration as JSON.

        ``half`` writes weights of 16 bits, to three digits, in half the space; they are read as 32 bits.
        """
        described = self.config.model_dump(mode="json")
        write_model(Path(path), described, self.layout, self.state_dict(), half=half)

    @classmethod
    def load(cls, path: str | Path | None = None) -> "FewShotModel":
        """The model in a folder that ``save`` wrote, in evaluation mode; without one, the model that is shipped."""
        path = SHIPPED if path is None else path
        config, layout, weights = read_model(Path(path))
        try:
            model = cls(ModelConfig(**config), layout)
            learnt = {tensor.dtype for name, tensor in weights.items() if not measured(name)}
            if learnt == {torch.float64}:
                model.double()
            model.load_state_dict(weights)
        except (JeanieError, RuntimeError, TypeError) as error:
            raise DataError(f"{path}: not a model of this version: {error}") from None
        return model.eval()
