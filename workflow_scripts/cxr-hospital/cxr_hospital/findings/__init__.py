"""Effects of findings on an image: one function a finding and view, gathered in :func:`effects`."""

from cxr_hospital.anatomy import Zone, sides_of
from cxr_hospital.course import Finding
from cxr_hospital.findings import bones, chronic, devices, lateral, opacities, pleura
from cxr_hospital.findings.effect import (
    Effect,
    FrontalScene,
    LateralScene,
    Scene,
    random_shape,
)

__all__ = ["Effect", "FrontalScene", "LateralScene", "Scene", "effects"]

_OPACITIES = {
    "Consolidation": opacities.consolidation,
    "Pneumonia": opacities.pneumonia,
    "Lung Opacity": opacities.lung_opacity,
    "Lung Lesion": opacities.lesion,
}
_FRONTAL = {
    "Pleural Effusion": pleura.effusion,
    "Pneumothorax": pleura.pneumothorax,
    "Atelectasis": pleura.atelectasis,
    "Fracture": bones.fracture,
    "Pleural Other": chronic.thickening,
    "Emphysema": chronic.emphysema,
    "Fibrosis": chronic.fibrosis,
}
#: A broken rib does not show from the side.
_LATERAL = {
    "Pleural Effusion": lateral.effusion,
    "Pneumothorax": lateral.pneumothorax,
    "Atelectasis": lateral.atelectasis,
}
#: Where edema is: between which heights of the chest wall its lines end, and how far below the
#: hilum its haze is, as shares of the lung's height.
_EDEMA = {"hilum": (0.35, 0.7, 0.0), "upper": (0.15, 0.4, -0.2), "lower": (0.6, 0.92, 0.2)}


def effects(scene: Scene, finding: Finding, patient_seed: int) -> list[Effect]:
    """The effects of one finding, one a side; empty where the view does not show it.

    ``patient_seed`` fixes the fine shape, so that the same finding looks the same, only smaller or
    larger, in all studies of a patient.
    """
    if finding.name == "Support Devices":
        return [devices.device(scene, finding)]
    if finding.name == "Cardiomegaly":
        # The enlargement itself is part of the chest's outlines; here only its box.
        return [Effect(outline=scene.canvas.mask([scene.chest.heart()], 0.004))]
    if finding.name == "Enlarged Cardiomediastinum":
        return chronic.wide_mediastinum(scene)  # part of the outlines as well
    if finding.name == "Hernia":
        return [chronic.hernia(scene, finding)]
    if isinstance(scene, FrontalScene):
        return [_frontal(scene, finding, side, patient_seed) for side in sides_of(finding)]
    return _lateral(scene, finding, patient_seed)


def _frontal(scene: FrontalScene, finding: Finding, side: int, patient_seed: int) -> Effect:
    chest, rng = scene.chest, random_shape(patient_seed, finding, side)
    if finding.name in _FRONTAL:
        return _FRONTAL[finding.name](scene, side, finding, rng)
    if finding.name == "Edema":
        low, high, down = _EDEMA[finding.zone]
        septa = opacities.kerley_lines(side, chest.wall(side, low, high), finding.severity, rng)
        reach = (chest.width * 0.42 * finding.size, chest.height * 0.26 * finding.size)
        x, y = chest.hilum(side)
        hilum = Zone(side, (x, y + down * chest.height), reach)
        effect = opacities.edema(scene, hilum, finding, septa)
    else:
        place = chest.place(side, finding.zone).of(finding)
        effect = _OPACITIES[finding.name](scene, place, finding, rng)
    # An opacity stays inside its own lung, also where its shape reaches over the midline.
    assert effect.fill is not None
    effect.fill = effect.fill * scene.lung(side)
    return effect


def _lateral(scene: LateralScene, finding: Finding, patient_seed: int) -> list[Effect]:
    chest, rng = scene.chest, random_shape(patient_seed, finding, 0)
    forward = bool(rng.random() < 0.5)
    if finding.name in _OPACITIES:
        place = chest.place(finding.zone, forward).of(finding)
        return [_OPACITIES[finding.name](scene, place, finding, rng)]
    if finding.name == "Edema":
        reach = (chest.depth * 0.5, chest.height * 0.26)
        x, y = chest.hilum()
        septa = opacities.kerley_lines(-1, chest.sternum()[12:], finding.severity, rng)
        hilum = Zone(1, (x - 0.42 * reach[0], y), reach)
        return [opacities.edema(scene, hilum, finding, septa)]
    return [_LATERAL[finding.name](scene, finding, rng)] if finding.name in _LATERAL else []
