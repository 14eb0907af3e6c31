"""Data sets that have to be fetched: their files, columns, labels and sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SUFFIXES = (".csv.gz", ".csv", ".parquet")


@dataclass(frozen=True)
class FetchedDataset:
    """A set that has to be fetched.

    Columns are found by name, since their order differs from one copy to the next; spelling is
    compared without case and punctuation, so that ``Blood_Pressure`` is ``BloodPressure``.
    """

    stems: tuple[str, ...]
    rows: int  # in the set as published, without those that lack a value
    openml_id: int
    openml_name: str
    columns: Mapping[str, tuple[str, ...]]  # feature: the names it has elsewhere
    negative: tuple[str, ...]
    positive: tuple[str, ...]
    target_names: tuple[str, str]
    about: str
    drops_missing: bool = False
    sha256: Mapping[str, str] = field(default_factory=dict)  # of the files whose sum is known

    def files(self) -> list[str]:
        """Names of the files it may lie in, the best first."""
        return [stem + suffix for stem in self.stems for suffix in SUFFIXES]


TARGET = ("target", "class", "outcome", "income")
STORED = {
    "wbcd_original": FetchedDataset(
        stems=("wbcd_original",),
        rows=683,
        openml_id=15,
        openml_name="breast-w, version 1",
        columns={
            "clump_thickness": (),
            "cell_size_uniformity": ("uniformity_of_cell_size",),
            "cell_shape_uniformity": ("uniformity_of_cell_shape",),
            "marginal_adhesion": (),
            "epithelial_cell_size": ("single_epithelial_cell_size", "single_epi_cell_size"),
            "bare_nuclei": (),
            "bland_chromatin": (),
            "normal_nucleoli": (),
            "mitoses": (),
        },
        negative=("0", "2", "benign"),
        positive=("1", "4", "malignant"),
        target_names=("benign", "malignant"),
        about="Wisconsin Breast Cancer (Original): nine scores from 1 to 10. Of 699 samples 16 "
        "lack bare_nuclei and are left out; 239 of the other 683 are malignant.",
        drops_missing=True,
        sha256={
            "wbcd_original.csv.gz": "dcebf9f9aa4a7bdaf4bab20a5351c676"
            "8454d5b2ce8670a50d1b695e647fbdb9"
        },
    ),
    "pima": FetchedDataset(
        stems=("pima",),
        rows=768,
        openml_id=37,
        openml_name="diabetes, version 1",
        columns={
            "pregnancies": ("preg",),
            "glucose": ("plas",),
            "blood_pressure": ("pres",),
            "skin_thickness": ("skin",),
            "insulin": ("insu",),
            "bmi": ("mass",),
            "diabetes_pedigree": ("pedi", "diabetes_pedigree_function"),
            "age": (),
        },
        negative=("0", "tested_negative"),
        positive=("1", "tested_positive"),
        target_names=("no diabetes", "diabetes"),
        about="Pima Indians Diabetes: eight measurements of 768 women, 268 of them with diabetes. "
        "Zeros in glucose, blood_pressure, skin_thickness, insulin and bmi stand for what was not "
        "measured; they are left as they are.",
        sha256={"pima.csv.gz": "98f013f6ef1a1efc08a0572bd488507ba47d8434d84be0ae9bef4524ae1e0536"},
    ),
    "adult": FetchedDataset(
        stems=("adult",),
        rows=48_842,
        openml_id=1590,
        openml_name="adult, version 2",
        columns={
            "age": (),
            "fnlwgt": (),
            "education-num": (),
            "capital-gain": (),
            "capital-loss": (),
            "hours-per-week": (),
        },
        negative=("0", "<=50K", "<=50K."),  # the published test file has the full stop
        positive=("1", ">50K", ">50K."),
        target_names=("<=50K", ">50K"),
        about="Adult, census income of 1994: 48,842 people, 11,687 with more than 50K a year. Only "
        "the six numeric features; the eight of text are left out.",
        sha256={"adult.csv.gz": "fad0bd9bcfd349470eed1dfddb36c3c3eff7f4d8ba28a219a29fca22483876c4"},
    ),
    "creditcard": FetchedDataset(
        stems=("creditcard", "creditcard_subset"),
        rows=284_807,
        openml_id=1597,
        openml_name="creditcard, version 1",
        columns={**{f"V{k}": () for k in range(1, 29)}, "Amount": ()},
        negative=("0",),
        positive=("1",),
        target_names=("legitimate", "fraud"),
        about="Card transactions of two days in September 2013: 28 principal components and the "
        "amount, without Time. Of 284,807 transactions 492 are fraud (0.17 %), 19 of them repeats "
        "of another, which folds may separate.",
        sha256={
            "creditcard_subset.csv.gz": "7ce231b131297f349f508e692f8fa312"
            "b147c24c949f722de86047e219b8fe40"
        },
    ),
}
