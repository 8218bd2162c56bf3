"""Experiments that others can repeat: protocols, training, evaluation, pretraining."""

from jeanie.experiments.evaluation import evaluate
from jeanie.experiments.protocols import PROTOCOLS, Protocol
from jeanie.experiments.reports.report import Report
from jeanie.experiments.training import train

__all__ = ["PROTOCOLS", "Protocol", "Report", "evaluate", "train"]
