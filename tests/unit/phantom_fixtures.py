"""A small synthetic hospital for the tests of its writers, and a way to compare folders."""

import hashlib
from pathlib import Path

from cxrflow.phantom.settings import FollowedSettings, HospitalSettings

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
