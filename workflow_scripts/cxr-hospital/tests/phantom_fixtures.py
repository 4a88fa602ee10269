"""A small synthetic hospital for the tests of its writers, and a way to compare folders."""

import hashlib
from pathlib import Path

import pytest

from cxr_hospital.draw import WRITERS, writer
from cxr_hospital.settings import FollowedSettings, HospitalSettings

SETTINGS = HospitalSettings(
    patients=14,
    image_size=64,
    rsna_images=24,
    abstracts=260,
    notes=200,
    splitter_reports=12,
    generic_pictures=32,
    captioned_pictures=12,
    nih_patients=12,
    padchest_patients=16,
    ms_cxr_patient_share=0.6,
    compressed_share=0.4,
    several_studies_share=0.9,
    followed=FollowedSettings(patients=6, sentence_pairs=60, gold_share=0.3),
)


def digests(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every data set; nobody changes it."""
    made = tmp_path_factory.mktemp("hospital")
    for name in WRITERS:
        assert writer(name)(SETTINGS, made / name, 1)
    return made
