"""The actions of the synthetic data set, one row each; ``jeanie.datasets.synthetic.actions`` defines the format."""

from dataclasses import replace

from jeanie.datasets.synthetic.actions import Action, mirror_action, reverse_action

__all__ = ["ACTIONS"]

# fmt: off
_WAVE = Action("wave", "arms", "R elbow 35; R elbow 95", "R raise 85 plane 20 rotate 85", 0.24, (4, 6))
_CLAP = Action("clap", "arms", "B rotate 8; B rotate -36", "B raise 42 plane 82 elbow 72", 0.22, (4, 7))
_CIRCLE = Action("draw_circle_clockwise", "arms",
    "R raise 122 plane 82; R raise 88 plane 45; R raise 52 plane 82; R raise 88 plane 118",
    "R elbow 14", 0.3, (1, 2), handed=False)
_SWIPE = Action("swipe_left", "arms",
    "R raise 85 plane 5 elbow 12 twist -15; R raise 85 plane 130 elbow 25 twist 18", beat=0.55, handed=False)
_PUSH = Action("push_forward", "arms",
    "B raise 35 plane 40 elbow 125 wrist 20; B raise 85 plane 88 elbow 8 wrist 55 bend 12", beat=0.55)
_LIFT = Action("lift_overhead", "arms",
    "B raise 25 plane 80 elbow 40; B raise 50 plane 70 elbow 120; B raise 160 plane 75 elbow 12 nod -15",
    beat=0.55)
_WHEEL = Action("arm_circles_forward", "arms",
    "B raise 12 plane -10; B raise 85 plane -25; B raise 165 plane 40; B raise 90 plane 88",
    "B elbow 6", 0.24, (2, 4))

# Pairs that differ only in speed or only in direction.
_ARM_PAIRS = (
    _WAVE, replace(_WAVE, name="wave_slowly", beat=0.6, loops=(1, 2)),
    _CLAP, replace(_CLAP, name="clap_slowly", beat=0.55, loops=(2, 2)),
    _CIRCLE, reverse_action(_CIRCLE, "draw_circle_counterclockwise"),
    _SWIPE, reverse_action(_SWIPE, "swipe_right"),
    _PUSH, reverse_action(_PUSH, "pull_back"),
    _LIFT, reverse_action(_LIFT, "lower_from_overhead"),
    _WHEEL, reverse_action(_WHEEL, "arm_circles_backward"),
)

_ARMS = (
    Action("wave_both_arms", "arms", "B raise 120; B raise 160", "B plane 15 rotate 70 elbow 40",
        0.3, (3, 5)),
    Action("draw_cross", "arms",
        "R raise 122 plane 118; R raise 52 plane 50; R raise 122 plane 50; R raise 52 plane 118",
        "R elbow 14", 0.4),
    Action("draw_tick", "arms", "R raise 88 plane 118; R raise 60 plane 92; R raise 125 plane 45",
        "R elbow 14", 0.4),
    Action("hammer", "arms", "R raise 75 plane 80 elbow 105; @0.2 R raise 55 plane 85 elbow 45 bend 8",
        beat=0.4, loops=(2, 4)),
    Action("punch", "arms",
        "R elbow 130 plane 50 twist -20; @0.22 R raise 86 plane 96 elbow 5 twist 22; @0.35 R elbow 130",
        "L raise 32 plane 70 elbow 125 rotate -25 R raise 30 plane 60 elbow 125 rotate -20", 0.4),
    Action("box", "arms", "@0.2 R raise 86 plane 100 elbow 6 twist 20; @0.2",
        "B raise 32 plane 70 elbow 125 rotate -25 knee 18 flex 10", loops=(2, 3), alternate=True),
    Action("throw", "arms",
        "R raise 95 plane -15 rotate 85 elbow 95 twist -35 R flex -12 L flex 12;"
        "@0.25 R raise 135 plane 70 rotate 30 elbow 15 twist 20;"
        "@0.25 R raise 50 plane 125 elbow 20 twist 35 bend 20"),
    Action("bowl", "arms",
        "R raise 55 plane -75 elbow 5 twist -20 bend 10;"
        "@0.35 R raise 20 plane 80 elbow 5 pitch 15 B flex 20 knee 30;"
        "@0.3 R raise 95 plane 92 elbow 15 twist 12 bend 10", beat=0.55),
    Action("catch", "arms",
        "R raise 115 plane 75 elbow 20 nod -12; @0.3 R raise 50 plane 80 elbow 115 nod 10"),
    Action("drink", "arms",
        "R raise 20 plane 80 elbow 85; R raise 62 plane 95 rotate -36 elbow 130;"
        "@0.6 = R raise 77 elbow 133 nod -20", beat=0.6),
    Action("phone_call", "arms",
        "@0.7 R raise 88 plane 56 rotate 16 elbow 147 tilt -8; @1.0 = look 12 R raise 84;"
        "@0.8 = look -8 R raise 88"),
    Action("point", "arms", "@0.45 R raise 88 plane 80 elbow 3 look -8; @0.7 ="),
    Action("salute", "arms", "@0.35 R raise 78 plane 25 rotate 42 elbow 142; @0.7 ="),
    Action("fold_arms", "arms",
        "@0.6 L raise 32 plane 75 rotate -78 elbow 98 R raise 24 plane 75 rotate -72 elbow 92; @0.9 ="),
    Action("check_watch", "arms", "@0.5 L raise 45 plane 92 rotate -42 elbow 84 nod 25; @0.7 ="),
    Action("tennis_forehand", "arms",
        "R raise 65 plane -45 elbow 25 twist -40 R flex -12 L flex 12;"
        "@0.35 R raise 70 plane 90 elbow 20 twist 15;"
        "@0.25 R raise 66 plane 118 rotate -58 elbow 95 twist 40 L flex 14", "B knee 20 flex 10"),
    Action("tennis_serve", "arms",
        "L raise 150 plane 75 elbow 5 R raise 95 plane -20 rotate 85 elbow 110"
        " nod -25 bend -10 B knee 25 flex 12;"
        "@0.25 R raise 168 plane 60 elbow 5 L raise 60 plane 80 elbow 60 twist 15 nod -10;"
        "@0.3 R raise 40 plane 130 elbow 15 bend 28 twist 25", beat=0.7),
    Action("golf_swing", "arms",
        "B raise 45 plane 118 elbow 8;"
        "R raise 85 plane 45 rotate 20 elbow 85 L raise 88 plane 142 elbow 12 twist -50;"
        "@0.25 B raise 45 plane 118 elbow 8;"
        "@0.3 L raise 95 plane 45 rotate 20 elbow 85 R raise 100 plane 142 elbow 12 twist 55 bend 5",
        "pitch 18 bend 15 B knee 20 flex 14 spread 10", 0.6, handed=False),
)

_LEGS = (
    Action("kick_forward", "legs",
        "@0.35 R flex -22 knee 45 L raise 30 plane 80;"
        "@0.25 R flex 78 knee 8 toe 25 bend -8 R raise 35 plane -60 L flex 4 knee 10;"
        "@0.3 R flex 20 knee 55"),
    Action("kick_sideways", "legs",
        "@0.4 R flex 45 knee 75 spread 10;"
        "@0.25 R flex 12 spread 55 knee 5 lean 22 roll 12 B raise 40 plane 20 L knee 10 flex 5;"
        "@0.35 R flex 30 knee 55 spread 8"),
    Action("march_in_place", "legs", "R flex 72 knee 85 L raise 32 plane 85 R raise 20 plane -60; @0.2",
        beat=0.28, loops=(2, 3), ends="cycle", alternate=True),
    Action("kick_heels", "legs", "R flex -8 knee 112; @0.15", "B raise 25 plane 30 rotate -40 elbow 75",
        0.28, (2, 4), "cycle", alternate=True),
    Action("swing_leg_back", "legs",
        "R flex -38 knee 12 toe 25 pitch 12 B raise 40 plane 20; R flex 12 knee 20", loops=(2, 2)),
    Action("squat", "legs",
        "B flex 96 knee 118 pitch 30 bend 12 raise 82 plane 88 elbow 6; @0.55 B raise 40 plane 85",
        beat=0.75, loops=(1, 2)),
    Action("lunge", "legs",
        "@0.35 R flex 62 knee 70 L flex -8 knee 15; @0.4 R flex 72 knee 80 L flex -18 knee 62 toe 42;"
        "@0.5 R flex 40 knee 62", "B raise 28 plane 5 rotate -60 elbow 85"),
    Action("stand_on_one_leg", "legs", "@0.6 R flex 70 knee 100 B raise 78 plane 5 elbow 5; @1.2 = lean 4"),
)

_SIT = Action("sit_down", "whole",
    "; @0.6 B flex 55 knee 62 raise 45 plane 80 pitch 38 bend 8;"
    "@0.5 B flex 88 knee 92 raise 35 plane 85 elbow 45 pitch 5 bend 6", ends="pose")
_PICK = Action("pick_up", "whole",
    "; @0.8 B flex 70 knee 95 pitch 60 bend 25 nod -10 raise 82 plane 92 rotate -15 elbow 8;"
    "@0.7 B raise 30 plane 85 rotate -8 elbow 80", ends="pose")
_WHOLE = (
    _SIT, reverse_action(_SIT, "stand_up"),
    _PICK, reverse_action(_PICK, "put_down"),
    Action("bow", "whole", "@0.7 pitch 38 bend 35 nod 15 B raise 48 plane 88 flex -4 knee 4; @0.4 ="),
    Action("jump_up", "whole",
        "@0.5 B flex 58 knee 82 pitch 25 bend 12 raise 30 plane -50 elbow 5;"
        "@0.22 B raise 75 plane 82 toe 30;"
        "@0.22 hop 0.38 B raise 160 plane 80 toe 45; @0.24 B flex 12 knee 20 raise 80 plane 60 toe 12;"
        "@0.2 B flex 45 knee 65 pitch 18"),
    Action("jumping_jack", "whole",
        "hop 0.06 B raise 85 spread 14; B raise 158 elbow 12 spread 25; hop 0.06 B raise 85 spread 14;",
        "B plane 5", 0.19, (2, 4)),
    Action("twist_trunk", "whole", "twist 48 look 20", "B raise 68 plane 72 rotate -70 elbow 85",
        0.45, (2, 3), alternate=True),
    Action("bend_sideways", "whole",
        "R raise 150 plane 8 rotate 30 elbow 45 L raise 32 plane 0 rotate -62 elbow 85 lean 28 roll 6; @0.4",
        beat=0.6, alternate=True),
    Action("stretch", "whole",
        "@0.7 B raise 165 plane 20 rotate 30 elbow 25 bend -12 nod -18; @0.6 = B elbow 5 toe 22"),
    Action("touch_toes", "whole",
        "@0.8 B raise 160 plane 70 bend -8;"
        "@0.9 pitch 86 bend 58 nod 10 B raise 138 plane 92 elbow 4 flex -8"),
    Action("kneel", "whole",
        "; @0.6 L flex 70 knee 78 R flex -10 knee 55 toe 60 pitch 12;"
        "@0.6 L flex 88 knee 90 R flex 2 knee 90 toe 88 L raise 45 plane 85 elbow 55", ends="pose"),
)

# Half a stride each; its mirror image follows. The planted foot moves the body forward.
_WALK = Action("walk", "locomotion",
    "R flex 24 knee 4 toe -12 raise 20 plane -75"
    " L flex -20 knee 14 toe 22 raise 22 plane 85 elbow 24 twist 6;"
    "R flex 12 knee 12 L flex -4 knee 52 toe 18 B raise 9 plane 40;"
    "R flex -8 knee 4 L flex 28 knee 32 toe -4 B raise 12 plane 20",
    "pitch 3", 0.18, (1, 2), "cycle", alternate=True)
_ROUND = replace(_WALK, name="walk_in_circle_left", drift="turn 70", base="pitch 3 lean 3", loops=(2, 3),
    handed=False)
_SIDESTEP = Action("sidestep_left", "locomotion",
    "L spread 24 flex 14 knee 22; B spread 17 knee 6 flex 4;"
    "R spread 4 flex 16 knee 26 L spread 8; B spread 2",
    "B raise 18 plane 20", 0.22, (2, 3), "cycle", handed=False)
_TURN = Action("turn_left", "locomotion", "R flex 24 knee 42; @0.12", beat=0.2, loops=(2, 2), alternate=True,
    drift="turn 55", handed=False)
_LOCOMOTION = (
    _WALK, replace(_WALK, name="walk_slowly", beat=0.33, loops=(1, 1)), reverse_action(_WALK, "walk_backward"),
    _ROUND, mirror_action(_ROUND, "walk_in_circle_right"),
    _SIDESTEP, mirror_action(_SIDESTEP, "sidestep_right"),
    _TURN, mirror_action(_TURN, "turn_right"),
    Action("jog", "locomotion",
        "R flex 22 knee 18 raise 34 plane -70 L flex -8 knee 62 raise 36 plane 82 twist 9;"
        "R flex 6 knee 28 L flex 12 knee 95 B raise 14 plane 30;"
        "hop 0.05 R flex -12 knee 12 toe 25 L flex 34 knee 60 B raise 16 plane 10",
        "pitch 9 B elbow 88 rotate -12", 0.12, (2, 2), "cycle", alternate=True),
    Action("hop_on_one_leg", "locomotion",
        "R flex 22 knee 36 pitch 10; hop 0.12 R flex -4 knee 4 toe 30; @0.14 R flex 14 knee 22",
        "L flex 18 knee 82 B raise 28 plane 20 elbow 40", 0.17, (3, 4), "cycle", drift="forward 0.25"),
    Action("limp", "locomotion",
        "R flex 24 knee 4 L flex -16 knee 12 toe 18 lean -4; R flex 2 knee 10 L flex 4 knee 40 toe 12;"
        "@0.25 R flex -12 knee 6 L flex 14 knee 5 lean 14;"
        "@0.2 R flex 10 knee 45 L flex 4 knee 4 lean 16 roll 6",
        "pitch 5 B raise 14 plane 30", 0.24, (2, 3), "cycle"),
    Action("crawl", "locomotion",
        "R flex 14 knee 109 raise 57 L flex -14 knee 81 raise 79;"
        "R flex 0 knee 95 raise 71 elbow 30 L flex 10 knee 110 spread 24 raise 68",
        "pitch 67 nod -28 B plane 90 elbow 4 wrist 75 toe 145 spread 3 point 0",
        0.4, (2, 2), "cycle", alternate=True),
)

# Two persons, seen from the side by the centre camera.
_GRIP = "R raise 42 plane 118 elbow 42 rotate -6"
_SHAKE = f"{_GRIP}; @0.2 = R elbow 52; @0.2 = R elbow 38; @0.2 = R elbow 52; @0.2 = R elbow 40"
_FIVE = "R raise 95 plane 40 rotate 60 elbow 75; @0.2 R raise 122 plane 120 elbow 28 rotate 5"
_EMBRACE = (
    "B raise 70 plane 40 elbow 25;"
    "pitch 6 forward 0.1 R raise 88 plane 96 rotate -60 elbow 62 L raise 58 plane 92 rotate -60 elbow 66;"
    "@0.8 ="
)
_GUARD = "B raise 32 plane 65 elbow 120 rotate -20 knee 12 flex 8"
_MEET = replace(_WALK, kind="together", partner=";;", loops=(2, 2), handed=False, facing=90.0)
_TOGETHER = tuple(
    replace(action, kind="together", handed=False, facing=90.0)
    for action in (
        Action("shake_hands", "", _SHAKE, partner=_SHAKE, gap=1.66),
        Action("high_five", "", _FIVE, partner=_FIVE, gap=1.5),
        Action("hug", "", _EMBRACE, partner=_EMBRACE, gap=0.98),
        Action("push_other", "",
            "@0.4 B raise 35 plane 40 elbow 120 wrist 20;"
            "@0.3 B raise 82 plane 88 elbow 12 wrist 55 bend 12 R flex 22 knee 12 L flex -10",
            partner="; pitch -14 bend -8 forward -0.3 B raise 40 plane 60 flex 22 knee 18", gap=1.2),
        Action("punch_other", "",
            "@0.35 R raise 40 plane -20 elbow 120 twist -25;"
            "@0.2 R raise 90 plane 98 elbow 6 twist 24 R flex -10 L flex 16; @0.4", _GUARD,
            partner="B raise 20 plane 60 elbow 60; pitch -10 bend -10 nod -25 twist 18 forward -0.12;"
            "pitch 4 nod 12 forward -0.25 R raise 60 plane 82 rotate -40 elbow 130", gap=1.35),
        Action("kick_other", "",
            "@0.35 R flex -20 knee 50; @0.25 R flex 72 knee 10 toe 15 bend -8; @0.35 R flex 20 knee 50",
            _GUARD,
            partner="; pitch 16 bend 18 forward -0.22 B raise 42 plane 88 elbow 45 flex 16 knee 22;"
            "pitch 10 forward -0.35 B knee 12 flex 6 raise 30 plane 88 elbow 60", gap=1.5),
        Action("hand_over", "", "@0.6 R raise 55 plane 105 elbow 28; @0.4 =; @0.4 R raise 25 plane 60",
            "R raise 20 plane 80 elbow 85",
            partner="R raise 45 plane 105 elbow 40; R raise 52 plane 105 elbow 30;"
            "R raise 22 plane 80 elbow 85",
            gap=1.75),
        Action("whisper", "",
            "@0.6 pitch 16 bend 12 lean -14 R raise 58 plane 76 rotate 4 elbow 128; @1.0 = nod 8",
            partner="lean -10 look 15 pitch 5; = nod 10", gap=0.98),
        replace(_MEET, name="approach", gap=5.7),
        replace(_MEET, name="depart", gap=1.5, base="turn 180 pitch 3"),
    )
)
# fmt: on

ACTIONS: dict[str, Action] = {
    action.name: action for action in (*_ARM_PAIRS, *_ARMS, *_LEGS, *_WHOLE, *_LOCOMOTION, *_TOGETHER)
}
