"""Data with tasks: the papers' synthetic settings, an embedded demo, and loaders of real sets."""

from tacit.datasets._catalogue import CATALOGUE
from tacit.datasets._dataset import Dataset
from tacit.datasets._files import cache_folder, locate
from tacit.datasets._hospitals import load_hospitals
from tacit.datasets._loaders import (
    load_chem97,
    load_diabetes130,
    load_fashion_mnist,
    load_femnist,
    load_har,
    load_heart_disease,
    load_landmine,
    load_mnist,
    load_newsgroup,
    load_office_caltech,
    load_parkinsons,
    load_school,
    load_stackex_cs,
    load_vehicle,
    load_yeast,
)
from tacit.datasets._synthetic import (
    Synthetic,
    make_group_sparse,
    make_low_rank,
    make_shared_private,
)

__all__ = [
    "CATALOGUE",
    "Dataset",
    "Synthetic",
    "cache_folder",
    "load_chem97",
    "load_diabetes130",
    "load_fashion_mnist",
    "load_femnist",
    "load_har",
    "load_heart_disease",
    "load_hospitals",
    "load_landmine",
    "load_mnist",
    "load_newsgroup",
    "load_office_caltech",
    "load_parkinsons",
    "load_school",
    "load_stackex_cs",
    "load_vehicle",
    "load_yeast",
    "locate",
    "make_group_sparse",
    "make_low_rank",
    "make_shared_private",
]
