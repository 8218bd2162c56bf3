"""The pictures of the method: pipeline, views, a path, JEANIE and FVM on one pair."""

import matplotlib.pyplot as plt
import torch

import jeanie
from pictures.scene import BLUE, GREY, INK, ORANGE, draw_body, get_clip, make_pair, save, simulate_turn

ANGLES = tuple(range(-60, 61, 15))


def _get_turning_pair(other: bool = False):
    """Return a pair whose query turns by 60 degrees while it performs the action of the support."""
    support = get_clip("bow" if other else "throw", 0)
    return make_pair(simulate_turn(get_clip("throw", 1), 70), support, ANGLES)


def draw_views() -> None:
    """Draw one pose in a grid of simulated views."""
    motion = get_clip("throw", 0)
    joints, valid = motion.bodies
    pose = jeanie.centre(joints, motion.layout, valid)[:, len(motion) // 2 : len(motion) // 2 + 1]
    views = jeanie.EulerViews(60, 30, 30)(pose)[0]
    figure, axis = plt.subplots(figsize=(9, 5.4), layout="constrained")
    for column in range(views.shape[0]):
        for row in range(views.shape[1]):
            is_recorded = (column, row) == (views.shape[0] // 2, views.shape[1] // 2)
            draw_body(
                axis, views[column, row, 0].numpy(), motion.layout, at=(column * 1.5, row * 2.1),
                colour=ORANGE if is_recorded else BLUE, width=2.4,
            )  # fmt: skip
    axis.set_xticks([column * 1.5 for column in range(5)], [f"{angle}°" for angle in (-60, -30, 0, 30, 60)])
    axis.set_yticks([row * 2.1 for row in range(3)], [f"{angle}°" for angle in (-30, 0, 30)])
    axis.set_xlabel("azimuth")
    axis.set_ylabel("altitude")
    axis.set_title("One pose in 5 x 3 simulated views; the recorded one is orange")
    axis.set_aspect("equal")
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    save(figure, "views")


def draw_path() -> None:
    """Draw the best path of a pair through query blocks, support blocks and views."""
    pair = _get_turning_pair()
    alignment = jeanie.trace(pair.cost[None].double(), gamma=0, shift=1)[0]
    t, s, v = (alignment.path[:, axis].numpy() for axis in range(3))
    figure = plt.figure(figsize=(9, 5.2), layout="constrained")
    axis = figure.add_subplot(projection="3d", computed_zorder=False)
    blocks, supports, views = pair.cost.shape
    for view in range(views):
        level = ANGLES[view]
        corners = [[0, blocks - 1, blocks - 1, 0, 0], [0, 0, supports - 1, supports - 1, 0]]
        axis.plot(*corners, [level] * 5, color=GREY, linewidth=0.7, alpha=0.6)
    axis.plot(t, s, [ANGLES[0]] * len(t), color=GREY, linewidth=1.5, linestyle=":")
    axis.plot(t, s, [ANGLES[view] for view in v], "o-", color=ORANGE, linewidth=2.5, markersize=5)
    axis.set_xlabel("query block")
    axis.set_ylabel("support block")
    axis.set_zlabel("view (degrees)")
    axis.set_zticks(ANGLES[::2])
    axis.view_init(18, -62)
    axis.set_box_aspect((1.5, 1.3, 0.95), zoom=0.92)
    axis.set_title("The best path: the person turns during the query, and the view follows smoothly")
    save(figure, "path")


def draw_two_methods() -> None:
    """Draw the view along the path of JEANIE and of FVM, for the same action and for another one."""
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.9), layout="constrained", sharey=True)
    for axis, other in zip(axes, (False, True), strict=True):
        pair = _get_turning_pair(other)
        cost = pair.cost[None].double()
        smooth, free = (jeanie.trace(cost, gamma=0, shift=shift)[0] for shift in (1, len(ANGLES)))
        for alignment, name, colour, style in ((free, "FVM", BLUE, "s--"), (smooth, "JEANIE", ORANGE, "o-")):
            angles = [ANGLES[view] for view in alignment.path[:, 2].tolist()]
            label = f"{name}: distance {float(alignment.distance):.2f}"
            axis.plot(
                range(len(angles)), angles, style, color=colour, linewidth=1.8, markersize=5, label=label
            )
        axis.set_title(f"query: throw, turning   support: {'bow' if other else 'throw'}")
        axis.set_xlabel("step of the path")
        axis.legend(loc="best", frameon=True)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("view (degrees)")
    axes[0].set_yticks(ANGLES)
    save(figure, "jeanie_fvm")


def draw_pipeline() -> None:
    """Draw the way from two recordings to one distance."""
    pair = _get_turning_pair()
    figure = plt.figure(figsize=(13, 4.6), layout="constrained")
    boxes = figure.subplots(1, 4, width_ratios=(1.5, 1.0, 1.0, 1.3))
    _draw_recordings(boxes[0], pair)
    _draw_some_views(boxes[1], pair)
    _draw_features(boxes[2], pair)
    _draw_costs(boxes[3], pair)
    save(figure, "pipeline", colours=160)


def _draw_recordings(axis, pair) -> None:
    for motion, height, colour, name in (
        (pair.query, 2.6, BLUE, "query: a new recording"),
        (pair.support, 0.0, ORANGE, "support: your one example"),
    ):
        moments = torch.linspace(0, len(motion) - 1, 5).round().long().tolist()
        for place, moment in enumerate(moments):
            draw_body(
                axis, motion.joints[moment, 0].numpy(), motion.layout, at=(place, height), colour=colour
            )
        axis.text(-0.5, height + 1.2, name, color=colour, fontsize=11)
    axis.set_title("1  Cut into blocks of frames")
    axis.set_ylim(-1.2, 4.3)  # the name of the query is below the title
    axis.set_aspect("equal")
    axis.axis("off")


def _draw_some_views(axis, pair) -> None:
    motion = pair.query
    joints, valid = motion.bodies
    pose = jeanie.centre(joints, motion.layout, valid)[:, len(motion) // 2 : len(motion) // 2 + 1]
    views = jeanie.EulerViews(60, 30, 30)(pose)[0]
    columns = (0, views.shape[0] // 2, views.shape[0] - 1)
    for place, column in enumerate(columns):
        for row in range(3):
            at = (place * 1.4, row * 1.95)
            is_recorded = place == 1 and row == 1
            draw_body(
                axis, views[column, row, 0].numpy(), motion.layout, at=at, colour=BLUE,
                alpha=1.0 if is_recorded else 0.55,
            )  # fmt: skip
    axis.set_title("2  See the query\nfrom simulated views")
    axis.set_aspect("equal")
    axis.axis("off")


def _draw_features(axis, pair) -> None:
    generator = torch.Generator().manual_seed(0)
    for row, colour in ((2.6, "Blues"), (0.0, "Oranges")):
        for block in range(5):
            values = torch.rand(6, 1, generator=generator).numpy()
            at = (block * 1.0, block * 1.0 + 0.6, row, row + 1.7)
            axis.imshow(values, cmap=colour, vmin=-0.3, vmax=1.2, extent=at, aspect="auto", origin="lower")
    axis.set_xlim(-0.3, 5.0)
    axis.set_ylim(-0.4, 4.7)
    axis.set_title("3  Encode every block\nas a vector")
    axis.axis("off")


def _draw_costs(axis, pair) -> None:
    alignment = jeanie.trace(pair.cost[None].double(), gamma=0, shift=1)[0]
    best = pair.cost.amin(-1)
    axis.imshow(best.numpy(), cmap="Greys", origin="lower", aspect="auto")
    angles = [ANGLES[view] for view in alignment.path[:, 2].tolist()]
    points = axis.scatter(
        alignment.path[:, 1],
        alignment.path[:, 0],
        c=angles,
        cmap="viridis",
        s=52,
        edgecolors="white",
        linewidths=0.8,
    )
    axis.figure.colorbar(points, ax=axis, label="view (degrees)", shrink=0.85)
    axis.set_xlabel("support block")
    axis.set_ylabel("query block")
    axis.set_title("4  Find the cheapest path\nthrough time and views")
    axis.tick_params(colors=INK)
