"""Draw every picture, or the ones that are named: ``python -m pictures pipeline path``."""

import sys

from pictures.live_page import photograph_page, record_page
from pictures.method import draw_path, draw_pipeline, draw_two_methods, draw_views
from pictures.page_states import photograph_states
from pictures.screenshots import photograph_report

PICTURES = {
    "pipeline": draw_pipeline,
    "views": draw_views,
    "path": draw_path,
    "jeanie_fvm": draw_two_methods,
    "report": photograph_report,
    "page": photograph_page,
    "states": photograph_states,
    "live": record_page,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()
