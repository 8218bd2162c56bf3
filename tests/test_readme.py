"""The README's examples run as they stand."""

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def test_the_examples_run(capsys):
    namespace: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, str(README), "exec"), namespace)
    assert tuple(namespace["table"].shape) == (8, 3)
    assert tuple(namespace["scores"].shape) == (2, 4)
    assert namespace["features"].shape[1:3] == (7, 7)
    assert "native" in capsys.readouterr().out
